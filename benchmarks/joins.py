"""Joins that keep rows without a partner, joins by inequality and as-of, groups by an expression.

What this version of calitree refuses is told as such, with its own words, and is not raced.

* The star with all joins inner, LEFT or FULL: calibrating it, and questions on the calibrated tree. What
  outer joins cost is told as a multiple of what inner joins do, and all answers are compared with
  DuckDB's to the same joins.
* Two tables joined by one inequality, by an interval and as-of. Of an inequality between evenly spread
  values half of all pairs would match, which nobody but a tree can sum; so `--partners` bounds how many
  a row has.
* The star by the month of the sales: by a column that is there, and by `date_trunc`.
* `check` of the inner star, as a multiple of its calibration.
"""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.compare import Answer, Answers
from benchmarks.data import JOINS, RELATIONS, star_files
from benchmarks.frame import Bar, Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.opponents import DuckDB
from benchmarks.questions import MEASURES, TOTAL, Question, keeping_no_messages
from calitree import CalitreeError, JoinGraph, WideTable

OURS = "calitree local"
KINDS = ("inner", "left", "full")
"""How all joins of a star are."""

CALIBRATION_LIMITS = {"left": 1.3, "full": 2.0}
"""The times that calibrating may take of the inner star's."""
DELTA_LIMITS = {"left": 1.2, "full": 2.0}
EXPRESSION_LIMIT = 1.5
"""The times that grouping by an expression may take of grouping by a column."""

QUESTIONS = (
    TOTAL,
    Question("by family", ("items.family",)),
    Question("by city", ("stores.city",)),
    Question("by price", ("oil.price",)),
    Question("family × city", ("items.family", "stores.city")),
    Question("dairy by city", ("stores.city",), "items.family = 'DAIRY'"),
)


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")
    parser.add_argument(
        "--pairs", type=positive, default=1_000_000, help="rows of each of two tables"
    )
    parser.add_argument(
        "--partners", type=positive, default=1_000, help="partners of a row in an inequality join"
    )


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    run_stars(files, race)
    run_months(files, race)
    for case in pair_cases(given.pairs, given.partners, given.seed):
        with tempfile.TemporaryDirectory() as directory:
            run_pair(case, Path(directory), race)


def refused(race: Race, name: str, build: Callable[[], Any]) -> Any:
    """What `build` returns; None if calitree cannot do it yet, which is then a line of the result."""
    try:
        return build()
    except (CalitreeError, TypeError) as error:  # an argument that is not there is a TypeError
        race.record(f"{name}: not supported", reason=f"{type(error).__name__}: {error}")
        return None


# -- stars -----------------------------------------------------------------------------------------


def outer_star(sources: Mapping[str, Path | pa.Table], how: str) -> JoinGraph:
    graph = JoinGraph(engine="local")
    for name in RELATIONS:
        source = sources[name]
        graph.add_relation(name, str(source) if isinstance(source, Path) else source)
    for name, columns in JOINS.items():
        graph.add_join("sales", name, on=columns, how=how)
    return graph


def star_sql(question: Question, how: str) -> str:
    """The question on the joins in the order of their declaration."""
    selected = [*question.group_by, *(f"{text} AS {name}" for name, text in MEASURES.items())]
    joins = [
        f"{how} JOIN {r} ON {' AND '.join(f'sales.{c} = {r}.{c}' for c in on)}"
        for r, on in JOINS.items()
    ]
    where = f"WHERE {question.where}" if question.where else ""
    by = f"GROUP BY {', '.join(question.group_by)}" if question.group_by else ""
    return f"SELECT {', '.join(selected)} FROM sales {' '.join(joins)} {where} {by}"


def run_stars(files: Mapping[str, Path], race: Race) -> None:
    duck, graphs = DuckDB(files), dict[str, JoinGraph]()
    for how in KINDS:
        graph = refused(race, f"star, {how}", partial(outer_star, files, how))
        if graph is not None:
            graphs[how] = graph

    def total(wide: WideTable) -> Answers:
        return TOTAL.answers(TOTAL.ask(wide).arrow())

    calibrations = {
        how: (partial(graph.calibrate, MEASURES, progress=False), total)
        for how, graph in graphs.items()
    }
    run_kinds(race, duck, TOTAL, "calibrate", calibrations, CALIBRATION_LIMITS)
    trees = {
        how: keeping_no_messages(graph.calibrate(MEASURES, progress=False))
        for how, graph in graphs.items()
    }
    for question in QUESTIONS:
        asked = {how: (partial(arrow, question, w), question.answers) for how, w in trees.items()}
        run_kinds(race, duck, question, question.name, asked, DELTA_LIMITS)
    if "inner" in graphs:
        run_check(graphs["inner"], race)


