"""All 22 queries of TPC-H, at a twentieth of a gigabyte: against DuckDB's answers to their own texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from calitree import JoinGraph
from calitree.engines.hybrid import HybridEngine
from calitree.engines.spark import SparkEngine
from tests.support.tpch.run import ASKED, Row, answers, connect, expected, generate, page_table
from tests.support.tpch.steps import (
    CUSTOMERS,
    NATIONS,
    ORDERS,
    SECOND_NAMES,
    SUPPLIES,
    Step,
    on,
)
from tests.support.tpch.texts import OFFICIAL

PAGE = Path(__file__).parents[2] / "docs/tpch.md"


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tpch")
    generate(directory)
    return directory


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So little that the reference engine answers too."""
    directory = tmp_path_factory.mktemp("small tpch")
    generate(directory, scale="0.001")
    return directory


@pytest.fixture(scope="session")
def sql(data: Path) -> duckdb.DuckDBPyConnection:
    return connect(data)


def assert_answers(number: int, data: Path, sql: duckdb.DuckDBPyConnection, engine: Any) -> None:
    """Each step answers as DuckDB does, and the last one is in the query's order."""
    for text, rows in answers(number, data, engine):
        theirs = expected(sql, text)
        ours = [{name: row[name] for name in theirs[0]} for row in rows] if theirs else rows
        if text == OFFICIAL[number]:
            keys = [column.lstrip("-") for column in ASKED[number].order]
            assert [[r[k] for k in keys] for r in ours] == [[r[k] for k in keys] for r in theirs]
        assert sorted(map(exact, ours)) == sorted(map(exact, theirs)), text
        for row, other in zip(sorted(ours, key=exact), sorted(theirs, key=exact), strict=True):
            assert rounded(row) == pytest.approx(rounded(other), rel=1e-9), text


def exact(row: Row) -> list[tuple[str, str]]:
    """What is not rounded of a row, with its types."""
    values = ((str(value), type(value).__name__) for value in row.values())
    return [(text, kind) for text, kind in values if kind != "float"]


def rounded(row: Row) -> list[float]:
    return [value for value in row.values() if isinstance(value, float)]


@pytest.mark.parametrize("number", ASKED)
def test_on_the_local_engine(number: int, data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    assert_answers(number, data, sql, "local")


def test_every_query_is_about_something(sql: duckdb.DuckDBPyConnection) -> None:
    """At this scale none is answered by no row, or by NULL or 0 alone."""
    for number, text in OFFICIAL.items():
        measures = ASKED[number].steps[-1].measures.keys()
        rows = [
            [value for name, value in row.items() if name in measures]
            for row in expected(sql, text)
        ]
        assert any(map(all, rows)), number
    with_complaints = "select * from supplier where s_comment like '%Customer%Complaints%'"
    assert expected(sql, with_complaints), "for Q16"


@pytest.mark.parametrize("number", [2, 13, 16, 22])
def test_on_the_reference_engine(number: int, small: Path) -> None:
    assert_answers(number, small, connect(small), "reference")


@pytest.mark.parametrize("number", [22])
def test_on_spark(number: int, data: Path, sql: duckdb.DuckDBPyConnection, spark: Any) -> None:
    assert_answers(number, data, sql, SparkEngine(spark))


@pytest.mark.parametrize("number", [8, 14, 17])
def test_on_the_hybrid_engine(
    number: int, data: Path, sql: duckdb.DuckDBPyConnection, spark: Any
) -> None:
    """Lines and orders are read by Spark's tasks."""
    assert_answers(number, data, sql, HybridEngine(spark, in_process=1 << 20))


@pytest.mark.slow
@pytest.mark.parametrize("number", ASKED)
def test_all_on_spark(number: int, data: Path, sql: duckdb.DuckDBPyConnection, spark: Any) -> None:
    assert_answers(number, data, sql, SparkEngine(spark))


def test_the_page_lists_what_is_asked() -> None:
    assert sorted(ASKED) == sorted(OFFICIAL) == list(range(1, 23))
    page = PAGE.read_text().splitlines()
    assert [line for line in page if line.startswith("|")] == page_table()


AS_STATEMENTS = {
    **{n: ASKED[n].steps[-1].joins for n in (1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 19)},
    11: (SUPPLIES, NATIONS),
    13: (on("customer.c_custkey = orders.o_custkey", "left"),),
    18: (ORDERS, CUSTOMERS),
}
"""The queries that `WideTable.sql` answers in their own texts, and the joins of a graph for each."""


@pytest.mark.parametrize("number", AS_STATEMENTS)
def test_in_their_own_texts(number: int, data: Path, sql: duckdb.DuckDBPyConnection) -> None:
    step = Step(measures={}, joins=AS_STATEMENTS[number], relation="lineitem")
    graph = JoinGraph("local")
    for name in step.relations:
        graph.add_relation(name, str(data / f"{SECOND_NAMES.get(name, name)}.parquet"))
    for join in step.joins:
        graph.add_join(join.left, join.right, join.on, how=join.how, condition=join.condition)
    ours = graph.calibrate(progress=False).sql(OFFICIAL[number]).rows()
    theirs = expected(sql, OFFICIAL[number])
    assert [list(row) for row in ours[:1]] == [list(row) for row in theirs[:1]]
    assert list(map(exact, ours)) == list(map(exact, theirs))
    for row, other in zip(ours, theirs, strict=True):
        assert rounded(row) == pytest.approx(rounded(other), rel=1e-9)
