"""What DuckDB answers on the materialised join."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import duckdb
from hypothesis import strategies as st

from calitree import QueryError, WideTable
from calitree.apps.verify.check import compare
from calitree.apps.verify.plain import DEFINITIONS, widened_view
from calitree.apps.verify.verbatim import WrittenName, scope_sql, verbatim
from calitree.errors import CalitreeError
from calitree.jointree.schema import Schema
from calitree.query.binder import Question
from tests.support.databases import Database, questions

MAX_JOIN = 20_000


class Built(NamedTuple):
    """A wide table that DuckDB has, and what it is of."""

    database: Database
    relations: frozenset[str]


@cache
def duck() -> duckdb.DuckDBPyConnection:
    """One for all questions: to start it takes longer than to answer most of them."""
    connection = duckdb.connect()
    for definition in DEFINITIONS:
        connection.execute(definition)
    return connection


_built: list[Built] = []


def oracle(
    wide: WideTable, database: Database, asked: dict[str, Any], put: dict[str, Any] | None = None
) -> Any:
    """The same texts over the wide table that DuckDB builds, once for several questions.

    If DuckDB needs other texts for the same question, it is `put` in these.
    """
    question = Question(**asked)
    query = wide.snapshot.bind(question).query
    relations, schema, connection = query.relations, wide.snapshot.schema_of(query), duck()
    if not _built or _built[0].database is not database or _built[0].relations != relations:
        _built.clear()
        scope = scope_sql(schema, sorted(relations), _names(schema, relations))
        assert scope is not None
        sql, tables = scope
        for alias, table in tables.items():
            name = next(n for n, r in schema.relations.items() if r.table is table)
            connection.register(f"{alias} here", database.tables[name])
            types = database.tables[name].schema
            connection.execute(widened_view(alias, f'"{alias} here"', types))
        connection.execute(f"CREATE OR REPLACE TABLE wide AS {sql}")
        _built.append(Built(database, relations))
    given = verbatim(schema, Question(**(put or asked)), wide.measures)
    assert given is not None
    return connection.sql(given.sql).to_arrow_table()


def _names(schema: Schema, relations: frozenset[str]) -> set[WrittenName]:
    """All columns with their relations, and the names that need none."""
    columns = {(r, column) for r in relations for column in schema.relations[r].columns}
    names: set[WrittenName] = set(columns)
    for _, column in columns:
        with suppress(CalitreeError):
            schema.resolve(None, column, relations)
            names.add((None, column))
    return names


@dataclass
class Refusals:
    """How many questions were refused as they leave relations out such that the rest has no meaning."""

    texts: tuple[str, ...]
    """What such a refusal says."""
    share: float
    """Of all questions, how many may be refused."""
    asked: int = 0
    refused: int = 0

    def accept(self, question: dict[str, Any], error: QueryError) -> None:
        """Count a refusal, if it is one of these and they are not too many by now."""
        assert "relations" in question, error
        assert any(text in str(error) for text in self.texts), error
        self.refused += 1
        assert self.refused <= MIN_ASKED * self.share + self.asked * self.share, self


MIN_ASKED = 100
"""Fewer questions than that may have a larger share of refusals."""

NO_REFUSALS = Refusals((), 0)


def assert_answers(
    wide: WideTable,
    database: Database,
    pivot: dict[str, Any],
    data: st.DataObject,
    deltas: int,
    refusals: Refusals = NO_REFUSALS,
) -> None:
    """The pivot's question and some random ones are answered as by DuckDB."""
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions(database), label="delta") for _ in range(deltas)]
    for question in asked:
        assert_answer(wide, database, question, refusals)


def assert_answer(
    wide: WideTable,
    database: Database,
    question: dict[str, Any],
    refusals: Refusals = NO_REFUSALS,
) -> None:
    """A question is answered as by DuckDB, or it is one that may be refused."""
    refusals.asked += 1
    try:
        result = wide.query(**question)
    except QueryError as error:
        refusals.accept(question, error)
        return
    expected = oracle(wide, database, {"measures": None, **question})
    difference = compare(result.arrow(), expected, len(question.get("group_by", ())))
    assert not difference, f"{question}: {difference}\n{result.plan}"


@st.composite
def empty_bags(draw: st.DrawFn, database: Database) -> dict[str, list[str]]:
    """Now and then an empty bag or two, each a view of some columns of one relation."""
    bags = {}
    for i in range(draw(st.sampled_from([0, 0, 1, 2]))):
        name = draw(st.sampled_from(sorted(database.tables)))
        columns = st.sampled_from(database.tables[name].column_names)
        chosen = draw(st.lists(columns, min_size=1, max_size=3, unique=True))
        bags[f"view {i}"] = [f"{name}.{column}" for column in chosen]
    return bags
