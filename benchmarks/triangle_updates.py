"""Counting triangles while S(b, c) grows, in two trees (paper, appendix "Optimize latency").

The reduced tree has all three relations in one bag, and no message. The redundant one has a bag for each
around an empty one: it takes more to calibrate, and then a new row of S meets one message. Rows of S come
once more, 1, 100 or all at once, until the new count is known; what is left to refresh is timed apart,
as it could be in the background. DuckDB has the rows already when it counts anew.
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare import Answer, Answers
from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race, positive
from benchmarks.opponents import DuckDB
from benchmarks.standing import Asked, check
from benchmarks.triangle import (
    BY_A,
    COUNT,
    MEASURES,
    Triangle,
    answers,
    forget,
    pairs,
    triangle_graph,
)
from calitree import Hypertree, JoinGraph, WideTable

REDUCED, REDUNDANT = "reduced", "redundant"
PAPER_SIDE = 100
PAPER_MILLISECONDS: dict[tuple[str, str], tuple[float, float, float, float]] = {
    ("balanced", REDUCED): (126.18, 5.27, 6.45, 154.66),
    ("balanced", REDUNDANT): (621.65, 0.02, 0.05, 6.41),
    ("unbalanced", REDUCED): (11.24, 5.28, 6.14, 13.56),
    ("unbalanced", REDUNDANT): (28332.29, 0.01, 0.05, 6.57),
}
"""The paper's table: calibration and count, then 1, 100 and 10,000 rows of S. Its engine is C++, and
its last row replaces what the rows of S count, where ours come a second time."""

TASK = "triangles"


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--side",
        type=positive,
        default=PAPER_SIDE,
        help="S is [side] × [side]; in the unbalanced data a message has side⁴ rows",
    )


def run(given: Namespace, race: Race) -> None:
    for case in cases(given.side):
        with tempfile.TemporaryDirectory() as directory:
            files = {name: Path(directory) / f"{name}.parquet" for name in case.tables}
            for name, table in case.tables.items():
                pq.write_table(table, files[name])
            run_case(race, case, files, given)


def cases(side: int) -> tuple[Triangle, Triangle]:
    """Balanced: every relation is [side] × [side]. Unbalanced: R and T are [1] × [side²]."""
    many = np.arange(side * side)
    one, (x, y) = np.zeros_like(many), np.divmod(many, side)
    s = pairs(x, y, "b", "c")
    balanced = {"R": pairs(x, y, "a", "b"), "S": s, "T": pairs(x, y, "a", "c")}
    unbalanced = {"R": pairs(one, many, "a", "b"), "S": s, "T": pairs(one, many, "a", "c")}
    return Triangle("balanced", balanced), Triangle("unbalanced", unbalanced)


def run_case(race: Race, case: Triangle, files: Mapping[str, Path], given: Namespace) -> None:
    graph, duck = triangle_graph(files), DuckDB(files)
    trees = {REDUCED: graph.hypertree(), REDUNDANT: graph.hypertree(redundant=True)}
    counted = {name: Counted(graph, tree) for name, tree in trees.items()}
    race.run(calibrating(case, graph, counted, duck))
    rows = case.tables["S"]
    order = np.random.default_rng(given.seed).permutation(rows.num_rows)
    sizes = sorted({min(size, rows.num_rows) for size in (1, 100, rows.num_rows)})
    for size in sizes:
        came = rows.take(order[:size])
        duck.connection.register("came", came)
        for counting in counted.values():
            counting.begin(came)
        race.run(updating(case, counted, duck, size))
        race.run(refreshing(case, counted, size))
        theirs = answers("by a", 1, duck.ask(grown(BY_A, 1)))
        for name, counting in counted.items():
            ours = answers("by a", 1, counting.wide.query(group_by=["R.a"]).arrow())
            check(race, f"{case.name}: {size:,} rows", ours, theirs, f"{name} and {duck.name}")


def notes_of(case: Triangle, tree: str, task: int | None) -> dict[str, Any]:
    """The rows, and for data of its size what the paper tells."""
    notes: dict[str, Any] = {"rows": case.rows}
    if task is not None and case.tables["S"].num_rows == PAPER_SIDE**2:
        notes["paper_milliseconds"] = PAPER_MILLISECONDS[case.name, tree][task]
    return notes


def calibrating(
    case: Triangle, graph: JoinGraph, counted: Mapping[str, Counted], duck: DuckDB
) -> Heat:
    """All messages anew, and the count."""

    def calibrate(tree: Hypertree) -> pa.Table:
        forget(graph)
        return count(graph.calibrate(MEASURES, tree=tree, progress=False))

    contestants = [
        Contestant(name, partial(calibrate, counting.wide.tree), counts)
        for name, counting in counted.items()
    ]
    contestants.append(Contestant(duck.name, partial(duck.ask, COUNT), counts))
    lines = tuple(
        Comparison(
            f"{case.name}: calibrate and count, {name}",
            name,
            duck.name,
            notes={**notes_of(case, name, 0), "bytes": counting.wide.state.store.pinned_bytes},
        )
        for name, counting in counted.items()
    )
    return Heat(tuple(contestants), lines)


class Counted:
    """A calibrated tree to whose S the same rows come again and again, and from which they go."""

    def __init__(self, graph: JoinGraph, tree: Hypertree) -> None:
        self.wide = graph.calibrate(MEASURES, tree=tree, progress=False)
        self.rows = graph.engine.schema(graph.schema.relations["S"].table).empty_table()
        self.times = 0
        self.wide.query()

    def begin(self, rows: pa.Table) -> None:
        """S as it was at first; from now on these rows come."""
        self.back()
        self.rows = rows

    def back(self) -> None:
        """S as it was at first, and all messages of that."""
        if self.times:
            self.wide.update("S", delete=pa.concat_tables([self.rows] * self.times))
            self.times = 0
        self.wide.refresh(progress=False)
        self.wide.query()

    def update(self) -> tuple[int, pa.Table]:
        """The rows come once more: how often by now, and the count."""
        self.wide.update("S", insert=self.rows)
        self.times += 1
        return self.times, count(self.wide)

    def back_and_update(self) -> None:
        self.back()
        self.update()

    def refresh(self) -> WideTable:
        self.wide.refresh(progress=False)
        return self.wide


def updating(case: Triangle, counted: Mapping[str, Counted], duck: DuckDB, size: int) -> Heat:
    """Rows of S come, and the count is asked for; DuckDB only counts.

    Few rows come many times in a turn. All of them go again before they come the next time.
    """
    few = size < case.tables["S"].num_rows
    contestants = [
        Contestant(
            name,
            counting.update,
            lambda answered: {grown(COUNT, answered[0]): Answer(answered[1])},
            None if few else counting.back,
        )
        for name, counting in counted.items()
    ]
    duck.keep("S_grown", f"SELECT * FROM {grown_by(1)}")
    again = partial(duck.ask, COUNT.replace(" JOIN S ", " JOIN S_grown "))
    contestants.append(Contestant(duck.name, again, lambda _: Asked(duck)))
    task = {1: 1, 100: 2, PAPER_SIDE**2: 3}.get(size)
    lines = tuple(
        Comparison(
            f"{case.name}: {size:,} rows of S and count, {name}",
            name,
            duck.name,
            notes=notes_of(case, name, task),
        )
        for name in counted
    )
    return Heat(tuple(contestants), lines)


def refreshing(case: Triangle, counted: Mapping[str, Counted], size: int) -> Heat:
    """What is left to do once the count is known."""
    contestants = tuple(
        Contestant(
            name, counting.refresh, lambda wide: counts(count(wide)), counting.back_and_update
        )
        for name, counting in counted.items()
    )
    lines = tuple(
        Comparison(f"{case.name}: {size:,} rows of S, refresh after it, {name}", name)
        for name in counted
    )
    return Heat(contestants, lines)


def grown_by(times: int) -> str:
    """S with the rows that came, so many times."""
    return f"(SELECT * FROM S UNION ALL SELECT came.* FROM came, range({times}))"


def grown(sql: str, times: int) -> str:
    return sql.replace(" JOIN S ", f" JOIN {grown_by(times)} AS S ")


def count(wide: WideTable) -> pa.Table:
    return wide.query().arrow()


def counts(table: pa.Table) -> Answers:
    return answers(TASK, 0, table)


BENCHMARK = Benchmark(
    "triangle_updates",
    "triangles while a relation grows, in the reduced and the redundant tree, against DuckDB",
    options,
    run,
)
