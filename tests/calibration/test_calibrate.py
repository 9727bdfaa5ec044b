"""Calibration as the paper defines it: both ends of every edge absorb to the same marginal."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.calibration.compilation.compiler import Wiring
from calitree.calibration.planning.plan import Absorb
from calitree.calibration.planning.staleness import stored_edges
from calitree.cli.demo import flights_graph, read_flights
from calitree.engines.spark import SparkEngine
from calitree.wide_table import WideTable
from tests.support.databases import databases, join_size, questions
from tests.support.engines import LOCAL, engine_named
from tests.support.scale import examples


def marginal(wide: WideTable, bag: str, other: str) -> pa.Table:
    """Absorption at a bag, summed to its separator with another."""
    placement = wide.snapshot.pivot
    keep = tuple(sorted(wide.tree.separator(bag, other) | set(placement.query.keep)))
    absorb = Absorb(bag, keep, placement.where(bag, None), placement.query.aggregates)
    stored = stored_edges(placement, wide.state.store)
    outer = wide.snapshot.outer_joins(placement.query)
    call = Wiring(outer.schema, placement, stored, outer=outer).absorb(absorb)
    names = [*keep, *(part for column in call.outputs[0].columns for part in column.parts)]
    ((absorbed, _),) = call.run(wide.engine, {})
    return wide.engine.arrow(absorbed).select(names)


def assert_calibrated(wide: WideTable) -> None:
    assert wide.is_calibrated
    assert len(wide.state.store.pinned) == 2 * len(wide.tree.edges)
    for a, b in wide.tree.edges:
        left, right = marginal(wide, a, b), marginal(wide, b, a)
        aggregates = wide.snapshot.pivot.query.aggregates
        keys = len(left.column_names) - sum(len(a.semiring.components) for a in aggregates)
        assert not compare(left, right, keys), (a, b)


def check_random(engine: Any, data: st.DataObject) -> None:
    database = data.draw(databases(max_relations=6, max_rows=20))
    assume(join_size(database) <= 5_000)
    pivot = data.draw(questions(database, exclusions=False))
    assert_calibrated(database.graph(engine).calibrate(**pivot))


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_random_trees(engine: str) -> None:
    @settings(max_examples=examples(100), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check_random(engine_named(engine), data)

    run()


@pytest.mark.spark
def test_random_trees_on_spark(spark: Any) -> None:
    @settings(max_examples=examples(8), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check_random(SparkEngine(spark), data)

    run()


def flights(engine: Any) -> ct.JoinGraph:
    return flights_graph(read_flights(), engine, how="inner")


def test_flights() -> None:
    """Composite key, dangling rows and NULLs of real data; the five-way join has 276,688 rows."""
    graph = flights("local")
    wide = graph.calibrate({"n": "count(*)", "late": "avg(arr_delay)", "seats": "sum(seats)"})
    assert wide.query().rows()[0]["n"] == 276_688
    assert_calibrated(wide)
    assert_calibrated(graph.calibrate(group_by=["airlines.name"], where="weather.wind_speed > 10"))


def test_a_calibrated_tree_computes_nothing_twice() -> None:
    graph = flights("local")
    wide = graph.calibrate()
    assert wide.refresh().steps == ()
    first = wide.query(group_by=["airlines.name"], where="planes.seats > 100")
    again = wide.query(group_by=["airlines.name"], where="planes.seats > 100")
    assert first.plan.computed and not again.plan.computed
    assert first.rows() == again.rows()


def test_the_memory_limit_bounds_what_delta_queries_leave() -> None:
    wide = flights("local").calibrate(memory_limit=0)
    question = {"group_by": ["airlines.name"], "where": "planes.seats > 100"}
    assert wide.query(**question).plan.computed == wide.query(**question).plan.computed
    assert wide.state.store.kept_bytes == 0 and len(wide.state.store) == 2 * len(wide.tree.edges)
