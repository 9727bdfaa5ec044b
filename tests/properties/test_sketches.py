"""Approximate measures on random joins: the same on every engine, and close to DuckDB's exact ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.bounds import COLLISIONS, STANDARD_ERRORS
from calitree.apps.verify.check import compare
from calitree.query.carried.approximate import STANDARD_ERROR, VALUE_ERROR
from tests.properties.test_measures import changes
from tests.properties.test_outer_joins import outer_databases
from tests.support.databases import Database, databases, join_size
from tests.support.measure_texts import of_duckdb, ours, questions_with
from tests.support.oracle import oracle
from tests.support.runners import run_local, run_reference

MAX_JOIN = 5_000
TEXTS = (
    "approx_count_distinct({c});;count(distinct {c})",
    "approx_count_distinct({c}) filter (where {p});;count(distinct {c}) filter (where {p})",
    "approx_count_distinct({n} * {n2});;count(distinct {n} * {n2})",
    "approx_count_distinct({c}) filter (where {n2} > {n3});;count(distinct {c}) filter (where {n2} > {n3})",
    "approx_quantile({n}, 0.5);;quantile_disc({n}, 0.5)",
    "approx_quantile({m}, 0.9) filter (where {p});;quantile_disc({m}, 0.9) filter (where {p})",
    "approx_quantile({n} - {n2}, 0.25);;quantile_disc({n} - {n2}, 0.25)",
)
"""Of which the texts after ;; are exact."""


def bounds(value: Any, is_count: bool) -> list[Any]:
    """An exact value, and between which others the approximate one may be."""
    if value is None:
        return [None]
    number = float(value)
    part = STANDARD_ERRORS * STANDARD_ERROR if is_count else VALUE_ERROR * (1 + 1e-9)
    error = part * abs(number) + (COLLISIONS if is_count else 0)
    return [number, number - error, number + error]


def with_bounds(exact: pa.Table, question: dict[str, Any]) -> pa.Table:
    keys = len(question["group_by"])
    for at, text in enumerate(question["measures"].values(), keys):
        if "approx" in text:
            is_count = text.startswith("approx_count_distinct")
            lists = [bounds(value.as_py(), is_count) for value in exact.column(at)]
            field = pa.field(exact.column_names[at], pa.list_(pa.float64()))
            exact = exact.set_column(at, field, pa.array(lists, field.type))
    return exact


def check_answers(
    wide: ct.WideTable, other: ct.WideTable, database: Database, asked: list[Any]
) -> None:
    """Close to what DuckDB has, and what another engine has."""
    for question in asked:
        result, keys = wide.query(**ours(question)), len(question["group_by"])
        exact = with_bounds(oracle(wide, database, ours(question), of_duckdb(question)), question)
        difference = compare(result.arrow(), exact, keys, approximate=result.approximate)
        assert not difference, f"{question}: {difference}\n{result.plan}"
        same = other.query(**ours(question)).arrow()
        assert not compare(result.arrow(), same, keys, tolerance=0), question


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    kinds = (
        outer_databases(("inner", "left", "full")) if data.draw(st.booleans()) else databases(4, 25)
    )
    database = data.draw(kinds, label="database")
    assume(join_size(database) <= MAX_JOIN)
    asked = [data.draw(questions_with(database, TEXTS), label="question") for _ in range(deltas)]
    try:
        wide = database.graph(engine).calibrate(**ours(asked[0]))
    except ct.SchemaError as error:
        assert "is not supported" in str(error)
        assume(False)
    other = database.graph("reference").calibrate(**ours(asked[0]))
    check_answers(wide, other, database, asked)
    name = data.draw(st.sampled_from(sorted(database.tables)), label="relation")
    changed, came, gone = changes(database, name, data.draw(st.integers(0, 2**32 - 1)))
    changed = Database(changed.tables, database.joins, database.closing, database.hows)
    trees = (wide, other)
    assumed = [tree.what_if(insert={name: came}, delete={name: gone}) for tree in trees]
    check_answers(*assumed, changed, asked[-1:])
    for tree in trees:
        tree.update(name, insert=came, delete=gone)
    check_answers(*trees, changed, asked)


def test_reference() -> None:
    run_reference(check, 10, deltas=2)


def test_local() -> None:
    run_local(check, 25, deltas=2)
