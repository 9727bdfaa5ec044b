"""Groups by random expressions, on every engine, against DuckDB on the materialised join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree.apps.verify.check import compare
from tests.support.databases import databases, join_size
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.group_expressions import questions_by_expressions
from tests.support.oracle import MAX_JOIN, oracle
from tests.support.scale import examples


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(databases(max_relations=4), label="database")
    assume(join_size(database) <= MAX_JOIN)
    pivot = data.draw(questions_by_expressions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    assert wide.is_calibrated
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions_by_expressions(database), label="delta") for _ in range(deltas)]
    for question in asked:
        result = wide.query(**question)
        expected = oracle(wide, database, {"measures": None, **question})
        difference = compare(result.arrow(), expected, len(question["group_by"]))
        assert not difference, f"{question}: {difference}\n{result.plan}"
        assert result.columns[: len(question["group_by"])] == list(question["group_by"])


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=4)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    count = examples(12 if engine == "spark" else 5)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=5)

    run()
