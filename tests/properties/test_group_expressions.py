"""Groups by random expressions, on every engine, against DuckDB on the materialised join."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from tests.support.databases import Database, databases, join_size, simple_predicate
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.group_expressions import questions_by_expressions
from tests.support.oracle import MAX_JOIN, oracle
from tests.support.scale import examples


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(databases(max_relations=4), label="database")
    assume(join_size(database) <= MAX_JOIN)
    pivot = data.draw(questions_by_expressions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    assert wide.is_calibrated
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions_by_expressions(database), label="delta") for _ in range(deltas)]
    check_answers(wide, database, asked)


def check_answers(wide: ct.WideTable, database: Database, asked: list[dict[str, Any]]) -> None:
    for question in asked:
        result = wide.query(**question)
        expected = oracle(wide, database, {"measures": None, **question})
        difference = compare(result.arrow(), expected, len(question["group_by"]))
        assert not difference, f"{question}: {difference}\n{result.plan}"
        assert result.columns[: len(question["group_by"])] == list(question["group_by"])


def check_changes(engine: Any, data: st.DataObject, directory: Path | None) -> None:
    """A what-if, an update, and the tree saved and opened."""
    database = data.draw(databases(max_relations=3, max_rows=20), label="database")
    assume(join_size(database) <= MAX_JOIN // 4)
    pivot = data.draw(questions_by_expressions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    asked = [{"group_by": pivot["group_by"], "where": pivot.get("where")}]
    asked += [data.draw(questions_by_expressions(database), label="delta") for _ in range(2)]
    check_answers(wide, database, asked)
    name = data.draw(st.sampled_from(sorted(database.tables)), label="relation")
    table = database.tables[name]
    column = data.draw(st.sampled_from(table.column_names), label="column")
    rng = random.Random(data.draw(st.integers(0, 2**32 - 1)))
    gone = simple_predicate(database, f"{name}.{column}", rng)
    came = table.take([rng.randrange(len(table)) for _ in range(3)]) if len(table) else table
    changed = Database(
        {**database.tables, name: pa.concat_tables([_without(name, table, gone), came])},
        database.joins,
        database.closing,
    )
    check_answers(wide.what_if(insert={name: came}, delete={name: gone}), changed, asked)
    check_answers(wide, database, asked)
    wide.update(name, insert=came, delete=gone)
    check_answers(wide, changed, asked)
    if directory is not None:
        path = str(directory / uuid4().hex)
        wide.refresh()
        wide.save(path)
        opened = ct.open(path, engine=wide.engine)
        assert opened.is_calibrated
        check_answers(opened, changed, asked)


def _without(name: str, table: pa.Table, gone: str) -> pa.Table:
    connection = duckdb.connect()
    connection.register(name, table)
    rest = connection.sql(f"FROM {name} WHERE ({gone}) IS NOT TRUE").to_arrow_table()
    return rest.cast(table.schema)


@settings(max_examples=examples(80), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=4)


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_changes_reference(data: st.DataObject) -> None:
    check_changes("reference", data, None)


@settings(max_examples=examples(120), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_changes_local(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    engine = engine_named(data.draw(st.sampled_from(LOCAL), label="engine"))
    check_changes(engine, data, tmp_path_factory.getbasetemp())


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_changes_on_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    @settings(max_examples=examples(4), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check_changes(spark_engine_named(engine, spark, tmp_path), data, tmp_path)

    run()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    count = examples(12 if engine == "spark" else 5)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=5)

    run()
