"""Every engine against DuckDB on the join really built: random graphs, trees, data, pivots and delta
queries.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree.apps.verify.check import compare
from calitree.apps.verify.plain import attributes_of, query_sql, wide_sql
from calitree.query.binder import Question
from calitree.wide_table import WideTable
from tests.databases import Database, databases, join_size, questions
from tests.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.scale import examples

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


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(databases(), label="database")
    assume(join_size(database) <= MAX_JOIN)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    graph = database.graph(engine)
    tree = graph.hypertree(
        empty=data.draw(empty_bags(database), label="empty bags"),
        redundant=data.draw(st.booleans(), label="redundant"),
    )
    wide = graph.calibrate(**pivot, tree=tree)
    assert wide.is_calibrated
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions(database), label="delta") for _ in range(deltas)]
    for question in asked:
        result = wide.query(**question)
        expected = oracle(wide, database, {"measures": None, **question})
        difference = compare(result.arrow(), expected, len(question.get("group_by", ())))
        assert not difference, f"{question}: {difference}\n{result.plan}"


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=1)


@settings(max_examples=examples(2000), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    """Half of the cases as if every table were large."""
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=1)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    count = examples(150 if engine == "spark" else 30)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=1)

    run()
