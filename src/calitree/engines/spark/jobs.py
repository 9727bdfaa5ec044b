"""Calls to Spark, concurrent ones too: Ctrl-C stops them.

The main thread never talks to Spark itself: interrupted amid a call, it would take the answer for that of
its next call.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4

from calitree.engines.api.protocol import Watch
from calitree.engines.spark.watch import is_remote, watching
from calitree.errors import EngineError
from calitree.interrupts import POLL_SECONDS, check, is_main_thread, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONCURRENT_CALLS = 4
"""A small query leaves most of Spark idle."""

Given = ParamSpec("Given")
Value = TypeVar("Value")


class Jobs:
    """A pool of threads that call Spark."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="calitree-spark")

    def run(
        self,
        session: SparkSession,
        tasks: Iterable[Callable[[], Value]],
        watch: Watch | None = None,
    ) -> list[Value]:
        """Run all, some at a time, and report progress to `watch`; once one fails, start no other."""
        tasks = list(tasks)
        return on_a_thread(lambda: self._run(session, tasks, watch))

    def _run(
        self, session: SparkSession, tasks: list[Callable[[], Value]], watch: Watch | None
    ) -> list[Value]:
        tag, stopped = f"calitree-{uuid4().hex}", threading.Event()

        def begin(task: Callable[[], Value]) -> Value:
            if stopped.is_set():
                raise EngineError("Interrupted.")
            with _tagged(session, tag):
                return task()

        futures = [self._pool.submit(begin, task) for task in tasks]
        try:
            with nullcontext() if watch is None else watching(session, tag) as done:
                while wait(futures, timeout=POLL_SECONDS).not_done:
                    check()
                    if watch is not None and done is not None:
                        watch(done())
            return [future.result() for future in futures]
        except BaseException as error:
            stopped.set()
            if not isinstance(error, Exception):
                _interrupt(session, tag, futures)
            raise


@contextmanager
def _tagged(session: SparkSession, tag: str) -> Iterator[None]:
    """Jobs that this thread starts have a tag.

    Without Connect it is a tag of the context, as one of the session is known only to the thread
    that has set it.
    """
    owner: Any = session if is_remote(session) else session.sparkContext
    kind = "Tag" if is_remote(session) else "JobTag"
    getattr(owner, f"add{kind}")(tag)
    try:
        yield
    finally:
        getattr(owner, f"remove{kind}")(tag)


def on_a_thread(call: Callable[[], Value]) -> Value:
    """What a call to Spark returns, for which the main thread waits while another makes it.

    PySpark's handler of Ctrl-C, which would cancel the jobs of everybody, is not asked meanwhile.
    """
    handler = signal.getsignal(signal.SIGINT) if is_main_thread() else None
    if not getattr(handler, "__module__", "").startswith("pyspark."):
        return run(call)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return run(call)
    finally:
        signal.signal(signal.SIGINT, handler)


def calls_spark(verb: Callable[Given, Value]) -> Callable[Given, Value]:
    """A function that calls Spark, on another thread than the main one."""

    @wraps(verb)
    def call(*arguments: Given.args, **keywords: Given.kwargs) -> Value:
        return on_a_thread(lambda: verb(*arguments, **keywords))

    return call


def _interrupt(session: SparkSession, tag: str, futures: Sequence[Future[Any]]) -> None:
    """Ctrl-C: stop the jobs of these tasks, and no others."""
    for _ in range(50):  # again, as a job may have been just about to start
        with suppress(Exception):
            if is_remote(session):
                session.interruptTag(tag)
            else:
                session.sparkContext.cancelJobsWithTag(tag)
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
        errors = re.findall(r"^[\w.]+: .+", python, re.MULTILINE)
        if errors:
            reason: str = errors[-1]
            return re.sub(r"^calitree\.errors\.\w+: ", "", reason).strip()
    if "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in text:
        return "a message is lost with the executor that held it. Calibrate again."
    lines = (line.lstrip(": \t").rstrip() for line in text.splitlines())
    calling = "An error occurred while calling "  # says Py4J, before it says what error
    return next((line for line in lines if line and not line.startswith(calling)), "")
