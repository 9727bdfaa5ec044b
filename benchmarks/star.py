"""A star of five dimensions: calibrating it, and asking the calibrated tree, against plain joins.

Every question ends as an Arrow table on both sides. The tree keeps no message of a question for
the next, else all rounds but the first would find the messages of the one before.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.compare import Answers
from benchmarks.data import RELATIONS, star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.memory import peak_of_calibration, used_bytes
from benchmarks.opponents import (
    DuckDB,
    Opponent,
    SparkSql,
    messages_from,
    pass_messages,
    spark_frames,
)
from benchmarks.questions import (
    MEASURES,
    ONE_PER_DIMENSION,
    TOTAL,
    Question,
    keeping_no_messages,
    messages_of,
    star_graph,
    together,
)
from calitree import JoinGraph, WideTable
from calitree.calibration.branch import Branch

Sources = Mapping[str, Any]


@dataclass(frozen=True)
class Side:
    """An engine of ours and whom it meets: ready with the tables, and how both begin from files."""

    engine: str
    graph: JoinGraph
    opponent: Opponent
    from_files: Callable[[], JoinGraph]
    opponent_from_files: Callable[[], Opponent]
    bars: Mapping[str, tuple[Bar, ...]]

    @property
    def name(self) -> str:
        return f"calitree {self.engine}"

    def called(self, question: str) -> str:
        return f"{self.engine}: {question}"


LOCAL_BARS: dict[str, tuple[Bar, ...]] = {
    "pivot, nothing calibrated": (at_least(8),),
    "calibrate, against one pivot query": (at_least(2),),
    "calibrate, against the same messages": (at_least(8),),
    "from Parquet, against load and six queries": (at_least(1 / 0.7),),
    "by city": (at_least(1000),),
    "by item": (at_least(1000),),
    "one state by family": (at_least(3),),
    "family × city": (at_least(5),),
}


def delta_questions(state: str) -> tuple[Question, ...]:
    """Asked of the calibrated tree."""
    return (
        TOTAL,
        Question("by family", ("items.family",)),
        Question("by city", ("stores.city",)),
        Question("by item", ("items.item",)),
        Question("family × city", ("items.family", "stores.city")),
        Question("one state by family", ("items.family",), f"stores.state = '{state}'"),
        Question(
            "new measure", ("stores.city",), measures=(("t", "avg(transactions.transactions)"),)
        ),
        Question(
            "without holiday",
            ("items.family",),
            relations=tuple(name for name in RELATIONS if name != "holiday"),
        ),
    )


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=1_000_000, help="rows of sales")
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        action="append",
        help="local meets DuckDB, spark meets Spark SQL; may be given twice (default: local)",
    )


def run(given: Namespace, race: Race) -> None:
    given.engine = given.engine or ["local"]
    files = star_files(given.rows, given.seed, given.data)
    for engine in given.engine:
        with ExitStack() as stack:
            side = _local(files) if engine == "local" else _spark(files, stack)
            run_side(side, race)
        if engine == "local":
            peak, used = peak_of_calibration(files), used_bytes(files)
            race.record(
                "local: peak memory over used columns, Parquet to calibrated",
                (Bar("times_used", at_most=2.5),),
                peak_bytes=peak.bytes,
                used_bytes=used,
                times_used=peak.bytes / used,
            )


def run_side(side: Side, race: Race) -> None:
    """All questions for one engine of ours."""
    race.run(pivot_heat(side))
    race.run(calibration_heat(side))
    race.run(from_files_heat(side))
    wide = keeping_no_messages(side.graph.calibrate(MEASURES, progress=False))
    state, share = state_near(side.opponent, 1 / 16)
    for question in delta_questions(state):
        notes: dict[str, Any] = {"plan": str(question.ask(wide).plan)}
        if question.where:
            notes |= {"where": question.where, "share_of_rows": share}
        race.run(question_heat(side, wide, question, notes))


def pivot_heat(side: Side) -> Heat:
    """One query, nothing calibrated: upward messages only, made anew every time."""
    graph = side.graph
    given = graph.schema, graph.engine, graph.hypertree()
    wide = keeping_no_messages(WideTable(Branch.new(*given, measures=MEASURES)))
    ours = Contestant(side.name, lambda: TOTAL.ask(wide).arrow(), TOTAL.answers)
    theirs = Contestant(side.opponent.name, partial(side.opponent.ask, TOTAL.sql), TOTAL.answers)
    name = "pivot, nothing calibrated"
    return _pair(side, name, ours, theirs)


def calibration_heat(side: Side) -> Heat:
    """All messages both ways, against one query and against the same messages."""
    graph, opponent = side.graph, side.opponent
    messages = f"{opponent.name}, the messages"

    def answer(wide: WideTable) -> Answers:
        return {**TOTAL.answers(TOTAL.ask(wide).arrow()), **messages_of(wide)}

    contestants = (
        Contestant(side.name, lambda: graph.calibrate(MEASURES, progress=False), answer),
        Contestant(opponent.name, partial(opponent.ask, TOTAL.sql), TOTAL.answers),
        Contestant(
            messages,
            lambda: pass_messages(opponent, graph.hypertree()),
            partial(messages_from, opponent),
        ),
    )
    names = {
        "calibrate, against one pivot query": opponent.name,
        "calibrate, against the same messages": messages,
    }
    comparisons = tuple(
        Comparison(side.called(name), side.name, against, side.bars.get(name, ()))
        for name, against in names.items()
    )
    return Heat(contestants, comparisons)


def from_files_heat(side: Side) -> Heat:
    """From Parquet to six answers: the total and one group-by a dimension."""
    questions = (TOTAL, *ONE_PER_DIMENSION)

    def ours() -> list[pa.Table]:
        wide = side.from_files().calibrate(MEASURES, progress=False)
        return [question.ask(wide).arrow() for question in questions]

    def theirs() -> list[pa.Table]:
        opponent = side.opponent_from_files()
        return [opponent.ask(question.sql) for question in questions]

    answer = partial(together, questions)
    name = "from Parquet, against load and six queries"
    first = Contestant(side.name, ours, answer)
    return _pair(side, name, first, Contestant(side.opponent.name, theirs, answer))


def question_heat(side: Side, wide: WideTable, question: Question, notes: dict[str, Any]) -> Heat:
    """One question on the calibrated tree, against the plain join."""
    ours = Contestant(side.name, lambda: question.ask(wide).arrow(), question.answers)
    theirs = Contestant(
        side.opponent.name, partial(side.opponent.ask, question.sql), question.answers
    )
    return _pair(side, question.name, ours, theirs, notes)


def _pair(
    side: Side,
    name: str,
    ours: Contestant,
    theirs: Contestant,
    notes: Mapping[str, Any] | None = None,
) -> Heat:
    bars = side.bars.get(name, ())
    line = Comparison(side.called(name), ours.name, theirs.name, bars, notes or {})
    return Heat((ours, theirs), (line,))


def state_near(opponent: Opponent, share: float) -> tuple[str, float]:
    """The state whose part of the sales is nearest to `share`, and that part."""
    sql = "SELECT state, count(*) AS n FROM sales JOIN stores USING (store) GROUP BY state"
    rows = opponent.ask(sql).to_pylist()
    total = sum(row["n"] for row in rows)
    parts = {row["state"]: row["n"] / total for row in sorted(rows, key=lambda row: row["state"])}
    state = min(parts, key=lambda name: abs(parts[name] - share))
    return state, parts[state]


def _local(files: Mapping[str, Path]) -> Side:
    return Side(
        "local",
        star_graph(files, "local"),
        DuckDB(files),
        lambda: star_graph(files, "local"),
        lambda: DuckDB(files),
        LOCAL_BARS,
    )


def _spark(files: Mapping[str, Path], stack: ExitStack) -> Side:
    """Both sides get the same cached frames; from files, the same files."""
    from calitree import spark_session

    session = spark_session("local[2]", app_name="calitree benchmarks")
    frames = spark_frames(session, files, cached=True)
    for frame in frames.values():
        stack.callback(frame.unpersist)
    return Side(
        "spark",
        star_graph(frames, session),
        SparkSql(session, frames),
        lambda: star_graph(files, session),
        lambda: SparkSql(session, spark_frames(session, files, cached=False)),
        {},
    )


BENCHMARK = Benchmark(
    "star",
    "a star of six tables: calibrate, then eight questions, against plain joins",
    options,
    run,
)
