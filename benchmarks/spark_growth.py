"""How calibrating in Spark's tasks grows with the rows of the star, what the driver needs for it, and
what it makes of skewed keys.

Rows do not pass through the driver, so its memory must not grow with them. It is measured in a
process of its own for each size: this process's Python, and the JVM that it has started. In local
mode that JVM runs the tasks too. A job of Spark's takes a third of a second however little it does,
which makes a row of the smallest size dear; so the distance from a straight line is told too.
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.data import ITEMS, Star, default_cache, star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, positive
from benchmarks.memory import Peak, in_new_process, resident_peak
from benchmarks.questions import MEASURES, star_graph
from benchmarks.spark_star import DIMENSIONS
from calitree import WideTable
from calitree.engines.hybrid import HybridEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPREAD = 0.25
"""How far from their median the seconds for a million rows may be."""

FLAT = 200 << 20
SKEW = 0.9
"""The part of the rows that one item has."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--sizes",
        type=positive,
        nargs="+",
        metavar="ROWS",
        default=[5_000_000, 10_000_000, 20_000_000, 40_000_000],
        help="rows of sales",
    )
    parser.add_argument("--skewed", type=positive, default=20_000_000, metavar="ROWS")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")


def run(given: Namespace, race: Race) -> None:
    from calitree import spark_session

    files = {rows: star_files(rows, given.seed, given.data) for rows in given.sizes}
    peaks = {rows: in_new_process(_calibrate, dict(paths)) for rows, paths in files.items()}
    session = spark_session(given.master, app_name="calitree benchmarks")
    times = raced(race, session, {f"calibrate {rows:,} rows": files[rows] for rows in files})
    record_growth(race, dict(zip(files, times, strict=True)), peaks)
    kinds = {name: keyed_files(given.skewed, name, given.data) for name in ("uniform", "skewed")}
    uniform, skewed = raced(race, session, {f"{name} keys": kinds[name] for name in kinds})
    race.record(
        f"{SKEW:.0%} of {given.skewed:,} rows on one key, over uniform keys",
        (Bar("times", at_most=1.5),),
        times=skewed / uniform,
    )


def calibrated(session: SparkSession, files: Mapping[str, Path]) -> WideTable:
    engine = HybridEngine(session, in_process=DIMENSIONS)
    return star_graph(files, engine).calibrate(MEASURES, progress=False)


def raced(
    race: Race, session: SparkSession, works: Mapping[str, Mapping[str, Path]]
) -> list[float]:
    """The seconds of each, in turns."""
    contestants = tuple(
        Contestant(name, partial(calibrated, session, files), lambda wide: {})
        for name, files in works.items()
    )
    lines = tuple(Comparison(contestant.name, contestant.name) for contestant in contestants)
    return [result["seconds"] for result in race.run(Heat(contestants, lines))]


def record_growth(race: Race, times: Mapping[int, float], peaks: Mapping[int, Peak]) -> None:
    a_million = {rows: seconds / rows * 1e6 for rows, seconds in times.items()}
    middle = statistics.median(a_million.values())
    race.record(
        "seconds for a million rows: the furthest from the median",
        (Bar("off", at_most=SPREAD),),
        off=max(abs(value / middle - 1) for value in a_million.values()),
        seconds_for_a_million={str(rows): value for rows, value in a_million.items()},
    )
    slope, start = np.polyfit(list(times), list(times.values()), 1)
    race.record(
        "seconds: the furthest from a straight line",
        (Bar("off", at_most=SPREAD),),
        off=max(abs(times[rows] / (start + slope * rows) - 1) for rows in times),
        seconds_at_once=start,
        seconds_for_a_further_million=slope * 1e6,
    )
    python = {rows: peak.peak for rows, peak in peaks.items()}
    race.record(
        "the driver's memory at its peak: from the least to the most, in bytes",
        (Bar("spread", at_most=FLAT),),
        spread=max(python.values()) - min(python.values()),
        peaks={str(rows): value for rows, value in python.items()},
        jvm_peaks={str(rows): peak.before for rows, peak in peaks.items()},
    )


def _calibrate(files: dict[str, Path]) -> Peak:
    """The peak of this process; under `before` that of the JVM, which has no before."""
    import psutil

    from calitree import spark_session

    session = spark_session("local[2]", app_name="calitree benchmarks")
    assert calibrated(session, files).is_calibrated
    java = [
        process for process in psutil.Process().children(recursive=True) if "java" in process.name()
    ]
    return Peak(sum(resident_peak(process.pid) for process in java), resident_peak())


class Keyed(Star):
    """A star whose items are all alike, or of which one has most of the sales."""

    def __init__(self, rows: int, kind: str) -> None:
        super().__init__(rows)
        chance = np.full(ITEMS, 1 / ITEMS)
        if kind == "skewed":
            chance = np.full(ITEMS, (1 - SKEW) / (ITEMS - 1))
            chance[ITEMS // 2] = SKEW
        self.popular_items = chance


def keyed_files(rows: int, kind: str, cache: Path | None) -> dict[str, Path]:
    directory = (cache or default_cache()) / f"star-{kind}-v1-{rows}"
    if not directory.is_dir():
        Keyed(rows, kind).write(directory)
    return {path.stem: path for path in directory.glob("*.parquet")}


BENCHMARK = Benchmark(
    "spark_growth",
    "calibrating in Spark's tasks from 5 to 40 million rows: time, the driver's memory, skew",
    options,
    run,
)
