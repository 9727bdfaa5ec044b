"""Measures at a grain, on every engine: against DuckDB's SQL over distinct pairs of a group and a row."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from calitree import SchemaError
from tests.support.databases import Database, databases, join_size
from tests.support.engines import ON_SPARK, engine_named, spark_engine_named
from tests.support.grain import assert_grain, changed, grain_questions
from tests.support.scale import examples

MAX_JOIN = 5_000
HOWS = ("inner", "left", "left", "right", "full")
SEVERAL = ("to the grain", "would repeat rows of", "are joined by an outer join")
FULL = (*SEVERAL, "one side of a full join", "full join. Group by its columns")


def is_worth_asking(database: Database) -> bool:
    """Whether the join, if it is not too large, repeats rows; some databases without any are asked too."""
    rows = [table.num_rows for table in database.tables.values()]
    return join_size(database) <= MAX_JOIN and (join_size(database) > max(rows) or not all(rows))


def graph_of(database: Database, engine: Any, condition: tuple[str, str, str] | None) -> Any:
    graph = database.graph(engine)
    if condition is not None:
        graph.add_join(condition[0], condition[1], condition=condition[2])
    return graph


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    """Inner joins, some with cycles or a join by a condition; questions before and after updates."""
    database = data.draw(databases(max_relations=5, max_rows=24), label="database")
    assume(is_worth_asking(database))
    numbers = [n for n, t in database.tables.items() if "x" in t.column_names]
    condition = None
    if len(numbers) > 1 and data.draw(st.integers(0, 4), label="theta") == 0:
        a, b = data.draw(st.permutations(numbers), label="joined by a condition")[:2]
        condition = a, b, f"{a}.x <= {b}.x"
    conditions = () if condition is None else (condition[2],)
    asked = data.draw(grain_questions(database), label="pivot")
    wide = graph_of(database, engine, condition).calibrate(asked.arguments["measures"])
    rng = random.Random(data.draw(st.integers(0, 2**32 - 1), label="changes"))
    for _ in range(deltas):
        assert_grain(wide, database, asked, conditions, SEVERAL)
        name = rng.choice(sorted(database.tables))
        if rng.random() < 0.3:
            supposed, rows = changed(database, name, rng)
            what_if = wide.what_if(delete={name: rows["delete"]}, insert={name: rows["insert"]})
            assert_grain(what_if, supposed, asked, conditions, SEVERAL)
        database, rows = changed(database, name, rng)
        wide.update(name, **rows)
        assert_grain(wide, database, asked, conditions, SEVERAL)
        asked = data.draw(grain_questions(database), label="delta")


def check_outer(engine: Any, data: st.DataObject, deltas: int) -> None:
    """Joins of every kind, declared in any order."""
    drawn = data.draw(databases(max_relations=4, max_rows=16), label="database")
    assume(is_worth_asking(drawn))
    hows = [data.draw(st.sampled_from(HOWS), label="how") for _ in drawn.joins]
    database = replace(drawn, hows=tuple(hows), closing=())
    try:
        graph = database.graph(engine)
    except SchemaError as error:
        assert "is not supported" in str(error)
        assume(False)
    asked = data.draw(grain_questions(database), label="pivot")
    wide = graph.calibrate({"n": "count(*)"})
    rng = random.Random(data.draw(st.integers(0, 2**32 - 1), label="changes"))
    for _ in range(deltas):
        assert_grain(wide, database, asked, (), FULL)
        name = rng.choice(sorted(database.tables))
        database, rows = changed(database, name, rng)
        wide.update(name, **rows)
        asked = data.draw(grain_questions(database), label="delta")
        assert_grain(wide, database, asked, (), FULL)


@pytest.mark.parametrize("engine", ["local", "local, scanning", "reference"])
@settings(max_examples=examples(70), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_each_row_of_a_grain_counts_once(engine: str, data: st.DataObject) -> None:
    check(engine_named(engine), data, deltas=2)


@pytest.mark.parametrize("engine", ["local", "reference"])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_across_outer_joins(engine: str, data: st.DataObject) -> None:
    check_outer(engine_named(engine), data, deltas=2)


@pytest.mark.parametrize("engine", ON_SPARK)
@settings(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_on_spark(engine: str, data: st.DataObject, spark: Any, tmp_path_factory: Any) -> None:
    directory: Path = tmp_path_factory.mktemp("grain")
    check(spark_engine_named(engine, spark, directory), data, deltas=1)
    check_outer(spark_engine_named(engine, spark, directory), data, deltas=1)
