"""Parts of dates and times, value by value."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, time, timedelta

from sqlglot import exp

from calitree.errors import ExpressionError
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
    "ISOYEAR": lambda t: t.isocalendar().year,
    "MICROSECOND": lambda t: 1_000_000 * t.second + t.microsecond,
}
_MICROSECOND = timedelta(microseconds=1)


def extract(node: exp.Expr, value: date | time) -> int:
    """EXTRACT, of timestamps in UTC."""
    if isinstance(value, time):
        value = datetime.combine(date(1970, 1, 1), value)
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


def microseconds(value: datetime | time | timedelta) -> int:
    """EPOCH_US: microseconds since 1970, or of a time or duration."""
    if isinstance(value, time):
        value = datetime.combine(date(1970, 1, 1), value)
    if isinstance(value, datetime):
        value = value - datetime(1970, 1, 1)
    return value // _MICROSECOND


def moved(node: exp.Expr, value: date, amount: int) -> date:
    """A date or timestamp, later by months, days or microseconds."""
    unit = node.text("unit").upper()
    try:
        if unit == "MONTH":
            return _moved_by_months(value, amount)
        size = timedelta(days=amount) if unit == "DAY" else timedelta(microseconds=amount)
        return value + size
    except (OverflowError, ValueError):
        raise ExpressionError("A date is out of range.") from None


def _moved_by_months(value: date, amount: int) -> date:
    """The same day of another month, or its last one if it is shorter."""
    year, month = divmod(12 * value.year + value.month - 1 + amount, 12)
    return value.replace(
        year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1])
    )


def days_between(node: exp.Expr, end: date, start: date) -> int:
    """Days from one date to another."""
    return (end - start).days
