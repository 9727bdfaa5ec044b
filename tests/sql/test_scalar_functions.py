"""Scalar functions on all layouts of columns, and TPC-H's own date arithmetic."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from calitree import ExpressionError, JoinGraph
from calitree.sql.evaluator import evaluate
from calitree.sql.kernels import regex, substrings, values
from tests.support.expression_cases import NAMED, SCHEMA, _texts, differences, expression, table

NAMED_TEXTS = _texts(NAMED)


def columns() -> dict[str, pa.ChunkedArray]:
    data = table()
    return {name: data.column(name) for name in data.column_names}


def in_chunks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    array = column.combine_chunks()
    return pa.chunked_array([array[:3], array[3:3], array[3:]], column.type)


def encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_text = pa.types.is_string(column.type)
    return column.dictionary_encode() if is_text else in_chunks(column)


@pytest.mark.parametrize("layout", [in_chunks, encoded])
@pytest.mark.parametrize("text", NAMED_TEXTS)
def test_layouts_of_columns(text: str, layout: Any) -> None:
    plain = columns()
    expected = evaluate(expression(text).node, plain, 10)
    given = {name: layout(column) for name, column in plain.items()}
    actual = evaluate(expression(text).node, given, 10)
    assert not differences(actual.to_pylist(), expected.to_pylist())


@pytest.mark.parametrize("text", NAMED_TEXTS)
def test_no_rows_and_no_values(text: str) -> None:
    node = expression(text).node
    empty = {f"t.{field.name}": pa.array([], field.type) for field in SCHEMA}
    assert len(evaluate(node, empty, 0)) == 0
    nulls = {f"t.{field.name}": pa.nulls(2, field.type) for field in SCHEMA}
    values = evaluate(node, nulls, 2).to_pylist()
    never_null = isinstance(node, exp.Or | exp.Not)  # of tuples
    assert values == [None, None] or never_null


def test_texts_have_an_end() -> None:
    for text in ("lpad(s, 99999999, 'x')", "repeat(u, 99999999)"):
        with pytest.raises(ExpressionError, match="at most 16,777,216 characters"):
            evaluate(expression(text).node, columns(), 10)


@pytest.mark.parametrize(
    "text",
    [
        "lpad(s, 300, '😀')",
        "rpad(s, 300 + i % 9, 'é')",
        "repeat(u, 200)",
        "repeat('é', 100)",
        "replace(repeat(u, 30), 'e', repeat('b', 100))",
        "replace(u || u, u, repeat('b', 300))",
        "regexp_replace(repeat(u, 30), '.', 'bbbbbbbbbbbbbbbbbbbbbbbb', 'g')",
        "regexp_replace(repeat(u, 30), '.*', '\\0\\0\\0\\0\\0\\0\\0\\0\\0')",
        "repeat('é', 40) || repeat('b', 90)",
        "if(i > 1, repeat('é', 100), 'x')",
        "coalesce(s, repeat('é', 100))",
        "least(s, repeat('é', 100))",
    ],
)
def test_all_texts_together_have_an_end(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of so many bytes is not made; a few texts as long are."""
    monkeypatch.setattr(values, "MAX_BYTES_PER_ROW", 0)
    for kernels in (values, regex, substrings):
        monkeypatch.setattr(kernels, "MAX_BYTES", 1_000)
    with pytest.raises(ExpressionError, match=r"1,000 bytes together"):
        evaluate(expression(text).node, columns(), 10)
    monkeypatch.undo()
    assert len(evaluate(expression(text).node, columns(), 10)) == 10


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lpad(s, 99, '')", "LPAD has nothing to pad with"),
        ("i << 3", "a left shift takes positive numbers"),
        ("t + interval '300000 years'", "a date is out of range"),
        ("t + to_years(9223372036854775807)", "a date is out of range"),
        ("case when i > 5 then -i else i end << 70", "overflows"),
    ],
)
def test_errors_of_values(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=reason):
        evaluate(expression(text).node, columns(), 10)


def test_a_branch_that_is_not_taken_does_not_fail() -> None:
    text = "case when i between 0 and 7 then i << 2 end"
    assert evaluate(expression(text).node, columns(), 10).to_pylist()[:4] == [0, 4, None, 28]


START = date(1992, 1, 1)
ORDERS = pa.table(
    {
        "o_orderkey": pa.array(range(60), pa.int64()),
        "o_custkey": pa.array([i % 7 for i in range(60)], pa.int64()),
        "o_orderdate": [START + timedelta(days=43 * i) for i in range(60)],
    }
)
LINES = pa.table(
    {
        "l_orderkey": pa.array([i % 60 for i in range(240)], pa.int64()),
        "l_shipdate": [None if i % 31 == 0 else START + timedelta(days=11 * i) for i in range(240)],
        "l_price": pa.array([float(i) for i in range(240)]),
    }
)
CUSTOMERS = pa.table(
    {
        "c_custkey": pa.array(range(7), pa.int64()),
        "c_phone": [f"{13 + i % 3}-555-{i:04}" if i else None for i in range(7)],
    }
)
FILTERS = (
    "o_orderdate >= date '1994-01-01' and o_orderdate < date '1994-01-01' + interval '1' year",
    "l_shipdate <= date '1998-12-01' - interval '90' day",
    "l_shipdate between o_orderdate and o_orderdate + interval '3' month",
    "substring(c_phone from 1 for 2) in ('13', '15')",
)
GROUPS = (
    "extract(year from o_orderdate)",
    "date_trunc('quarter', l_shipdate)",
    "substring(c_phone from 1 for 2)",
    "o_orderdate + interval '1' month",
)
MEASURES = {
    "revenue": "sum(l_price)",
    "days": "sum(date_diff('day', l_shipdate, date '1999-01-01'))",
    "late": "count(*) filter (where l_shipdate > date '1995-01-01' - interval '1' year)",
    "last": "max(l_shipdate + interval '1' month)",
    "codes": "sum(cast(substring(c_phone from 1 for 2) as int))",
}


def answers_equal_sql(engine: Any) -> None:
    graph = JoinGraph(engine)
    tables = {"orders": ORDERS, "lines": LINES, "customers": CUSTOMERS}
    for name, data in tables.items():
        graph.add_relation(name, data)
    graph.add_join("lines", "orders", on={"l_orderkey": "o_orderkey"})
    graph.add_join("orders", "customers", on={"o_custkey": "c_custkey"})
    wide = graph.calibrate(MEASURES)
    connection = duckdb.connect()
    for name, data in tables.items():
        connection.register(name, data)
    chosen = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    joined = "lines JOIN orders ON l_orderkey = o_orderkey JOIN customers ON o_custkey = c_custkey"
    for condition in FILTERS:
        for group in GROUPS:
            asked = f"SELECT {group}, {chosen} FROM {joined} WHERE {condition} GROUP BY 1"
            result = [tuple(row.values()) for row in wide.query([group], where=condition).rows()]
            assert sorted(result, key=str) == sorted(connection.sql(asked).fetchall(), key=str)


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_date_arithmetic_of_tpch(engine: str) -> None:
    answers_equal_sql(engine)


def test_date_arithmetic_of_tpch_on_spark(spark: Any) -> None:
    from calitree.engines.hybrid import HybridEngine

    answers_equal_sql(HybridEngine(spark))
