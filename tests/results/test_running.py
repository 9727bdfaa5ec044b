"""Running measures: as window functions of DuckDB over the groups, and over the rows of the join."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree import QueryError
from calitree.apps.verify.check import compare
from tests.support.engines import LOCAL, engine_named
from tests.support.oracle import duck
from tests.support.periods import build, sales_at_days, wide_of
from tests.support.scale import examples

MEASURES = {
    "n": "count(*)",
    "s": "sum(price)",
    "m": "avg(price)",
    "low": "min(price)",
    "high": "max(city)",
    "v": "stddev(price)",
    "any_dear": "bool_or(price > 2)",
    "r": "sum(price) / count(price)",
}


def running(group_by: list[str], along: list[str], order: str) -> str:
    """For each group the aggregates of all rows that are not after it, in the same other groups."""
    keys = {f"k{at}": text for at, text in enumerate(group_by)}
    named = ", ".join(f"{text} AS {name}" for name, text in keys.items())
    others = [name for name, text in keys.items() if text not in along]
    chosen = [name for text in along for name, t in keys.items() if t == text]
    by = ", ".join(f"{name} {order} NULLS LAST" for name in chosen)
    same = " AND ".join(f"r.{name} IS NOT DISTINCT FROM g.{name}" for name in others) or "true"
    own = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    shown = ", ".join(f"g.{name}, x.{name} AS {name}_cumulative" for name in MEASURES)
    listed = ", ".join(keys)
    return f"""
        WITH rows AS (SELECT *, {named}, dense_rank() OVER (ORDER BY {by}) AS place FROM sold),
        groups AS (SELECT {listed}, place, {own} FROM rows GROUP BY ALL)
        SELECT {", ".join(f"g.{name}" for name in keys)}, {shown} FROM groups g,
        LATERAL (SELECT {own} FROM rows r WHERE r.place <= g.place AND {same}) x
    """


def check(engine: Any, data: st.DataObject) -> None:
    sales = data.draw(sales_at_days(), label="sales")
    wide = wide_of(engine, sales)
    groups = ["day", "city", "year(day)", "price"]
    group_by = data.draw(st.lists(st.sampled_from(groups), min_size=1, max_size=3, unique=True))
    along = data.draw(st.lists(st.sampled_from(group_by), min_size=1, unique=True), label="along")
    descending = data.draw(st.booleans(), label="descending")
    result = wide.query(group_by, measures=MEASURES).cumulative(along, descending=descending)
    build(sales)
    expected = duck().sql(running(group_by, along, "DESC" if descending else "ASC"))
    difference = compare(result.arrow(), expected.to_arrow_table(), len(group_by))
    assert not difference, difference


@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


def one(measures: dict[str, str], **columns: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", pa.table(columns))
    return graph.calibrate(measures)


def test_rows_are_in_order_and_null_is_last() -> None:
    wide = one({"n": "sum(x)"}, g=[2.0, None, float("nan"), 1.0], x=[1, 2, 4, 8])
    assert [row["n_cumulative"] for row in wide.query(["g"]).cumulative()] == [8, 9, 13, 15]
    falling = wide.query(["g"]).cumulative(descending=True).rows()
    assert [row["n_cumulative"] for row in falling] == [4, 5, 13, 15]


def test_the_only_date_is_what_it_runs_along() -> None:
    wide = wide_of("local", [(0, 0, 1), (2, 0, 2), (2, 1, 4)])
    rows = wide.query(["city", "day"], measures=["n", "s"]).cumulative(measures=["s"]).rows()
    assert [tuple(row.values())[2:] for row in rows] == [(1, 1), (2, 3), (4, 4)]


def test_numbers_stay_exact() -> None:
    wide = one({"s": "sum(x)"}, g=[1, 2, 3], x=[2**62, 2**62 + 1, 2**62 + 3])
    assert wide.query(["g"]).cumulative().rows()[2]["s_cumulative"] == 3 * 2**62 + 4
    money = pa.array([Decimal("9999999999999999.01"), Decimal("0.02")], pa.decimal128(20, 2))
    wide = one({"s": "sum(x)"}, g=[1, 2], x=money)
    assert wide.query(["g"]).cumulative().rows()[1]["s_cumulative"] == Decimal(
        "9999999999999999.03"
    )


def test_of_nothing() -> None:
    wide = one({"s": "sum(x)", "v": "stddev(x)"}, g=[1], h=[1], x=[1.5])
    nothing = wide.query(["g", "h"], "x > 2").cumulative("g")
    assert nothing.rows() == [] and nothing.columns == [
        "g",
        "h",
        "s",
        "s_cumulative",
        "v",
        "v_cumulative",
    ]


def test_it_can_be_pickled_and_shown() -> None:
    running = one({"n": "count(*)"}, g=[1, 2], x=[1, 2]).query(["g"]).cumulative()
    assert pickle.loads(pickle.dumps(running)).arrow() == running.arrow()
    assert running.text().split() == ["g", "n", "n_cumulative", "1", "1", "1", "2", "1", "2"]


@pytest.mark.parametrize(
    ("asked", "given", "reason"),
    [
        ({}, {}, "no groups to run along"),
        ({"group_by": ["day", "city"]}, {"by": "town"}, "'town' is not grouped by"),
        ({"group_by": ["day", "city"]}, {"by": []}, "runs along a group"),
        ({"group_by": ["price", "city"]}, {}, "Name the group that measures run along: by='price'"),
        ({"group_by": ["day"]}, {"measures": ["x"]}, "no measure 'x'"),
        ({"group_by": ["day"]}, {"measures": "n"}, "measures is a list"),
        ({"group_by": ["day"], "measures": {"d": "median(price)"}}, {}, "cannot be rolled up"),
        (
            {"group_by": ["day"], "measures": {"d": ct.measure("count(*)", "stores")}},
            {},
            "may count in several of these groups",
        ),
        (
            {"group_by": ["day"], "measures": {"d": "count(*)", "d_cumulative": "count(*)"}},
            {},
            "a column 'd_cumulative' already",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused(asked: Any, given: Any, reason: str) -> None:
    result = wide_of("local", [(0, 0, 1)]).query(**asked)
    with pytest.raises(QueryError, match=reason):
        result.cumulative(**given)
