"""Telling a person how far long work has come."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done now)."""


@contextmanager
def progress_bar(wanted: Progress | bool | None, title: str) -> Iterator[Progress]:
    """A bar on a terminal's standard error, the caller's own function, or silence.

    With None there is a bar only on a terminal and only once the work has taken a second, so that
    quick work stays quiet.
    """
    if callable(wanted):
        yield wanted
        return
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield lambda done, total, what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("", total=None)
    started = time.monotonic()

    def tell(done: int, total: int, what: str) -> None:
        if wanted or time.monotonic() - started > 1:
            bar.start()
        bar.update(task, completed=done, total=total, description=what)

    try:
        yield tell
    finally:
        bar.stop()
