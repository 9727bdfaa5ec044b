"""The queries that aggregate in a sub-query: its answer is a relation of the next question."""

from __future__ import annotations

from tests.support.tpch.steps import (
    CUSTOMERS,
    NATIONS,
    ORDERS,
    PARTS,
    PARTS_SUPPLIED,
    REGIONS,
    SUPPLIERS,
    SUPPLIES,
    VOLUME,
    Asked,
    Join,
    Step,
    named,
    on,
)

VALUE = "sum(ps_supplycost * ps_availqty)"
GERMANY = (
    "from partsupp, supplier, nation where ps_suppkey = s_suppkey and s_nationkey = n_nationkey"
)
GERMANY += " and n_name = 'GERMANY'"
SHIPPED = "l_shipdate >= date '{0}' and l_shipdate < date '{0}' + interval {1}"
FIRST_QUARTER, IN_1994 = (
    SHIPPED.format("1996-01-01", "'3' month"),
    SHIPPED.format("1994-01-01", "'1' year"),
)
CODE = "substring(c_phone from 1 for 2)"
CODES = f"{CODE} in ('13', '31', '23', '29', '30', '18', '17')"
REVENUE = f"""
    select l_suppkey as supplier_no, sum({VOLUME}) as total_revenue
    from lineitem where {FIRST_QUARTER} group by l_suppkey
"""

