"""Locks that a copy of this process, made by a fork, can use.

A fork copies memory, locks included, but only the thread that forks. A lock that another thread held
at that instant is never released in the copy, and what it guards may be half changed there. So a fork waits
a little for all to be free. Of one that is not, the copy raises an error where it would wait for ever.
"""

from __future__ import annotations

import os
import threading
import time
from enum import IntEnum
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, NoReturn, Protocol
from weakref import ref

from calitree.errors import CalitreeError, unpicklable

if TYPE_CHECKING:

    class ReentrantLock:
        """What `threading.RLock` makes; for type checkers its class is final, in Python it is not."""

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            """Take it."""
            ...

        def release(self) -> None:
            """Give it back."""

        def __enter__(self) -> bool: ...
        def __exit__(self, *error: object) -> None: ...
        def _at_fork_reinit(self) -> None: ...

else:
    ReentrantLock = type(threading.RLock())


class Rank(IntEnum):
    """The order in which locks are taken, as `docs/concurrency.md` has it."""

    SAVES = 1
    BRANCH = 2
    STORE = 3
    REVISION = 4
    RUNTIME = 5
    LAUNCH = 6
    SHIPPING = 7
    CODEBOOK = 8
    BRIEF = 9


class SharedLock(ReentrantLock):
    """A reentrant lock. In a forked process it raises an error if another thread held it."""

    def __init__(self, rank: Rank) -> None:
        super().__init__()
        number = next(_numbers)
        # Of two branches, a what-if comes before the older one that it was made from.
        self.order = rank, -number
        _locks[number] = ref(self, lambda _: _locks.pop(number, None))

    def __reduce__(self) -> NoReturn:
        raise unpicklable()

    def _forked(self) -> None:
        if self.acquire(blocking=False):
            self.release()
        else:
            self.__class__ = LostLock


class BriefLock(SharedLock):
    """A lock of something that is right at any time, such as a cache: a forked process has a new one."""

    def __init__(self) -> None:
        super().__init__(Rank.BRIEF)

    def _forked(self) -> None:
        self._at_fork_reinit()


class LostLock(SharedLock):
    """The lock of something that may be half changed."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> NoReturn:
        """Raise the error."""
        raise CalitreeError(
            "This process is a copy (fork) of one in which another thread was using this tree: here it may "
            "be half changed. Open it in this process, start the process by spawn, or fork while no "
            "thread uses the tree."
        )

    __enter__ = acquire


class ForeignLock(Protocol):
    """A lock of another library."""

    def acquire(self) -> object:
        """Take it."""

    def release(self) -> object:
        """Give it back."""


PATIENCE_SECONDS = 1.0
"""How long a fork waits for other threads."""

_locks: dict[int, ref[SharedLock]] = {}
_numbers = count()
_foreign: list[ForeignLock] = []
_held: list[SharedLock | ForeignLock] = []
"""Those that the forking thread has taken for the fork."""


def hold_in_forks(lock: ForeignLock) -> None:
    """Have a lock of another library held while this process forks, after all of our own."""
    _foreign.append(lock)


def _all() -> list[SharedLock]:
    # Other threads make locks meanwhile, so they are copied in one step.
    locks = [reference() for reference in _locks.copy().values()]
    return sorted((lock for lock in locks if lock is not None), key=lambda lock: lock.order)


def _before_fork() -> None:
    """Take all locks, in the order in which everybody does, as far as they become free in time."""
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        for lock in _all():
            patience = max(0.0, until - time.monotonic())
            if type(lock) is SharedLock and lock.acquire(timeout=patience):
                _held.append(lock)
        for foreign in _foreign:
            foreign.acquire()
            _held.append(foreign)
    except BaseException:
        _release()
        raise


def _release() -> None:
    while _held:
        _held.pop().release()


def _after_fork() -> None:
    _release()
    for lock in _all():
        lock._forked()


if hasattr(os, "register_at_fork"):
    # Who registers last is called first: those of thread pools are to be taken after ours.
    import_module("concurrent.futures.thread")
    os.register_at_fork(before=_before_fork, after_in_parent=_release, after_in_child=_after_fork)
