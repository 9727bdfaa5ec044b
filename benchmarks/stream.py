"""A thousand rows at a time into the sales of a star, and every message brought up to date each time.

Locally each batch is an update of a tree whose maintenance is eager. Its rows are of all dates, stores
and items, so that every message changes; DuckDB takes the same rows in turn, and computes the pivot
anew now and then. With `--spark`, files are put into a directory for some minutes, a query of Structured
Streaming takes them into a saved tree of the hybrid engine, and memory is looked at meanwhile.
"""

from __future__ import annotations

import re
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import calitree
from benchmarks.data import Star, star_files
from benchmarks.frame import Bar, Benchmark, Race, positive
from benchmarks.memory import resident_peak
from benchmarks.opponents import DuckDB
from benchmarks.questions import MEASURES, ONE_PER_DIMENSION, TOTAL, star_graph, together
from benchmarks.spark_star import DIMENSIONS
from benchmarks.standing import check, rank
from calitree import WideTable
from calitree.engines.hybrid import HybridEngine
from calitree.stream import SparkStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 1_000
QUESTIONS = (TOTAL, *ONE_PER_DIMENSION)
A_BATCH = Bar("seconds", at_most=0.020)
FLAT = 1.1
"""The last quarter of the samples over the second: by then all is compiled and the heap has grown."""

