"""Locks that a copy of this process, made by a fork, can use.

A fork copies memory, locks included, but only the thread that forks. A lock that another thread held
at that instant is never released in the copy, and what it guards may be half changed there. So in the copy
it raises an error where it would wait for ever. Locks that nobody held work on.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NoReturn
from weakref import WeakSet

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


class SharedLock(ReentrantLock):
    """A reentrant lock. In a forked process it raises an error if another thread held it."""

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)

    def __reduce__(self) -> NoReturn:
        raise unpicklable()

    def _forked(self) -> None:
        if self.acquire(blocking=False):
            self.release()
        else:
            self.__class__ = LostLock


class BriefLock(SharedLock):
    """A lock of something that is right at any time, such as a cache: a forked process has a new one."""

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


_locks: WeakSet[SharedLock] = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
