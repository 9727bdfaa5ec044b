"""Ctrl-C: it is answered at once, and leaves nothing half done.

Python raises KeyboardInterrupt in the main thread, between any two steps of Python code. So a call to
compiled code holds it up for as long as it takes, and a change that takes several steps may be cut in
two. Hence these rules:

- Loops over many rows run in pieces, each of a fraction of a second.
- A call that may be long and cannot be divided (a sort, a file, a job of Spark) is given to `run`: another
  thread makes it, while the main thread waits. If that is interrupted, work on the other thread ends at
  its next `check`. A call that goes on regardless is left alone: nobody will use what it returns.
- A change in several steps is `uninterrupted`: Ctrl-C is raised after it.
- What is raised in a finaliser is lost, so there Ctrl-C is raised once more, outside.

Threads other than the main thread are never interrupted.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the functions of `signal` take ten times as long
import os
import signal
import sys
import time
from _thread import interrupt_main, start_new_thread
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import wraps
from queue import SimpleQueue
from threading import Lock, Thread, get_ident, local, main_thread
from typing import Any, Generic, ParamSpec, TypeVar

Value = TypeVar("Value")
P = ParamSpec("P")
Handler = Callable[[int, Any], object]

POLL_SECONDS = 0.1
"""How often who waits looks for Ctrl-C: on Windows it does not wake a waiting thread."""

PATIENCE_SECONDS = 0.4
"""How long interrupted work is waited for before it is left alone."""

LONG_ROWS = 1 << 20
"""Calls on fewer rows are not worth another thread: they take a fraction of a second."""


class Stopped(BaseException):
    """Ends work that nobody waits for any more."""


class Stop:
    """Tells work on other threads to end; it ends with its parent too."""

    def __init__(self, parent: Stop | None = None) -> None:
        self._parent, self._is_set = parent, False
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Whether the work is to end."""
        return self._is_set or (self._parent is not None and self._parent.is_set)

    def set(self) -> None:
        """End the work."""
        self._is_set = True
        for callback in tuple(self._callbacks):
            with suppress(Exception):
                callback()

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Inside, what ends a call that does not look for itself."""
        self._callbacks.append(callback)
        try:
            if self._is_set:
                raise Stopped
            yield
        finally:
            self._callbacks.remove(callback)


class _Current(local):
    """What ends the work of this thread."""

    stop: Stop | None = None


_current = _Current()


def current() -> Stop | None:
    """What ends the work of this thread, if it works for another one."""
    return _current.stop


@contextmanager
def ended_by(stop: Stop) -> Iterator[None]:
    """Inside, `check` looks at this."""
    before, _current.stop = _current.stop, stop
    try:
        yield
    finally:
        _current.stop = before


def check() -> None:
    """End here, if this thread works for one that was interrupted."""
    stop = _current.stop
    if stop is not None and stop.is_set:
        raise Stopped


class _MainThread:
    """Sections of the main thread that are not interrupted."""

    ident = main_thread().ident
    depth = 0
    is_noted = False
    """Whether Ctrl-C came in the section."""
    handler: Handler | None = None
    """What handles Ctrl-C outside."""


def _forked() -> None:
    _MainThread.ident = main_thread().ident  # the thread that forked
    _idle.clear()


def is_main_thread() -> bool:
    """Whether this is the thread in which Ctrl-C is raised."""
    return get_ident() == _MainThread.ident


# -- calls on other threads ------------------------------------------------------------------------


class _Call(Generic[Value]):
    """A call that another thread makes."""

    def __init__(self, function: Callable[[], Value]) -> None:
        self.function: Callable[[], Value] | None = function
        self.context, self.stop = copy_context(), Stop()
        self.result: Value
        self.error: BaseException | None = None
        self._ended = Lock()
        self._ended.acquire()

    def make(self) -> None:
        """Make it; on the other thread."""
        try:
            with ended_by(self.stop):
                check()
                assert self.function is not None
                self.result = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        finally:
            self.function = None
            self._ended.release()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended after so long."""
        return self._ended.acquire(timeout=seconds)


class _Worker:
    """A thread that makes one call after the other. It does not keep the process from ending."""

    def __init__(self) -> None:
        self.calls = SimpleQueue[_Call[Any]]()
        Thread(target=self._work, name="calitree-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            call = self.calls.get()
            call.make()
            del call  # what it returned is not kept
            _idle.append(self)


_idle: deque[_Worker] = deque()
"""One, as only the main thread has calls made, and one for each call that was left alone."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def run(function: Callable[[], Value], rows: int = LONG_ROWS) -> Value:
    """What a function returns, which may take long to return: meanwhile Ctrl-C is answered.

    Another thread calls it if this is the main thread, and it is about as many rows as may take long.
    The main thread may hold no lock that it takes.
    """
    if rows < LONG_ROWS or not is_main_thread():
        return function()
    call = _Call(function)
    del function
    try:
        try:
            worker = _idle.pop()
        except IndexError:
            worker = _Worker()
        worker.calls.put(call)
        while not call.wait(POLL_SECONDS):
            pass
    except BaseException:
        call.stop.set()
        call.wait(PATIENCE_SECONDS)
        raise
    if call.error is not None:
        try:
            raise call.error
        finally:
            call.error = None  # which knows this frame
    return call.result


# -- changes in several steps ----------------------------------------------------------------------


def _note(number: int, frame: Any) -> None:
    _MainThread.is_noted = True


def _hold_off() -> bool:
    """Have Ctrl-C noted, not raised, from here on; False if that is no matter for this thread."""
    if not is_main_thread():
        return False
    if not _MainThread.depth:
        handler = _signal.getsignal(signal.SIGINT)
        if callable(handler):
            _signal.signal(signal.SIGINT, _note)  # from here on nothing is raised
            _MainThread.handler = handler
    _MainThread.depth += 1
    return True


def _let_through() -> None:
    """Have it raised again; also one that was noted."""
    _MainThread.depth -= 1
    if not _MainThread.depth and _MainThread.handler is not None:
        handler, _MainThread.handler = _MainThread.handler, None
        _signal.signal(signal.SIGINT, handler)  # what came before this is noted
        if _MainThread.is_noted:
            _MainThread.is_noted = False
            handler(signal.SIGINT, None)


class uninterrupted:  # noqa: N801 - used as a function, and as a decorator
    """A change that is made as a whole: Ctrl-C in it is raised after it.

    It must be short, and nothing in it may wait for another thread.
    """

    def __enter__(self) -> None:
        self._is_main = _hold_off()

    def __exit__(self, *_: object) -> None:
        if self._is_main:
            _let_through()

    def __call__(self, function: Callable[P, Value]) -> Callable[P, Value]:
        """The function as such a change."""

        @wraps(function)
        def whole(*args: P.args, **kwargs: P.kwargs) -> Value:
            if not _hold_off():
                return function(*args, **kwargs)
            try:
                return function(*args, **kwargs)
            finally:
                _let_through()

        return whole


# -- finalisers ------------------------------------------------------------------------------------

_unraised = sys.unraisablehook


class _Hook:
    """Whether the main thread is in the hook below, where Ctrl-C would be lost too."""

    is_running = False


def _raise_again(unraisable: sys.UnraisableHookArgs) -> None:
    """Ctrl-C came while something was finalised, by Python code of ours or of the standard library."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt) and is_main_thread():
        _Hook.is_running = True
        start_new_thread(_interrupt, ())
        _Hook.is_running = False
    else:
        _unraised(unraisable)


def _interrupt() -> None:
    while _Hook.is_running:
        time.sleep(0.001)
    interrupt_main()


sys.unraisablehook = _raise_again