SEVERAL_QUESTIONS = {
    2: Asked(
        "the correlated `min` is asked for all parts, and joined by part and cost",
        (
            Step(
                name="cheapest",
                joins=(SUPPLIES, NATIONS, REGIONS),
                measures={"least": "min(ps_supplycost)"},
                group_by={"of_part": "ps_partkey"},
                where="r_name = 'EUROPE'",
                sql="""
                    select ps_partkey as of_part, min(ps_supplycost) as least
                    from partsupp, supplier, nation, region
                    where s_suppkey = ps_suppkey and s_nationkey = n_nationkey
                        and n_regionkey = r_regionkey and r_name = 'EUROPE'
                    group by ps_partkey
                """,
            ),
            Step(
                joins=(
                    SUPPLIES,
                    NATIONS,
                    REGIONS,
                    PARTS_SUPPLIED,
                    Join(
                        "partsupp",
                        "cheapest",
                        {"ps_partkey": "of_part", "ps_supplycost": "least"},
                    ),
                ),
                measures={"n": "count(*)"},
                group_by=named(
                    *("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address"),
                    *("s_phone", "s_comment"),
                ),
                where="p_size = 15 and p_type like '%BRASS' and r_name = 'EUROPE'",
            ),
        ),
        ("-s_acctbal", "n_name", "s_name", "p_partkey"),
        100,
    ),
    11: Asked(
        "HAVING compares with another aggregate of the same join: both are asked, and joined by the condition",
        (
            Step(
                name="parts",
                joins=(SUPPLIES, NATIONS),
                measures={"worth": VALUE},
                group_by={"of_part": "ps_partkey"},
                where="n_name = 'GERMANY'",
                sql=f"select ps_partkey as of_part, {VALUE} as worth {GERMANY} group by ps_partkey",
            ),
            Step(
                name="total",
                joins=(SUPPLIES, NATIONS),
                measures={"least": f"{VALUE} * 0.002"},
                where="n_name = 'GERMANY'",
                sql=f"select {VALUE} * 0.002 as least {GERMANY}",
            ),
            Step(
                joins=(Join("parts", "total", condition="worth > least"),),
                measures={"value": "sum(worth)"},
                group_by={"ps_partkey": "of_part"},
            ),
        ),
        ("-value",),
    ),
    13: Asked(
        "groups of groups; what ON asks of the orders makes their key NULL, which joins nothing",
        (
            Step(
                name="c_orders",
                joins=(
                    Join(
                        "customer",
                        "orders",
                        {
                            "c_custkey": "case when o_comment not like '%special%requests%' "
                            "then o_custkey end"
                        },
                        "left",
                    ),
                ),
                measures={"c_count": "count(o_orderkey)"},
                group_by=named("c_custkey"),
                sql="""
                    select c_custkey, count(o_orderkey) as c_count
                    from customer left outer join orders
                        on c_custkey = o_custkey and o_comment not like '%special%requests%'
                    group by c_custkey
                """,
            ),
            Step(
                relation="c_orders",
                measures={"custdist": "count(*)"},
                group_by=named("c_count"),
            ),
        ),
        ("-custdist", "-c_count"),
    ),
    15: Asked(
        "a view and its maximum: the largest sum is asked of the answer that has the sums",
        (
            Step(
                name="revenue",
                relation="lineitem",
                measures={"total_revenue": f"sum({VOLUME})"},
                group_by={"supplier_no": "l_suppkey"},
                where=FIRST_QUARTER,
                sql=REVENUE,
            ),
            Step(
                name="most",
                relation="revenue",
                measures={"greatest": "max(total_revenue)"},
                sql=f"select max(total_revenue) as greatest from ({REVENUE})",
            ),
            Step(
                joins=(
                    on("supplier.s_suppkey = revenue.supplier_no"),
                    on("revenue.total_revenue = most.greatest"),
                ),
                measures={"n": "count(*)"},
                group_by=named("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue"),
            ),
        ),
        ("s_suppkey",),
    ),
    17: Asked(
        "the correlated `avg` is asked for all parts, and joined by part",
        (
            Step(
                name="usual",
                relation="lineitem",
                measures={"little": "0.2 * avg(l_quantity)"},
                group_by={"of_part": "l_partkey"},
                sql="""
                    select l_partkey as of_part, 0.2 * avg(l_quantity) as little
                    from lineitem group by l_partkey
                """,
            ),
            Step(
                joins=(PARTS, on("part.p_partkey = usual.of_part")),
                measures={"avg_yearly": "sum(l_extendedprice) / 7.0"},
                where="p_brand = 'Brand#23' and p_container = 'MED BOX' and l_quantity < little",
            ),
        ),
    ),
    18: Asked(
        "`IN` a sub-query with HAVING is a join with its answer",
        (
            Step(
                name="large",
                relation="lineitem",
                measures={"ordered": "sum(l_quantity)"},
                group_by={"of_order": "l_orderkey"},
                having="ordered > 300",
                sql="""
                    select l_orderkey as of_order, sum(l_quantity) as ordered
                    from lineitem group by l_orderkey having sum(l_quantity) > 300
                """,
            ),
            Step(
                joins=(ORDERS, CUSTOMERS, on("orders.o_orderkey = large.of_order")),
                measures={"quantity": "sum(l_quantity)"},
                group_by=named("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice"),
            ),
        ),
        ("-o_totalprice", "o_orderdate"),
        100,
    ),
    20: Asked(
        "the correlated sum is asked for all parts and suppliers; `IN` is a join, and suppliers are groups",
        (
            Step(
                name="shipped",
                relation="lineitem",
                measures={"half": "0.5 * sum(l_quantity)"},
                group_by={"of_part": "l_partkey", "of_supplier": "l_suppkey"},
                where=IN_1994,
                sql=f"""
                    select l_partkey as of_part, l_suppkey as of_supplier, 0.5 * sum(l_quantity) as half
                    from lineitem where {IN_1994} group by l_partkey, l_suppkey
                """,
            ),
            Step(
                joins=(
                    SUPPLIES,
                    NATIONS,
                    PARTS_SUPPLIED,
                    Join(
                        "partsupp",
                        "shipped",
                        {"ps_partkey": "of_part", "ps_suppkey": "of_supplier"},
                    ),
                ),
                measures={"n": "count(*)"},
                group_by=named("s_name", "s_address"),
                where="p_name like 'forest%' and ps_availqty > half and n_name = 'CANADA'",
            ),
        ),
        ("s_name",),
    ),
    21: Asked(
        "`EXISTS` and `NOT EXISTS` another supplier: those of each order are counted, and the late ones",
        (
            Step(
                name="suppliers",
                relation="lineitem",
                measures={
                    "every": "count(distinct l_suppkey)",
                    "late": "count(distinct l_suppkey) filter (where l_receiptdate > l_commitdate)",
                },
                group_by={"of_order": "l_orderkey"},
                sql="""
                    select l_orderkey as of_order, count(distinct l_suppkey) as every,
                        count(distinct l_suppkey) filter (where l_receiptdate > l_commitdate) as late
                    from lineitem group by l_orderkey
                """,
            ),
            Step(
                joins=(
                    SUPPLIERS,
                    ORDERS,
                    NATIONS,
                    on("orders.o_orderkey = suppliers.of_order"),
                ),
                measures={"numwait": "count(*)"},
                group_by=named("s_name"),
                where="o_orderstatus = 'F' and l_receiptdate > l_commitdate and every > 1 "
                "and late = 1 and n_name = 'SAUDI ARABIA'",
            ),
        ),
        ("-numwait", "s_name"),
        100,
    ),
    22: Asked(
        "the average is asked first, and joined by the condition; `NOT EXISTS` is a left join and `IS NULL`",
        (
            Step(
                name="usual",
                relation="customer",
                measures={"balance": "avg(c_acctbal)"},
                where=f"c_acctbal > 0.00 and {CODES}",
                sql=f"select avg(c_acctbal) as balance from customer where c_acctbal > 0.00 and {CODES}",
            ),
            Step(
                joins=(
                    Join("customer", "usual", condition="c_acctbal > balance"),
                    on("customer.c_custkey = orders.o_custkey", "left"),
                ),
                measures={"numcust": "count(*)", "totacctbal": "sum(c_acctbal)"},
                group_by={"cntrycode": CODE},
                where=f"{CODES} and o_orderkey is null",
            ),
        ),
        ("cntrycode",),
    ),
}
