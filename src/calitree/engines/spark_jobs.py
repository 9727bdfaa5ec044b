"""Running calls to Spark side by side, so that Ctrl-C stops them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from calitree.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THREADS = 4
"""How many calls run at a time: a small query leaves most of Spark idle."""

Value = TypeVar("Value")


def is_remote(session: SparkSession) -> bool:
    """Whether Spark is reached by Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


class Jobs:
    """Threads of our own in which to call Spark.

    A single call takes one too: a Ctrl-C in the midst of it would leave the connection of the calling
    thread out of step.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="calitree-spark")

    def run(self, session: SparkSession, tasks: Iterable[Callable[[], Value]]) -> list[Value]:
        """Run all, some at a time; once one fails, no other is begun."""
        tag, stopped = f"calitree-{uuid4().hex}", threading.Event()

        def tagged(task: Callable[[], Value]) -> Value:
            if stopped.is_set():
                raise EngineError("Interrupted.")
            session.addTag(tag)
            try:
                return task()
            finally:
                session.removeTag(tag)

        futures = [self._pool.submit(tagged, task) for task in tasks]
        try:
            return [future.result() for future in futures]
        except BaseException as error:
            stopped.set()
            if not isinstance(error, Exception):
                _interrupt(session, tag, futures)
            raise


def _interrupt(session: SparkSession, tag: str, futures: Sequence[Future[Any]]) -> None:
    """Ctrl-C: stop the jobs of these tasks.

    Without Connect a tag is known only to the thread that has set it, and that one is waiting. So all
    jobs of the session are stopped, as PySpark's own Ctrl-C does.
    """
    for _ in range(50):  # again, as a job may have been just about to start
        with suppress(Exception):
            session.interruptTag(tag) if is_remote(session) else session.interruptAll()
        if not wait(futures, timeout=0.2).not_done:
            return


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Spark's errors, with a first line that says what failed and why."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        reason = _reason(str(error)) or type(error).__name__
        raise EngineError(f"Spark could not {what}: {reason}") from error


def _reason(text: str) -> str:
    """The line that says why: the first, or of an error in a task the last of Python's own."""
    raised = text.rpartition("Traceback (most recent call last):")[2]
    if raised != text:
        python = raised.partition("\tat ")[0]
        found = re.findall(r"^[\w.]+: .+", python, re.MULTILINE)
        if found:
            reason: str = found[-1]
            return reason.removeprefix("calitree.errors.").strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
