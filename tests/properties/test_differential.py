"""Every engine against DuckDB on the materialised join.

Graphs, trees, data, pivots and delta queries are random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from tests.support.databases import databases, join_size, questions
from tests.support.engines import ON_SPARK
from tests.support.oracle import MAX_JOIN, assert_answers, empty_bags
from tests.support.runners import run_local, run_reference, run_spark, spark_engines


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


def test_reference() -> None:
    run_reference(check, 200, deltas=2)


def test_local() -> None:
    run_local(check, 500, deltas=4)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    count = 30 if engine == "spark" else 10
    run_spark(check, spark_engines(engine, spark, tmp_path), count, deltas=5)
