"""Reads and writes on the store channel of TPC-DS: when to bring messages up to date (paper, §5.2.4).

A hundred operations, of which some read and the others insert one row into the sales, in an order that
is the same for all. A read asks one of `READS`, in turn: the pivot itself, or the pivot by something of
one dimension. The trees are calibrated before; what counts is the time of all operations. The paper
counts by the primary key of a dimension that is chosen at random.
"""

from __future__ import annotations

import statistics
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare import Answers
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least
from benchmarks.opponents import DuckDB
from benchmarks.standing import check, rank
from benchmarks.tpcds import DIMENSIONS, scale
from benchmarks.tpcds_data import FACT, store_channel, store_graph
from benchmarks.tpcds_questions import MEASURES, TOTAL, Question
from calitree import JoinGraph, WideTable
from calitree.calibration.state import MODES, Mode
from calitree.engines.hybrid import HybridEngine

OPERATIONS = 100
SHARES = (0, 1, 5, 10, 25, 50, 75, 90, 99, 100)
"""Reads in a hundred operations."""

READS = (
    Question("by year", ("date_dim.d_year",)),
    TOTAL,
    Question("by item", ("item.i_item_sk",)),
    Question("by store", ("store.s_store_sk",)),
    Question("by promotion", ("promotion.p_promo_sk",)),
    Question("by state of today", ("current_address.ca_state",)),
)
UPDATES = 300
"""Updates that are timed one by one."""

AS_GOOD = at_least(1 / 1.1)
LAZY_AT_ONE_PERCENT = at_least(20)
ONE_ROW = Bar("seconds", at_most=100e-6)

Operation: TypeAlias = pa.Table | Question
"""A row that comes, or what is asked."""


@dataclass(frozen=True)
class Workload:
    """Operations one after the other."""

    share: int
    operations: tuple[Operation, ...]

    @property
    def is_mixed(self) -> bool:
        return 0 < self.share < 100

    @property
    def last_read(self) -> int | None:
        """Where it is among the operations."""
        places = [
            at for at, operation in enumerate(self.operations) if isinstance(operation, Question)
        ]
        return places[-1] if places else None

    def done_on(self, wide: WideTable) -> tuple[WideTable, pa.Table | None]:
        """The tree afterwards, and the answer to the last read."""
        answer = None
        for operation in self.operations:
            if isinstance(operation, Question):
                answer = operation.ask(wide).arrow()
            else:
                wide.update(FACT, insert=operation)
        return wide, answer

    def answers(self, done: tuple[WideTable, pa.Table | None]) -> Answers:
        """The last read's, and those to all reads once everything is done."""
        wide, last = done
        answers: dict[str, Any] = {} if last is None else self._last(last)
        for question in READS:
            answers |= question.answers(question.ask(wide).arrow())
        return answers

    def expected(self, duck: DuckDB) -> Answers:
        """The same from the tables as they stand, which are then as they were."""
        connection = duck.connection
        answers: dict[str, Any] = {}
        connection.execute("BEGIN")
        for at, operation in enumerate(self.operations):
            if not isinstance(operation, Question):
                connection.register("came", operation)
                connection.execute(f"INSERT INTO {FACT} SELECT * FROM came")
            elif at == self.last_read:
                answers |= self._last(duck.ask(operation.sql))
        for question in READS:
            answers |= question.answers(duck.ask(question.sql))
        connection.execute("ROLLBACK")
        return answers

    def _last(self, table: pa.Table) -> dict[str, Any]:
        assert self.last_read is not None
        question = self.operations[self.last_read]
        assert isinstance(question, Question)
        return {f"last read, {name}": answer for name, answer in question.answers(table).items()}


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--scale", type=scale, default=1.0, help="of TPC-DS, 1 is a gigabyte")
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        action="append",
        help="spark is the hybrid engine; may be given twice; local if not given",
    )
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.add_argument(
        "--reads",
        type=int,
        nargs="+",
        metavar="PERCENT",
        help="shares of reads; all of the curve if not given",
    )


