"""Where the microseconds of a question go, on a calibrated star.

A new one is parsed, planned and run; one that was asked before is looked up and run. Either is
converted if its answer is wanted as Arrow. Methods of `Moment` are timed from a subclass, so the
parts are those of the very call that is measured. `query()` is raced by itself and with its answer
as Arrow, which DuckDB's always is; there, all rounds but the first have been asked before.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from benchmarks.data import star_files
from benchmarks.frame import (
    Bar,
    Benchmark,
    Comparison,
    Contestant,
    Heat,
    Race,
    at_least,
    positive,
    within,
)
from benchmarks.opponents import DuckDB
from benchmarks.questions import MEASURES, TOTAL, Question, star_graph
from calitree import WideTable
from calitree.calibration.snapshot import Moment

QUESTIONS = (
    (TOTAL, (within(60e-6),)),
    (Question("22 cities", ("stores.city",)), (within(200e-6), at_least(1000))),
    (Question("4,100 items", ("items.item",)), (within(500e-6), at_least(1000))),
)
SAMPLES = 200


class Timed(Moment):
    """A version of a tree that adds up how long it prepares a question, and of that parses and plans."""

    spent: dict[str, int]

    def forget_times(self) -> None:
        self.spent = dict.fromkeys(("prepare", "parse", "plan"), 0)

    def forget_questions(self) -> None:
        """All but the pivot's measures, which questions ask for by name."""
        self.words.questions.clear()
        self.forget_plans()

    def _adding(self, part: str, method: Callable[..., Any], *given: Any) -> Any:
        started = time.perf_counter_ns()
        try:
            return method(*given)
        finally:
            self.spent[part] += time.perf_counter_ns() - started

    def prepared(self, asked: Any, main: bool = True) -> Any:
        return self._adding("prepare", super().prepared, asked, main)

    def question(self, asked: Any) -> Any:
        return self._adding("parse", super().question, asked)

    def _prepare(self, question: Any, main: bool) -> Any:
        return self._adding("plan", super()._prepare, question, main)


def timed(wide: WideTable) -> tuple[WideTable, Timed]:
    """The tree at a version that takes its times."""
    now = Timed(wide._core, wide.version, wide.schema)
    now.forget_times()
    other = wide.at(wide.version)
    other._now = now
    return other, now


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    graph = star_graph(files, "local")
    arguments: dict[str, Any] = {"measures": MEASURES, "memory_limit": 0}
    wide = graph.calibrate(**arguments, progress=False)
    watched, now = timed(graph.calibrate(**arguments, progress=False))
    duck = DuckDB(files)
    for question, bars in QUESTIONS:
        parts = split(watched, now, question)
        race.run(heat(wide, duck, question, bars, parts))
        for part, seconds in parts.items():
            race.record(f"{question.name}: {part}", seconds=seconds)


def heat(
    wide: WideTable,
    duck: DuckDB,
    question: Question,
    bars: tuple[Bar, ...],
    parts: dict[str, float],
) -> Heat:
    """`query()` by itself and with its answer as Arrow, against DuckDB."""
    ours = Contestant(
        "calitree query()",
        lambda: question.ask(wide),
        lambda result: question.answers(result.arrow()),
    )
    converted = Contestant(
        "calitree query().arrow()", lambda: question.ask(wide).arrow(), question.answers
    )
    theirs = Contestant(duck.name, lambda: duck.ask(question.sql), question.answers)
    lines = (
        Comparison(question.name, ours.name, duck.name, bars, {"parts": parts}),
        Comparison(f"{question.name}, as Arrow", converted.name, duck.name),
    )
    return Heat((ours, converted, theirs), lines)


def split(
    wide: WideTable, now: Timed, question: Question, samples: int = SAMPLES
) -> dict[str, float]:
    """The medians of each part of a question: first always new, then always asked before."""
    found: dict[str, list[float]] = {}
    for new in (True, False):
        for number in range(samples + 10):
            if new:
                now.forget_questions()
            parts = time_parts(wide, now, question, new)
            if number >= 10:  # those before warm up
                for part, nanoseconds in parts.items():
                    found.setdefault(part, []).append(nanoseconds / 1e9)
    return {part: statistics.median(seconds) for part, seconds in found.items()}


def time_parts(wide: WideTable, now: Timed, question: Question, new: bool) -> dict[str, int]:
    """The nanoseconds of each part of one call."""
    now.forget_times()
    started = time.perf_counter_ns()
    result = question.ask(wide)
    asked = time.perf_counter_ns()
    result.arrow()
    ended = time.perf_counter_ns()
    run = asked - started - now.spent["prepare"]
    if new:
        return {
            "new, parse": now.spent["parse"],
            "new, plan": now.spent["plan"],
            "new, run": run,
        }
    return {
        "again, look up": now.spent["prepare"],
        "again, run": run,
        "again, convert": ended - asked,
    }


BENCHMARK = Benchmark(
    "latency",
    "microseconds of a question on a calibrated star, and where they go, against DuckDB",
    options,
    run,
)
