"""Check answers against the join really built: ask both ways, and compare."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.application import application
from calitree.apps.verify.plain import Plain, attributes_of, plain_of, query_sql, wide_sql
from calitree.engines.api.signed import settled
from calitree.jointree.schema import Schema
from calitree.query.binder import Query, Question
from calitree.results.result import Result
from calitree.types import Kind
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

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
    built_by: str

    @property
    def ok(self) -> bool:
        return not any(check.difference for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"     ours       on the join   (built in {self.build_seconds:.2f} s)"
        return "\n".join([head, *map(str, self.checks)])


@application
def verify(wide: WideTable, queries: Sequence[Mapping[str, object]] | None = None) -> Verification:
    """Ask these queries (or a set made for this tree) also on the join really built, and compare."""
    wide = wide.at(wide.version)
    schema = wide.schema.having(
        {
            name: replace(each, table=settled(wide.engine, each.table))
            for name, each in wide.schema.relations.items()
        }
    )
    plain = plain_of(wide.engine, (each.table for each in schema.relations.values()))
    asked = [dict(each) for each in (queries if queries is not None else default_queries(wide))]
    resolved = [wide.snapshot.bind(Question(**each)).query for each in asked]
    by_join: dict[frozenset[str], list[int]] = {}
    for i, query in enumerate(resolved):
        by_join.setdefault(query.relations, []).append(i)
    checks: dict[int, Check] = {}
    built = 0.0
    for relations, indices in by_join.items():
        attributes = sorted(set().union(*(attributes_of(resolved[i]) for i in indices)))
        started = time.perf_counter()
        plain.build(*wide_sql(schema, relations, attributes, plain.dialect))
        built += time.perf_counter() - started
        for i in indices:
            checks[i] = _check(wide, plain, asked[i], resolved[i])
    return Verification(tuple(checks[i] for i in range(len(asked))), built, plain.name)


def _check(wide: WideTable, plain: Plain, asked: Mapping[str, Any], query: Query) -> Check:
    started = time.perf_counter()
    result = wide.query(**asked)
    ours = result.arrow()
    middle = time.perf_counter()
    theirs = plain.ask(query_sql(query, plain.dialect))
    ended = time.perf_counter()
    difference = compare(ours, theirs, len(query.group_by))
    return Check(asked, result, middle - started, ended - middle, difference)


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
    used = set().union(*(measure.relations for _, measure in wide.snapshot.pivot.query.measures))
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
