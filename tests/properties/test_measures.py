"""Measures as people write them, on every engine, against the same texts on the join in DuckDB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.calibration.folding import carrying
from tests.support.databases import Database, databases, join_size, simple_predicate
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.measure_texts import (
    CARRIED,
    CHOICES,
    FORMULAS,
    of_duckdb,
    ours,
    questions_with,
)
from tests.support.oracle import oracle
from tests.support.scale import examples

MAX_JOIN = 5_000
TEXTS = FORMULAS + CHOICES + CARRIED


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    """Questions, and the same after an update; the pivot is one of them."""
    database = data.draw(databases(max_relations=4, max_rows=25), label="database")
    assume(join_size(database) <= MAX_JOIN)
    asked = [
        data.draw(questions_with(database, TEXTS), label="question") for _ in range(1 + deltas)
    ]
    # Of so few rows, hardly any message of carried values would be kept.
    share = data.draw(st.sampled_from([carrying.MAX_SHARE, 1e9]), label="share")
    with patch.object(carrying, "MAX_SHARE", share):
        wide = database.graph(engine).calibrate(**ours(asked[0]))
        check_answers(wide, database, asked)
        check_changes(wide, database, asked, data)


def check_changes(
    wide: ct.WideTable, database: Database, asked: list[dict[str, Any]], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(database.tables)), label="relation")
    changed, came, gone = changes(database, name, data.draw(st.integers(0, 2**32 - 1)))
    check_answers(wide.what_if(insert={name: came}, delete={name: gone}), changed, asked[-1:])
    wide.update(name, insert=came, delete=gone)
    if data.draw(st.booleans(), label="refresh"):
        wide.refresh()
    check_answers(wide, changed, asked)


def check_answers(wide: ct.WideTable, database: Database, asked: list[dict[str, Any]]) -> None:
    for question in asked:
        result = wide.query(**ours(question))
        expected = oracle(wide, database, ours(question), of_duckdb(question))
        difference = compare(result.arrow(), expected, len(question["group_by"]))
        assert not difference, f"{question}: {difference}\n{result.plan}"


def changes(database: Database, name: str, seed: int) -> tuple[Database, pa.Table, str]:
    """The database after rows of a relation came and went, and these."""
    rng, table = random.Random(seed), database.tables[name]
    gone = simple_predicate(database, f"{name}.{rng.choice(table.column_names)}", rng)
    came = table.take([rng.randrange(len(table)) for _ in range(3)]) if len(table) else table
    connection = duckdb.connect()
    connection.register(name, table)
    rest = connection.sql(f"FROM {name} WHERE ({gone}) IS NOT TRUE").to_arrow_table()
    tables = {**database.tables, name: pa.concat_tables([rest.cast(table.schema), came])}
    return Database(tables, database.joins, database.closing), came, gone


@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


@settings(max_examples=examples(250), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data, deltas=3)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    @settings(max_examples=examples(6), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=3)

    run()