def run(given: Namespace, race: Race) -> None:
    given.engine = given.engine or ["local"]
    files = store_channel(given.scale, given.data)
    rng = np.random.default_rng(given.seed)
    sales = pq.read_table(files[FACT])
    workloads = [workload(share, sales, rng) for share in given.reads or SHARES]
    rows = one_by_one(sales, UPDATES, rng)
    del sales
    duck = DuckDB(files)
    expected = [work.expected(duck) for work in workloads]
    for engine in given.engine:
        graph = store_graph(files, _engine(engine, given.master))
        for work, answers in zip(workloads, expected, strict=True):
            race_modes(race, engine, graph, work, answers)
        single_updates(race, engine, graph, rows)


def _engine(name: str, master: str) -> Any:
    if name == "local":
        return name
    from calitree import spark_session

    session = spark_session(master, app_name="calitree benchmarks")
    return HybridEngine(session, in_process=DIMENSIONS)


def workload(share: int, sales: pa.Table, rng: np.random.Generator) -> Workload:
    """So many reads among the operations, in any order."""
    reads = round(OPERATIONS * share / 100)
    is_read = rng.permutation(OPERATIONS) < reads
    rows = iter(one_by_one(sales, OPERATIONS - reads, rng))
    asked = (READS[at % len(READS)] for at in range(reads))
    return Workload(share, tuple(next(asked) if read else next(rows) for read in is_read))


def one_by_one(sales: pa.Table, number: int, rng: np.random.Generator) -> list[pa.Table]:
    """Rows of the sales, each a table."""
    chosen = sales.take(rng.integers(0, sales.num_rows, number)).combine_chunks()
    return [pa.table(chosen.slice(at, 1).to_pydict(), sales.schema) for at in range(number)]


def race_modes(
    race: Race, engine: str, graph: JoinGraph, work: Workload, expected: Answers
) -> None:
    """The same operations on a tree of each mode."""
    answered: dict[str, Answers] = {}
    contestants = tuple(contestant(graph, mode, work, answered) for mode in MODES)
    name = f"{engine}: {work.share} % reads"
    eager = (LAZY_AT_ONE_PERCENT, AS_GOOD) if work.share == 1 else (AS_GOOD,)
    worst = (at_least(1),) if work.is_mixed else ()
    notes = {"share": work.share, "engine": engine}
    lines = (
        Comparison(f"{name}, lazy", "lazy", "eager", eager, notes),
        Comparison(f"{name}, lazy or anew", "lazy", "recompute", worst, notes),
        Comparison(f"{name}, eager or anew", "eager", "recompute", worst, notes),
    )
    race.run(Heat(contestants, lines))
    for mode, answers in answered.items():
        check(race, f"{name}, {mode}", answers, expected, f"{mode} and DuckDB")


def contestant(
    graph: JoinGraph, mode: Mode, work: Workload, answered: dict[str, Answers]
) -> Contestant:
    """A newly calibrated tree every time."""
    trees: list[WideTable] = []

    def setup() -> None:
        trees[:] = [calibrated(graph, mode)]

    def answer(done: tuple[WideTable, pa.Table | None]) -> Answers:
        answered[mode] = work.answers(done)
        return answered[mode]

    return Contestant(mode, lambda: work.done_on(trees.pop()), answer, setup)


def calibrated(graph: JoinGraph, mode: Mode) -> WideTable:
    return graph.calibrate(MEASURES, maintenance=mode, progress=False)


def single_updates(race: Race, engine: str, graph: JoinGraph, rows: Sequence[pa.Table]) -> None:
    """How long one lazy insert of one row takes; nobody asks meanwhile."""
    wide = calibrated(graph, "lazy")
    seconds = sorted(timed(partial(wide.update, FACT, insert=row)) for row in rows)
    race.record(
        f"{engine}: lazy update of one row",
        (ONE_ROW,) if engine == "local" else (),
        seconds=statistics.median(seconds),
        seconds_p95=rank(seconds, 0.95),
        seconds_max=seconds[-1],
        runs=len(seconds),
    )


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - started) / 1e9


BENCHMARK = Benchmark(
    "lazy",
    "reads and writes on the store channel of TPC-DS: maintenance lazy, eager or by recomputing",
    options,
    run,
)