def arrow(question: Question, wide: WideTable) -> pa.Table:
    return question.ask(wide).arrow()


Timed = tuple[Callable[[], Any], Callable[[Any], Answers]]
"""What is timed, and what makes its value comparable."""


def run_kinds(
    race: Race,
    duck: DuckDB,
    question: Question,
    name: str,
    asked: Mapping[str, Timed],
    limits: Mapping[str, float],
) -> None:
    """The same work on all stars in turns, each compared with DuckDB, then with the inner one."""
    contestants: list[Contestant] = []
    lines: list[Comparison] = []
    for how, (work, answer) in asked.items():
        ours, theirs = f"{OURS}, {how}", f"{duck.name}, {how}"
        sql = star_sql(question, how)
        contestants.append(Contestant(ours, work, answer))
        contestants.append(Contestant(theirs, partial(duck.ask, sql), question.answers))
        lines.append(Comparison(f"{how}: {name}", ours, theirs))
    results = race.run(Heat(tuple(contestants), tuple(lines)))
    seconds = {how: r["seconds"] for how, r in zip(asked, results, strict=True)}
    for how in asked:
        if how in limits and "inner" in seconds:
            bar = Bar("times_inner", at_most=limits[how])
            times = seconds[how] / seconds["inner"]
            race.record(f"{how}: {name}, over inner", (bar,), times_inner=times)


def run_check(graph: JoinGraph, race: Race) -> None:
    """Keys counted on both sides of all joins; calibrating passes as many messages."""
    names = ("check", "calibrate, beside check")
    contestants = (
        Contestant(names[0], partial(graph.check, False), no_answer),
        Contestant(names[1], partial(graph.calibrate, MEASURES, progress=False), no_answer),
    )
    lines = tuple(Comparison(f"inner: {name}", name) for name in names)
    check, calibrate = (r["seconds"] for r in race.run(Heat(contestants, lines)))
    bar = Bar("times_calibration", at_most=2.0)
    race.record("inner: check, over calibrate", (bar,), times_calibration=check / calibrate)


def no_answer(value: Any) -> Answers:
    """Nothing to compare; tests compare what `check` counts."""
    return {}


# -- months ----------------------------------------------------------------------------------------

BY_EXPRESSION, BY_COLUMN = "date_trunc('month', sales.date)", "sales.month"


def run_months(files: Mapping[str, Path], race: Race) -> None:
    sales = pq.read_table(files["sales"])
    month = pc.floor_temporal(sales.column("date"), unit="month").cast(pa.date32())
    sources: dict[str, Path | pa.Table] = {**files, "sales": sales.append_column("month", month)}
    wide = keeping_no_messages(outer_star(sources, "inner").calibrate(MEASURES, progress=False))
    duck = DuckDB(files)
    name = "by the month of the sales"

    def by_expression() -> pa.Table:
        return wide.query(group_by=[BY_EXPRESSION]).arrow()

    if refused(race, name, by_expression) is None:
        return
    question = Question(name, (BY_EXPRESSION,))
    contestants = (
        Contestant("expression", by_expression, month_answers),
        Contestant("column", lambda: wide.query(group_by=[BY_COLUMN]).arrow(), month_answers),
        Contestant(duck.name, partial(duck.ask, star_sql(question, "inner")), month_answers),
    )
    lines = (
        Comparison(f"{name}, date_trunc", "expression", duck.name),
        Comparison(f"{name}, a column", "column", duck.name),
    )
    expression, column = (r["seconds"] for r in race.run(Heat(contestants, lines)))
    bar = Bar("times_column", at_most=EXPRESSION_LIMIT)
    race.record(f"{name}, date_trunc over a column", (bar,), times_column=expression / column)


def month_answers(table: pa.Table) -> Answers:
    """A month is a date to some and a timestamp to others."""
    months = table.column(0).cast(pa.timestamp("us")).cast(pa.date32())
    return {"months": Answer(table.set_column(0, "month", months), 1)}


