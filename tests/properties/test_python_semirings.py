"""Semirings of Python functions, in random joins: which rows were joined, and how often, against DuckDB.

Polynomials whose variables are rows tell all that there is to know of a sum of products: what is right for
them is right for every other commutative semiring. Sets of monomials are the same where ⊕ is idempotent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st

import calitree as ct
from calitree.errors import QueryError, SchemaError
from tests.properties.test_outer_joins import outer_databases
from tests.support.databases import Database, connected, databases, join_size, predicates
from tests.support.oracle import oracle
from tests.support.runners import run_local, run_reference

MAX_JOINED = 300

Monomial = tuple[str, ...]


def times(left: Counter[Monomial], right: Counter[Monomial]) -> Counter[Monomial]:
    product: Counter[Monomial] = Counter()
    for a, n in left.items():
        for b, m in right.items():
            product[tuple(sorted(a + b))] += n * m
    return product


POLYNOMIALS = ct.python_semiring(
    "polynomials", lambda a, b: a + b, times, zero=Counter(), one=Counter({(): 1})
)
SETS = ct.python_semiring(
    "sets",
    lambda a, b: a | b,
    lambda a, b: frozenset(tuple(sorted(x + y)) for x in a for y in b),
    zero=frozenset(),
    one=frozenset({()}),
    idempotent=True,
)


def text(value: Any) -> str:
    """A value as text, whatever the type of its column."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{float(value):g}"
    return str(value)


def variable(relation: str, values: Any) -> Monomial:
    return (f"{relation}({','.join(map(text, values))})",)


def shown(polynomial: Counter[Monomial]) -> list[str]:
    return sorted(f"{n} {'*'.join(monomial)}" for monomial, n in polynomial.items())


def shown_set(monomials: frozenset[Monomial]) -> list[str]:
    return sorted("*".join(monomial) for monomial in monomials)


Columns = dict[str, list[str]]
"""The columns that each lift reads."""


Answers = dict[tuple[str, ...], tuple[list[str], int, list[str]]]
"""For each group the polynomial, how many rows there are, and the set."""


def measures(columns: Columns) -> dict[str, Any]:
    """The polynomial, the set, and how many rows there are."""

    def bag(relation: str) -> Any:
        return lambda *values: Counter({variable(relation, values): 1})

    def one(relation: str) -> Any:
        return lambda *values: frozenset({variable(relation, values)})

    texts = pa.list_(pa.string())
    bags = {r: (bag(r), [f"{r}.{c}" for c in own]) for r, own in columns.items()}
    sets = {r: (one(r), [f"{r}.{c}" for c in own]) for r, own in columns.items()}
    return {
        "bag": ct.aggregate(POLYNOMIALS, bags, final=shown, returns=texts),
        "n": "count(*)",
        "set": ct.aggregate(SETS, sets, final=shown_set, returns=texts),
    }


def expected(
    wide: ct.WideTable, database: Database, asked: dict[str, Any], columns: Columns
) -> Answers:
    """The same by the rows of the join that DuckDB builds."""
    names = [f"{relation}.{column}" for relation, own in columns.items() for column in own]
    groups = list(dict.fromkeys((*asked["group_by"], *names)))
    counted = {**asked, "group_by": groups, "measures": {"n": "count(*)"}}
    polynomials: dict[tuple[str, ...], Counter[Monomial]] = {}
    answer = oracle(wide, database, counted).rename_columns([*groups, "n"])
    for row in answer.to_pylist():
        if not row["n"]:
            continue
        parts = [variable(r, [row[f"{r}.{c}"] for c in own]) for r, own in columns.items()]
        monomial = tuple(sorted(part for (part,) in parts))
        group = tuple(text(row[name]) for name in asked["group_by"])
        polynomials.setdefault(group, Counter())[monomial] += row["n"]
    if not asked["group_by"]:
        polynomials.setdefault((), Counter())
    return {
        group: (shown(terms), sum(terms.values()), shown_set(frozenset(terms)))
        for group, terms in polynomials.items()
    }


