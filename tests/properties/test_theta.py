"""Joins by a condition, on every engine, against DuckDB on the plainly written join."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.engines.local.theta import pairs, theta, theta_join
from tests.support.databases import questions
from tests.support.engines import LOCAL, ON_SPARK, engine_named, spark_engine_named
from tests.support.scale import examples
from tests.support.theta import ThetaDatabase, plain_answer, theta_databases


def assert_same(
    wide: Any, database: ThetaDatabase, asked: dict[str, Any], tables: dict[str, pa.Table] | None
) -> None:
    result = wide.query(**asked)
    expected = plain_answer(database, asked, tables)
    difference = compare(result.arrow(), expected, len(asked["group_by"]))
    assert not difference, f"{asked}: {difference}\n{result.plan}"


def check(engine: Any, data: st.DataObject, deltas: int, directory: Path | None = None) -> None:
    database = data.draw(theta_databases(), label="database")
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    wide = database.graph(engine).calibrate(**pivot)
    assert_same(wide, database, pivot, None)
    for _ in range(deltas):
        assert_same(wide, database, data.draw(questions(database), label="delta"), None)
    tables = changed(wide, database, data)
    for _ in range(deltas):
        assert_same(wide, database, data.draw(questions(database), label="updated"), tables)
    what_if(wide, database, tables, data)
    if directory is not None:
        path = directory / f"{random.getrandbits(64):x}"
        wide.save(str(path))
        opened = ct.open(str(path), engine=engine if isinstance(engine, str) else "local")
        for _ in range(deltas):
            assert_same(opened, database, data.draw(questions(database), label="opened"), tables)


def changed(wide: Any, database: ThetaDatabase, data: st.DataObject) -> dict[str, pa.Table]:
    """Rows come and go."""
    tables = dict(database.tables)
    for name in data.draw(st.lists(st.sampled_from(sorted(tables)), max_size=2), label="changed"):
        table = tables[name]
        gone = data.draw(st.integers(0, 3))
        rows = table.slice(0, min(2, len(table)))
        wide.update(name, insert=rows, delete=f"k = {gone}")
        keep = pa.array([k != gone for k in table.column("k").to_pylist()], pa.bool_())
        tables[name] = pa.concat_tables([table.filter(keep), rows])
    return tables


def what_if(
    wide: Any, database: ThetaDatabase, tables: dict[str, pa.Table], data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(tables)), label="what if")
    keep = pa.array([not (x is not None and x > 2) for x in tables[name].column("x").to_pylist()])
    asked = data.draw(questions(database), label="asked")
    without = {**tables, name: tables[name].filter(keep.cast(pa.bool_()))}
    assert_same(wide.what_if(delete={name: "x > 2"}), database, asked, without)


@contextmanager
def patched(block: int, rows_per_key: int) -> Iterator[None]:
    """Such that pairs are tried in small blocks, or rather than many look-ups; and keys are few."""
    with (
        patch.object(pairs, "BLOCK_PAIRS", block),
        patch.object(theta, "MAX_PROBES_PER_ROW", 0 if block == 1 else 4),
        patch.object(theta_join, "MIN_ROWS_PER_KEY", rows_per_key),
    ):
        yield


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data, deltas=2)


def test_local(tmp_path: Path) -> None:
    """Half of the cases as if every table were large."""

    @settings(max_examples=examples(400), suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        engine = data.draw(st.sampled_from(LOCAL), label="engine")
        directory = tmp_path if data.draw(st.integers(0, 4), label="saved") == 0 else None
        block = data.draw(st.sampled_from([1, 1 << 20]), label="pairs of a block")
        rows_per_key = data.draw(st.sampled_from([0, 8]), label="rows of a key")
        with patched(block, rows_per_key):
            check(engine_named(engine), data, 3, directory)

    run()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    """Few trees, as each is many jobs."""
    count = examples(15 if engine == "spark" else 6)

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        check(spark_engine_named(engine, spark, tmp_path), data, deltas=2)

    run()
