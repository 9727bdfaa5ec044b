"""The progress of Spark's jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.25


def is_remote(session: SparkSession) -> bool:
    """Whether Spark is reached by Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def watching(session: SparkSession, tag: str) -> Iterator[Callable[[], float]]:
    """Inside, a function for the fraction of the known tasks that are done, between 0 and 1.

    It never waits for Spark, so that Ctrl-C does not either.
    """
    done = [0.0]
    with _on_connect(session, done) if is_remote(session) else _on_classic(session, tag, done):
        yield lambda: done[0]


@contextmanager
def _on_classic(session: SparkSession, tag: str, done: list[float]) -> Iterator[None]:
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(POLL_SECONDS):
            with suppress(Exception):  # a session that is being stopped; nothing depends on this
                done[0] = _done(session, tag)

    thread = threading.Thread(target=look, name="calitree-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _done(session: SparkSession, tag: str) -> float:
    context: Any = session.sparkContext
    tracker = context.statusTracker()
    done = total = 0
    for job in context._jsc.sc().statusTracker().getJobIdsForTag(tag):
        about = tracker.getJobInfo(job)
        for stage in map(tracker.getStageInfo, about.stageIds if about else ()):
            if stage is not None:
                done, total = done + stage.numCompletedTasks, total + stage.numTasks
    return done / total if total else 0.0


@contextmanager
def _on_connect(session: SparkSession, done: list[float]) -> Iterator[None]:
    def progressed(stages: Any, **_: Any) -> None:
        total = sum(stage.num_tasks for stage in stages or ())
        if total:
            done[0] = sum(stage.num_completed_tasks for stage in stages) / total

    client: Any = session
    client.registerProgressHandler(progressed)
    try:
        yield
    finally:
        client.removeProgressHandler(progressed)
