"""Joins that close cycles: every engine, shared bags and the redundant design, against DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from calitree.apps.verify.check import compare
from calitree.engines.spark import SparkEngine
from tests.support.databases import Database, On
from tests.support.oracle import oracle


def database(shape: dict[str, str], rows: int, values: int) -> Database:
    """Relations of this shape (attributes as letters), each with a key of NULLs here and there, a
    number and a text of its own.
    """
    rng = random.Random(7)
    tables, joins, first = {}, [], dict[str, str]()
    for name, letters in shape.items():
        columns: dict[str, list[Any]] = {
            letter: [None if rng.random() < 0.05 else rng.randrange(values) for _ in range(rows)]
            for letter in letters
        }
        columns["value"] = [rng.randint(-3, 9) for _ in range(rows)]
        columns["word"] = [rng.choice("pqr") for _ in range(rows)]
        tables[name] = pa.table(columns)
        for letter in letters:
            if letter in first:
                joins.append((first[letter], name, {letter: letter}))
            first.setdefault(letter, name)
    return Database(tables, tuple[On, ...](joins))


@cache
def databases() -> dict[str, Database]:
    sakila = {"rental": "SI", "staff": "ST", "store": "T", "inventory": "TIF", "film": "F"}
    chords = {"R0": "AB", "R1": "BC", "R2": "CD", "R3": "DE", "R4": "EA", "AC": "AC", "AD": "AD"}
    return {
        "triangle": database({"R": "AB", "S": "BC", "T": "AC"}, 30, 6),
        "four": database({"R": "AB", "S": "BC", "T": "CD", "U": "DA"}, 20, 4),
        "five with chords": database(chords, 10, 3),
        "sakila": database(sakila, 20, 3),
        "two triangles": database(
            {"R": "AB", "S": "BC", "T": "AC", "via": "CD", "U": "DE", "V": "EF", "W": "DF"}, 8, 3
        ),
    }


def questions(tables: Database) -> Iterator[dict[str, Any]]:
    """Groups, filters and measures: of all relations, and with each left out that no other needs."""
    schema = tables.graph("reference").schema
    for left_out in (None, *tables.tables):
        joined = [name for name in tables.tables if name != left_out]
        if len(schema.components(joined)) > 1:
            continue
        limits = {} if left_out is None else {"relations": joined}
        a, b = joined[0], joined[-1]
        key = tables.tables[b].column_names[0]
        measures = {
            "n": "count(*)",
            "product": f"sum({a}.value * {b}.value)",
            "least": f"min({a}.value)",
            "spread": f"var_pop({b}.value)",
        }
        either = f"{a}.value < {b}.value or {a}.word = 'p'"
        yield {"measures": measures, **limits}
        yield {"group_by": [f"{a}.word"], "where": f"{b}.value > 1", "measures": ["n"], **limits}
        yield {"group_by": [f"{b}.{key}"], "where": either, "measures": measures, **limits}


def check(engine: Any, name: str, redundant: bool, step: int = 1) -> None:
    """Ask every `step`-th question."""
    tables = databases()[name]
    graph = tables.graph(engine)
    tree = graph.hypertree(redundant=redundant)
    pivot = {"n": "count(*)", "s": f"sum({next(iter(tables.tables))}.value)"}
    wide = graph.calibrate(pivot, tree=tree)
    assert wide.query().rows()[0]["n"] > 0, "the questions are not about nothing"
    for question in islice(questions(tables), None, None, step):
        result = wide.query(**question)
        expected = oracle(wide, tables, question)
        difference = compare(result.arrow(), expected, len(question.get("group_by", ())))
        assert not difference, f"{question}: {difference}\n{result.plan}"


@pytest.mark.parametrize("redundant", [False, True])
@pytest.mark.parametrize("name", databases())
@pytest.mark.parametrize("engine", ["reference", "local"])
def test_answers(engine: str, name: str, redundant: bool) -> None:
    check(engine, name, redundant)


@pytest.mark.parametrize("redundant", [False, True])
@pytest.mark.parametrize("name", databases())
def test_answers_on_spark(spark: Any, name: str, redundant: bool) -> None:
    check(SparkEngine(spark), name, redundant, step=5)


def test_relations_apart_do_not_join_again() -> None:
    """The redundant design: what changes at one relation meets a single message there."""
    graph = databases()["triangle"].graph("reference")
    wide = graph.calibrate(tree=graph.hypertree(redundant=True))
    for relation in ("R", "S", "T"):
        plan = wide.plan(where=f"{relation}.value > 3", group_by=[f"{relation}.word"])
        assert plan.root == relation and plan.computed == ()
        assert [key.target for key in plan.reused] == [relation]


def test_bags_of_a_cycle_reuse_messages() -> None:
    """Two bags of a cycle of four: a filter in one leaves the other's message as it is."""
    graph = databases()["four"].graph("reference")
    tree = graph.hypertree()
    wide = graph.calibrate(tree=tree)
    assert len(tree.bags) == 2
    for bag in tree.bags:
        plan = wide.plan(where=f"{bag.relations[0]}.value > 3")
        assert plan.root == bag.name and plan.computed == () and len(plan.reused) == 1
