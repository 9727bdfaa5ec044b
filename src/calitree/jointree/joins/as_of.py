"""As-of joins: each row of the left relation meets the latest row of the right one at or before it.

They are declared as two joins on equal columns with a relation between the two, the *matches*: for each key
and time of the left relation, the time of the right one that it meets, or NULL. It is a view that follows its
relations (`calitree.calibration.as_of.matches`), and no question names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from calitree.errors import SchemaError
from calitree.jointree.derived import of_one_kind, with_key
from calitree.jointree.joins.checks import On, checked_join, join_pairs
from calitree.jointree.joins.from_clause import from_clause
from calitree.jointree.joins.join import AsOf, Join
from calitree.jointree.schema import Relation, Schema, find_relation
from calitree.sql.quoting import quote

Tolerance = int | float | timedelta | str

_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_SPAN = re.compile(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([a-z]+?)s?\s*")

MAX_TOLERANCE = 10**38
"""More than any number of a column."""


@dataclass(frozen=True)
class AsOfRequest:
    """What `JoinGraph.add_join` is given of an as-of join."""

    left: str
    right: str
    on: On | None
    times: On
    tolerance: Tolerance | None
    how: str


def declared_as_of(
    relations: Mapping[str, Relation], joins: Sequence[Join], asked: AsOfRequest
) -> tuple[dict[str, Relation], AsOf]:
    """The relations, with the columns that expressions make, and the as-of join, if there can be one."""
    a, b = find_relation(asked.left, relations), find_relation(asked.right, relations)
    if a.name == b.name:
        raise SchemaError(
            f"{a.name} cannot join itself; add its table a second time under another name."
        )
    if asked.how not in ("inner", "left"):
        raise SchemaError(
            f"An as-of join is inner or left, as it is about rows of {a.name}; got {asked.how!r}."
        )
    if _is_joined(relations, joins, b.name):
        raise SchemaError(
            f"{b.name} is joined already, and the latest row of a join is something else than that of "
            f"{b.name}. Declare the as-of join of {a.name} and {b.name} before other joins of {b.name}."
        )
    times = join_pairs(a.name, b.name, asked.times)
    if len(times) != 1:
        raise SchemaError(f"asof compares one column of {a.name} with one of {b.name}.")
    pairs = [] if asked.on is None else join_pairs(a.name, b.name, asked.on)
    columns: list[tuple[str, str]] = []
    for x, y in (*pairs, *times):
        (a, x), (b, y) = with_key(a, x), with_key(b, y)
        columns.append((x, y))
    a, b, join = of_one_kind(a, b, Join(a.name, b.name, tuple(columns)))
    *keys, (x, y) = checked_join(a, b, join).pairs
    for relation, names in zip((a, b), zip(*join.pairs, strict=True), strict=True):
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            raise SchemaError(f"{relation.name}.{twice[0]} is compared twice.")
    kind = a.columns[x]
    if not kind.is_number and not kind.is_temporal:
        raise SchemaError(
            f"asof compares numbers, dates or timestamps; {a.name}.{x} is {kind.phrase}."
        )
    tolerance = _tolerance(a, x, asked.tolerance)
    as_of = AsOf(
        a.name, b.name, tuple(keys), (x, y), tolerance=tolerance, is_temporal=kind.is_temporal
    )
    return {**relations, a.name: a, b.name: b}, as_of


def _is_joined(relations: Mapping[str, Relation], joins: Sequence[Join], name: str) -> bool:
    return not any(operand == name for operand in from_clause(relations, joins).operands)


def _tolerance(relation: Relation, column: str, given: Tolerance | None) -> int | float | None:
    """By how much a time may be earlier: in the unit of the column, or in microseconds."""
    if given is None:
        return None
    if relation.columns[column].is_temporal:
        span = _span(given) if isinstance(given, str) else given
        if isinstance(span, timedelta) and span >= timedelta(0):
            return span // timedelta(microseconds=1)
        raise SchemaError(
            f"tolerance is a timedelta of 0 or more, or a text such as '5 minutes', as {relation.name}."
            f"{column} is {relation.columns[column].phrase}; got {given!r}."
        )
    if (
        isinstance(given, int | float)
        and not isinstance(given, bool)
        and 0 <= given < MAX_TOLERANCE
    ):
        return given
    raise SchemaError(
        f"tolerance is a number of 0 or more, as {relation.name}.{column} is "
        f"{relation.columns[column].phrase}; got {given!r}."
    )


def _span(text: str) -> timedelta | None:
    match = _SPAN.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        return None
    try:
        return float(match[1]) * _UNITS[match[2]]
    except OverflowError:
        return None


def matches_name(as_of: AsOf, taken: Iterable[str]) -> str:
    """A name for the matches that no relation has."""
    name, known = f"{as_of.right} as of {as_of.left}", {other.lower() for other in taken}
    while name.lower() in known:
        name += "'"
    return name


def joins_of(as_of: AsOf, matches: str, how: str) -> tuple[Join, Join]:
    """The two joins that an as-of join consists of."""
    *keys, time, at = as_of.columns
    ours = tuple(zip(as_of.left_columns, (*keys, time), strict=True))
    theirs = tuple(zip((*keys, at), as_of.right_columns, strict=True))
    return Join(as_of.left, matches, ours, how), Join(matches, as_of.right, theirs, how)


def with_matches(schema: Schema, names: Collection[str]) -> tuple[str, ...]:
    """These relations and the matches of as-of joins among them, in the graph's order."""
    joined = {name for name, as_of in schema.matches.items() if as_of.relations.issubset(names)}
    return tuple(name for name in schema.relations if name in names or name in joined)