# -- two tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two tables, how they join here and in DuckDB, and what the total should reach."""

    name: str
    tables: Mapping[str, pa.Table]
    join: Mapping[str, Any]
    clause: str
    measures: Mapping[str, str]
    bars: tuple[Bar, ...]

    def graph(self, files: Mapping[str, Path]) -> JoinGraph:
        graph = JoinGraph(engine="local")
        for name, path in files.items():
            graph.add_relation(name, str(path))
        graph.add_join(*self.tables, **self.join)
        return graph


def pair_cases(rows: int, partners: int, seed: int) -> tuple[Pair, ...]:
    rng = np.random.default_rng([seed, rows])
    numbers = rng.permutation(rows)
    values = rng.integers(0, 1_000, rows)
    groups = rng.integers(0, 8, rows)
    first = pa.table({"t": numbers, "x": values})
    early = rng.integers(0, min(rows, 2 * partners), rows)
    second = pa.table({"t": early, "g": groups})
    start = rng.integers(0, rows, rows)
    spans = pa.table({"lo": start, "hi": start + rng.integers(1, 20, rows), "g": groups})
    symbols = [rng.integers(0, 100, rows) for _ in range(2)]
    trades = pa.table({"s": symbols[0], "t": numbers, "x": values, "g": groups})
    quotes = pa.table({"s": symbols[1], "t": rng.permutation(rows), "p": values})
    sums = {"n": "count(*)", "s": "sum(a.x)"}
    interval = "a.t >= b.lo AND a.t < b.hi"
    return (
        Pair(
            "one inequality",
            {"a": first, "b": second},
            {"condition": "a.t <= b.t"},
            "JOIN b ON a.t <= b.t",
            sums,
            (at_least(100),),
        ),
        Pair(
            "interval",
            {"a": first, "b": spans},
            {"condition": interval},
            f"JOIN b ON {interval}",
            sums,
            (at_least(2),),
        ),
        Pair(
            "as-of",
            {"a": trades, "b": quotes},
            {"on": "s", "asof": "t"},
            "ASOF JOIN b ON a.s = b.s AND a.t >= b.t",
            {"n": "count(*)", "s": "sum(a.x * b.p)"},
            (at_least(1),),
        ),
    )


def run_pair(case: Pair, directory: Path, race: Race) -> None:
    """The total with nothing calibrated, and then a group-by of the calibrated tree."""
    files = {name: directory / f"{name}.parquet" for name in case.tables}
    for name, table in case.tables.items():
        pq.write_table(table, files[name])
    graph = refused(race, case.name, partial(case.graph, files))
    if graph is None:
        return

    def calibrated() -> WideTable:
        return keeping_no_messages(graph.calibrate(case.measures, progress=False))

    wide = refused(race, f"{case.name}, calibrated", calibrated)
    if wide is None:
        return
    duck = DuckDB(files)
    selected = ", ".join(f"{text} AS {name}" for name, text in case.measures.items())
    group = "a.g" if "g" in case.tables["a"].column_names else "b.g"
    total = f"SELECT {selected} FROM a {case.clause}"
    by_group = f"SELECT {group}, {selected} FROM a {case.clause} GROUP BY {group}"
    asked: dict[str, tuple[Callable[[], pa.Table], str, int, tuple[Bar, ...]]] = {
        "calibrate, then the total": (
            lambda: calibrated().query().arrow(),
            total,
            0,
            case.bars,
        ),
        "by group": (lambda: wide.query(group_by=[group]).arrow(), by_group, 1, ()),
    }
    for name, (ours, sql, keys, bars) in asked.items():
        answer = partial(pair_answers, name, keys)
        contestants = (
            Contestant(OURS, ours, answer),
            Contestant(duck.name, partial(duck.ask, sql), answer),
        )
        line = Comparison(f"{case.name}: {name}", OURS, duck.name, bars)
        race.run(Heat(contestants, (line,)))


def pair_answers(name: str, keys: int, table: pa.Table) -> Answers:
    return {name: Answer(table, keys)}


BENCHMARK = Benchmark(
    "joins",
    "outer joins of a star, joins by inequality and as-of, groups by an expression, and check",
    options,
    run,
)
