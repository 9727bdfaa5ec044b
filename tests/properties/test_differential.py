"""Every engine against DuckDB on the materialised join.

Graphs, trees, data, pivots and delta queries are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.databases import databases, join_size, questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.oracle import MAX_JOIN, assert_answers, empty_bags
from tests.support.scale import examples


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(databases(), label="database")
    assume(join_size(database) <= MAX_JOIN)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    graph = database.graph(engine)
    tree = graph.hypertree(
        empty=data.draw(empty_bags(database), label="empty bags"),
        redundant=data.draw(st.booleans(), label="redundant"),
    )
    wide = graph.calibrate(**pivot, tree=tree)
    assert wide.is_calibrated
    assert_answers(wide, database, pivot, data, deltas)


@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


@settings(max_examples=examples(900), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    """Half of the cases as if every table were large."""
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=4)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    """Few trees, as each is many jobs, and more questions of each."""
    count = examples(50 if engine == "spark" else 12)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=5)

    run()
