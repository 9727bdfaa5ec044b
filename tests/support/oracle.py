"""What DuckDB answers on the materialised join."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import duckdb
from hypothesis import strategies as st

from calitree import WideTable
from calitree.apps.verify.check import compare
from calitree.apps.verify.plain import query_sql, wide_sql
from calitree.query.binder import Question
from tests.support.databases import Database, questions

MAX_JOIN = 20_000


class Built(NamedTuple):
    """A wide table that DuckDB has, and what it is of."""

    database: Database
    relations: frozenset[str]
    attributes: tuple[str, ...]


@cache
def duck() -> duckdb.DuckDBPyConnection:
    """One for all questions: to start it takes longer than to answer most of them."""
    return duckdb.connect()


_built: list[Built] = []


def oracle(wide: WideTable, database: Database, asked: dict[str, Any]) -> Any:
    """The same question as SQL over the wide table that DuckDB builds, once for several questions."""
    query = wide.snapshot.bind(Question(**asked)).query
    schema, connection = wide.snapshot.schema_of(query), duck()
    supplied = {attribute for name in query.relations for attribute in schema.columns_of[name]}
    wanted = Built(database, query.relations, tuple(sorted(supplied)))
    if not _built or _built[0].database is not database or _built[0][1:] != wanted[1:]:
        _built.clear()
        sql, tables = wide_sql(schema, query.relations, wanted.attributes, "duckdb")
        for alias, table in tables.items():
            name = next(n for n, r in schema.relations.items() if r.table is table)
            connection.register(alias, database.tables[name])
        connection.execute(f"CREATE OR REPLACE TABLE wide AS {sql}")
        _built.append(wanted)
    return connection.sql(query_sql(query, "duckdb")).to_arrow_table()


def assert_answers(
    wide: WideTable, database: Database, pivot: dict[str, Any], data: st.DataObject, deltas: int
) -> None:
    """The pivot's question and some random ones are answered as by DuckDB."""
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions(database), label="delta") for _ in range(deltas)]
    for question in asked:
        result = wide.query(**question)
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
