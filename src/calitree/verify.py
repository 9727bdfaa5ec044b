"""Check answers against the join really built: the same questions as plain SQL over one wide table.

On Spark the wide table is built by Spark; the in-process engines are checked by DuckDB. Neither
knows anything of trees or messages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from calitree.engines import Engine, Table
from calitree.errors import EngineError
from calitree.query import Query
from calitree.result import Result
from calitree.schema import Schema
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from calitree.calibrated import WideTable

LARGE = 100_000


@dataclass(frozen=True)
class Check:
    """One question asked both ways. `difference` is empty if the answers agree."""

    question: Mapping[str, Any]
    result: Result
    seconds: float
    plain_seconds: float
    difference: str

    def __str__(self) -> str:
        asked = ", ".join(f"{key}={value!r}" for key, value in self.question.items()) or "total"
        return (
            f"{self.seconds * 1e3:9.1f} ms  {self.plain_seconds * 1e3:9.1f} ms  "
            f"{len(self.result):>8,} rows  {asked}: {self.difference or 'agrees'}"
        )


@dataclass(frozen=True)
class Verification:
    """The outcome of `WideTable.verify`."""

    checks: tuple[Check, ...]
    build_seconds: float

    @property
    def ok(self) -> bool:
        return not any(check.difference for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"     ours       on the join   (built in {self.build_seconds:.2f} s)"
        return "\n".join([head, *map(str, self.checks)])


class Plain(Protocol):
    """Someone who runs plain SQL: builds the wide table once, then answers from it."""

    dialect: str

    def build(self, sql: str, tables: Mapping[str, Table]) -> None: ...

    def ask(self, sql: str) -> pa.Table: ...


class _DuckDB:
    dialect = "duckdb"

    def __init__(self, engine: Engine) -> None:
        try:
            import duckdb
        except ImportError:
            raise EngineError(
                'Verifying in-process answers needs DuckDB: pip install "duckdb".'
            ) from None
        self.engine = engine
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        for name, table in tables.items():
            self.connection.register(name, self.engine.arrow(table))
        self.connection.execute(f"CREATE OR REPLACE TABLE wide AS {sql}")

    def ask(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()


class _Spark:
    dialect = "spark"

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.wide: Table | None = None

    def build(self, sql: str, tables: Mapping[str, Table]) -> None:
        self.wide = self.engine.materialise(sql, tables)

    def ask(self, sql: str) -> pa.Table:
        return self.engine.query(sql, {"wide": self.wide})


def plain_of(engine: Engine) -> Plain:
    """Who checks the answers of this engine."""
    return _Spark(engine) if hasattr(engine, "materialise") else _DuckDB(engine)


def wide_sql(
    schema: Schema, relations: Iterable[str], attributes: Iterable[str], dialect: str
) -> tuple[str, dict[str, Table]]:
    """The join of these relations with these attributes as its columns, and the tables it reads."""
    joined = [name for name in schema.relations if name in set(relations)]
    names = {name: f"r{i}" for i, name in enumerate(joined)}
    order, left = [joined[0]], joined[1:]
    clauses = [f"{names[joined[0]]}"]
    where: dict[str, exp.Expr] = {}
    for attribute, column in schema.columns_of[joined[0]].items():
        where[attribute] = exp.column(column, names[joined[0]], quoted=True)
    while left:
        near = next(n for n in left if schema.columns_of[n].keys() & where.keys())
        left.remove(near)
        order.append(near)
        tests = []
        for attribute, column in schema.columns_of[near].items():
            here = exp.column(column, names[near], quoted=True)
            if attribute in where:
                tests.append(exp.EQ(this=where[attribute].copy(), expression=here).sql(dialect))
            else:
                where[attribute] = here
        clauses.append(f"JOIN {names[near]} ON {' AND '.join(tests)}")
    chosen = [exp.alias_(where[a].copy(), a, quoted=True).sql(dialect) for a in attributes]
    sql = f"SELECT {', '.join(chosen) or '1 AS one'} FROM {' '.join(clauses)}"
    return sql, {names[n]: schema.relations[n].table for n in order}


def attributes_of(query: Query) -> set[str]:
    """The attributes that a query needs of the wide table."""
    found = set(query.keep)
    for predicate in query.where:
        found |= predicate.attributes
    for _, measure in query.measures:
        if measure.plain is not None:
            found |= {column.name for column in measure.plain.find_all(exp.Column)}
    return found


def query_sql(query: Query, dialect: str) -> str:
    """A query as plain SQL over `wide`, whose columns are named by attributes."""

    def text(node: exp.Expr) -> str:
        if dialect == "spark":
            from calitree.engines.spark_sql import to_spark

            return to_spark(node)
        return node.sql(dialect)

    def named(node: str, name: str) -> str:
        return f"{node} AS {exp.to_identifier(name, quoted=True).sql(dialect)}"

    columns = [
        named(exp.to_identifier(attribute, quoted=True).sql(dialect), written)
        for written, attribute in query.group_by
    ]
    for name, measure in query.measures:
        if measure.plain is None:
            raise EngineError(
                f"{name!r} is a measure of its own semiring; SQL has nothing to compare it with."
            )
        columns.append(named(text(measure.plain), name))
    sql = f"SELECT {', '.join(columns)} FROM wide"
    if query.where:
        sql += f" WHERE {' AND '.join(f'({text(p.node)})' for p in query.where)}"
    if query.keep:
        keys = [exp.to_identifier(a, quoted=True).sql(dialect) for a in query.keep]
        sql += f" GROUP BY {', '.join(keys)}"
    return sql


def verify(wide: WideTable, queries: Sequence[Mapping[str, object]] | None) -> Verification:
    """Ask both ways and compare."""
    plain = plain_of(wide.engine)
    asked = [dict(each) for each in (queries if queries is not None else default_queries(wide))]
    resolved = [wide._query(**_arguments(each)) for each in asked]
    by_join: dict[frozenset[str], list[int]] = {}
    for i, query in enumerate(resolved):
        by_join.setdefault(query.relations, []).append(i)
    checks: dict[int, Check] = {}
    built = 0.0
    for relations, indices in by_join.items():
        attributes = sorted(set().union(*(attributes_of(resolved[i]) for i in indices)))
        started = time.perf_counter()
        plain.build(*wide_sql(wide.schema, relations, attributes, plain.dialect))
        built += time.perf_counter() - started
        for i in indices:
            checks[i] = _check(wide, plain, asked[i], resolved[i])
    return Verification(tuple(checks[i] for i in range(len(asked))), built)


def _check(wide: WideTable, plain: Plain, asked: Mapping[str, Any], query: Query) -> Check:
    started = time.perf_counter()
    result = wide.query(**_arguments(asked))
    ours = result.arrow()
    middle = time.perf_counter()
    theirs = plain.ask(query_sql(query, plain.dialect))
    ended = time.perf_counter()
    difference = compare(ours, theirs, len(query.group_by))
    return Check(asked, result, middle - started, ended - middle, difference)


def _arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    given = {"group_by": (), "where": None, "measures": None, "relations": None}
    return {**given, **asked}


def compare(ours: pa.Table, theirs: pa.Table, keys: int, tolerance: float = 1e-9) -> str:
    """The first difference between two answers as text, or nothing. Row order does not matter."""
    left, right = (_by_key(table, keys) for table in (ours, theirs))
    for key in left.keys() | right.keys():
        shown = f"group {key}" if keys else "total"
        if key not in right or key not in left:
            return f"{shown} is only in {'ours' if key in left else 'the join'}"
        if len(left[key]) != len(right[key]):
            return f"{shown} appears {len(left[key])} times, in the join {len(right[key])} times"
        for a, b in zip(left[key], right[key], strict=True):
            for name, x, y in zip(ours.column_names[keys:], a, b, strict=True):
                if not same(x, y, tolerance):
                    return f"{shown}: {name} is {x!r}, in the join {y!r}"
    return ""


def same(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Equality of two values; floating-point sums may differ by their order."""
    if a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        x, y = float(a), float(b)
        if math.isnan(x) or math.isnan(y):
            return math.isnan(x) and math.isnan(y)
        return math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance)
    return bool(a == b)


