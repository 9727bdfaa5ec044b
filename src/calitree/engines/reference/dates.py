"""Parts of dates and times, value by value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

from sqlglot import exp

from calitree.sql.scalar_casts import naive, timestamp

_PARTS: dict[str, Callable[[datetime], int]] = {
    "YEAR": lambda t: t.year,
    "QUARTER": lambda t: (t.month + 2) // 3,
    "MONTH": lambda t: t.month,
    "WEEK": lambda t: t.isocalendar().week,
    "DAY": lambda t: t.day,
    "DOY": lambda t: t.timetuple().tm_yday,
    "HOUR": lambda t: t.hour,
    "MINUTE": lambda t: t.minute,
    "SECOND": lambda t: t.second,
    "DOW": lambda t: t.isoweekday() % 7,
    "ISODOW": lambda t: t.isoweekday(),
}


def extract(node: exp.Expr, value: date) -> int:
    """EXTRACT, of timestamps in UTC."""
    return _PARTS[node.name.upper()](naive(value))


def truncate(node: exp.Expr, value: date) -> datetime:
    """DATE_TRUNC, of timestamps in UTC."""
    unit, at = node.text("unit").upper(), timestamp(value).replace(microsecond=0)
    if unit == "SECOND":
        return at
    at = at.replace(second=0)
    if unit == "MINUTE":
        return at
    at = at.replace(minute=0)
    if unit == "HOUR":
        return at
    at = at.replace(hour=0)
    if unit == "WEEK":
        return at - timedelta(days=at.weekday())
    month = {"YEAR": 1, "QUARTER": at.month - (at.month - 1) % 3}.get(unit, at.month)
    return at if unit == "DAY" else at.replace(month=month, day=1)
