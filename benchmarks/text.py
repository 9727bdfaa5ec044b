"""Texts of many values: the greatest, LIKE, equality and IN, against DuckDB.

One relation of texts that are all different, beside a column of a thousand texts. Every question is
asked *first* and *again*:

- Ours are of a tree whose relation was loaded as Arrow and calibrated for `count(*)`. First is the first
  question to such a tree: it parses, plans and reads the texts; no dictionary, index or result is there.
  Machine code is. Again is the same question to the tree that has answered it.
- DuckDB has the table loaded in its own format, and uses all processors. It keeps nothing between
  questions, so both times it parses, plans and runs; only how often in a turn differs.

Every answer ends as an Arrow table.

Lists of a million numbers and of a million texts are asked for by trees that have not been asked yet. DuckDB
reads only one of a hundredth of that in such a time, and gets them as a table.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.compare import Answer, Answers
from benchmarks.frame import (
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
from calitree import JoinGraph, WideTable

LISTED, MANY_LISTED = 100_000, 1_000_000
WORDS = 400
AT_LEAST_AS_FAST = (at_least(1),)


@dataclass(frozen=True)
class TextQuestion:
    """A measure of the rows that pass a condition, by some columns."""

    name: str
    measure: str = "count(*)"
    where: str | None = None
    by: tuple[str, ...] = ()
    has_bar: bool = False

    @property
    def sql(self) -> str:
        keys = "".join(f"{column}, " for column in self.by)
        where = f" WHERE {self.where}" if self.where else ""
        grouped = f" GROUP BY {', '.join(self.by)}" if self.by else ""
        return f"SELECT {keys}{self.measure} AS m FROM texts{where}{grouped}"

    def ask(self, wide: WideTable) -> pa.Table:
        measures: Mapping[str, str] = {"m": self.measure}
        return wide.query(group_by=list(self.by), where=self.where, measures=measures).arrow()

    def answers(self, table: pa.Table) -> Answers:
        return {self.name: Answer(table, len(self.by))}


def table(rows: int, seed: int) -> pa.Table:
    """Texts of two words and a number, all different; a thousand others; groups; times."""
    random = np.random.default_rng([seed, rows])
    letters = random.integers(97, 123, (WORDS, 7), dtype=np.uint8)
    lengths = random.integers(3, 8, WORDS)
    words = [bytes(word[:n]).decode() for word, n in zip(letters, lengths, strict=True)]
    first, second = (pa.array(words).take(random.integers(0, WORDS, rows)) for _ in range(2))
    numbers = random.permutation(rows) + 2**32
    hexadecimal = pa.array(np.char.mod("%x", numbers))
    few = pa.array([f"{words[i % WORDS]} {i}" for i in range(1000)])
    return pa.table(
        {
            "t": pc.binary_join_element_wise(first, second, hexadecimal, " "),
            "few": few.take(random.integers(0, 1000, rows)),
            "g": random.integers(0, 1000, rows),
            "id": numbers,
            "stamp": pa.array(random.permutation(rows) * 1_000_003, pa.timestamp("us")),
        }
    )


def questions(data: pa.Table, seed: int) -> list[TextQuestion]:
    random = np.random.default_rng([seed, 1])
    texts, listed = data.column("t"), min(LISTED, 2 * data.num_rows) // 2
    there = texts.take(random.choice(len(texts), listed, replace=False)).to_pylist()
    values = ", ".join(f"'{text}'" for text in [*there, *(f"{text}?" for text in there)])
    few = data.column("few")[0].as_py()
    return [
        TextQuestion("max(text)", "max(t)", has_bar=True),
        TextQuestion("LIKE '%abc%'", where="t LIKE '%abc%'", has_bar=True),
        TextQuestion("LIKE of two parts", where="t LIKE '%ab%12%'", has_bar=True),
        TextQuestion("equality", where=f"t = '{there[0]}'", has_bar=True),
        TextQuestion(f"IN of {2 * listed:,}", where=f"t IN ({values})", has_bar=True),
        TextQuestion("min(text) by group", "min(t)", by=("g",)),
        TextQuestion("less than", where=f"t < '{there[0]}'"),
        TextQuestion("max(timestamp)", "max(stamp)"),
        TextQuestion("1,000 texts: max", "max(few)"),
        TextQuestion("1,000 texts: LIKE", where="few LIKE '%a%9%'"),
        TextQuestion("1,000 texts: equality", where=f"few = '{few}'"),
    ]


def calibrated(data: pa.Table) -> WideTable:
    graph = JoinGraph(engine="local")
    graph.add_relation("texts", data)
    return graph.calibrate({"n": "count(*)"}, progress=False)


class FreshTree:
    """A tree that has not been asked yet, one for each turn."""

    def __init__(self, data: pa.Table) -> None:
        self.data = data
        self.wide = calibrated(data)

    def renew(self) -> None:
        self.wide = calibrated(self.data)


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=2_000_000, help="rows, all different")


def run(arguments: Namespace, race: Race) -> None:
    data = table(arguments.rows, arguments.seed)
    duck = DuckDB({}, threads=os.cpu_count() or 1)
    duck.connection.register("given", data)
    duck.connection.execute("CREATE TABLE texts AS FROM given")
    fresh, old = FreshTree(data), calibrated(data)
    for question in questions(data, arguments.seed):
        race.run(heat(question, fresh, old, duck))
    for column in ("id", "t"):
        race.run(long_list(column, fresh, duck))


def heat(question: TextQuestion, fresh: FreshTree, old: WideTable, duck: DuckDB) -> Heat:
    """The same question to a tree that does not know it and to one that does."""

    def theirs() -> Any:
        return duck.ask(question.sql)

    bars = AT_LEAST_AS_FAST if question.has_bar else ()
    first, again, once = "calitree, first", "calitree, again", "DuckDB, once"
    contestants = (
        Contestant(first, lambda: question.ask(fresh.wide), question.answers, fresh.renew),
        Contestant(once, theirs, question.answers, lambda: None),
        Contestant(again, lambda: question.ask(old), question.answers),
        Contestant(duck.name, theirs, question.answers),
    )
    lines = (
        Comparison(f"{question.name}: first", first, once, bars),
        Comparison(f"{question.name}: again", again, duck.name, bars),
    )
    return Heat(contestants, lines)


def long_list(column: str, fresh: FreshTree, duck: DuckDB) -> Heat:
    """Every second value of a column, up to a million, in the text of a question."""
    values = fresh.data.column(column)[: 2 * MANY_LISTED].to_pylist()[::2]
    written = map(str, values) if column == "id" else (f"'{value}'" for value in values)
    what = "numbers" if column == "id" else "texts"
    name = f"IN of {len(values):,} {what}: first"
    question = TextQuestion(name, where=f"{column} IN ({', '.join(written)})")
    duck.connection.register("listed", pa.table({"v": values}))
    sql = f"SELECT count(*) AS m FROM texts WHERE {column} IN (SELECT v FROM listed)"
    first, theirs = "calitree, first", "DuckDB, by a table"
    contestants = (
        Contestant(first, lambda: question.ask(fresh.wide), question.answers, fresh.renew),
        Contestant(theirs, lambda: duck.ask(sql), question.answers),
    )
    return Heat(contestants, (Comparison(name, first, theirs, (within(1),)),))


BENCHMARK = Benchmark(
    "text", "texts of many values: extremes, LIKE, equality and IN, against DuckDB", options, run
)
