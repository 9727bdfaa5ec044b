"""Spark on a cluster: executors in processes of their own, without calitree, and mortal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import calitree as ct
from calitree.engines.hybrid import HybridEngine
from calitree.engines.spark import SparkEngine
from calitree.errors import EngineError
from tests.support.cluster import (
    AT_HOME,
    MEASURES,
    OF_THE_FACT,
    SMALL,
    SOME_MEASURES,
    Cluster,
    bare_python,
    cluster,
    differences,
    finish,
    heard,
    star,
    start,
    tell,
    write_star,
)

pytestmark = pytest.mark.xdist_group("cluster")

MAX_LOCAL_BYTES = 100_000
"""Bytes above which a relation is read by tasks: so are the sales, and nothing else."""


@pytest.fixture(scope="module")
def a_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with cluster(directory, XDG_CACHE_HOME=str(directory / "cache")) as running:
        yield running


@pytest.fixture
def spark_cluster(a_cluster: Cluster) -> Cluster:
    """With two workers that live."""
    while sum(worker.lives for worker in a_cluster.workers) < 2:
        a_cluster.add_worker()
    return a_cluster


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_star(tmp_path_factory.mktemp("sales"), rows=300_000, files=60))


# -- run by drivers, in processes of their own ---------------------------------------------------


def ask_engines(master: str, directory: str, *pythons: str) -> dict[str, Any]:
    """Two engines; then the hybrid one with each of these as the Python of the executors: what is wrong,
    or why it cannot be done.
    """
    session = ct.spark_session(master, config=SMALL)
    path = list(sys.path)

    def hybrid(measures: Mapping[str, str], questions: list[dict[str, Any]]) -> list[str]:
        graph = star(directory, HybridEngine(session, in_process=MAX_LOCAL_BYTES))
        return differences(directory, graph.calibrate(measures), questions, measures)

    answers: dict[str, Any] = {"hybrid": hybrid(MEASURES, AT_HOME + OF_THE_FACT)}
    wide = star(directory, SparkEngine(session)).calibrate(SOME_MEASURES)
    answers["spark"] = differences(directory, wide, [AT_HOME[1], OF_THE_FACT[0]], SOME_MEASURES)
    answers["path is as it was"] = sys.path == path
    for python in pythons:
        session.sparkContext.pythonExec = python
        try:
            answers[python] = hybrid(SOME_MEASURES, AT_HOME + OF_THE_FACT[:1])
        except EngineError as error:
            answers[python] = str(error)
    return answers


def ask_while_a_worker_dies(master: str, directory: str) -> dict[str, Any]:
    """Says when it is in the middle of calibration, and waits to hear that a worker is dead.

    There are as many tasks as if there were many cores, and then some that sum what they found.
    """
    session = ct.spark_session(master, config={**SMALL, "spark.default.parallelism": "40"})
    tracker = session.sparkContext.statusTracker()
    seen: dict[str, Any] = {}

    def stage() -> Any:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return next((stage for stage in stages if stage and stage.numTasks > 20), None)

    def watch() -> None:
        while (now := stage()) is None or now.numCompletedTasks < 3:
            time.sleep(0.01)
        print("in the middle", flush=True)
        sys.stdin.readline()
        now = stage()
        seen["left when it died"] = now.numTasks - now.numCompletedTasks if now else 0

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    wide = star(directory, HybridEngine(session, in_process=MAX_LOCAL_BYTES)).calibrate(
        SOME_MEASURES
    )
    watching.join(timeout=60)
    assert seen, "there was no middle to kill it in"
    seen["wrong"] = differences(directory, wide, AT_HOME, SOME_MEASURES)
    small = ct.JoinGraph(SparkEngine(session))
    small.add_relation("a", {"k": [1, 2], "u": [1, 1]})
    small.add_relation("b", {"k": [1, 2]})
    small.add_join("a", "b", on="k")
    kept = small.calibrate()
    print("has messages on executors", flush=True)
    sys.stdin.readline()
    with pytest.raises(EngineError) as caught:
        kept.query(group_by=["u"])
    seen["why"] = str(caught.value).rpartition(": ")[2]
    seen["again"] = small.calibrate().query(group_by=["u"]).rows()
    return seen


# -- tests ---------------------------------------------------------------------------------------


def test_answers_of_a_cluster(spark_cluster: Cluster, sales: str, tmp_path: Path) -> None:
    """With executors that have what calitree needs, those that lack some of it, and those without calitree."""
    lacking = str(bare_python(tmp_path / "lacking", "numba", "sqlglot"))
    bare = str(bare_python(tmp_path / "bare"))
    python = {"PYSPARK_PYTHON": sys.executable}
    answers = finish(start(ask_engines, spark_cluster.url, sales, lacking, bare, **python))
    assert answers.pop(lacking) == (
        "Spark could not compute messages from sales (60 splits): ImportError: the Python of Spark's "
        f"executors ({sys.executable}) has no numba, sqlglot. Install there: pip install numba sqlglot"
    )
    assert answers == {"hybrid": [], "spark": [], "path is as it was": True, bare: []}
    shipped = spark_cluster.directory / "cache" / "calitree" / "shipped"
    kept = shipped.glob("*/calitree/engines/local/*/__pycache__/*.nbc")
    assert list(kept), "machine code for the next worker"


def test_a_worker_dies_in_the_middle(spark_cluster: Cluster, sales: str) -> None:
    python = {"PYSPARK_PYTHON": sys.executable}
    driver = start(ask_while_a_worker_dies, spark_cluster.url, sales, **python)
    killed = ""
    try:
        if heard(driver) == "in the middle":
            killed = spark_cluster.workers[-1].kill()
            tell(driver, "it is dead")
        if heard(driver) == "has messages on executors":
            for worker in spark_cluster.workers:
                worker.kill(below=True)
            tell(driver, "they are dead")
    finally:
        answers = finish(driver)
    assert "CoarseGrainedExecutorBackend" in killed, "its executor"
    assert "pyspark.daemon" in killed, "and the Python of that"
    assert answers.pop("left when it died") > 0
    assert answers == {
        "wrong": [],
        "why": "a message is lost with the executor that held it. Calibrate again.",
        "again": [{"u": 1, "n": 2}],
    }
