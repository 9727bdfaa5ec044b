"""Ranges of rows, distributed over threads. Only work that releases Python's lock gains by it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

MIN_ROWS_PER_THREAD = 1 << 16
"""With fewer rows another thread costs more than it gains."""

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
    parts = max(1, min(threads, length // MIN_ROWS_PER_THREAD))
    bounds = [length * i // parts for i in range(parts + 1)]
    return list(pairwise(bounds))


def map(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> list[Result]:
    """The results of `work` on every item, on several threads of which the caller's is one."""
    if len(items) <= 1 or threads <= 1:
        return [work(item) for item in items]
    others = [_pool(threads).submit(work, item) for item in items[1:]]
    try:
        first = work(items[0])
    finally:
        for other in others:
            other.exception()  # wait for all: they write into the caller's arrays
    return [first, *(other.result() for other in others)]
