"""Shares of totals: as window functions of DuckDB over the groups of the join."""

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
    "dear": "sum(price) filter (where price > 1)",
    "net": "2 * sum(price) - count(price)",
}


def shares(group_by: list[str], within: list[str]) -> str:
    """Each group beside the measures of all rows of its partition."""
    keys = {text: f"k{at}" for at, text in enumerate(group_by)}
    named = ", ".join(f"{text} AS {name}" for text, name in keys.items())
    own = ", ".join(f"{text} AS {name}" for name, text in MEASURES.items())
    same = " AND ".join(f"t.{keys[text]} IS NOT DISTINCT FROM g.{keys[text]}" for text in within)
    shown = ", ".join(
        f"g.{name}, cast(g.{name} as double) / nullif(cast(t.{name} as double), 0) AS {name}_share"
        for name in MEASURES
    )
    listed = "".join(f"g.{name}, " for name in keys.values())
    total_keys = "".join(f"{text} AS {keys[text]}, " for text in within)
    grouped = "GROUP BY ALL" if within else ""
    return f"""
        WITH g AS (SELECT {named}, {own} FROM sold GROUP BY ALL),
        t AS (SELECT {total_keys} {own} FROM sold {grouped})
        SELECT {listed} {shown} FROM g JOIN t ON {same or "true"}
    """


def check(engine: Any, data: st.DataObject) -> None:
    sales = data.draw(sales_at_days(), label="sales")
    wide = wide_of(engine, sales)
    groups = ["day", "city", "year(day)", "price"]
    group_by = data.draw(st.lists(st.sampled_from(groups), min_size=1, max_size=3, unique=True))
    within = data.draw(st.lists(st.sampled_from(group_by), unique=True), label="within")
    result = wide.query(group_by, measures=MEASURES).share(within)
    build(sales)
    expected = duck().sql(shares(group_by, within)).to_arrow_table()
    difference = compare(result.arrow(), expected, len(group_by))
    assert not difference, difference


@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


def test_a_total_of_zero_has_no_shares() -> None:
    graph = ct.JoinGraph(engine="local")
    money = pa.array([Decimal("-1.50"), Decimal("1.50"), None], pa.decimal128(10, 2))
    graph.add_relation("r", pa.table({"g": [1, 2, None], "h": [1, 1, 2], "x": money}))
    result = graph.calibrate({"s": "sum(x)"}).query(["g", "h"])
    assert [row["s_share"] for row in result.share()] == [None, None, None]
    assert {row["g"]: row["s_share"] for row in result.share("h")} == {1: None, 2: None, None: None}
    assert {row["g"]: row["s_share"] for row in result.share(["g"])} == {1: 1.0, 2: 1.0, None: None}


def test_it_can_be_pickled_and_shown() -> None:
    result = wide_of("local", [(0, 0, 1), (1, 1, 3)]).query(["city"], measures=["s"]).share()
    assert pickle.loads(pickle.dumps(result)).arrow() == result.arrow()
    assert {*result.text().split()} >= {"city", "s", "s_share", "Quito", "0.25", "NULL", "0.75"}


def test_of_nothing() -> None:
    wide = wide_of("local", [])
    assert wide.query(["city"]).share(measures=["n"]).rows() == []
    assert wide.query().share(measures=["n", "s"]).rows() == [
        {"n": 0, "n_share": None, "s": None, "s_share": None}
    ]


@pytest.mark.parametrize(
    ("measures", "given", "reason"),
    [
        ({"m": "avg(price)"}, {}, "Measure 'm' does not add up"),
        ({"m": "sum(price) / count(*)"}, {}, "does not add up"),
        ({"m": "sum(price) * sum(price)"}, {}, "does not add up"),
        ({"m": "max(price)"}, {}, "does not add up"),
        ({"m": "count(distinct price)"}, {}, "cannot be rolled up"),
        ({"m": "sum(price)"}, {"within": "day"}, "'day' is not grouped by"),
        ({"m": "sum(price)"}, {"measures": ["n"]}, "no measure 'n'"),
        ({"m": "sum(price)", "m_share": "sum(price)"}, {}, "a column 'm_share' already"),
    ],
)
def test_what_has_no_share_is_refused(measures: Any, given: Any, reason: str) -> None:
    result = wide_of("local", [(0, 0, 1)]).query(["city"], measures=measures)
    with pytest.raises(QueryError, match=reason):
        result.share(**given)
