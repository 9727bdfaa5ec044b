"""Queries of TPC-H whose joins are a tree, a cycle, have a table twice or keep rows: against their SQL."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks.tpcds_data import generator
from calitree import JoinGraph
from calitree.engines.hybrid import HybridEngine

SCALE = "0.1"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "region", "supplier")
VOLUME = "l_extendedprice * (1 - l_discount)"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables as files, and beside them those that a query reads in another form."""
    directory = tmp_path_factory.mktemp("tpch")
    wanted = ["--scale-factor", SCALE, "--tables", ",".join(TABLES), "--quiet"]
    command = [generator(), "tpch", "parquet", *wanted, "--output-dir", str(directory)]
    subprocess.run(command, check=True)
    for name, text in {
        "orders_by_year": "SELECT *, extract(year FROM o_orderdate) AS o_year FROM '{}/orders.parquet'",
        "lines_by_year": "SELECT *, extract(year FROM l_shipdate) AS l_year FROM '{}/lineitem.parquet'",
        "plain_orders": "SELECT * FROM '{}/orders.parquet' WHERE o_comment NOT LIKE '%special%requests%'",
    }.items():
        duckdb.sql(text.format(directory)).write_parquet(str(directory / f"{name}.parquet"))
    return directory


@pytest.fixture(scope="session")
def sql(data: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{data}/{name}.parquet'")
    return connection


def graph_of(
    data: Path, joins: Iterable[str], engine: Any = "local", how: str = "inner", **files: str
) -> JoinGraph:
    """The graph of joins that are written as `a.x = b.y`."""
    graph = JoinGraph(engine=engine)
    sides = [tuple(side.split(".") for side in join.split(" = ")) for join in joins]
    for name in dict.fromkeys(name for join in sides for name, _ in join):
        graph.add_relation(name, str(data / f"{files.get(name, name)}.parquet"))
    for (left, ours), (right, theirs) in sides:
        graph.add_join(left, right, on={ours: theirs}, how=how)
    return graph


def rows(result: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result.rows()]


def test_q3_orders_by_revenue(data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    expected = sql.execute("""
        select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
            and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority
        order by revenue desc, o_orderdate limit 10
    """).fetchall()
    joins = ["customer.c_custkey = orders.o_custkey", "lineitem.l_orderkey = orders.o_orderkey"]
    wide = graph_of(data, joins).calibrate({"revenue": f"sum({VOLUME})"})
    answered = wide.query(
        ["l_orderkey", "o_orderdate", "o_shippriority"],
        where="c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' "
        "and l_shipdate > date '1995-03-15'",
    )
    ordered = sorted(rows(answered), key=lambda row: (-row[3], row[1]))
    assert [(key, total, day, rank) for key, day, rank, total in ordered[:10]] == expected


def test_q5_a_cycle(data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    """Customers and suppliers of one nation."""
    expected = sql.execute("""
        select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
            and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
            and r_name = 'ASIA'
            and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
        group by n_name order by revenue desc
    """).fetchall()
    graph = graph_of(
        data,
        [
            "customer.c_custkey = orders.o_custkey",
            "lineitem.l_orderkey = orders.o_orderkey",
            "lineitem.l_suppkey = supplier.s_suppkey",
            "customer.c_nationkey = supplier.s_nationkey",
            "supplier.s_nationkey = nation.n_nationkey",
            "nation.n_regionkey = region.r_regionkey",
        ],
    )
    assert len(graph.hypertree().bags) < len(graph.schema.relations), "the cycle shares a bag"
    answered = graph.calibrate({"revenue": f"sum({VOLUME})"}).query(
        ["n_name"],
        where="r_name = 'ASIA' and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'",
    )
    assert sorted(rows(answered), key=lambda row: -row[1]) == expected
    assert len(expected) == 5


NATIONS = [
    "supplier.s_suppkey = lineitem.l_suppkey",
    "orders.o_orderkey = lineitem.l_orderkey",
    "customer.c_custkey = orders.o_custkey",
    "supplier.s_nationkey = {}.n_nationkey",
    "customer.c_nationkey = {}.n_nationkey",
]


def test_q7_a_table_twice(data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    expected = sql.execute("""
        select supp_nation, cust_nation, l_year, sum(volume) as revenue
        from (
            select n1.n_name as supp_nation, n2.n_name as cust_nation,
                extract(year from l_shipdate) as l_year, l_extendedprice * (1 - l_discount) as volume
            from supplier, lineitem, orders, customer, nation n1, nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
                and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
                and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
                    or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
                and l_shipdate between date '1995-01-01' and date '1996-12-31'
        ) as shipping
        group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year
    """).fetchall()
    joins = [*NATIONS[:3], NATIONS[3].format("n1"), NATIONS[4].format("n2")]
    graph = graph_of(data, joins, n1="nation", n2="nation", lineitem="lines_by_year")
    answered = graph.calibrate({"revenue": f"sum({VOLUME})"}).query(
        ["n1.n_name", "n2.n_name", "l_year"],
        where="""((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
            or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
            and l_shipdate between date '1995-01-01' and date '1996-12-31'""",
    )
    assert sorted(rows(answered)) == expected
    assert len(expected) == 4


def test_q8_a_share(data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    expected = sql.execute("""
        select o_year,
            sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
        from (
            select extract(year from o_orderdate) as o_year,
                l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
                and o_custkey = c_custkey and c_nationkey = n1.n_nationkey
                and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
                and s_nationkey = n2.n_nationkey
                and o_orderdate between date '1995-01-01' and date '1996-12-31'
                and p_type = 'ECONOMY ANODIZED STEEL'
        ) as all_nations
        group by o_year order by o_year
    """).fetchall()
    joins = [*NATIONS[:3], NATIONS[3].format("n2"), NATIONS[4].format("n1")]
    joins += ["part.p_partkey = lineitem.l_partkey", "n1.n_regionkey = region.r_regionkey"]
    graph = graph_of(data, joins, n1="nation", n2="nation", orders="orders_by_year")
    ours = f"sum(case when n2.n_name = 'BRAZIL' then 1 else 0 end * {VOLUME})"
    answered = graph.calibrate({"share": f"{ours} / sum({VOLUME})"}).query(
        ["o_year"],
        where="r_name = 'AMERICA' and p_type = 'ECONOMY ANODIZED STEEL' "
        "and o_orderdate between date '1995-01-01' and date '1996-12-31'",
    )
    shares = {year: float(share) for year, share in rows(answered)}
    assert shares == pytest.approx({year: float(share) for year, share in expected})
    assert len(expected) == 2 and all(shares.values())


Q13 = """
    select c_count, count(*) as custdist
    from (
        select c_custkey, count(o_orderkey)
        from customer left outer join orders
            on c_custkey = o_custkey and o_comment not like '%special%requests%'
        group by c_custkey
    ) as c_orders (c_custkey, c_count)
    group by c_count order by custdist desc, c_count desc
"""


def check_q13(data: Path, sql: duckdb.DuckDBPyConnection, engine: Any) -> None:
    """What ON asks of the orders alone is a filter of them before they are joined."""
    joins = ["customer.c_custkey = orders.o_custkey"]
    graph = graph_of(data, joins, engine, how="left", orders="plain_orders")
    wide = graph.calibrate({"orders": "count(o_orderkey)"})
    expected = dict(sql.execute(Q13).fetchall())
    assert Counter(orders for _, orders in rows(wide.query(["c_custkey"]))) == expected
    assert expected[0] == 5_000


def test_q13_customers_without_an_order(data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    check_q13(data, sql, "local")


def test_q13_on_spark(spark: Any, data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    """The orders are read by Spark's tasks."""
    check_q13(data, sql, HybridEngine(spark, in_process=1 << 20))
    check_q13(data, sql, spark)
