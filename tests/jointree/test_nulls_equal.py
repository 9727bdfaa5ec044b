"""Joins in which NULL meets NULL."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import calitree as ct
from calitree import SchemaError

DAY, TIME = datetime.date(1970, 1, 1), datetime.datetime(1970, 1, 1)
KEYS = {
    "integers": ([0, 1, None, None, 2], [None, 0, 1, 1, 7]),
    "texts": (["", "a", None, None, "b"], [None, "", "a", "a", "z"]),
    "dates": ([DAY, None, None, datetime.date(2020, 2, 2)], [None, DAY, DAY]),
    "timestamps": ([TIME, None, datetime.datetime(2020, 2, 2)], [None, None, TIME]),
    "decimals": ([Decimal("0.00"), None, Decimal("1.50")], [None, Decimal("0.00")]),
    "doubles": ([0.0, None, 1.5], [None, 0.0, None]),
    "booleans": ([False, None, True], [None, False, False]),
}
MEASURES = {"n": "count(*)", "total": "sum(a.v * b.w)"}


def tables(kind: str) -> dict[str, pa.Table]:
    left, right = KEYS[kind]
    a = pa.table({"k": left, "j": [1, None, 1, None, 1][: len(left)], "v": range(len(left))})
    b = pa.table({"k": right, "j": [1, 1, None, None, 1][: len(right)], "w": range(len(right))})
    return {"a": a, "b": b}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("engine", ["reference", "local"])
def test_null_equals_null(engine: Any, kind: str, how: str) -> None:
    check(engine, kind, how)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "how"), [("texts", "left"), ("dates", "full")])
def test_null_equals_null_on_spark(spark: Any, kind: str, how: str) -> None:
    check(spark, kind, how)


def check(engine: Any, kind: str, how: str) -> None:
    graph = ct.JoinGraph(engine=engine)
    connection = duckdb.connect()
    for name, table in tables(kind).items():
        graph.add_relation(name, table)
        connection.register(name, table)
    graph.add_join("a", "b", on=["k", "j"], how=how, nulls="equal")
    wide = graph.calibrate(MEASURES)
    joined = f"FROM a {how} JOIN b ON a.k IS NOT DISTINCT FROM b.k AND a.j IS NOT DISTINCT FROM b.j"
    for by in ([], ["a.k"], ["b.k", "b.j"]):
        selected = ", ".join([*by, "count(*)", "sum(a.v * b.w)"])
        group = f"GROUP BY {', '.join(by)}" if by else ""
        expected = connection.sql(f"SELECT {selected} {joined} {group}").fetchall()
        answer = [tuple(row.values()) for row in wide.query(group_by=by).rows()]
        assert sorted(answer, key=str) == sorted(expected, key=str)


def test_columns_without_null_are_compared_as_they_are() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"k": [1, None]})
    graph.add_relation("b", {"k": [1, 2]})
    graph.add_join("a", "b", on="k", nulls="equal")
    assert graph.from_clause() == "a JOIN b ON a.k = b.k"


def test_errors() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"k": pa.array([1, None], pa.duration("s")), "i": [1, None]})
    graph.add_relation("b", {"k": pa.array([1, None], pa.duration("s")), "i": [1, None]})
    with pytest.raises(SchemaError, match="nulls is one of unequal, equal; got 'safe'"):
        graph.add_join("a", "b", on="i", nulls="safe")
    with pytest.raises(SchemaError, match=r"not supported for a\.k, which is"):
        graph.add_join("a", "b", on="k", nulls="equal")
    graph.add_join("a", "b", on="i", nulls="equal")
    assert graph.from_clause() == (
        "a JOIN b ON (a.i IS NULL) = (b.i IS NULL) AND COALESCE(a.i, 0) = COALESCE(b.i, 0)"
    )
