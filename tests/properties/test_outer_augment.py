"""Relations that are added to trees with outer joins, on columns of any side: against DuckDB."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import calitree as ct
from calitree import SchemaError
from tests.properties.test_outer_joins import REFUSALS, outer_databases
from tests.support.databases import Database, questions
from tests.support.oracle import assert_answers
from tests.support.runners import run_local, run_reference, run_spark, spark_engines


@st.composite
def additions(draw: st.DrawFn, database: Database) -> tuple[pa.Table, dict[str, str]]:
    """A table with some values of one or two columns, NULL too, and the columns that they join."""
    keys = [column for column in database.columns() if column.split(".")[1][0] in "kp"]
    chosen = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    rows, columns = rng.randint(0, 8), {}
    for i, text in enumerate(chosen):
        relation, name = text.split(".")
        known = database.tables[relation].column(name)
        values = [*known.unique().to_pylist(), None]
        columns[f"k{i}"] = pa.array([rng.choice(values) for _ in range(rows)], known.type)
    columns["x"] = pa.array([rng.choice([None, 1, 2, 5]) for _ in range(rows)], pa.int64())
    return pa.table(columns), {text: f"k{i}" for i, text in enumerate(chosen)}


def with_addition(database: Database, name: str, table: pa.Table, on: dict[str, str]) -> Database:
    """The database as if the table had been there, with the joins declared last."""
    joins: dict[str, dict[str, str]] = {}
    for text, theirs in on.items():
        relation, column = text.split(".")
        joins.setdefault(relation, {})[column] = theirs
    added = tuple((relation, name, pairs) for relation, pairs in joins.items())
    return replace(
        database,
        tables={**database.tables, name: table},
        joins=(*database.joins, *added),
        hows=(*database.hows, *("inner" for _ in added)),
    )


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(outer_databases(), label="database")
    try:
        graph = database.graph(engine)
    except SchemaError as error:
        assert "is not supported" in str(error)
        assume(False)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    wide = graph.calibrate(**pivot)
    for name in data.draw(st.sampled_from([["added"], ["added", "again"]]), label="names"):
        table, on = data.draw(additions(database), label=name)
        assume(len({wide.schema.column(column).attribute for column in on}) == len(on))
        if data.draw(st.booleans(), label="keyed"):
            wide = wide.keyed(list(on))
        wide = wide.augment(table, on=on, name=name)
        database = with_addition(database, name, table, on)
    if data.draw(st.booleans(), label="refresh"):
        wide.refresh()
    assert_answers(wide, database, pivot, data, deltas, REFUSALS)
    if engine != "reference" and data.draw(st.booleans(), label="saved"):
        with TemporaryDirectory() as directory:
            wide.save(f"{directory}/tree")
            opened = ct.open(f"{directory}/tree", engine=engine)
            assert_answers(opened, database, pivot, data, 1, REFUSALS)


def test_reference() -> None:
    run_reference(check, 60, deltas=2)


def test_local() -> None:
    run_local(check, 100, deltas=3)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    run_spark(check, spark_engines(engine, spark, tmp_path), 3, deltas=1)
