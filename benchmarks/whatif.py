"""Rows supposed away on a calibrated star, other rows every time, against DuckDB's join without them.

Rows are told by their keys, whole, or by a condition (`item BETWEEN …`, ten items at a time). The
pivot has been asked before, as whoever supposes something knows what is; what it takes otherwise is
told too. All relations are in memory. What-ifs are asked in thousands, and DuckDB is asked for those
that are compared.

Then rows really change: a what-if is committed, and one row of a dimension is replaced under facts of
three sizes, where the answer should cost the same.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.compare import Answer, Answers
from benchmarks.data import FAMILIES, star_files
from benchmarks.frame import (
    Bar,
    Benchmark,
    Comparison,
    Contestant,
    Heat,
    Race,
    at_least,
    positive,
    within,
)
from benchmarks.opponents import DuckDB
from benchmarks.questions import MEASURES, TOTAL, Question, star_graph, together
from benchmarks.removals import (
    ROWS_A_REMOVAL,
    Removals,
    as_rows,
    by_condition,
    by_keys,
    chosen,
    rest_of,
    sql_without,
    without,
)
from benchmarks.standing import Asked, check
from calitree import JoinGraph, Result, WideTable

OURS, AS_ARROW = "calitree local", "calitree local, as Arrow"
BY_FAMILY = Question("by family", ("items.family",))
BY_CITY = Question("by city", ("stores.city",))

DIMENSION = (within(150e-6), at_least(10_000))
MID_TREE = (at_least(1_000),)
INDEPENDENT = 1.5
"""A fact four times as large may cost so many times as much: what the clock is uncertain by."""


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=10_000_000, help="rows of sales")


def run(given: Namespace, race: Race) -> None:
    files = star_files(given.rows, given.seed, given.data)
    rng = np.random.default_rng([given.seed, given.rows])
    tables = in_memory(files)
    graph, duck = star_graph(tables, "local"), DuckDB(files)
    suppose(race, graph, duck, tables, rng)
    race.run(committing(graph.calibrate(MEASURES, progress=False), duck, tables["items"], rng))
    del graph, duck, tables
    replace_one_row(race, given)


def in_memory(files: Mapping[str, Path]) -> dict[str, pa.Table]:
    """Rows that are looked for in a file are read every time."""
    return {name: pq.read_table(path).combine_chunks() for name, path in files.items()}


# -- supposing -------------------------------------------------------------------------------------


def suppose(
    race: Race,
    graph: JoinGraph,
    duck: DuckDB,
    tables: Mapping[str, pa.Table],
    rng: np.random.Generator,
) -> None:
    """All what-ifs, by what is removed and by what is asked."""
    pools = {
        f"{ROWS_A_REMOVAL} items by keys": by_keys("items", tables["items"], rng),
        f"{ROWS_A_REMOVAL} items as rows": as_rows("items", tables["items"], rng),
        f"{ROWS_A_REMOVAL} items by a condition": by_condition(tables["items"], rng),
    }
    transactions = f"{ROWS_A_REMOVAL} transactions by keys"
    pools[transactions] = by_keys("transactions", tables["transactions"], rng)
    wide = graph.calibrate(MEASURES, progress=False)
    pool = pools[f"{ROWS_A_REMOVAL} items by keys"]
    race.run(
        removal(wide, duck, TOTAL, f"{ROWS_A_REMOVAL} items by keys, pivot not asked yet", pool, ())
    )
    wide.query()
    for question in (TOTAL, BY_FAMILY, BY_CITY):
        for name, pool in pools.items():
            bars: tuple[Bar, ...] = MID_TREE if name == transactions else DIMENSION
            if question is not TOTAL:
                bars = ()
            race.run(removal(wide, duck, question, f"{name}: {question.name}", pool, bars))
    first, second = pools[f"{ROWS_A_REMOVAL} items by keys"], pools[transactions]
    nested = [a + b for a, b in zip(first, second, strict=True)]
    race.run(removal(wide, duck, TOTAL, "items, then transactions: total", nested, ()))


def removal(
    wide: WideTable,
    duck: DuckDB,
    question: Question,
    name: str,
    pool: list[Removals],
    bars: tuple[Bar, ...],
) -> Heat:
    """A question without the next rows of the pool, by itself and as Arrow, against DuckDB."""
    keys = len(question.group_by)

    def ours(turns: Iterator[Removals]) -> tuple[Removals, Result]:
        removals = next(turns)
        return removals, question.ask(without(wide, removals))

    def converted(turns: Iterator[Removals]) -> tuple[Removals, pa.Table]:
        removals, result = ours(turns)
        return removals, result.arrow()

    def theirs(turns: Iterator[Removals]) -> pa.Table:
        return duck.ask(sql_without(question, next(turns)))

    def answer(answered: tuple[Removals, Result | pa.Table]) -> Answers:
        removals, result = answered
        table = result if isinstance(result, pa.Table) else result.arrow()
        return {sql_without(question, removals): Answer(table, keys)}

    contestants = (
        Contestant(OURS, partial(ours, cycle(pool)), answer),
        Contestant(AS_ARROW, partial(converted, cycle(pool)), answer),
        Contestant(duck.name, partial(theirs, cycle(pool)), lambda _: Asked(duck, keys)),
    )
    notes = {"plan": str(question.ask(without(wide, pool[-1])).plan)}
    lines = (
        Comparison(name, OURS, duck.name, bars, notes),
        Comparison(f"{name}, as Arrow", AS_ARROW, duck.name),
    )
    return Heat(contestants, lines)


# -- updates ---------------------------------------------------------------------------------------


def committing(wide: WideTable, duck: DuckDB, items: pa.Table, rng: np.random.Generator) -> Heat:
    """Ten items go, the next time they come back: supposed, asked, committed, and asked again."""
    pool = list(chosen(items, rng))
    turns: Iterator[tuple[pa.Table, bool]] = (
        (rows, going) for rows in cycle(pool) for going in (True, False)
    )

    def commit() -> tuple[pa.Table, bool, Result]:
        rows, going = next(turns)
        if going:
            supposed = wide.what_if(delete={"items": rows})
        else:
            supposed = wide.what_if(insert={"items": rows})
        TOTAL.ask(supposed)
        supposed.commit()
        return rows, going, TOTAL.ask(wide)

    def answer(answered: tuple[pa.Table, bool, Result]) -> Answers:
        rows, going, result = answered
        where = rest_of("items", rows) if going else None
        return {replace(TOTAL, where=where).sql: Answer(result.arrow())}

    def again() -> pa.Table:
        return duck.ask(replace(TOTAL, where=rest_of("items", pool[0])).sql)

    contestants = (
        Contestant(OURS, commit, answer),
        Contestant(duck.name, again, lambda _: Asked(duck)),
    )
    line = Comparison(f"{ROWS_A_REMOVAL} items: what_if, total, commit, total", OURS, duck.name)
    return Heat(contestants, (line,))


class Replacing:
    """A star one of whose items gets another family at every turn."""

    def __init__(self, files: Mapping[str, Path], seed: int) -> None:
        self.files = files
        tables = in_memory(files)
        self.wide = star_graph(tables, "local").calibrate(MEASURES, progress=False)
        items = tables["items"]
        self.rows = [
            items.slice(at, 1).set_column(1, "family", [[FAMILIES[at % len(FAMILIES)]]])
            for at in np.random.default_rng(seed).permutation(items.num_rows)
        ]
        self.done = 0
        self.wide.query()

    def ask(self, question: Question) -> Result:
        """One row, then a question."""
        row = self.rows[self.done % len(self.rows)]
        self.done += 1
        self.wide.update("items", upsert=row, key="item")
        return question.ask(self.wide)

    def check(self, race: Race, name: str) -> None:
        """The answers now, and DuckDB's after the same rows."""
        duck, questions = DuckDB(self.files), (TOTAL, BY_FAMILY, BY_CITY)
        rows = pa.concat_tables(self.rows[: min(self.done, len(self.rows))])
        duck.connection.register("came", rows)
        duck.connection.execute("DELETE FROM items WHERE item IN (SELECT item FROM came)")
        duck.connection.execute("INSERT INTO items SELECT * FROM came")
        ours = together(questions, [question.ask(self.wide).arrow() for question in questions])
        theirs = together(questions, [duck.ask(question.sql) for question in questions])
        check(race, name, ours, theirs, f"{OURS} and {duck.name}")


