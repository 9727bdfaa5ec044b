"""Random databases some of whose joins are as-of joins, and what DuckDB answers about them.

DuckDB is not asked for an ASOF JOIN: each table on the left gets the time that it meets as a column, from a
scalar sub-query, so that rows which are the latest together are all met.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.plain import widened_view
from tests.support.databases import PAYLOADS, Database, key_value, payload_value
from tests.support.oracle import duck

TIMES = [("x", "x"), ("x", "y"), ("f", "f"), ("y", "f"), ("d", "d"), ("m", "m"), ("m", "x")]
"""Columns that are compared; integers of two widths, numbers of several kinds."""


class Declared(NamedTuple):
    """A join of a relation with an earlier one, as of times if there are any."""

    left: str
    right: str
    is_keyed: bool
    times: tuple[str, str] | None
    how: str
    tolerance: int | None

    @property
    def arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {"on": "k" if self.is_keyed else None, "how": self.how}
        if self.times is not None:
            given["asof"] = dict([self.times])
            if self.tolerance is not None:
                days = timedelta(days=self.tolerance)
                given["tolerance"] = days if self.times[0] == "d" else self.tolerance
        return given

    def matching_time(self) -> str:
        """As a scalar sub-query over a row of the left table."""
        assert self.times is not None
        ours, theirs = f"{self.left}.{self.times[0]}", f"z.{self.times[1]}"
        tests = [f"{theirs} <= {ours}"]
        if self.is_keyed:
            tests.append(f"z.k = {self.left}.k")
        if self.tolerance is not None:
            tests.append(f"{theirs} >= {ours} - {self.tolerance}")
        return f"(SELECT max({theirs}) FROM {self.right} AS z WHERE {' AND '.join(tests)})"

    def clause(self) -> str:
        tests = [f"{self.left}.k = {self.right}.k"] if self.is_keyed else []
        if self.times is not None:
            tests.append(f'{self.left}."met in {self.right}" = {self.right}.{self.times[1]}')
        return f"{self.how} JOIN {self.right} ON {' AND '.join(tests)}"


@dataclass(frozen=True)
class AsOfDatabase(Database):
    """Each relation but the first is joined with an earlier one."""

    declared: tuple[Declared, ...] = ()

    def graph(self, engine: Any) -> ct.JoinGraph:
        graph = ct.JoinGraph(engine=engine)
        for name, table in self.tables.items():
            graph.add_relation(name, table)
        for join in self.declared:
            graph.add_join(join.left, join.right, **join.arguments)
        return graph

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *map(str, self.declared)])


@st.composite
def as_of_databases(draw: st.DrawFn, max_rows: int = 8) -> AsOfDatabase:
    """Two to four relations; at least one join is an as-of join."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    names = [f"r{i}" for i in range(draw(st.integers(2, 4)))]
    nulls, domain = draw(st.sampled_from([0.0, 0.0, 0.1, 0.4])), rng.randint(1, 3)
    tables = {}
    for name in names:
        rows = rng.randint(1, max_rows) if rng.random() < 0.93 else 0
        columns = {"k": pa.array(_cells(rng, rows, nulls, domain), pa.int64())}
        for kind in ("x", "y", "f", "d", "m", "s"):
            values = [
                None if rng.random() < nulls else payload_value(kind, rng) for _ in range(rows)
            ]
            columns[kind] = pa.array(values, PAYLOADS[kind])
        tables[name] = pa.table(columns)
    timed = rng.randrange(1, len(names))
    declared = []
    for i in range(1, len(names)):
        how = draw(st.sampled_from(["inner", "left"]))
        times = rng.choice(TIMES) if i == timed or rng.random() < 0.4 else None
        is_keyed = times is None or rng.random() < 0.8
        tolerance = rng.choice([None, None, 0, 1, 3]) if times else None
        declared.append(Declared(rng.choice(names[:i]), names[i], is_keyed, times, how, tolerance))
    joins = tuple((join.left, join.right, {"k": "k"}) for join in declared)
    return AsOfDatabase(tables, joins, declared=tuple(declared))


def _cells(rng: random.Random, rows: int, nulls: float, domain: int) -> list[Any]:
    return [
        None if rng.random() < nulls else key_value("int", rng.randrange(domain))
        for _ in range(rows)
    ]


def plain_answer(
    database: AsOfDatabase, asked: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> pa.Table:
    """What DuckDB answers of these tables."""
    connection = duck()
    names = [n for n in tables if n in (asked.get("relations") or list(tables))]
    joins = [j for j in database.declared if j.left in names and j.right in names]
    for name in names:
        connection.register(f"{name} here", tables[name])
        connection.execute(widened_view(name, f'"{name} here"', tables[name].schema))
    for name in reversed(names):  # a table that is met is one as it was given
        columns_of_times = [
            f'{j.matching_time()} AS "met in {j.right}"'
            for j in joins
            if j.times and j.left == name
        ]
        columns = ", ".join([f"{name}.*", *columns_of_times])
        connection.execute(
            f'CREATE OR REPLACE TEMP TABLE "{name} met" AS SELECT {columns} FROM {name}'
        )
    for name in names:
        connection.execute(f'CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM "{name} met"')
    selected = [f'{c} AS "{i}"' for i, c in enumerate(asked["group_by"])]
    selected += [f"{text} AS {name}" for name, text in asked["measures"].items()]
    sql = f"SELECT {', '.join(selected)} FROM {names[0]} "
    sql += " ".join(join.clause() for join in joins)
    sql += f" WHERE {asked['where']}" if asked.get("where") else ""
    sql += f" GROUP BY {', '.join(asked['group_by'])}" if asked["group_by"] else ""
    return connection.sql(sql).to_arrow_table()
