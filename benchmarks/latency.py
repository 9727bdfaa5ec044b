"""Where the microseconds of a question go, on a calibrated star: parse, plan, run, convert.

Two methods of `WideTable` are timed from a subclass, so the parts are those of the very call that
is measured. `query()` is raced by itself and with its answer as Arrow, which DuckDB's always is.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
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

QUESTIONS = (
    (TOTAL, (within(60e-6),)),
    (Question("22 cities", ("stores.city",)), (within(200e-6), at_least(1000))),
    (Question("4,100 items", ("items.item",)), (within(500e-6), at_least(1000))),
)
SAMPLES = 200


class Timed(WideTable):
    """A wide table that adds up how long it parses and plans."""

    spent: dict[str, int]

    @contextmanager
    def _adding(self, part: str) -> Iterator[None]:
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.spent[part] += time.perf_counter_ns() - started

    def forget(self) -> None:
        self.spent = {"parse": 0, "plan": 0}

    def _query(self, *arguments: Any) -> Any:
        if not hasattr(self, "spent"):
            self.forget()
        with self._adding("parse"):
            return super()._query(*arguments)

    def _plan(self, *arguments: Any) -> Any:
        with self._adding("plan"):
            return super()._plan(*arguments)


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    graph = star_graph(files, "local")
    arguments: dict[str, Any] = {"measures": MEASURES, "memory_limit": 0}
    wide = graph.calibrate(**arguments, progress=False)
    timed = Timed.calibrated(
        graph.schema, graph.engine, graph.hypertree(), **arguments, progress=False
    )
    assert isinstance(timed, Timed)
    duck = DuckDB(files)
    for question, bars in QUESTIONS:
        parts = split(timed, question)
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


def split(wide: Timed, question: Question, samples: int = SAMPLES) -> dict[str, float]:
    """The medians of each part of a question asked before; `parse a new one`: never asked."""
    found: dict[str, list[float]] = {}
    for number in range(samples + 10):
        fresh = number % 2 == 1
        if fresh:
            wide._queries.clear()
        wide.forget()
        started = time.perf_counter_ns()
        result = question.ask(wide)
        asked = time.perf_counter_ns()
        result.arrow()
        ended = time.perf_counter_ns()
        parse, plan = wide.spent["parse"], wide.spent["plan"]
        parts = {"parse a new one": parse} if fresh else {"parse": parse}
        parts |= {"plan": plan, "run": asked - started - parse - plan, "convert": ended - asked}
        if number >= 10:  # those before warm up
            for part, nanoseconds in parts.items():
                found.setdefault(part, []).append(nanoseconds / 1e9)
    order = ("parse a new one", "parse", "plan", "run", "convert")
    return {part: statistics.median(found[part]) for part in order}


BENCHMARK = Benchmark(
    "latency",
    "microseconds of a question on a calibrated star, and where they go, against DuckDB",
    options,
    run,
)
