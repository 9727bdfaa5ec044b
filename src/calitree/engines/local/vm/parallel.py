"""Ranges of rows, distributed over threads. Only work that releases Python's lock gains by it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import TypeVar

from calitree.interrupts import PATIENCE_SECONDS, POLL_SECONDS, Stop, current, ended_by

MIN_ROWS_PER_THREAD = 1 << 16
"""With fewer rows another thread costs more than it gains."""

MAX_ROWS_AT_ONCE = 1 << 22
"""Rows of one call: Ctrl-C is answered between calls."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def available() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # Two threads may create one each: then one of them serves once.
    return ThreadPoolExecutor(threads, thread_name_prefix="calitree")


if hasattr(os, "register_at_fork"):
    # A child process has the pool, but none of its threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def ranges(length: int, threads: int) -> list[tuple[int, int]]:
    """`length` rows in equal parts, one a thread; in one part if there are few."""
    return _cut(length, max(1, min(threads, length // MIN_ROWS_PER_THREAD)))


def short_ranges(length: int, threads: int) -> list[tuple[int, int]]:
    """The same, in more parts if they would be long."""
    parts = max(1, min(threads, length // MIN_ROWS_PER_THREAD))
    return _cut(length, parts * max(1, -(-length // (parts * MAX_ROWS_AT_ONCE))))


def _cut(length: int, parts: int) -> list[tuple[int, int]]:
    return list(pairwise(length * i // parts for i in range(parts + 1)))


def map(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """The results of `work` on every item, on several threads of which the caller's is one.

    Ctrl-C is answered between items: one that takes long looks itself, by `interrupts.check`.
    """
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    results: dict[int, Result] = {}
    left = deque(enumerate(items))
    stop = Stop(current())

    def take() -> None:
        while left:
            try:
                number, item = left.popleft()
            except IndexError:  # another was quicker
                return
            results[number] = work(item)

    def help() -> None:
        with ended_by(stop):
            take()

    others = [_pool(threads).submit(help) for _ in range(min(threads, len(items)) - 1)]
    try:
        take()
        for other in others:
            if not other.cancel():  # it has begun
                _wait(other)
    except BaseException as error:
        left.clear()
        stop.set()
        # They write into the caller's arrays, and end soon unless they are in a long call.
        wait(others, None if isinstance(error, Exception) else PATIENCE_SECONDS)
        raise
    for other in others:
        if not other.cancelled():
            other.result()
    return [results[number] for number in range(len(items))]


def _wait(other: Future[None]) -> None:
    """Until it has ended; Ctrl-C is answered meanwhile, where it does not wake a waiting thread too."""
    while not other.done():
        with suppress(TimeoutError):
            other.exception(POLL_SECONDS)
