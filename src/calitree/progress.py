"""Telling a person how far long work has come: one bar a bag, with its rows a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done now)."""

Told = Callable[[float], None]
"""Called with the part of a step that is done, between 0 and 1."""


class Listener(Protocol):
    """Who is told of each step."""

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> Told:
        """A step of so many rows begins, when `done` of `total` messages are there."""

    def end(self, total: int) -> None:
        """All is done."""


class _Silence:
    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> Told:
        return lambda part: None

    def end(self, total: int) -> None: ...


class _Caller:
    """Somebody's own function, told of every step and of the end."""

    def __init__(self, tell: Progress) -> None:
        self.tell = tell

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> Told:
        self.tell(done, total, what)
        return lambda part: None

    def end(self, total: int) -> None:
        self.tell(total, total, "")


class _Terminal:
    """A bar for each bag that has begun. They appear once the work has taken a second, so that
    quick work stays quiet, unless they are asked for.
    """

    def __init__(self, bars: Bars, at_once: bool) -> None:
        self.bars = bars
        self.appears = time.monotonic() + (0 if at_once else 1)

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> Told:
        self._finish()
        task = self.bars.add_task(name, total=max(1, rows))
        self._appear()

        def told(part: float) -> None:
            self._appear()
            self.bars.update(task, completed=part * rows)

        return told

    def end(self, total: int) -> None:
        self._finish()

    def _finish(self) -> None:
        for task in self.bars.tasks:
            self.bars.update(task.id, completed=task.total)

    def _appear(self) -> None:
        if time.monotonic() >= self.appears:
            self.bars.start()


@contextmanager
def progress_bar(wanted: Progress | bool | None) -> Iterator[Listener]:
    """Bars on a terminal's standard error, the caller's own function, or silence.

    With None there are bars only on a terminal.
    """
    if callable(wanted):
        yield _Caller(wanted)
        return
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield _Silence()
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(_speed(task.total or 0, task.completed, task.elapsed or 0))

    columns = (TextColumn("{task.description}"), BarColumn(), Speed(), TimeElapsedColumn())
    bars = Bars(*columns, console=Console(stderr=True), transient=True)
    try:
        yield _Terminal(bars, at_once=bool(wanted))
    finally:
        bars.stop()


def _speed(rows: float, done: float, seconds: float) -> str:
    """How many rows there are, and how many of them were done in a second."""
    if not seconds or not done:
        return f"{rows:,.0f} rows"
    return f"{rows:,.0f} rows  {done / seconds:,.0f} rows/s"