def _by_key(table: pa.Table, keys: int) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        found.setdefault(tuple(map(_key, row[:keys])), []).append(row[keys:])
    return found


def _key(value: Any) -> Any:
    """Equal numbers of different types, and NaN, are one key."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value.normalize() + 0 if isinstance(value, Decimal) else value


def default_queries(wide: WideTable) -> list[dict[str, Any]]:
    """A set of questions made for this graph: totals, drills, a slice with a value that occurs,
    exclusions.
    """
    schema, asked = wide.schema, [{}]  # type: tuple[Schema, list[dict[str, Any]]]
    columns = [c for c in (_small_column(schema, name) for name in schema.relations) if c]
    asked += [{"group_by": [column]} for column in columns]
    asked += [{"group_by": [a, b]} for a, b in pairwise(columns)]
    for column, other in zip(columns, columns[1:] + columns[:1], strict=True):
        value = _value_of(wide, column)
        if value is not None and column != other:
            asked.append({"group_by": [other], "where": f"{_quoted(column)} = {value}"})
            asked.append({"where": f"{_quoted(column)} is null or {_quoted(column)} <> {value}"})
    used = set().union(*(measure.relations for _, measure in wide._pivot.query.measures))
    for name in schema.relations:
        rest = [other for other in schema.relations if other != name]
        if name not in used and rest and len(schema.components(rest)) == 1:
            asked.append({"relations": rest})
    return asked


def _small_column(schema: Schema, relation: str) -> str | None:
    """A column worth grouping by: of a small relation its first describing one, of a large one a
    key.
    """
    table = schema.relations[relation].table
    groupable = (Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.DATE)
    columns = [c for c, kind in table.kinds.items() if kind in groupable]
    joined = [
        c for c in columns if len(schema.attributes[schema.attribute_of[relation, c]].columns) > 1
    ]
    if table.rows > LARGE:
        return f"{relation}.{joined[0]}" if joined else None
    own = [c for c in columns if c not in joined]
    return f"{relation}.{(own or joined)[0]}" if own or joined else None


def _value_of(wide: WideTable, column: str) -> str | None:
    """Some value that occurs, as SQL."""
    values = wide.query(group_by=[column]).arrow().column(0).drop_null()
    if not len(values):
        return None
    value = values[len(values) // 2].as_py()
    if isinstance(value, bool | int):
        return str(value)
    return exp.Literal.string(str(value)).sql()


def _quoted(column: str) -> str:
    relation, _, name = column.partition(".")
    return exp.column(name, relation, quoted=True).sql()
