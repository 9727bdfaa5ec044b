"""Dates and times moved by intervals, and what lies between two of them.

An interval is nothing by itself: it is read from the text, as amounts of months, days and microseconds, and
becomes additions of these, in this order. `d + interval '1' month` is `DATE_ADD(d, 1, MONTH)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import time
from typing import Any

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.constants import PARTS, UNITS, duration, interval_parts
from calitree.sql.nodes import cast, kind_of, marked, number, paren, quoted_sql
from calitree.types import Kind

Interval = Mapping[str, int | exp.Expr]
"""Of each part how much there is: a number, or a parsed expression."""


def interval_of(node: exp.Expr | None) -> Interval | None:
    """The interval that a parsed node is; None if it is something else."""
    while isinstance(node, exp.Paren):
        node = node.this
    read = _READ.get(type(node))
    return read(node) if read is not None else None


def _cast(node: exp.Expr) -> Interval | None:
    is_interval = node.args["to"].this is exp.DataType.Type.INTERVAL and node.this.is_string
    return interval_parts(node.this.name) if is_interval else None


def _call(node: exp.Expr) -> Interval | None:
    """TO_DAYS(n) and the like."""
    prefix, _, unit = node.name.upper().partition("_")
    is_interval = prefix == "TO" and len(node.expressions) == 1
    return _of_unit(node.expressions[0], unit) if is_interval else None


def _product(node: exp.Expr) -> Interval | None:
    left = interval_of(node.this)
    if left is not None:
        return _scaled(left, node.expression)
    return _scaled(interval_of(node.expression), node.this)


def _total(node: exp.Expr) -> Interval | None:
    left = interval_of(node.this)
    right = interval_of(node.expression) if left is not None else None
    sign = -1 if isinstance(node, exp.Sub) else 1
    return None if left is None or right is None else _sum(left, right, sign)


def _written(node: exp.Interval) -> Interval | None:
    unit, size = node.text("unit").upper(), node.this
    if not unit:
        return interval_parts(size.name)
    if isinstance(size, exp.Literal):  # INTERVAL '1.7' DAY is one day
        size = exp.Literal.number(int(float(size.name)))
    return _of_unit(size, unit)


def _of_unit(size: exp.Expr, unit: str) -> Interval | None:
    if unit.upper() not in UNITS:
        return None
    part, length = UNITS[unit.upper()]
    return _scaled({part: length}, size)


def _scaled(interval: Interval | None, factor: exp.Expr) -> Interval | None:
    return interval and {part: _times(size, factor) for part, size in interval.items()}


def _times(size: int | exp.Expr, factor: exp.Expr) -> int | exp.Expr:
    known = _whole(factor)
    if isinstance(size, int) and (known is not None or size == 0):
        return size * (known or 0)
    left = exp.Literal.number(size) if isinstance(size, int) else size.copy()
    return exp.Mul(this=exp.Paren(this=left), expression=exp.Paren(this=factor.copy()))


def _whole(node: exp.Expr) -> int | None:
    """A whole number that is written out, perhaps with a sign."""
    if isinstance(node, exp.Paren):
        return _whole(node.this)
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    is_whole = isinstance(node, exp.Literal) and not node.is_string
    return int(node.name) if is_whole and node.name.lstrip("-").isdigit() else None


def _sum(left: Interval, right: Interval, sign: int) -> Interval:
    total = dict(left)
    for part, size in right.items():
        more = _times(size, exp.Literal.number(sign))
        before = total.get(part, 0)
        if isinstance(more, int) and isinstance(before, int):
            total[part] = before + more
        else:
            sides = [exp.Literal.number(x) if isinstance(x, int) else x for x in (before, more)]
            total[part] = exp.Add(this=sides[0], expression=sides[1])
    return total


_READ: dict[type[exp.Expr | None], Callable[[Any], Interval | None]] = {
    exp.Interval: _written,
    exp.Cast: _cast,
    exp.Anonymous: _call,
    exp.Neg: lambda node: _scaled(interval_of(node.this), exp.Literal.number(-1)),
    exp.Mul: _product,
    exp.Add: _total,
    exp.Sub: _total,
}


def constant_interval(analysis: Analysis, node: exp.Expr) -> Pair:
    """An interval that no date is moved by: a duration, which is compared with others."""
    try:
        interval = interval_of(node)
        if interval is None or not all(isinstance(size, int) for size in interval.values()):
            raise analysis.fail(f"{quoted_sql(node)} can only be added to a date or timestamp")
        return duration({part: int(str(size)) for part, size in interval.items()}), Kind.DURATION
    except ValueError:
        raise analysis.fail(
            f"{quoted_sql(node)} is not a duration; write 01:30:00, or 90 minutes; months and years have "
            "no fixed length"
        ) from None


def moved(analysis: Analysis, node: exp.Binary) -> Pair | None:
    """+ and - with an interval on one side, or on both; None if there is none."""
    try:
        left, right = interval_of(node.left), interval_of(node.right)
    except ValueError as error:
        raise analysis.fail(f"{error} is no interval") from None
    if left is None and right is None:
        return None
    if left is not None and right is not None:
        return constant_interval(analysis, node)
    if right is None and isinstance(node, exp.Sub):
        raise analysis.fail("only an interval can be subtracted from an interval")
    sign = -1 if isinstance(node, exp.Sub) else 1
    moving = node.left if right is not None else node.right
    return _moved(analysis, moving, (right if right is not None else left) or {}, sign)


def _moved(analysis: Analysis, node: exp.Expr, interval: Interval, sign: int) -> Pair:
    at, kind = analysis.normal(node)
    if not kind.is_temporal:
        raise analysis.fail(
            f"an interval moves a date or timestamp, but {quoted_sql(node)} is {kind.phrase}"
        )
    if kind is not Kind.TIMESTAMP:  # also a date becomes one; months are those of UTC
        at = cast(at, Kind.TIMESTAMP)
    for part in PARTS:
        size = interval.get(part, 0)
        if size == 0:
            continue
        amount = number(size) if isinstance(size, int) else _amount(analysis, size)
        at = shift(at, negative(amount) if sign < 0 else amount, part, Kind.TIMESTAMP)
    return (cast(at, kind), kind) if kind is Kind.TIMESTAMP_TZ else (at, Kind.TIMESTAMP)


def _amount(analysis: Analysis, node: exp.Expr) -> exp.Expr:
    return analysis.operand(node, Kind.INTEGER, "INTERVAL")


def negative(node: exp.Expr) -> exp.Expr:
    """A number with the other sign; one that is written out stays a literal."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return node.this
    return marked(exp.Neg(this=paren(node)), Kind.INTEGER)


