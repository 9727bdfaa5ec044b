"""Ranges of sorted rows against comparing every pair; what is looked up once for many rows."""

from __future__ import annotations

import operator
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.local.theta import theta
from calitree.engines.local.theta.comparisons import Ordered
from calitree.engines.local.theta.ranges import SUM, RangeMatches, StabbedMatches
from calitree.engines.local.theta.sorted_rows import SortedRows
from tests.support.engines import engine_named

TESTS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
ENDS = np.iinfo(np.int64)
ROWS, LOOKUPS = 60, 40


def values(kind: str, rng: np.random.Generator, count: int) -> Ordered:
    if kind == "doubles":
        return Ordered(rng.integers(-4, 5, count) / 2.0, None)
    if kind == "far apart":
        return Ordered(rng.choice([ENDS.min, -5, 0, 5, ENDS.max], count), None)
    data = rng.integers(-6, 7, count) if kind != "sparse" else rng.integers(-(2**40), 2**40, count)
    return Ordered(data, rng.random(count) < 0.8 if kind == "with NULLs" else None)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("tests", [["<"], ["<="], [">"], [">="], ["="], [">", "<="], ["<", "<="]])
@pytest.mark.parametrize("kind", ["dense", "with NULLs", "sparse", "doubles", "far apart"])
def test_ranges_have_the_rows_that_pass(kind: str, tests: list[str], grouped: bool) -> None:
    rng = np.random.default_rng(len(tests))
    ours, given = values(kind, rng, ROWS), [values(kind, rng, LOOKUPS) for _ in tests]
    groups, asked = (rng.integers(-1, 3, ROWS), rng.integers(0, 3, LOOKUPS)) if grouped else (0, 0)
    passed = np.equal.outer(np.broadcast_to(asked, LOOKUPS), np.broadcast_to(groups, ROWS))
    passed &= True if ours.valid is None else ours.valid
    for test, side in zip(tests, given, strict=True):
        passed &= TESTS[test](ours.data[None, :], side.data[:, None])
        passed &= True if side.valid is None else side.valid[:, None]
    rows = SortedRows(ours, groups if grouped else None, 3 if grouped else 1)
    ranges = rows.ranges(list(zip(tests, given, strict=True)), asked if grouped else None)
    weights = rng.integers(-100, 100, ROWS)
    matches = RangeMatches(rows.order, [ranges])
    assert matches.counts.tolist() == passed.sum(axis=1).tolist()
    assert matches.combine(weights, SUM).tolist() == (passed * weights).sum(axis=1).tolist()
    of_lookups = rng.integers(-100, 100, LOOKUPS)
    stabbed = StabbedMatches(rows.order, ranges, None, ROWS)
    assert stabbed.counts.tolist() == passed.sum(axis=0).tolist()
    assert stabbed.combine(of_lookups, SUM).tolist() == (of_lookups @ passed).tolist()
    real = stabbed.combine(of_lookups.astype(np.float64), SUM)
    assert np.allclose(real, of_lookups @ passed)


def test_keys_of_many_rows_are_looked_up_once() -> None:
    rng = np.random.default_rng(0)
    a = pa.table({"t": rng.integers(0, 50, 200), "x": np.arange(200)})
    b = pa.table({"t": rng.integers(0, 9, 400), "g": rng.integers(0, 3, 400)})
    graph = ct.JoinGraph("local")
    graph.add_relation("a", a)
    graph.add_relation("b", b)
    graph.add_join("a", "b", condition="a.t <= b.t")
    wide = graph.calibrate({"n": "count(*)", "s": "sum(a.x)"}, progress=False)

    def by_rows(*_: Any) -> None:
        raise AssertionError

    with patch.object(theta, "_annotated", by_rows):
        answer = wide.query(group_by=["b.g"]).rows()
    pairs = np.less_equal.outer(a["t"].to_numpy(), b["t"].to_numpy())
    for row in answer:
        chosen = pairs[:, b["g"].to_numpy() == row["b.g"]]
        assert row["n"] == chosen.sum()
        assert row["s"] == (a["x"].to_numpy() @ chosen).sum()
    assert len(answer) == 3


@pytest.mark.parametrize("engine", ["local", "local, scanning"])
@pytest.mark.parametrize("group_by", [["a.p", "b.q"], ["a.p", "b.q", "d.g"], ["d.g"]])
def test_legs_beside_the_centre_of_a_star_are_joined_by_a_condition(
    engine: str, group_by: list[str]
) -> None:
    """A message by what the condition compares would share it with a leg that is not the centre."""
    rng = np.random.default_rng(1)
    keys = {"a": "k", "b": "k", "d": "l", "e": "m"}
    own = {"a": "p", "b": "q", "d": "g", "e": "h"}

    def answer(engine: Any) -> list[str]:
        graph = ct.JoinGraph(engine)
        graph.add_relation("c", tables["c"])
        for name, key in keys.items():
            graph.add_relation(name, tables[name])
            graph.add_join("c", name, on=key)
        wide = graph.calibrate({"n": "count(*)", "s": "sum(a.p * e.h)"}, progress=False)
        return sorted(map(str, wide.query(group_by=group_by, where="a.p <= b.q").rows()))

    tables = {"c": pa.table({key: rng.integers(0, 5, 60) for key in "klm"})}
    for name, key in keys.items():
        tables[name] = pa.table({key: rng.integers(0, 5, 9), own[name]: rng.integers(0, 6, 9)})
    answered = answer(engine_named(engine))
    assert answered == answer("reference")
    assert len(answered) > 2
