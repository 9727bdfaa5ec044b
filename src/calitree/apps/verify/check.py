"""Answers compared with those of the join really built."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

from calitree.application import application
from calitree.apps.verify.bounds import within
from calitree.apps.verify.join import BuiltJoin
from calitree.apps.verify.plain import runner_of, settled_schema
from calitree.errors import QueryError
from calitree.grouping import canonical
from calitree.jointree.joins.as_of import with_matches
from calitree.jointree.remainder import remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.binder import Question
from calitree.results.result import Result
from calitree.sql.quoting import literal, quote
from calitree.types import Kind
from calitree.wide_table import WideTable

LARGE_RELATION_ROWS = 100_000
"""Of a larger relation no column is grouped by but a key."""


@dataclass(frozen=True)
class Check:
    """One question asked both ways.

    Attributes:
        question: The arguments of the query.
        result: Our answer.
        seconds: How long that took.
        plain_seconds: How long the same took on the join really built.
        difference: The first difference between the answers; empty if they agree.
        sql: What was run on the join really built.
        verbatim: Whether `sql` has the texts of the question as they were given; else it has what we
            read in them, and a wrong reading would not be seen.

    >>> (check,) = wide.verify([{"group_by": ["city"]}]).checks
    >>> check.question, check.difference
    ({'group_by': ['city']}, '')
    """

    question: Mapping[str, Any]
    result: Result
    seconds: float
    plain_seconds: float
    difference: str
    sql: str
    verbatim: bool

    def __str__(self) -> str:
        asked = ", ".join(f"{key}={value!r}" for key, value in self.question.items()) or "total"
        reading = "" if self.verbatim else " (by our reading of it)"
        if self.result.approximate and not self.difference:
            reading = f" within the errors of {', '.join(self.result.approximate)}{reading}"
        return (
            f"{self.seconds * 1e3:9.1f} ms  {self.plain_seconds * 1e3:9.1f} ms  "
            f"{len(self.result):>8,} rows  {asked}: {self.difference or 'agrees'}{reading}"
        )


@dataclass(frozen=True)
class Verification:
    """The outcome of `WideTable.verify`; it is true if every answer agrees.

    Attributes:
        checks: One for each question.
        build_seconds: How long it took to build the joins.
        built_by: Who built them and was asked: DuckDB, or Spark for relations that are there and are
            too large for this process.

    >>> verification = wide.verify()
    >>> bool(verification), verification.built_by
    (True, 'DuckDB')
    """

    checks: tuple[Check, ...]
    build_seconds: float
    built_by: str

    @property
    def ok(self) -> bool:
        """Whether every answer agrees."""
        return not any(check.difference for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        head = f"     ours       on the join   ({self.summary})"
        return "\n".join([head, *map(str, self.checks)])

    @property
    def summary(self) -> str:
        """Who built the joins, and in which texts the questions were put."""
        own = sum(check.verbatim for check in self.checks)
        texts = (
            f"{own} of {len(self.checks)} questions" if own < len(self.checks) else "all questions"
        )
        return (
            f"built in {self.build_seconds:.2f} s by {self.built_by}, which was asked {texts} in the "
            "texts as given"
        )


@application
def verify(wide: WideTable, queries: Sequence[Mapping[str, object]] | None = None) -> Verification:
    """Ask queries of the tree and of the join really built, and compare the answers.

    Args:
        wide: The wide table.
        queries: The arguments of each query by name; None means a set made for this tree.

    Returns:
        For each query both times, and the first difference if there is one.

    Raises:
        QueryError: A query names something that is not there.
        EngineError: DuckDB is not installed, or SQL has no such measure.

    >>> wide.verify([{"group_by": ["city"]}, {"where": "price > 7"}]).ok
    True
    """
    wide = wide.at(wide.version)
    schema = settled_schema(wide)
    runner = runner_of(wide.engine, [relation.table for relation in schema.relations.values()])
    asked = [dict(query) for query in (queries if queries is not None else default_queries(wide))]
    answers = [_answered(wide, query) for query in asked]
    by_join: dict[frozenset[str], list[int]] = {}
    for i, (result, _) in enumerate(answers):
        by_join.setdefault(result.query.relations, []).append(i)
    checks: dict[int, Check] = {}
    built = 0.0
    for indices in by_join.values():
        questions = [Question(**asked[i]) for i in indices]
        join = BuiltJoin(
            runner, schema, wide.measures, questions, [answers[i][0].query for i in indices]
        )
        for place, i in enumerate(indices):
            checks[i] = _check(join, place, asked[i], *answers[i])
        built += join.seconds
    return Verification(tuple(checks[i] for i in range(len(asked))), built, runner.name)


def _answered(wide: WideTable, query: Mapping[str, Any]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = wide.query(**query)
    result.arrow()
    return result, time.perf_counter() - started


def _check(
    join: BuiltJoin, place: int, asked: Mapping[str, Any], result: Result, seconds: float
) -> Check:
    answer = join.answer(place)
    keys, approximate = len(result.query.group_by), result.approximate
    difference = compare(result.arrow(), answer.table, keys, approximate=approximate)
    return Check(
        question=asked,
        result=result,
        seconds=seconds,
        plain_seconds=answer.seconds,
        difference=difference,
        sql=answer.sql,
        verbatim=answer.verbatim,
    )


def compare(
    ours: pa.Table,
    theirs: pa.Table,
    keys: int,
    tolerance: float = 1e-9,
    approximate: Collection[str] = (),
) -> str:
    """The first difference between two answers, or an empty text. Row order does not matter.

    Of measures that are approximate, `theirs` has lists: the exact value, and between which others it may be.
    """
    left, right = (_by_key(table, keys) for table in (ours, theirs))
    for key in left.keys() | right.keys():
        shown = f"group {key}" if keys else "total"
        if key not in right or key not in left:
            return f"{shown} is only in {'ours' if key in left else 'the join'}"
        if len(left[key]) != len(right[key]):
            return f"{shown} appears {len(left[key])} times, in the join {len(right[key])} times"
        for a, b in zip(left[key], right[key], strict=True):
            for name, x, y in zip(ours.column_names[keys:], a, b, strict=True):
                if name not in approximate:
                    if not same(x, y, tolerance):
                        return f"{shown}: {name} is {x!r}, in the join {y!r}"
                elif not within(x, y):
                    return (
                        f"{shown}: {name} is {x!r}, in the join {y[0]!r}, which is too far from it"
                    )
    return ""


NUMBERS = int | float | Decimal


def same(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Equality of two values; floating-point sums may differ by their order."""
    if a is None or b is None:
        return a is b
    if isinstance(a, float) or isinstance(b, float):
        if not (isinstance(a, NUMBERS) and isinstance(b, NUMBERS)):
            return False
        x, y = float(a), float(b)
        if math.isnan(x) or math.isnan(y):
            return math.isnan(x) and math.isnan(y)
        return math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance)
    return bool(a == b)


