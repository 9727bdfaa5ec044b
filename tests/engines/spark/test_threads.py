"""What threads share: the session, the frames and views of tables. Each is created once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from calitree.engines.hybrid import HybridEngine, transfer
from calitree.engines.spark import runtime as runtime_module
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.session import launch
from calitree.engines.spark.table import SparkTable

pytestmark = pytest.mark.usefixtures("frequent_switches")
THREADS = 8


def concurrently(function: Callable[[], Any]) -> list[Any]:
    """What the function returns in each of several threads that call it at once."""
    barrier = Barrier(THREADS)

    def call(_: int) -> Any:
        barrier.wait()
        return function()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(THREADS)))


class Created:
    """A factory that takes a while, and counts."""

    def __init__(self) -> None:
        self.objects: list[Frame] = []

    def __call__(self, *_: Any, **__: Any) -> Frame:
        time.sleep(0.01)
        self.objects.append(Frame())
        return self.objects[-1]


class Frame:
    """Stands for a frame, a session or a table."""

    nbytes, held = 0, None

    def __init__(self) -> None:
        self.views: list[str] = []

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - as Spark calls it
        time.sleep(0.01)
        self.views.append(name)


def test_an_engine_starts_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    start, runtime = Created(), Runtime()
    monkeypatch.setattr(runtime_module, "spark_session", start)
    assert set(concurrently(lambda: runtime.session)) == {runtime.started}
    assert len(start.objects) == 1


def test_two_engines_start_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    start = Created()
    monkeypatch.setattr(launch, "_active", lambda _: next(iter(start.objects), None))
    monkeypatch.setattr(launch, "_start", start)
    monkeypatch.setattr(launch, "_stop_at_exit", lambda _: None)
    assert set(concurrently(lambda: Runtime().session)) == set(start.objects)
    assert len(start.objects) == 1


def test_a_table_gets_one_frame_and_one_view() -> None:
    create = Created()
    table = SparkTable(Runtime(), "t", {}, lazy_frame=create)  # type: ignore[arg-type]
    concurrently(lambda: table.frame)
    assert len(create.objects) == 1
    (name,) = set(concurrently(lambda: table.view))
    assert create.objects[0].views == [name]


def test_all_threads_use_one_copy_of_a_table_that_was_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = HybridEngine()
    monkeypatch.setattr(transfer, "from_spark", Created())
    monkeypatch.setattr(transfer, "to_spark", Created())
    remote = SparkTable(engine.spark.runtime, "t", {})
    remote.known_rows = 3
    assert len(set(concurrently(lambda: engine.transfers.fetch_small(remote)))) == 1
    local = engine.load("t", {"k": [1, 2]})
    assert len(set(concurrently(lambda: engine.transfers.send(local)))) == 1