def conflicting(schema: Schema, ours: Iterable[str], theirs: Iterable[str]) -> list[str]:
    """The relations that two sides have both changed; those of an as-of join count as one."""
    one, other = set(ours), set(theirs)
    both = one & other
    for as_of in schema.matches.values():
        if not as_of.relations.isdisjoint(one) and not as_of.relations.isdisjoint(other):
            both |= as_of.relations & (one | other)
    return sorted(both - schema.matches.keys())


def matches_sql(
    as_of: AsOf,
    table: Callable[[str], str],
    column: Callable[[str, str], str],
    dialect: str | None = None,
) -> str:
    """The matches as a query, given how tables and columns are written."""
    left, right = as_of.left, as_of.right
    ours = [column(left, name) for name in as_of.left_columns]
    theirs = [column(right, name) for name in as_of.right_columns]
    *keys, time, at = (quote(name, dialect=dialect) for name in as_of.columns)
    if dialect == "spark":
        latest = f"max(CASE WHEN side = 0 THEN {time} END) OVER ({_window(keys, time)})"
        rows = f"{_side(table(left), ours, [*keys, time], 1)} UNION ALL "
        rows += _side(table(right), theirs, [*keys, time], 0)
        close = _close(as_of, time, at, "make_dt_interval(0, 0, 0, {} / 1000000)")
        columns = ", ".join([*keys, time, f"CASE WHEN {close} THEN {at} END AS {at}"])
        return f"SELECT {columns} FROM (SELECT *, {latest} AS {at} FROM ({rows})) WHERE side = 1"
    tests = [f"{a} = {b}" for a, b in zip(ours[:-1], theirs[:-1], strict=True)]
    tests.append(f"{ours[-1]} >= {theirs[-1]}")
    named = zip([*ours, theirs[-1]], [*keys, time, at], strict=True)
    columns = ", ".join(f"{text} AS {name}" for text, name in named)
    return (
        f"SELECT DISTINCT {columns} FROM {table(left)} ASOF JOIN {table(right)} "
        f"ON {' AND '.join(tests)} WHERE {_close(as_of, ours[-1], theirs[-1], 'to_microseconds({})')}"
    )


def _window(keys: Sequence[str], time: str) -> str:
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return f"{by}ORDER BY {time}, side ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def _side(table: str, columns: Sequence[str], names: Sequence[str], side: int) -> str:
    selected = ", ".join(f"{c} AS {name}" for c, name in zip(columns, names, strict=True))
    known = " AND ".join(f"{text} IS NOT NULL" for text in columns)
    return f"SELECT DISTINCT {selected}, {side} AS side FROM {table} WHERE {known}"


def _close(as_of: AsOf, time: str, at: str, span: str) -> str:
    """That a time is not earlier than the tolerance allows."""
    if as_of.tolerance is None:
        return f"{at} IS NOT NULL"
    tolerance = span.format(as_of.tolerance) if as_of.is_temporal else repr(as_of.tolerance)
    return f"{at} >= {time} - {tolerance}"
