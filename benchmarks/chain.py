"""The many-to-many chain of the paper (§6, Figure "message passing"): R1(A1, A2), …, R8(A8, A9).

Every value of an attribute meets `fanout` values of the next, in both directions, so the join of r
relations has domain × fanout^r rows: 10^9 of eight, whatever the fanout. Passing messages takes time
that grows with r as the relations do; building the join takes as long as the join is large. Spark's
own join of as many relations is stopped after ten times what ours took.
"""

from __future__ import annotations

import threading
import time
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare import Answers
from benchmarks.data import default_cache
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race
from benchmarks.questions import keeping_no_messages
from calitree import JoinGraph, WideTable
from calitree.calibration.branch import Branch
from calitree.engines.hybrid import HybridEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOMAINS = {2: 3_906_250, 5: 2_560, 10: 10}
"""By fanout: how many values an attribute has."""

RELATIONS = 8
LINEAR = 1.5
"""How much dearer a relation of the longest chain may be than one of a chain of four."""

PATIENCE = 10
"""How many times as long as ours the plain join may take."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--fanouts",
        type=int,
        nargs="+",
        choices=list(DOMAINS),
        default=list(DOMAINS),
        help="of the chains",
    )
    parser.add_argument(
        "--lengths",
        type=int,
        nargs="+",
        default=[2, 4, 6, 8],
        metavar="R",
        help="relations of a chain",
    )
    parser.add_argument("--master", default="local[2]", help="where Spark runs")


def run(given: Namespace, race: Race) -> None:
    from calitree import spark_session

    session = spark_session(given.master, app_name="calitree benchmarks")
    ours: dict[int, float] = {}
    for fanout in given.fanouts:
        files = chain_files(fanout, given.data)
        for name, make in {
            "hybrid": HybridEngine,
            "all on Spark": partial(HybridEngine, session, in_process=-1),
        }.items():
            measured = {r: pivot(race, files[:r], fanout, name, make) for r in given.lengths}
            record_growth(race, fanout, name, measured)
            if name == "all on Spark":
                ours = measured
        for length in given.lengths:
            plain(race, session, files[:length], fanout, ours[length])


def pivot(race: Race, files: list[Path], fanout: int, name: str, make: Any) -> float:
    """The count of the join by messages, from Parquet: the seconds it takes."""
    expected = DOMAINS[fanout] * fanout ** len(files)
    title = f"fanout {fanout}, {len(files)} relations, {name}"

    def count() -> int:
        graph = chain_graph(files, make())
        given = graph.schema, graph.engine, graph.hypertree()
        wide = keeping_no_messages(WideTable(Branch.new(*given, measures={"n": "count(*)"})))
        rows: int = wide.query().rows()[0]["n"]
        return rows

    def check(rows: int) -> Answers:
        if rows != expected:
            wrong = f"{rows:,} instead of {expected:,}"
            between = "calitree and arithmetic"
            race.disagreements.append({"name": title, "between": between, "difference": wrong})
        return {}

    heat = Heat((Contestant(title, count, check),), (Comparison(title, title),))
    seconds: float = race.run(heat)[0]["seconds"]
    return seconds


def record_growth(race: Race, fanout: int, name: str, measured: dict[int, float]) -> None:
    """What a relation costs in the longest chain, over what it costs in one half as long."""
    longest = max(measured)
    shorter = min((r for r in measured if r >= longest / 2), default=longest)
    cost = {r: seconds / r for r, seconds in measured.items()}
    race.record(
        f"fanout {fanout}, {name}: a relation of {longest} over one of {shorter}",
        (Bar("times", at_most=LINEAR),),
        times=cost[longest] / cost[shorter],
        seconds_a_relation={str(r): seconds for r, seconds in cost.items()},
    )


def plain(race: Race, session: SparkSession, files: list[Path], fanout: int, ours: float) -> None:
    """Spark's own join and count, stopped after a while."""
    limit = PATIENCE * ours
    for number, file in enumerate(files):
        session.read.parquet(str(file)).createOrReplaceTempView(f"r{number}")
    joins = [f"JOIN r{i} ON r{i - 1}.a{i} = r{i}.a{i}" for i in range(1, len(files))]
    sql = f"SELECT count(*) AS n FROM r0 {' '.join(joins)}"
    seconds, finished = within(session, lambda: session.sql(sql).collect(), limit)
    race.record(
        f"fanout {fanout}, {len(files)} relations: Spark's plain join",
        (Bar("times_ours", at_least=PATIENCE),) if len(files) == RELATIONS else (),
        finished=finished,
        plain_seconds=seconds,
        stopped_after=None if finished else limit,
        times_ours=seconds / ours,
    )


def within(session: SparkSession, work: Any, limit: float) -> tuple[float, bool]:
    """The seconds that it ran, and whether it came to its end."""
    finished = threading.Event()

    def go() -> None:
        session.sparkContext.addJobTag("plain")
        try:
            work()
            finished.set()
        except Exception:
            pass  # it was stopped

    thread = threading.Thread(target=go)
    started = time.perf_counter()
    thread.start()
    thread.join(limit)
    elapsed = time.perf_counter() - started
    while thread.is_alive():
        session.sparkContext.cancelJobsWithTag("plain")
        thread.join(1)
    return elapsed, finished.is_set()


def chain_files(fanout: int, cache: Path | None) -> list[Path]:
    """R1 to R8, made when they are first asked for."""
    directory = (cache or default_cache()) / f"chain-v1-{fanout}"
    directory.mkdir(parents=True, exist_ok=True)
    domain = DOMAINS[fanout]
    pair = np.arange(domain * fanout, dtype=np.int32)
    files = []
    for number in range(RELATIONS):
        path = directory / f"r{number + 1}.parquet"
        if not path.exists():
            left, right = pair // fanout, pair % domain
            table = pa.table({f"a{number}": left, f"a{number + 1}": right})
            pq.write_table(table, path.with_suffix(".tmp"), row_group_size=1 << 20)
            path.with_suffix(".tmp").rename(path)
        files.append(path)
    return files


def chain_graph(files: list[Path], engine: Any) -> JoinGraph:
    graph = JoinGraph(engine=engine)
    for number, file in enumerate(files):
        graph.add_relation(f"r{number}", str(file))
        if number:
            graph.add_join(f"r{number - 1}", f"r{number}", on=f"a{number}")
    return graph


BENCHMARK = Benchmark(
    "chain",
    "the paper's many-to-many chain of up to 10^9 joined rows: counting it by messages, on Spark",
    options,
    run,
)