def shift(at: exp.Expr, amount: exp.Expr, part: str, kind: Kind) -> exp.Expr:
    """A date or timestamp, moved by a number of months, days or microseconds."""
    return marked(exp.DateAdd(this=at, expression=amount, unit=exp.var(part)), kind)


def _time_of_day(node: exp.Expr) -> exp.Expr | None:
    """The microseconds of a constant time."""
    if kind_of(node) is not Kind.TIME or not isinstance(node.this, exp.Literal):
        return None
    at = time.fromisoformat(node.this.name)
    return number(1_000_000 * (3600 * at.hour + 60 * at.minute + at.second) + at.microsecond)


def between(node: exp.Binary, left: Pair, right: Pair) -> Pair | None:
    """+ and - of dates, timestamps, times and durations; None if there is none among the operands."""
    if isinstance(node, exp.Add):
        return _moved_by(*((left, right) if left[1].is_temporal else (right, left)), sign=1)
    (a, ka), (b, kb) = left, right
    dates, times = (Kind.DATE, Kind.NULL), (*_TEMPORAL, Kind.NULL)
    if kb is Kind.DATE and ka in dates:
        return exp.DateDiff(this=a, expression=b, unit=exp.var("DAY")), Kind.INTEGER
    is_difference = ka in times and kb in times and {ka, kb} != {Kind.NULL}
    if is_difference and not (ka is Kind.DATE and kb is Kind.NULL):
        sides = [x if k is Kind.TIMESTAMP else cast(x, Kind.TIMESTAMP) for x, k in (left, right)]
        return exp.Anonymous(this="SUBTRACT", expressions=sides), Kind.DURATION
    return _moved_by(left, right, sign=-1)


_TEMPORAL = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)


def _moved_by(moving: Pair, by: Pair, sign: int) -> Pair | None:
    """A date and days, or a time of day, or a date or timestamp and a duration; None if it is neither."""
    (at, kind), (size, measured) = moving, by
    naive = at if kind is Kind.TIMESTAMP else cast(at, Kind.TIMESTAMP)
    if kind is Kind.DATE and measured in (Kind.INTEGER, Kind.NULL):
        days = negative(size) if sign < 0 else size
        return cast(shift(naive, days, "DAY", Kind.TIMESTAMP), Kind.DATE), Kind.DATE
    is_clock = measured is Kind.TIME and kind is Kind.DATE and sign > 0
    if not kind.is_temporal or not (is_clock or measured is Kind.DURATION):
        return None
    elapsed = marked(exp.Anonymous(this="EPOCH_US", expressions=[size]), Kind.INTEGER)
    elapsed = _time_of_day(size) or elapsed
    result = shift(naive, negative(elapsed) if sign < 0 else elapsed, "MICROSECOND", Kind.TIMESTAMP)
    return (cast(result, kind), kind) if kind is Kind.TIMESTAMP_TZ else (result, Kind.TIMESTAMP)