def replace_one_row(race: Race, given: Namespace) -> None:
    """One item is replaced under facts of three sizes, and the pivot asked."""
    sizes = [max(1, given.rows // 2), given.rows, 2 * given.rows]
    stars = {
        rows: Replacing(star_files(rows, given.seed, given.data), given.seed) for rows in sizes
    }
    for question in (TOTAL, BY_FAMILY):
        name = f"one item replaced, then {question.name}"
        contestants = tuple(
            Contestant(f"{name}, {rows:,} rows", partial(star.ask, question), no_answer)
            for rows, star in stars.items()
        )
        lines = tuple(Comparison(contestant.name, contestant.name) for contestant in contestants)
        seconds = [result["seconds"] for result in race.run(Heat(contestants, lines))]
        race.record(
            f"{name}: {sizes[-1]:,} over {sizes[0]:,}",
            (Bar("times_smallest", at_most=INDEPENDENT),),
            times_smallest=seconds[-1] / seconds[0],
        )
    for rows, star in stars.items():
        star.check(race, f"items replaced, {rows:,} rows")


def no_answer(value: Any) -> Answers:
    """Answers are compared after the race."""
    return {}


BENCHMARK = Benchmark(
    "whatif",
    "rows of a star supposed away, committed or replaced, against DuckDB's join without them",
    options,
    run,
)