def by_group(result: ct.Result, asked: dict[str, Any]) -> Answers:
    return {
        tuple(text(row[name]) for name in asked["group_by"]): (row["bag"], row["n"], row["set"])
        for row in result.rows()
    }


def assert_asked(
    wide: ct.WideTable, database: Database, data: st.DataObject, relations: bool = True
) -> None:
    """A random question has the answer of the join that is built."""
    among = list(database.tables)
    asked: dict[str, Any] = {}
    if relations and data.draw(st.integers(0, 3), label="whether relations are left out") == 0:
        among = asked["relations"] = data.draw(connected(database), label="relations")
    names = [c for c in database.columns() if c.split(".")[0] in among]
    groups = st.lists(st.sampled_from(names), max_size=2, unique=True)
    asked["group_by"] = data.draw(groups, label="groups")
    if data.draw(st.booleans(), label="whether rows are filtered"):
        asked["where"] = data.draw(predicates(database, among), label="condition")
    lifted = data.draw(st.lists(st.sampled_from(among), min_size=1, unique=True), label="lifted")
    columns = {r: list(database.tables[r].column_names) for r in lifted}
    try:
        result = wide.query(measures=measures(columns), **asked)
    except QueryError as error:
        assert "other joins of those that stay" in str(error)
        return
    assert by_group(result, asked) == expected(wide, database, asked, columns), result.plan


def check(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(databases(max_relations=4, max_rows=9), label="database")
    assume(join_size(database) <= MAX_JOINED)
    columns = {r: list(t.column_names) for r, t in database.tables.items()}
    wide = database.graph(engine).calibrate(measures=measures(columns))
    for _ in range(deltas):
        assert_asked(wide, database, data)
        database = updated(wide, database, data)
        if data.draw(st.booleans(), label="whether messages are refreshed"):
            wide.refresh()
        total: dict[str, Any] = {"group_by": []}
        assert by_group(wide.query(), total) == expected(wide, database, total, columns)
    for name in database.tables:
        column = f"{name}.{database.tables[name].column_names[0]}"
        asked: dict[str, Any] = {"group_by": [column]}
        assert by_group(wide.query(**asked), asked) == expected(wide, database, asked, columns)


def updated(wide: ct.WideTable, database: Database, data: st.DataObject) -> Database:
    """Some rows of a relation go and others come, in the tree and in the database."""
    name = data.draw(st.sampled_from(sorted(database.tables)), label="changed")
    table = database.tables[name]
    size = table.num_rows
    places = st.lists(st.integers(0, size - 1), max_size=3, unique=True) if size else st.just([])
    gone, again = data.draw(places, label="deleted"), data.draw(places, label="inserted")
    kept = [at for at in range(size) if at not in gone]

    def rows(at: list[int]) -> pa.Table:
        return table.take(pa.array(at, pa.int64()))

    if gone or again:
        wide.update(name, insert=rows(again), delete=rows(gone))
    return replace(database, tables={**database.tables, name: rows(kept + again)})


def check_outer(engine: Any, data: st.DataObject, deltas: int) -> None:
    database = data.draw(outer_databases(), label="database")
    assume(join_size(database) <= MAX_JOINED)
    try:
        graph = database.graph(engine)
    except SchemaError as error:
        assert "is not supported" in str(error)
        return
    columns = {r: list(t.column_names) for r, t in database.tables.items()}
    wide = graph.calibrate(measures=measures(columns))
    for _ in range(deltas):
        assert_asked(wide, database, data)


def test_reference() -> None:
    run_reference(check, 20, 2)


def test_local() -> None:
    run_local(check, 30, 2)


@pytest.mark.parametrize("run", [run_reference, run_local])
def test_outer_joins(run: Any) -> None:
    run(check_outer, 12, 2)
