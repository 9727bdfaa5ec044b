"""The star on Spark: calibrating it from Parquet in Spark's tasks, and asking the tree at home,
against Spark's own queries on the same files.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import Any

from benchmarks.compare import Answers
from benchmarks.data import star_files
from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.opponents import SparkSql, messages_from, pass_messages, spark_frames
from benchmarks.questions import (
    MEASURES,
    TOTAL,
    Question,
    keeping_no_messages,
    messages_of,
    star_graph,
)
from calitree import JoinGraph, WideTable
from calitree.engines.hybrid import HybridEngine

OURS, PIVOT, MESSAGES = "calitree hybrid", "Spark SQL", "Spark SQL, the messages"

DIMENSIONS = 4 << 20
"""Bytes that are more than any dimension has, and less than a million sales."""

AT_HOME = (
    TOTAL,
    *(
        Question(f"by {column}", (column,))
        for column in (
            *("oil.price", "holiday.type", "transactions.transactions", "stores.city"),
            *("stores.state", "items.family", "items.class", "items.perishable"),
        )
    ),
    Question("one city", (), "stores.city = 'Quito'"),
    Question("perishable families", ("items.family",), "items.perishable"),
    Question("cheap oil", (), "oil.price < 60"),
)
"""Questions that need no row of the sales."""

AWAY = (
    Question("family × city", ("items.family", "stores.city")),
    Question("one state by family", ("items.family",), "stores.state = 'Bolivar'"),
    Question("promotions", ("sales.onpromotion",)),
)
"""Those that need all of them."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=20_000_000, help="rows of sales")
    parser.add_argument("--master", default="local[2]", help="where Spark runs")


def run(given: Namespace, race: Race) -> None:
    from calitree import spark_session

    files = star_files(given.rows, given.seed, given.data)
    session = spark_session(given.master, app_name="calitree benchmarks")
    opponent = SparkSql(session, spark_frames(session, files, cached=False))

    def graph() -> JoinGraph:
        return star_graph(files, HybridEngine(session, in_process=DIMENSIONS))

    race.run(calibration(graph, opponent))
    wide = keeping_no_messages(graph().calibrate(MEASURES, progress=False))
    for questions, bar in ((AT_HOME, at_least(3000)), (AWAY, at_least(1 / 0.7))):
        for question in questions:
            ours = Contestant(OURS, partial(asked, question, wide), question.answers)
            theirs = Contestant(PIVOT, partial(opponent.ask, question.sql), question.answers)
            line = Comparison(question.name, OURS, PIVOT, (bar,))
            race.run(Heat((ours, theirs), (line,)))


def calibration(graph: Any, opponent: SparkSql) -> Heat:
    """All messages both ways, against one query and against each message as a query."""
    tree = graph().hypertree()

    def answer(wide: WideTable) -> Answers:
        return {**TOTAL.answers(TOTAL.ask(wide).arrow()), **messages_of(wide)}

    contestants = (
        Contestant(OURS, lambda: graph().calibrate(MEASURES, progress=False), answer),
        Contestant(PIVOT, partial(opponent.ask, TOTAL.sql), TOTAL.answers),
        Contestant(
            MESSAGES, partial(pass_messages, opponent, tree), partial(messages_from, opponent)
        ),
    )
    lines = (
        Comparison("calibrate, against one pivot query", OURS, PIVOT, (at_least(1 / 0.7),)),
        Comparison("calibrate, against the same messages", OURS, MESSAGES, (at_least(8),)),
    )
    return Heat(contestants, lines)


def asked(question: Question, wide: WideTable) -> Any:
    return question.ask(wide).arrow()


BENCHMARK = Benchmark(
    "spark_star",
    "the star on Spark from Parquet: calibrating in tasks and asking at home, against Spark SQL",
    options,
    run,
)
