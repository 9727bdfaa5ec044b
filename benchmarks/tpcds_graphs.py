"""Graphs over the tables of TPC-DS: what its queries join, each channel and each role by itself.

A sale has a customer, who has an address now; and an address of its own. So a table joins in one way in one
graph, and in another way in the next: a statement is put to those that join its tables as it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import parquet

from calitree import JoinGraph

Graph = Mapping[str, str]
"""By relation, the equalities of columns that join it; nothing for the first, and `?` before an outer join."""

_SALES_DIMENSIONS = {
    "item": "{0}_item_sk = i_item_sk",
    "date_dim": "{0}_sold_date_sk = d_date_sk",
    "time_dim": "{0}_sold_time_sk = t_time_sk",
    "promotion": "{0}_promo_sk = p_promo_sk",
}
_STORE = {
    "store_sales": "",
    **{name: on.format("ss") for name, on in _SALES_DIMENSIONS.items()},
    "store": "ss_store_sk = s_store_sk",
    "household_demographics": "ss_hdemo_sk = hd_demo_sk",
    "customer_demographics": "ss_cdemo_sk = cd_demo_sk",
    "customer": "ss_customer_sk = c_customer_sk",
}
_CATALOG = {
    "catalog_sales": "",
    **{name: on.format("cs") for name, on in _SALES_DIMENSIONS.items()},
    "customer_demographics": "cs_bill_cdemo_sk = cd_demo_sk",
    "customer": "cs_bill_customer_sk = c_customer_sk",
    "call_center": "cs_call_center_sk = cc_call_center_sk",
    "ship_mode": "cs_ship_mode_sk = sm_ship_mode_sk",
    "warehouse": "cs_warehouse_sk = w_warehouse_sk",
}
_WEB = {
    "web_sales": "",
    **{name: on.format("ws") for name, on in _SALES_DIMENSIONS.items()},
    "customer": "ws_bill_customer_sk = c_customer_sk",
    "household_demographics": "ws_ship_hdemo_sk = hd_demo_sk",
    "ship_mode": "ws_ship_mode_sk = sm_ship_mode_sk",
    "warehouse": "ws_warehouse_sk = w_warehouse_sk",
    "web_page": "ws_web_page_sk = wp_web_page_sk",
    "web_site": "ws_web_site_sk = web_site_sk",
}
_CURRENT = {"customer_address": "c_current_addr_sk = ca_address_sk"}

GRAPHS: dict[str, Graph] = {
    "store": {**_STORE, "customer_address": "ss_addr_sk = ca_address_sk"},
    "store, current addresses": {**_STORE, **_CURRENT},
    "store, two addresses": {
        **_STORE,
        "customer_address": "ss_addr_sk = ca_address_sk",
        "current_addr": "c_current_addr_sk = current_addr.ca_address_sk",
    },
    "catalog": {**_CATALOG, "customer_address": "cs_bill_addr_sk = ca_address_sk"},
    "catalog, current addresses": {**_CATALOG, **_CURRENT},
    "catalog, as shipped": {
        **_CATALOG,
        "date_dim": "cs_ship_date_sk = d_date_sk",
        "customer_address": "cs_ship_addr_sk = ca_address_sk",
    },
    "web": {**_WEB, "customer_address": "ws_bill_addr_sk = ca_address_sk"},
    "web, current addresses": {**_WEB, **_CURRENT},
    "web, as shipped": {
        **_WEB,
        "date_dim": "ws_ship_date_sk = d_date_sk",
        "customer_address": "ws_ship_addr_sk = ca_address_sk",
    },
    "store returns": {
        "store_returns": "",
        "date_dim": "sr_returned_date_sk = d_date_sk",
        "item": "sr_item_sk = i_item_sk",
        "store": "sr_store_sk = s_store_sk",
        "customer": "sr_customer_sk = c_customer_sk",
        **_CURRENT,
    },
    "catalog returns": {
        "catalog_returns": "",
        "date_dim": "cr_returned_date_sk = d_date_sk",
        "item": "cr_item_sk = i_item_sk",
        "call_center": "cr_call_center_sk = cc_call_center_sk",
        "customer": "cr_returning_customer_sk = c_customer_sk",
        "customer_address": "cr_returning_addr_sk = ca_address_sk",
    },
    "catalog returns, current addresses": {
        "catalog_returns": "",
        "call_center": "cr_call_center_sk = cc_call_center_sk",
        "date_dim": "cr_returned_date_sk = d_date_sk",
        "customer": "cr_returning_customer_sk = c_customer_sk",
        "customer_address": "c_current_addr_sk = ca_address_sk",
        "customer_demographics": "c_current_cdemo_sk = cd_demo_sk",
        "household_demographics": "c_current_hdemo_sk = hd_demo_sk",
    },
    "web returns": {
        "web_returns": "",
        "date_dim": "wr_returned_date_sk = d_date_sk",
        "item": "wr_item_sk = i_item_sk",
        "customer": "wr_returning_customer_sk = c_customer_sk",
        "customer_address": "wr_returning_addr_sk = ca_address_sk",
    },
    "sales and returns of stores": {
        "store_sales": "",
        "store_returns": "ss_item_sk = sr_item_sk and ss_ticket_number = sr_ticket_number",
        "d1": "ss_sold_date_sk = d1.d_date_sk",
        "d2": "sr_returned_date_sk = d2.d_date_sk",
        "store": "ss_store_sk = s_store_sk",
        "item": "ss_item_sk = i_item_sk",
        "reason": "sr_reason_sk = r_reason_sk",
    },
    "customers of stores who returned": {
        "store_sales": "",
        "store_returns": "ss_item_sk = sr_item_sk and ss_ticket_number = sr_ticket_number and "
        "ss_customer_sk = sr_customer_sk",
        "d1": "ss_sold_date_sk = d1.d_date_sk",
        "d2": "sr_returned_date_sk = d2.d_date_sk",
        "store": "ss_store_sk = s_store_sk",
    },
    "stores, their returns and the catalog": {
        "store_sales": "",
        "store_returns": "ss_item_sk = sr_item_sk and ss_ticket_number = sr_ticket_number and "
        "ss_customer_sk = sr_customer_sk",
        "catalog_sales": "sr_customer_sk = cs_bill_customer_sk and sr_item_sk = cs_item_sk",
        "d1": "ss_sold_date_sk = d1.d_date_sk",
        "d2": "sr_returned_date_sk = d2.d_date_sk",
        "d3": "cs_sold_date_sk = d3.d_date_sk",
        "store": "ss_store_sk = s_store_sk",
        "item": "ss_item_sk = i_item_sk",
    },
    "sales of stores, perhaps returned": {
        "store_sales": "",
        "store_returns": "?sr_item_sk = ss_item_sk and sr_ticket_number = ss_ticket_number",
        "date_dim": "ss_sold_date_sk = d_date_sk",
    },
    "sales of the catalog, perhaps returned": {
        "catalog_sales": "",
        "catalog_returns": "?cs_order_number = cr_order_number and cs_item_sk = cr_item_sk",
        "warehouse": "cs_warehouse_sk = w_warehouse_sk",
        "item": "cs_item_sk = i_item_sk",
        "date_dim": "cs_sold_date_sk = d_date_sk",
    },
    "sales of the web, returned": {
        "web_sales": "",
        "web_returns": "ws_item_sk = wr_item_sk and ws_order_number = wr_order_number",
        "web_page": "ws_web_page_sk = wp_web_page_sk",
        "cd1": "cd1.cd_demo_sk = wr_refunded_cdemo_sk",
        "cd2": "cd2.cd_demo_sk = wr_returning_cdemo_sk",
        "customer_address": "ca_address_sk = wr_refunded_addr_sk",
        "date_dim": "ws_sold_date_sk = d_date_sk",
        "reason": "r_reason_sk = wr_reason_sk",
    },
    "inventory": {
        "inventory": "",
        "date_dim": "inv_date_sk = d_date_sk",
        "item": "inv_item_sk = i_item_sk",
        "warehouse": "inv_warehouse_sk = w_warehouse_sk",
    },
    "inventory and the catalog": {
        "item": "",
        "inventory": "i_item_sk = inv_item_sk",
        "catalog_sales": "i_item_sk = cs_item_sk",
        "date_dim": "inv_date_sk = d_date_sk",
    },
    "inventory and stores": {
        "item": "",
        "inventory": "i_item_sk = inv_item_sk",
        "store_sales": "i_item_sk = ss_item_sk",
        "date_dim": "inv_date_sk = d_date_sk",
    },
    "customers": {
        "customer": "",
        "customer_address": "c_current_addr_sk = ca_address_sk",
        "customer_demographics": "c_current_cdemo_sk = cd_demo_sk",
        "household_demographics": "c_current_hdemo_sk = hd_demo_sk",
        "income_band": "hd_income_band_sk = ib_income_band_sk",
        "store_returns": "sr_cdemo_sk = cd_demo_sk",
    },
    "catalog, two demographics": {
        **_CATALOG,
        "cd1": "cs_bill_cdemo_sk = cd1.cd_demo_sk",
        "cd2": "c_current_cdemo_sk = cd2.cd_demo_sk",
        **_CURRENT,
    },
}

SECOND_NAMES = {
    **dict.fromkeys(("d1", "d2", "d3"), "date_dim"),
    **dict.fromkeys(("cd1", "cd2"), "customer_demographics"),
    "current_addr": "customer_address",
}


def tpcds_graph(name: str, directory: Path, engine: Any) -> JoinGraph:
    """One of these graphs over the files of a directory."""
    graph, owners = JoinGraph(engine), dict[str, str]()
    for relation, on in GRAPHS[name].items():
        path = directory / f"{SECOND_NAMES.get(relation, relation)}.parquet"
        graph.add_relation(relation, str(path))
        for column in parquet.read_schema(path).names:
            owners.setdefault(column, relation)
            owners[f"{relation}.{column}"] = relation
        if on:
            _add_join(graph, relation, on.lstrip("?"), owners, "left" if on[0] == "?" else "inner")
    return graph


def _add_join(
    graph: JoinGraph, relation: str, on: str, owners: Mapping[str, str], how: str
) -> None:
    pairs, others = dict[str, str](), set[str]()
    for equality in on.split(" and "):
        sides = equality.split(" = ")
        own, other = sides if owners[sides[0]] == relation else reversed(sides)
        pairs[other.rpartition(".")[2]] = own.rpartition(".")[2]
        others.add(owners[other])
    graph.add_join(others.pop(), relation, on=pairs, how=how)
