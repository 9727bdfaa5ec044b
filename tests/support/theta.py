"""Random databases whose relations are joined by conditions, and what DuckDB answers about them.

DuckDB is given the conditions as they are written, as filters of a cross join.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.plain import widened_view
from tests.support.databases import PAYLOADS, Database, On, key_value, payload_value
from tests.support.oracle import duck

ORDERED = ("x", "y", "f", "d", "m", "s")
"""Payloads that inequalities compare."""

SHAPES = (
    "{a}.{x} < {b}.{x}",
    "{a}.{x} >= {b}.{x}",
    "{b}.{x} <= {a}.{n} and {a}.{n} < {b}.{n}",
    "{a}.{n} between {b}.{x} and {b}.{n}",
    "{a}.{x} > {b}.{x} and {a}.{x} <= {b}.{n}",
    "{a}.{x} <> {b}.{x}",
    "{a}.k = {b}.k and {a}.{x} <= {b}.{x}",
    "{a}.k = {b}.k and {a}.{x} >= {b}.{n} and {a}.{x} < {b}.{x}",
    "{a}.k = {b}.k and {a}.{x} <> {b}.{n}",
    "{a}.{n} + 1 < {b}.{x} * 2",
    "{a}.{n} < {b}.{n} and {a}.{x} > {b}.{x}",
    "{a}.{n} < {b}.{n} or {a}.{x} = {b}.{x}",
    "{a}.k < {b}.k",
    "coalesce({a}.{n}, 1) < {b}.{n}",
    "{a}.k <= {b}.k and {b}.{x} > 1 and {a}.{n} <> {b}.{n}",
)


@dataclass(frozen=True)
class ThetaDatabase(Database):
    """The joins are on no columns, or on `k`; each may have a condition."""

    conditions: tuple[str, ...] = ()

    def graph(self, engine: Any) -> ct.JoinGraph:
        graph = ct.JoinGraph(engine=engine)
        for name, table in self.tables.items():
            graph.add_relation(name, table)
        for (left, right, on), condition in zip(self.joins, self.conditions, strict=True):
            graph.add_join(left, right, on=on or None, condition=condition or None)
        return graph

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self.conditions])


@st.composite
def theta_databases(draw: st.DrawFn, max_rows: int = 9) -> ThetaDatabase:
    """Two to four relations, each joined with an earlier one."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    names = [f"r{i}" for i in range(draw(st.integers(2, 4)))]
    nulls = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4]))
    domain = rng.randint(1, 4)
    tables = {}
    for name in names:
        rows = rng.randint(1, max_rows) if rng.random() < 0.93 else 0

        def cells(make: Any, rows: int = rows) -> list[Any]:
            return [None if rng.random() < nulls else make() for _ in range(rows)]

        columns = {
            "k": pa.array(cells(lambda: key_value("int", rng.randrange(domain))), pa.int64())
        }
        for kind in ORDERED:
            values = cells(lambda kind=kind: payload_value(kind, rng))
            columns[kind] = pa.array(values, PAYLOADS[kind])
        tables[name] = pa.table(columns)
    joins: list[On] = []
    conditions = []
    for i in range(1, len(names)):
        parent, shape = rng.choice(names[:i]), draw(st.integers(0, len(SHAPES) + 1))
        left, right = rng.sample([parent, names[i]], 2)
        is_equal = shape >= len(SHAPES) or rng.random() < 0.2
        joins.append((left, right, {"k": "k"} if is_equal else {}))
        if shape >= len(SHAPES):
            conditions.append("")
            continue
        text = SHAPES[shape]
        x = rng.choice(ORDERED[:3] if "*" in text or "{n}" in text else ORDERED)
        names_of = {"a": left, "b": right, "x": x, "n": rng.choice(ORDERED[:3])}
        conditions.append(text.format(**names_of))
    return ThetaDatabase(tables, tuple(joins), conditions=tuple(conditions))


def plain_answer(
    database: ThetaDatabase, asked: Mapping[str, Any], tables: Mapping[str, pa.Table] | None = None
) -> pa.Table:
    """What DuckDB answers, of these tables or else the database's."""
    connection, given = duck(), tables or database.tables
    names = [n for n in given if n in (asked.get("relations") or list(given))]
    for name in names:
        connection.register(f"{name} here", given[name])
        connection.execute(widened_view(name, f'"{name} here"', given[name].schema))
    tests = []
    for (left, right, on), condition in zip(database.joins, database.conditions, strict=True):
        if left in names and right in names:
            tests += [f"{left}.{a} = {right}.{b}" for a, b in on.items()]
            tests += [condition] if condition else []
    tests += [asked["where"]] if asked.get("where") else []
    selected = [f'{c} AS "{i}"' for i, c in enumerate(asked["group_by"])]
    selected += [f"{text} AS {name}" for name, text in asked["measures"].items()]
    sql = f"SELECT {', '.join(selected)} FROM {', '.join(names)}"
    sql += f" WHERE {' AND '.join(f'({t})' for t in tests)}" if tests else ""
    sql += f" GROUP BY {', '.join(asked['group_by'])}" if asked["group_by"] else ""
    return connection.sql(sql).to_arrow_table()
