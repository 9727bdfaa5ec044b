"""How the local engine's time grows with the rows of the star, on one thread.

All work on the rows is passes over them, so a row should cost the same whatever their number: where
it does not, something outgrows a cache, or sorts. The other tables do not grow, and what they cost
makes a row of the smallest size dear; so the largest is also held against a straight line through
two smaller ones. The sizes take turns within a round, as their ratio is what counts; the answers of
each are compared with DuckDB's once.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.compare import Answers, difference
from benchmarks.data import star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, positive
from benchmarks.opponents import DuckDB
from benchmarks.questions import (
    MEASURES,
    ONE_PER_DIMENSION,
    TOTAL,
    keeping_no_messages,
    star_graph,
    together,
)
from calitree import JoinGraph, WideTable
from calitree.calibration.branch import Branch
from calitree.engines.local import LocalEngine

QUESTIONS = (TOTAL, *ONE_PER_DIMENSION)
LINEAR = 1.15
"""Within 15 % of linear."""

Work = Callable[[], WideTable]


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=30_000_000, help="rows of the largest")
    parser.add_argument(
        "--sizes",
        type=positive,
        nargs="+",
        metavar="ROWS",
        help="rows of each, instead of a 30th, a 10th, a third and all of --rows",
    )


def run(given: Namespace, race: Race) -> None:
    sizes = given.sizes or [max(1, given.rows // part) for part in (30, 10, 3, 1)]
    given.sizes = sorted(set(sizes))
    works: dict[str, dict[int, Work]] = {}
    for rows in given.sizes:
        files = star_files(rows, given.seed, given.data)
        for name, work in works_on(files).items():
            works.setdefault(name, {})[rows] = work
        check(race, rows, files, {name: work[rows] for name, work in works.items()})
    for name, by_size in works.items():
        times = race_sizes(race, name, by_size)
        if len(times) >= 2:
            record_growth(race, name, times)
        if len(times) >= 3:
            record_line(race, name, times)


def works_on(files: Mapping[str, Path]) -> dict[str, Work]:
    """What is measured: each ends with a wide table that answers."""
    encoded = graph_of(files)
    encoded.calibrate(MEASURES, progress=False)
    return {
        "calibrate": partial(encoded.calibrate, MEASURES, progress=False),
        "pivot, nothing calibrated": partial(pivot, encoded),
        "from Parquet to calibrated": lambda: graph_of(files).calibrate(MEASURES, progress=False),
    }


def graph_of(files: Mapping[str, Path]) -> JoinGraph:
    return star_graph(files, LocalEngine(threads=1))


def pivot(graph: JoinGraph) -> WideTable:
    """One query on a tree that keeps nothing: upward messages only, made anew every time."""
    given = graph.schema, graph.engine, graph.hypertree()
    wide = keeping_no_messages(WideTable(Branch.new(*given, measures=MEASURES)))
    TOTAL.ask(wide)
    return wide


def check(race: Race, rows: int, files: Mapping[str, Path], works: Mapping[str, Work]) -> None:
    """Six questions to what each work has made, and to DuckDB."""
    duck = DuckDB(files)
    theirs = together(QUESTIONS, [duck.ask(question.sql) for question in QUESTIONS])
    for name, work in works.items():
        wide = work()
        ours = together(QUESTIONS, [question.ask(wide).arrow() for question in QUESTIONS])
        wrong = difference(ours, theirs)
        if wrong:
            between = f"calitree local and {duck.name}"
            race.disagreements.append(
                {"name": called(name, rows), "between": between, "difference": wrong}
            )


def race_sizes(race: Race, name: str, works: Mapping[int, Work]) -> dict[int, float]:
    """The seconds of each size."""
    contestants = tuple(
        Contestant(called(name, rows), work, no_answer) for rows, work in works.items()
    )
    lines = tuple(Comparison(contestant.name, contestant.name) for contestant in contestants)
    results = race.run(Heat(contestants, lines))
    times: dict[int, float] = {}
    for rows, result in zip(works, results, strict=True):
        times[rows] = result["seconds"]
        result |= {"rows": rows, "nanoseconds_a_row": result["seconds"] / rows * 1e9}
    return times


def record_growth(race: Race, name: str, times: Mapping[int, float]) -> None:
    """What a row costs at each size over what it costs at the smallest; the bar is the largest's."""
    smallest, largest = min(times), max(times)
    cost = {rows: seconds / rows for rows, seconds in times.items()}
    race.record(
        f"{name}: a row of {largest:,} over a row of {smallest:,}",
        (Bar("times_smallest", at_most=LINEAR),),
        times_smallest=cost[largest] / cost[smallest],
        times_smallest_at={str(rows): seconds / cost[smallest] for rows, seconds in cost.items()},
    )


def record_line(race: Race, name: str, times: Mapping[int, float]) -> None:
    """The largest over where a straight line leads: the smallest's fixed costs do not hide it."""
    smallest, *_, middle, largest = sorted(times)
    extra_row = (times[middle] - times[smallest]) / (middle - smallest)
    expected = times[smallest] + extra_row * (largest - smallest)
    race.record(
        f"{name}: {largest:,} over the line through {smallest:,} and {middle:,}",
        (Bar("times_line", at_most=LINEAR),),
        times_line=times[largest] / expected,
        nanoseconds_a_further_row=extra_row * 1e9,
    )


def called(name: str, rows: int) -> str:
    return f"{name}, {rows:,} rows"


def no_answer(value: Any) -> Answers:
    """Answers are compared before the race."""
    return {}


BENCHMARK = Benchmark(
    "growth",
    "how the local engine's time grows from 1 to 30 million rows of the star, on one thread",
    options,
    run,
)
