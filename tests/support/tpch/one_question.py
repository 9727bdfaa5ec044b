"""The queries that are one question each, though some have sub-queries."""

from __future__ import annotations

import calitree as ct
from tests.support.tpch.steps import (
    CUSTOMERS,
    NATIONS,
    ORDERS,
    PARTS,
    PARTS_SUPPLIED,
    REGIONS,
    SUPPLIERS,
    VOLUME,
    Asked,
    Join,
    Step,
    named,
    on,
)

Q19 = " or ".join(
    f"(p_brand = '{brand}' and p_container in ({containers}) and l_quantity >= {least} "
    f"and l_quantity <= {least} + 10 and p_size between 1 and {size} "
    "and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')"
    for brand, containers, least, size in (
        ("Brand#12", "'SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'", 1, 5),
        ("Brand#23", "'MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'", 10, 10),
        ("Brand#34", "'LG CASE', 'LG BOX', 'LG PACK', 'LG PKG'", 20, 15),
    )
)
URGENT = "o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH'"
NOT_URGENT = "o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH'"

ONE_QUESTION = {
    1: Asked(
        "one relation",
        (
            Step(
                relation="lineitem",
                measures={
                    "sum_qty": "sum(l_quantity)",
                    "sum_base_price": "sum(l_extendedprice)",
                    "sum_disc_price": f"sum({VOLUME})",
                    "sum_charge": f"sum({VOLUME} * (1 + l_tax))",
                    "avg_qty": "avg(l_quantity)",
                    "avg_price": "avg(l_extendedprice)",
                    "avg_disc": "avg(l_discount)",
                    "count_order": "count(*)",
                },
                group_by=named("l_returnflag", "l_linestatus"),
                where="l_shipdate <= date '1998-12-01' - interval '90' day",
            ),
        ),
        ("l_returnflag", "l_linestatus"),
    ),
    3: Asked(
        "a tree",
        (
            Step(
                joins=(ORDERS, CUSTOMERS),
                measures={"revenue": f"sum({VOLUME})"},
                group_by=named("l_orderkey", "o_orderdate", "o_shippriority"),
                where="c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' "
                "and l_shipdate > date '1995-03-15'",
            ),
        ),
        ("-revenue", "o_orderdate"),
        10,
    ),
    4: Asked(
        "`EXISTS` is a join in which each order counts once: a measure at the grain of orders",
        (
            Step(
                joins=(ORDERS,),
                measures={"order_count": ct.measure("count(orders)", grain="orders")},
                group_by=named("o_orderpriority"),
                where="o_orderdate >= date '1993-07-01' "
                "and o_orderdate < date '1993-07-01' + interval '3' month "
                "and l_commitdate < l_receiptdate",
            ),
        ),
        ("o_orderpriority",),
    ),
    5: Asked(
        "a cycle: customers and suppliers are of one nation",
        (
            Step(
                joins=(
                    CUSTOMERS,
                    ORDERS,
                    SUPPLIERS,
                    on("customer.c_nationkey = supplier.s_nationkey"),
                    NATIONS,
                    REGIONS,
                ),
                measures={"revenue": f"sum({VOLUME})"},
                group_by=named("n_name"),
                where="r_name = 'ASIA' and o_orderdate >= date '1994-01-01' "
                "and o_orderdate < date '1994-01-01' + interval '1' year",
            ),
        ),
        ("-revenue",),
    ),
    6: Asked(
        "one relation",
        (
            Step(
                relation="lineitem",
                measures={"revenue": "sum(l_extendedprice * l_discount)"},
                where="l_shipdate >= date '1994-01-01' "
                "and l_shipdate < date '1994-01-01' + interval '1' year "
                "and l_discount between 0.06 - 0.01 and 0.06 + 0.01 and l_quantity < 24",
            ),
        ),
    ),
    7: Asked(
        "a table under two names, and a condition across both",
        (
            Step(
                joins=(
                    SUPPLIERS,
                    ORDERS,
                    CUSTOMERS,
                    on("supplier.s_nationkey = n1.n_nationkey"),
                    on("customer.c_nationkey = n2.n_nationkey"),
                ),
                measures={"revenue": f"sum({VOLUME})"},
                group_by={
                    "supp_nation": "n1.n_name",
                    "cust_nation": "n2.n_name",
                    "l_year": "extract(year from l_shipdate)",
                },
                where="((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') "
                "or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE')) "
                "and l_shipdate between date '1995-01-01' and date '1996-12-31'",
            ),
        ),
        ("supp_nation", "cust_nation", "l_year"),
    ),
    8: Asked(
        "a ratio of sums, one of which chooses by CASE across relations",
        (
            Step(
                joins=(
                    SUPPLIERS,
                    ORDERS,
                    CUSTOMERS,
                    PARTS,
                    on("customer.c_nationkey = n1.n_nationkey"),
                    on("n1.n_regionkey = region.r_regionkey"),
                    on("supplier.s_nationkey = n2.n_nationkey"),
                ),
                measures={
                    "mkt_share": f"sum(case when n2.n_name = 'BRAZIL' then {VOLUME} else 0 end) "
                    f"/ sum({VOLUME})"
                },
                group_by={"o_year": "extract(year from o_orderdate)"},
                where="r_name = 'AMERICA' and p_type = 'ECONOMY ANODIZED STEEL' "
                "and o_orderdate between date '1995-01-01' and date '1996-12-31'",
            ),
        ),
        ("o_year",),
    ),
    9: Asked(
        "a join on two columns, and a sum of products across relations",
        (
            Step(
                joins=(
                    SUPPLIERS,
                    ORDERS,
                    Join(
                        "lineitem",
                        "partsupp",
                        {"l_suppkey": "ps_suppkey", "l_partkey": "ps_partkey"},
                    ),
                    PARTS,
                    NATIONS,
                ),
                measures={"sum_profit": f"sum({VOLUME} - ps_supplycost * l_quantity)"},
                group_by={"nation": "n_name", "o_year": "extract(year from o_orderdate)"},
                where="p_name like '%green%'",
            ),
        ),
        ("nation", "-o_year"),
    ),
    10: Asked(
        "a tree, grouped by seven columns",
        (
            Step(
                joins=(ORDERS, CUSTOMERS, on("customer.c_nationkey = nation.n_nationkey")),
                measures={"revenue": f"sum({VOLUME})"},
                group_by=named(
                    *("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address"),
                    "c_comment",
                ),
                where="l_returnflag = 'R' and o_orderdate >= date '1993-10-01' "
                "and o_orderdate < date '1993-10-01' + interval '3' month",
            ),
        ),
        ("-revenue",),
        20,
    ),
    12: Asked(
        "a tree, and CASE in sums",
        (
            Step(
                joins=(ORDERS,),
                measures={
                    "high_line_count": f"sum(case when {URGENT} then 1 else 0 end)",
                    "low_line_count": f"sum(case when {NOT_URGENT} then 1 else 0 end)",
                },
                group_by=named("l_shipmode"),
                where="l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate "
                "and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01' "
                "and l_receiptdate < date '1994-01-01' + interval '1' year",
            ),
        ),
        ("l_shipmode",),
    ),
    14: Asked(
        "a ratio of sums, one of which chooses by CASE across relations",
        (
            Step(
                joins=(PARTS,),
                measures={
                    "promo_revenue": "100.00 * sum(case when p_type like 'PROMO%' "
                    f"then {VOLUME} else 0 end) / sum({VOLUME})"
                },
                where="l_shipdate >= date '1995-09-01' "
                "and l_shipdate < date '1995-09-01' + interval '1' month",
            ),
        ),
    ),
    16: Asked(
        "`NOT IN` is a left join and `IS NULL`; the key of suppliers without complaints is NULL",
        (
            Step(
                joins=(
                    PARTS_SUPPLIED,
                    Join(
                        "partsupp",
                        "supplier",
                        {
                            "ps_suppkey": "case when s_comment like '%Customer%Complaints%' "
                            "then s_suppkey end"
                        },
                        "left",
                    ),
                ),
                measures={"supplier_cnt": "count(distinct ps_suppkey)"},
                group_by=named("p_brand", "p_type", "p_size"),
                where="p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%' "
                "and p_size in (49, 14, 23, 45, 19, 3, 36, 9) and s_suppkey is null",
            ),
        ),
        ("-supplier_cnt", "p_brand", "p_type", "p_size"),
    ),
    19: Asked(
        "OR across relations",
        (Step(joins=(PARTS,), measures={"revenue": f"sum({VOLUME})"}, where=Q19),),
    ),
}
