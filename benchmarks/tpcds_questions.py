"""Twenty questions on the store channel of TPC-DS, for a calibrated tree and as SQL for Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from benchmarks.compare import Answer, Answers
from benchmarks.tpcds_data import FACT, JOINS, RELATIONS
from calitree import Result, WideTable

MEASURES = {
    "n": "count(*)",
    "quantity": "sum(store_sales.ss_quantity)",
    "sales": "sum(store_sales.ss_ext_sales_price)",
    "profit": "avg(store_sales.ss_net_profit)",
}

DOUBLES = {
    MEASURES["profit"]: "CAST(sum(store_sales.ss_net_profit) AS DOUBLE)"
    " / count(store_sales.ss_net_profit)"
}
"""Spark would round the mean of decimals to six digits."""


@dataclass(frozen=True)
class Question:
    """What `WideTable.query` takes, under a name to report it by."""

    name: str
    group_by: tuple[str, ...] = ()
    where: str | None = None
    measures: tuple[tuple[str, str], ...] | None = None
    without: tuple[str, ...] = ()

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(name for name in RELATIONS if name not in self.without)

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "group_by": self.group_by,
            "where": self.where,
            "measures": None if self.measures is None else dict(self.measures),
            "relations": self.relations if self.without else None,
        }

    def ask(self, wide: WideTable) -> Result:
        return wide.query(**self.arguments)

    @property
    def sql(self) -> str:
        measures = MEASURES.items() if self.measures is None else self.measures
        selected = [*self.group_by, *(f"{DOUBLES.get(text, text)} AS {n}" for n, text in measures)]
        joins = [
            f"JOIN {name} ON {other}.{theirs} = {name}.{own}"
            for name, (other, theirs, own) in JOINS.items()
            if name not in self.without
        ]
        parts = [f"SELECT {', '.join(selected)} FROM {FACT}", *joins]
        if self.where:
            parts.append(f"WHERE {self.where}")
        if self.group_by:
            parts.append(f"GROUP BY {', '.join(self.group_by)}")
        return " ".join(parts)

    def answers(self, table: pa.Table) -> Answers:
        return {self.name: Answer(table, len(self.group_by))}


TOTAL = Question("total")
BUYERS = ("customer", "current_address", "customer_address")

QUESTIONS = (
    TOTAL,
    # One dimension, whole or a slice of it.
    Question("by year", ("date_dim.d_year",)),
    Question("months of 2001", ("date_dim.d_moy",), "date_dim.d_year = 2001"),
    Question("by category, one is NULL", ("item.i_category",)),
    Question("brands of books", ("item.i_brand",), "item.i_category = 'Books'"),
    Question("by meal, one is NULL", ("time_dim.t_meal_time",)),
    Question("by store", ("store.s_store_name", "store.s_city")),
    Question(
        "education of married women",
        ("customer_demographics.cd_education_status",),
        "customer_demographics.cd_gender = 'F' AND customer_demographics.cd_marital_status = 'M'",
    ),
    Question(
        "households with vehicles",
        ("household_demographics.hd_buy_potential",),
        "household_demographics.hd_vehicle_count > 2",
    ),
    Question("by state of today, one is NULL", ("current_address.ca_state",)),
    # Several dimensions.
    Question("category × store", ("item.i_category", "store.s_store_name")),
    Question("year × gender", ("date_dim.d_year", "customer_demographics.cd_gender")),
    Question("from state to state", ("customer_address.ca_state", "current_address.ca_state")),
    Question("categories of Texans", ("item.i_category",), "current_address.ca_state = 'TX'"),
    Question(
        "lunch of those born before 1940",
        ("customer.c_birth_year", "time_dim.t_hour"),
        "customer.c_birth_year < 1940 AND time_dim.t_meal_time = 'lunch'",
    ),
    Question(
        "the slice of query 7",
        ("item.i_category",),
        "customer_demographics.cd_gender = 'M' AND customer_demographics.cd_marital_status = 'S'"
        " AND customer_demographics.cd_education_status = 'College' AND date_dim.d_year = 2000"
        " AND (promotion.p_channel_email = 'N' OR promotion.p_channel_event = 'N')",
    ),
    # The sales' own columns, relations left out, other measures.
    Question("small sales by year", ("date_dim.d_year",), "store_sales.ss_quantity <= 20"),
    Question("without promotion, by year", ("date_dim.d_year",), without=("promotion",)),
    Question(
        "by promotion's key, NULL too",
        ("store_sales.ss_promo_sk",),
        without=("promotion", *BUYERS),
    ),
    Question(
        "new measures by category",
        ("item.i_category",),
        measures=(
            ("dearest", "max(store_sales.ss_list_price)"),
            ("today", "sum(store_sales.ss_quantity * item.i_current_price)"),
        ),
    ),
)
