"""What DuckDB answers on the join really built, and trees to ask."""

from __future__ import annotations

from typing import Any

import duckdb
from hypothesis import strategies as st

from calitree import WideTable
from calitree.apps.verify.plain import attributes_of, query_sql, wide_sql
from calitree.query.binder import Question
from tests.support.databases import Database

MAX_JOIN = 20_000


def oracle(wide: WideTable, database: Database, asked: dict[str, Any]) -> Any:
    """The same question as SQL over the wide table that DuckDB builds."""
    query = wide.snapshot.bind(Question(**asked)).query
    sql, tables = wide_sql(wide.schema, query.relations, sorted(attributes_of(query)), "duckdb")
    with duckdb.connect() as connection:
        for alias, table in tables.items():
            name = next(n for n, r in wide.schema.relations.items() if r.table is table)
            connection.register(alias, database.tables[name])
        connection.execute(f"CREATE TABLE wide AS {sql}")
        return connection.sql(query_sql(query, "duckdb")).to_arrow_table()


@st.composite
def empty_bags(draw: st.DrawFn, database: Database) -> dict[str, list[str]]:
    """Now and then an empty bag or two, each a view of some columns of one relation."""
    found = {}
    for i in range(draw(st.sampled_from([0, 0, 1, 2]))):
        name = draw(st.sampled_from(sorted(database.tables)))
        columns = st.sampled_from(database.tables[name].column_names)
        chosen = draw(st.lists(columns, min_size=1, max_size=3, unique=True))
        found[f"view {i}"] = [f"{name}.{column}" for column in chosen]
    return found
