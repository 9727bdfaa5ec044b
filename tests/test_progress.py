"""Progress: bars for people, calls for programs, and silence for files."""

from __future__ import annotations

import io
import sys

import pytest
from rich.progress import Progress

import calitree as ct
from calitree.progress import progress_bar, speed


class Screen(io.StringIO):
    """What a terminal would get."""

    def isatty(self) -> bool:
        return True


def graph() -> ct.JoinGraph:
    """In the middle of a chain of bags is one that sends twice."""
    chain = ct.JoinGraph("reference")
    chain.add_relation("sales", {"store": [1, 2, 2] * 500, "item": [1] * 1500})
    chain.add_relation("stores", {"store": [1, 2], "town": [1, 1]})
    chain.add_relation("towns", {"town": [1]})
    chain.add_relation("items", {"item": [1]})
    chain.add_join("sales", "stores", on="store")
    chain.add_join("stores", "towns", on="town")
    chain.add_join("sales", "items", on="item")
    return chain


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, progress: bool | None) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    graph().calibrate(progress=progress)
    return stream.getvalue()


def test_a_function_is_called_at_every_step_and_at_the_end() -> None:
    calls: list[tuple[int, int, str]] = []
    plan = graph().calibrate(progress=lambda *call: calls.append(call)).calibration
    assert plan is not None
    assert [what for *_, what in calls] == [
        *(", ".join(str(send.key) for send in step.sends) for step in plan.steps),
        "",
    ]
    assert [done for done, *_ in calls] == [0, 1, 2, 3, 5, 6]
    assert {total for _, total, _ in calls} == {6}


def test_an_error_of_that_function_is_the_callers_own() -> None:
    def stop(done: int, total: int, what: str) -> None:
        raise InterruptedError(what)

    with pytest.raises(InterruptedError, match="→"):
        graph().calibrate(progress=stop)


def test_one_bar_a_bag(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Screen(), True)
    last = text[text.rindex("items ") :]
    assert [last.count(bag) for bag in ("sales", "stores", "towns", "items")] == [1, 1, 1, 1]
    assert "1,500 rows" in last and "rows/s" in last and "2 rows" in last and "1 row " in last
    assert text.endswith("\x1b[2K"), "they are wiped away at the end"


def test_quick_work_stays_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Screen(), None).strip() == ""
    assert shown(monkeypatch, Screen(), False) == ""


@pytest.mark.parametrize("progress", [True, False, None])
def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch, progress: bool | None) -> None:
    assert shown(monkeypatch, io.StringIO(), progress) == ""


def test_bars_end_with_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ZeroDivisionError), progress_bar(True) as listener:
        listener.begin(0, 1, "sales", "sales→stores", 100)(0.5)
        raise ZeroDivisionError
    assert "\x1b[?25h" in screen.getvalue(), "the cursor is shown again"


def test_rows_a_second() -> None:
    now = [0.0]
    bars = Progress(get_time=lambda: now[0], disable=True)
    bars.add_task("sales", total=3_000_000)
    (task,) = bars.tasks
    assert speed(task) == "3,000,000 rows"
    now[0] = 2.0
    assert speed(task) == "3,000,000 rows"
    bars.update(task.id, completed=1_000_000)
    assert speed(task) == "3,000,000 rows  500,000 rows/s"
    bars.update(task.id, completed=3_000_000)
    now[0] = 60.0
    assert speed(task) == "3,000,000 rows  1,500,000 rows/s", "while others run, it stays"
    for rows, text in ((1, "1 row"), (0, "0 rows")):
        bars.add_task("stores", total=rows)
        assert speed(bars.tasks[-1]) == text
