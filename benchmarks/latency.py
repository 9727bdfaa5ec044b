"""Where the microseconds of a question go, on a calibrated star.

A new one is parsed, planned and run; one that was asked before is looked up and run. Either is
converted if its answer is wanted as Arrow. What prepares a question is wrapped to be timed, so the
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
from benchmarks.questions import MEASURES, TOTAL, Question, keeping_no_messages, star_graph
from calitree import WideTable
from calitree.calibration import executor
from calitree.calibration.snapshot import Snapshot

QUESTIONS = (
    (TOTAL, (within(60e-6),)),
    (Question("22 cities", ("stores.city",)), (within(200e-6), at_least(1000))),
    (Question("4,100 items", ("items.item",)), (within(500e-6), at_least(1000))),
)
SAMPLES = 200


class Times:
    """How long a question takes to be prepared, and of that to be bound. While it is entered, the
    functions that do so take their times.
    """

    def __init__(self) -> None:
        self.spent = dict.fromkeys(("prepare", "parse"), 0)
        self._prepare, self._bind = executor.prepare, Snapshot.bind

    def __enter__(self) -> Times:
        executor.prepare = self._timed("prepare", self._prepare)
        Snapshot.bind = self._timed("parse", self._bind)  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        executor.prepare = self._prepare
        Snapshot.bind = self._bind  # type: ignore[method-assign]

    def _timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*given: Any) -> Any:
            started = time.perf_counter_ns()
            try:
                return call(*given)
            finally:
                self.spent[part] += time.perf_counter_ns() - started

        return timed


def forget_questions(snapshot: Snapshot) -> None:
    """All but the pivot's measures, which questions ask for by name."""
    snapshot.bindings.projections.clear()
    snapshot.cache.forget_plans()


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    graph = star_graph(files, "local")
    wide = keeping_no_messages(graph.calibrate(MEASURES, progress=False))
    watched = keeping_no_messages(graph.calibrate(MEASURES, progress=False))
    duck = DuckDB(files)
    for question, bars in QUESTIONS:
        parts = split(watched, question)
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


def split(wide: WideTable, question: Question, samples: int = SAMPLES) -> dict[str, float]:
    """The medians of each part of a question: first always new, then always asked before."""
    samples_of: dict[str, list[float]] = {}
    for new in (True, False):
        for number in range(samples + 10):
            if new:
                forget_questions(wide.snapshot)
            parts = time_parts(wide, question, new)
            if number >= 10:  # those before warm up
                for part, nanoseconds in parts.items():
                    samples_of.setdefault(part, []).append(nanoseconds / 1e9)
    return {part: statistics.median(seconds) for part, seconds in samples_of.items()}


def time_parts(wide: WideTable, question: Question, new: bool) -> dict[str, int]:
    """The nanoseconds of each part of one call."""
    with Times() as times:
        started = time.perf_counter_ns()
        result = question.ask(wide)
        asked = time.perf_counter_ns()
        result.arrow()
        ended = time.perf_counter_ns()
    prepare, parse = times.spent["prepare"], times.spent["parse"]
    run = asked - started - prepare
    if new:
        return {"new, parse": parse, "new, plan": prepare - parse, "new, run": run}
    return {
        "again, look up": prepare,
        "again, run": run,
        "again, convert": ended - asked,
    }


BENCHMARK = Benchmark(
    "latency",
    "microseconds of a question on a calibrated star, and where they go, against DuckDB",
    options,
    run,
)
