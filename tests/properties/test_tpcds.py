"""The store channel of TPC-DS, a hundredth of a gigabyte, against Spark's own join of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks import tpcds
from benchmarks.__main__ import main
from benchmarks.tpcds_data import FACT, store_channel, store_graph
from benchmarks.tpcds_questions import MEASURES, QUESTIONS
from calitree import WideTable
from calitree.engines.hybrid import HybridEngine
from calitree.engines.hybrid.routing import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
LARGE_BYTES = 4 << 20
"""Bytes that the sales have, and the demographics, which are as many at every scale."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpcds")


@pytest.fixture(scope="module")
def wide(spark: SparkSession, data: Path) -> WideTable:
    engine = HybridEngine(spark, in_process=LARGE_BYTES)
    return store_graph(store_channel(SCALE, data), engine).calibrate(MEASURES, progress=False)


def test_the_data_is_written_once_and_whole(data: Path) -> None:
    files = store_channel(SCALE, data)
    written = {path: path.stat().st_mtime_ns for path in files.values()}
    assert len(written) == len(files) - 1, "one table has two roles"
    assert store_channel(SCALE, data) == files
    assert {path: path.stat().st_mtime_ns for path in files.values()} == written
    assert not list(data.glob(".*")), "nothing half written is left"


def test_twenty_questions_agree_with_spark(wide: WideTable) -> None:
    engine = wide.engine
    assert isinstance(engine, HybridEngine)
    large = {
        name
        for name, relation in wide.schema.relations.items()
        if engine.transfers.stats(relation.table).location is Location.FILES
    }
    assert large == {FACT, "customer_demographics"}, "both are read by Spark's tasks"
    checked = wide.verify([question.arguments for question in QUESTIONS])
    assert checked.built_by == "Spark"
    assert len(checked.checks) == 20
    assert checked.ok, str(checked)
    for question, check in zip(QUESTIONS, checked.checks, strict=True):
        assert len(check.result) > 0, f"{question.name} is about nothing"
        assert check.result.exact
        if "NULL" in question.name:
            assert check.result.arrow().column(0).null_count == 1


def test_the_benchmark_agrees(
    spark: SparkSession, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some questions: this session interprets queries."""
    some = QUESTIONS[4::5]
    monkeypatch.setattr(tpcds, "QUESTIONS", some)
    path = tmp_path / "result.json"
    given = ["--scale", str(SCALE), "--repeat", "1", "--data", str(data), "--json", str(path)]
    assert main(["tpcds", *given]) == 0
    written = json.loads(path.read_text())
    assert written["complete"] is True
    assert len(written["results"]) == 1 + len(some) == 5
    assert all(result["agree"] for result in written["results"])