def _by_key(table: pa.Table, keys: int) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """The measures of each group, of which there should be one row."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        groups.setdefault(tuple(map(canonical, row[:keys])), []).append(row[keys:])
    return groups


def default_queries(wide: WideTable) -> list[dict[str, Any]]:
    """A set of questions made for this graph: totals, drill-downs, slices, relations left out."""
    schema, asked = wide.schema, [{}]  # type: tuple[Schema, list[dict[str, Any]]]
    names = [name for name in schema.relations if name not in schema.matches]
    columns = [c for c in (_small_column(schema, name) for name in names) if c]
    asked += [{"group_by": [column]} for column in columns]
    asked += [{"group_by": [a, b]} for a, b in pairwise(columns)]
    for column, other in zip(columns, columns[1:] + columns[:1], strict=True):
        values = wide.query(group_by=[column]).arrow().column(0).drop_null()
        if len(values) and column != other:
            quoted = quote(*column.split(".", 1))
            value = literal(values[len(values) // 2].as_py())  # one that occurs
            asked.append({"group_by": [other], "where": f"{quoted} = {value}"})
            asked.append({"where": f"{quoted} is null or {quoted} <> {value}"})
    used = set().union(*(measure.relations for _, measure in wide.query().query.measures))
    for name in names:
        rest = [other for other in names if other != name]
        if name not in used and _can_be_joined(schema, rest):
            asked.append({"relations": rest})
    return asked


def _can_be_joined(schema: Schema, relations: Sequence[str]) -> bool:
    """Whether joins connect these relations, and mean the same without the others."""
    relations = with_matches(schema, relations)
    if len(schema.components(relations)) != 1:
        return False
    try:
        remaining_schema(schema, relations)
    except QueryError:
        return False
    return True


def _small_column(schema: Schema, relation: str) -> str | None:
    """A column to group by: of a small relation its first that joins nothing, of a large one a key."""
    table = schema.relations[relation].table
    groupable = (Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.DATE)
    columns = [c for c, kind in table.kinds.items() if kind in groupable]
    keys = {
        c for a, c in schema.columns_of[relation].items() if len(schema.attributes[a].columns) > 1
    }
    joined = [c for c in columns if c in keys]
    if table.rows > LARGE_RELATION_ROWS:
        return f"{relation}.{joined[0]}" if joined else None
    own = [c for c in columns if c not in joined]
    return f"{relation}.{(own or joined)[0]}" if own or joined else None
