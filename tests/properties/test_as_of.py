"""As-of joins, on every engine, against DuckDB on the plainly written join."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from tests.support.as_of import AsOfDatabase, as_of_databases, plain_answer
from tests.support.databases import questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.scale import examples

Tables = dict[str, pa.Table]


def assert_same(wide: Any, database: AsOfDatabase, asked: dict[str, Any], tables: Tables) -> None:
    try:
        result = wide.query(**asked)
    except ct.QueryError as error:
        assert "would be outer joins" in str(error)
        assume(False)
    expected = plain_answer(database, asked, tables)
    difference = compare(result.arrow(), expected, len(asked["group_by"]))
    assert not difference, f"{asked}: {difference}\n{result.plan}"


def check(engine: Any, data: st.DataObject, deltas: int, directory: Path | None = None) -> None:
    database = data.draw(as_of_databases(), label="database")
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    assert_same(wide, database, pivot, database.tables)
    for _ in range(deltas):
        asked = data.draw(questions(database), label="delta")
        assert_same(wide, database, asked, database.tables)
    tables = changed(wide, database.tables, data)
    for _ in range(deltas):
        assert_same(wide, database, data.draw(questions(database), label="updated"), tables)
    name = data.draw(st.sampled_from(sorted(tables)), label="what if")
    without = {**tables, name: kept(tables[name], "x", 2)}
    asked = data.draw(questions(database), label="supposed")
    assert_same(wide.what_if(delete={name: "x > 2"}), database, asked, without)
    if directory is not None:
        path = directory / uuid4().hex
        wide.save(str(path))
        opened = ct.open(str(path), engine=engine if isinstance(engine, str) else "local")
        assert_same(opened, database, data.draw(questions(database), label="opened"), tables)
        tables = changed(opened, tables, data)
        assert_same(opened, database, data.draw(questions(database), label="changed"), tables)


def kept(table: pa.Table, column: str, most: int) -> pa.Table:
    """The rows in which a column is not more than this."""
    values = table.column(column).to_pylist()
    return table.filter(pa.array([x is None or x <= most for x in values], pa.bool_()))


def changed(wide: Any, tables: Tables, data: st.DataObject) -> Tables:
    """Rows come and go, of either side of a join; those that come are others' too, moved in time."""
    tables = dict(tables)
    names = st.lists(st.sampled_from(sorted(tables)), min_size=1, max_size=3)
    for name in data.draw(names, label="changed"):
        table, most = tables[name], data.draw(st.integers(0, 5), label="most")
        other = tables[data.draw(st.sampled_from(sorted(tables)), label="of")]
        rows = other.slice(0, data.draw(st.integers(0, 2)))
        wide.update(name, insert=rows, delete=f"x > {most}")
        tables[name] = pa.concat_tables([kept(table, "x", most), rows])
    return tables


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


def test_local(tmp_path: Path) -> None:
    @settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        engine = engine_named(data.draw(st.sampled_from(LOCAL), label="engine"))
        directory = tmp_path if data.draw(st.integers(0, 4), label="saved") == 0 else None
        check(engine, data, 3, directory)

    run()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    """Few trees, as each is many jobs."""

    @settings(max_examples=examples(4), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=2)

    run()
