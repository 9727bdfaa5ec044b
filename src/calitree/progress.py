"""Progress of long work: one bar a bag, with its rows a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import Task, TaskID

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done now)."""

PartDone = Callable[[float], None]
"""Called with the part of a step that is done, between 0 and 1."""


class Listener(Protocol):
    """What is called at each step."""

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> PartDone:
        """A step of so many rows begins, when `done` of `total` messages have been computed."""

    def end(self, total: int) -> None:
        """All is done."""


class _Caller:
    """The caller's own function, called at every step and at the end."""

    def __init__(self, callback: Progress) -> None:
        self.callback = callback

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> PartDone:
        self.callback(done, total, what)
        return lambda part: None

    def end(self, total: int) -> None:
        self.callback(total, total, "")


_SILENT = _Caller(lambda done, total, what: None)


class _Terminal:
    """A bar for each bag that has begun; it starts anew if the bag has more to send.

    Bars appear once the work has taken a second, so that quick work shows none, unless they are asked for.
    """

    def __init__(self, bars: Bars, at_once: bool) -> None:
        self.bars = bars
        self.appears = time.monotonic() + (0 if at_once else 1)
        self.bags: dict[str, TaskID] = {}

    def begin(self, done: int, total: int, name: str, what: str, rows: int) -> PartDone:
        self._finish()
        if name in self.bags:
            self.bars.reset(self.bags[name])
        else:
            self.bags[name] = self.bars.add_task(name, total=rows)
        task = self.bags[name]
        self._appear()

        def part_done(part: float) -> None:
            self._appear()
            self.bars.update(task, completed=part * rows)

        return part_done

    def end(self, total: int) -> None:
        self._finish()

    def _finish(self) -> None:
        for task in self.bars.tasks:
            self.bars.update(task.id, completed=task.total)

    def _appear(self) -> None:
        if time.monotonic() >= self.appears:
            self.bars.start()


def notice(text: str) -> None:
    """Tell people something on standard error, if there is one that takes it."""
    with suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
        if sys.stderr is not None:
            print(f"calitree: {text}", file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    with suppress(OSError, ValueError):
        return sys.stderr is not None and sys.stderr.isatty()
    return False


@contextmanager
def progress_bar(wanted: Progress | bool | None) -> Iterator[Listener]:
    """Bars on a terminal's standard error, the caller's own function, or silence.

    Bars need a terminal or a notebook, and with None a terminal.
    """
    if callable(wanted):
        yield _Caller(wanted)
        return
    if wanted is False or (wanted is None and not _is_terminal()):
        yield _SILENT
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(speed(task))

    if sys.stderr is None or sys.stderr.closed:
        yield _SILENT
        return
    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _SILENT
        return
    columns = (TextColumn("{task.description}"), BarColumn(), Speed(), TimeElapsedColumn())
    bars = Bars(*columns, console=console, transient=True)
    try:
        yield _Terminal(bars, at_once=bool(wanted))
    finally:
        bars.stop()


def speed(task: Task) -> str:
    """How many rows a bar has, and how many of them were done in a second while it ran."""
    rows = task.total or 0
    counted = "1 row" if rows == 1 else f"{rows:,.0f} rows"
    seconds = task.elapsed if task.finished_time is None else task.finished_time
    if not seconds or not task.completed:
        return counted
    return f"{counted}  {task.completed / seconds:,.0f} rows/s"
