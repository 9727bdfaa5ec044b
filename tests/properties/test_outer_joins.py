"""Outer joins of every kind, in any order, on every engine: against DuckDB on the joins as declared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import calitree as ct
from calitree import SchemaError, TreeError
from tests.support.databases import Database, databases, join_size, questions
from tests.support.engines import ON_SPARK
from tests.support.oracle import MAX_JOIN, Refusals, assert_answer, assert_answers, empty_bags
from tests.support.runners import run_local, run_reference, run_spark, spark_engines

REFUSALS = Refusals(("other joins of those that stay", "No declared joins connect"), share=0.05)
"""Of questions that leave out relations on the way of an outer join."""

HOWS = ("inner", "left", "left", "right", "full")


@st.composite
def outer_databases(draw: st.DrawFn, hows: tuple[str, ...] = HOWS) -> Database:
    """A random database whose joins are declared in random order and direction, some of them outer."""
    database = draw(databases(max_relations=5, max_rows=24))
    assume(join_size(database) <= MAX_JOIN)
    joins = list(draw(st.permutations(database.joins)))
    for at, (left, right, on) in enumerate(joins):
        if draw(st.booleans()):
            joins[at] = (right, left, {theirs: ours for ours, theirs in on.items()})
    kinds = [draw(st.sampled_from(hows)) for _ in joins]
    return replace(database, joins=tuple(joins), hows=tuple(kinds), closing=())


KEYWORDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


def declared_text(database: Database) -> str:
    """The joins in the order of their declaration, each of what was joined so far."""
    texts, parts = {name: name for name in database.tables}, {n: {n} for n in database.tables}
    for (left, right, on), how in zip(database.joins, database.hows, strict=True):
        second = texts[right] if texts[right] == right else f"({texts[right]})"
        tests = " AND ".join(f"{left}.{a} = {right}.{b}" for a, b in on.items())
        joined = parts[left] | parts[right]
        text = f"{texts[left]} {KEYWORDS[how]} {second} ON {tests}"
        texts |= dict.fromkeys(joined, text)
        parts |= dict.fromkeys(joined, joined)
    return texts[next(iter(database.tables))]


def declared(database: Database, engine: Any) -> ct.JoinGraph:
    """The graph, if its joins are supported."""
    try:
        graph = database.graph(engine)
    except SchemaError as error:
        assert "is not supported" in str(error)
        assume(False)
    assert graph.from_clause() == declared_text(database)
    return graph


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(outer_databases(), label="database")
    graph = declared(database, engine)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    tree = graph.hypertree(empty=data.draw(empty_bags(database), label="empty bags"))
    wide = graph.calibrate(**pivot, tree=tree)
    assert wide.is_calibrated
    assert_answers(wide, database, pivot, data, deltas, REFUSALS)


def check_mixed(engine: Any, data: st.DataObject, deltas: int) -> None:
    """Outer joins, joins that close cycles, joins by a condition and groups by an expression, together."""
    drawn = data.draw(databases(max_relations=4, max_rows=14), label="database")
    assume(join_size(drawn) <= MAX_JOIN // 20)
    hows = [data.draw(st.sampled_from(HOWS), label="how") for _ in drawn.joins]
    graph, joins = ct.JoinGraph(engine=engine), zip(drawn.joins, hows, strict=True)
    for name, table in drawn.tables.items():
        graph.add_relation(name, table)
    try:
        for (left, right, on), how in joins:
            graph.add_join(left, right, on=on, how=how)
        for left, right, on in drawn.closing:
            graph.add_join(left, right, on=on, how=data.draw(st.sampled_from(HOWS), label="how"))
        for left, right in data.draw(pairs_of_numbers(drawn), label="conditions"):
            comparison = data.draw(st.sampled_from(("<", ">=", "is distinct from")))
            relations = [column.split(".")[0] for column in (left, right)]
            graph.add_join(*relations, condition=f"{left} {comparison} {right}")
        wide = graph.calibrate()
    except (SchemaError, TreeError) as error:
        assert any(text in str(error) for text in REFUSED), error
        assume(False)
    for _ in range(deltas):
        asked = data.draw(questions(drawn), label="question")
        column = data.draw(st.sampled_from(drawn.columns()), label="column")
        if column.split(".")[0] in asked.get("relations", drawn.tables):
            asked["group_by"] = [*asked["group_by"][:1], f"{column} is null"]
        assert_answer(wide, drawn, asked, REFUSALS)


REFUSED = (
    "is not supported",
    "closes a cycle",
    "must share a bag",
    "would make",
)


@st.composite
def pairs_of_numbers(draw: st.DrawFn, database: Database) -> list[tuple[str, str]]:
    """Now and then two columns of different relations to be compared."""
    numbers = database.payloads("x", "y", "f")
    if len(numbers) < 2 or draw(st.integers(0, 2)):
        return []
    left, right = draw(st.permutations(numbers))[:2]
    return [(left, right)] if left.split(".")[0] != right.split(".")[0] else []


def test_reference() -> None:
    run_reference(check, 100, deltas=3)


def test_local() -> None:
    run_local(check, 500, deltas=4)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    count = 16 if engine == "spark" else 6
    run_spark(check, spark_engines(engine, spark, tmp_path), count, deltas=5)


def check_updates(engine: Any, data: st.DataObject, deltas: int) -> None:
    """Rows come and go, so that matches appear and vanish; then the tree is saved, opened and asked."""
    database = data.draw(outer_databases(), label="database")
    graph = declared(database, engine)
    pivot = data.draw(questions(database, exclusions=False), label="pivot")
    wide = graph.calibrate(**pivot)
    assert_answers(wide, database, pivot, data, 1, REFUSALS)
    for _ in range(data.draw(st.integers(1, 3), label="updates")):
        name = data.draw(st.sampled_from(sorted(database.tables)), label="relation")
        table = database.tables[name]
        gone = data.draw(st.integers(0, table.num_rows), label="deleted")
        come = table.slice(0, data.draw(st.integers(0, 3), label="inserted"))
        rest = table.slice(gone)
        wide.update(name, insert=come, delete=table.slice(0, gone))
        if data.draw(st.booleans(), label="refreshed"):
            wide.refresh()
        database = replace(
            database, tables={**database.tables, name: pa.concat_tables([rest, come])}
        )
        assert_answers(wide, database, pivot, data, 1, REFUSALS)
    supposed = data.draw(st.sampled_from(sorted(database.tables)), label="supposed")
    without = replace(
        database, tables={**database.tables, supposed: database.tables[supposed].slice(1)}
    )
    what_if = wide.what_if(delete={supposed: database.tables[supposed].slice(0, 1)})
    assert_answers(what_if, without, pivot, data, 1, REFUSALS)
    if engine != "reference":
        with TemporaryDirectory() as directory:
            wide.save(f"{directory}/tree")
            opened = ct.open(f"{directory}/tree", engine=engine)
            assert_answers(opened, database, pivot, data, deltas, REFUSALS)


def test_reference_mixed() -> None:
    run_reference(check_mixed, 60, deltas=2)


def test_local_mixed() -> None:
    run_local(check_mixed, 150, deltas=3)


def test_reference_updates() -> None:
    run_reference(check_updates, 30, deltas=1)


def test_local_updates() -> None:
    run_local(check_updates, 120, deltas=2)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ON_SPARK)
def test_spark_updates(spark: Any, tmp_path: Path, engine: str) -> None:
    run_spark(check_updates, spark_engines(engine, spark, tmp_path), 3, deltas=1)
