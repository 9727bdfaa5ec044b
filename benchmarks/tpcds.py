"""The store channel of TPC-DS on Spark: eleven relations from Parquet, calibrated in Spark's tasks,
and twenty questions, against Spark's own queries on the same files.
"""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race
from benchmarks.opponents import SparkSql, spark_frames
from benchmarks.questions import keeping_no_messages
from benchmarks.tpcds_data import store_channel, store_graph
from benchmarks.tpcds_questions import MEASURES, QUESTIONS, TOTAL, Question
from calitree import JoinGraph, WideTable
from calitree.engines.hybrid import HybridEngine

OURS, THEIRS = "calitree hybrid", "Spark SQL"

DIMENSIONS = 16 << 20
"""Bytes that are more than any dimension has at scale 1, and a tenth of the sales."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--scale", type=scale, default=1.0, help="of TPC-DS, 1 is a gigabyte")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")


def scale(text: str) -> float:
    """A scale given on the command line."""
    number = float(text)
    if not number > 0:
        raise ArgumentTypeError(f"{text} is not more than 0")
    return number


def run(given: Namespace, race: Race) -> None:
    from calitree import spark_session

    files = store_channel(given.scale, given.data)
    session = spark_session(given.master, app_name="calitree benchmarks")
    opponent = SparkSql(session, spark_frames(session, files, cached=False))

    def graph() -> JoinGraph:
        return store_graph(files, HybridEngine(session, in_process=DIMENSIONS))

    race.run(calibration(graph, opponent))
    wide = keeping_no_messages(graph().calibrate(MEASURES, progress=False))
    for question in QUESTIONS:
        ours = Contestant(OURS, partial(asked, question, wide), question.answers)
        theirs = Contestant(THEIRS, partial(opponent.ask, question.sql), question.answers)
        race.run(Heat((ours, theirs), (Comparison(question.name, OURS, THEIRS),)))


def calibration(graph: Callable[[], JoinGraph], opponent: SparkSql) -> Heat:
    """All messages both ways, against one query."""
    contestants = (
        Contestant(
            OURS,
            lambda: graph().calibrate(MEASURES, progress=False),
            lambda wide: TOTAL.answers(asked(TOTAL, wide)),
        ),
        Contestant(THEIRS, partial(opponent.ask, TOTAL.sql), TOTAL.answers),
    )
    line = Comparison("calibrate, against one pivot query", OURS, THEIRS)
    return Heat(contestants, (line,))


def asked(question: Question, wide: WideTable) -> Any:
    return question.ask(wide).arrow()


BENCHMARK = Benchmark(
    "tpcds",
    "the store channel of TPC-DS on Spark: calibrating and twenty questions, against Spark SQL",
    options,
    run,
)
