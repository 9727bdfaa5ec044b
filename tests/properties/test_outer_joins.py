"""Outer joins of every kind, in any order, on every engine: against DuckDB on the joins as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree import SchemaError
from tests.support.databases import Database, databases, join_size, questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.oracle import MAX_JOIN, assert_answers, empty_bags
from tests.support.scale import examples

HOWS = ("inner", "left", "left", "right", "full")


@st.composite
def outer_databases(draw: st.DrawFn, hows: tuple[str, ...] = HOWS) -> Database:
    """A random database whose joins are declared in random order and direction, some of them outer."""
    database = draw(databases(max_relations=5, max_rows=24))
    assume(join_size(database) <= MAX_JOIN)
    joins = list(draw(st.permutations(database.joins)))
    for at, (left, right, on) in enumerate(joins):
        if draw(st.booleans()):
            joins[at] = (right, left, {theirs: ours for ours, theirs in on.items()})
    kinds = [draw(st.sampled_from(hows)) for _ in joins]
    return replace(database, joins=tuple(joins), hows=tuple(kinds), closing=())


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(outer_databases(), label="database")
    try:
        graph = database.graph(engine)
    except SchemaError as error:
        assert "is not supported" in str(error)
        assume(False)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    tree = graph.hypertree(empty=data.draw(empty_bags(database), label="empty bags"))
    wide = graph.calibrate(**pivot, tree=tree)
    assert wide.is_calibrated
    assert_answers(wide, database, pivot, data, deltas)


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=3)


@settings(max_examples=examples(900), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    """Half of the cases as if every table were large."""
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=4)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    """Few trees, as each is many jobs, and more questions of each."""
    count = examples(30 if engine == "spark" else 10)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=5)

    run()