FILE_EVERY = 0.5
SAMPLE_EVERY = 3.0
"""Seconds between files that are put into the directory, and between looks at memory."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")
    parser.add_argument("--batches", type=positive, default=200, help="of a thousand rows each")
    parser.add_argument(
        "--spark", action="store_true", help="Structured Streaming, instead of local updates"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="of Structured Streaming")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    if given.spark:
        from calitree import spark_session

        session = spark_session(given.master, app_name="calitree benchmarks")
        with tempfile.TemporaryDirectory() as directory:
            SparkRun(session, files, given, Path(directory)).run(race)
    else:
        run_locally(race, files, given)


def batches(given: Namespace) -> Iterator[pa.Table]:
    """Sales of all dates, a thousand at a time, without end."""
    size = given.batches * BATCH
    sales = Star(size, given.seed).tables()["sales"]
    rng = np.random.default_rng(given.seed)
    while True:
        mixed = sales.take(rng.permutation(size)).combine_chunks()
        for start in range(0, size, BATCH):
            yield mixed.slice(start, BATCH)


def check_all(race: Race, name: str, wide: WideTable, duck: DuckDB) -> bool:
    """All questions, once every row is there."""
    ours = together(QUESTIONS, [question.ask(wide).arrow() for question in QUESTIONS])
    theirs = together(QUESTIONS, [duck.ask(question.sql) for question in QUESTIONS])
    return check(race, name, ours, theirs, f"calitree {wide.engine.name} and {duck.name}")


# -- local updates ---------------------------------------------------------------------------------


def run_locally(race: Race, files: Mapping[str, Path], given: Namespace) -> None:
    graph, duck = star_graph(files, "local"), DuckDB(files)
    wide = graph.calibrate(MEASURES, maintenance="eager", progress=False)
    source = batches(given)
    for _ in range(3):  # compiles
        insert(wide, duck, next(source))
    seconds, theirs, memory = [], [], [resident()]
    anew = max(1, given.batches // race.repeat)
    for number in range(given.batches):
        rows = next(source)
        came = insert(wide, duck, rows)
        seconds.append(came[0])
        if number % anew == 0:
            started = time.perf_counter()
            duck.ask(TOTAL.sql)
            theirs.append(came[1] + time.perf_counter() - started)
        memory.append(resident())
    name = f"{BATCH:,} rows, all messages"
    median, against = statistics.median(seconds), statistics.median(theirs)
    race.record(
        name,
        (A_BATCH,),
        contestant="calitree local, eager",
        seconds=median,
        seconds_p95=rank(sorted(seconds), 0.95),
        seconds_max=max(seconds),
        runs=len(seconds),
        against="DuckDB, insert and pivot",
        against_seconds=against,
        against_runs=len(theirs),
        ratio=against / median,
        agree=check_all(race, name, wide, duck),
    )
    halves = [statistics.median(seconds[: len(seconds) // 2] or seconds)]
    halves.append(statistics.median(seconds[len(seconds) // 2 :]))
    race.record(
        f"{name}: the second half of the batches over the first",
        (Bar("times_first_half", at_most=FLAT),),
        times_first_half=halves[1] / halves[0],
    )
    # What DuckDB takes is in it too, as both are in this process.
    record_memory(race, "this process", memory, added_rows=given.batches * BATCH)


def insert(wide: WideTable, duck: DuckDB, rows: pa.Table) -> tuple[float, float]:
    """The seconds that both take to have these rows."""
    started = time.perf_counter()
    wide.update("sales", insert=rows)
    ours = time.perf_counter()
    duck.connection.register("came", rows)
    duck.connection.execute("INSERT INTO sales SELECT * FROM came")
    return ours - started, time.perf_counter() - ours


# -- Structured Streaming --------------------------------------------------------------------------


class SparkRun:
    """Files put into a directory, and a saved tree that takes them as they come."""

    def __init__(
        self, session: SparkSession, files: Mapping[str, Path], given: Namespace, directory: Path
    ) -> None:
        self.session, self.files, self.given = session, files, given
        self.incoming, self.saved = directory / "incoming", directory / "tree"
        self.incoming.mkdir()
        self.put = 0
        self.progress: dict[int, Mapping[str, Any]] = {}
        self.asked: list[float] = []
        self.memory: dict[str, list[int]] = {
            "this process": [],
            "the JVM": [],
            "the JVM's heap": [],
        }

    def run(self, race: Race) -> None:
        engine = HybridEngine(self.session, in_process=DIMENSIONS)
        graph = star_graph(self.files, engine)
        wide = graph.calibrate(MEASURES, maintenance="eager", progress=False)
        wide.save(self.saved)
        schema = self.session.read.parquet(str(self.files["sales"])).schema
        frame = self.session.readStream.schema(schema).parquet(str(self.incoming))
        enough = Event()
        producer = Thread(target=self._put_files, args=(enough,), daemon=True)
        stream = wide.stream("sales", frame)
        assert isinstance(stream, SparkStream)
        with stream:
            producer.start()
            until = time.monotonic() + 60 * self.given.minutes
            while time.monotonic() < until and stream.is_active:
                stream.wait(min(SAMPLE_EVERY, max(0.1, until - time.monotonic())))
                self._look(wide, stream.query)
            enough.set()
            producer.join()
            stream.drain()
            self._look(wide, stream.query)
        self._report(race, wide)

    def _put_files(self, enough: Event) -> None:
        for rows in batches(self.given):
            hidden = self.incoming / f".{self.put}.parquet"
            pq.write_table(rows, hidden)
            hidden.rename(self.incoming / f"{self.put}.parquet")
            self.put += 1
            if enough.wait(FILE_EVERY):
                return

    def _look(self, wide: WideTable, query: Any) -> None:
        """Ask the pivot as a reader would, and see what everyone needs."""
        started = time.perf_counter()
        wide.query().arrow()
        self.asked.append(time.perf_counter() - started)
        self.progress |= {batch["batchId"]: batch for batch in query.recentProgress}
        self.memory["this process"].append(resident())
        jvm: Any = self.session.sparkContext._jvm
        self.memory["the JVM"].append(resident(jvm.java.lang.ProcessHandle.current().pid()))
        runtime = jvm.java.lang.Runtime.getRuntime()
        self.memory["the JVM's heap"].append(runtime.totalMemory() - runtime.freeMemory())

    def _report(self, race: Race, wide: WideTable) -> None:
        done = [batch for batch in self.progress.values() if batch["numInputRows"]]
        seconds = sorted(batch["durationMs"]["triggerExecution"] / 1e3 for batch in done)
        name = f"Spark: a batch of files of {BATCH:,} rows"
        duck = DuckDB(self.files)
        came = str(self.incoming / "*.parquet")
        duck.connection.execute("INSERT INTO sales SELECT * FROM read_parquet(?)", [came])
        opened = calitree.open(self.saved, engine="local")
        agree = check_all(race, name, wide, duck)
        agree &= check_all(race, f"{name}, opened again", opened, duck)
        race.record(
            name,
            contestant="calitree hybrid, eager, saved each time",
            seconds=statistics.median(seconds),
            seconds_p95=rank(seconds, 0.95),
            seconds_max=seconds[-1],
            batches=wide.version,
            files=self.put,
            rows=self.put * BATCH,
            minutes=self.given.minutes,
            agree=agree,
        )
        race.record("Spark: pivot meanwhile, as Arrow", seconds=statistics.median(self.asked))
        for whose, samples in self.memory.items():
            record_memory(race, f"Spark: {whose}", samples, added_rows=self.put * BATCH)


# -- memory ----------------------------------------------------------------------------------------


def resident(process: int | str = "self") -> int:
    """The bytes that a process has in memory now; where that is not told, the most it has had."""
    status = Path(f"/proc/{process}/status")
    match = None
    if status.exists():
        match = re.search(r"^VmRSS:\s+(\d+) kB", status.read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else resident_peak(process)


def record_memory(race: Race, whose: str, samples: list[int], **notes: Any) -> None:
    quarter = max(1, len(samples) // 4)
    early = statistics.mean(samples[quarter : 2 * quarter] or samples)
    race.record(
        f"{whose}: memory of the last quarter over the second",
        (Bar("times_second_quarter", at_most=FLAT),),
        times_second_quarter=statistics.mean(samples[-quarter:]) / early,
        bytes_first=samples[0],
        bytes_last=samples[-1],
        bytes_max=max(samples),
        samples=len(samples),
        **notes,
    )


BENCHMARK = Benchmark(
    "stream",
    "a thousand rows at a time into a star, locally or by Structured Streaming, and its memory",
    options,
    run,
)
