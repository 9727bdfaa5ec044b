"""CAST of one Python value, for the reference engine and for constants.

A value that does not convert raises ValueError or OverflowError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from calitree.sql.rules.conversions import TEXTS, TRUE, WHITESPACE
from calitree.types import Kind

EXACT = Context(prec=1000)
"""Decimal arithmetic with so many digits that no expression is rounded."""


def double(value: Any) -> float:
    """The nearest double; a number that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def timestamp(value: date) -> datetime:
    """A date as the timestamp at its midnight; a timestamp as it is."""
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def zoned(value: date) -> datetime:
    """A date or timestamp as a timestamp in UTC."""
    value = timestamp(value)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def naive(value: date) -> datetime:
    """A date or timestamp as a timestamp without time zone, in UTC."""
    return zoned(value).replace(tzinfo=None)


def _match(value: str, kind: Kind) -> re.Match[str]:
    match = re.fullmatch(TEXTS[kind], value.strip(WHITESPACE))
    if match is None:
        raise ValueError(value)
    return match


def to_integer(value: Any) -> int:
    """A number or text as an integer: doubles to the even neighbour, others away from zero."""
    if isinstance(value, str):
        value = Decimal(_match(value, Kind.INTEGER)[0])
    if isinstance(value, float):
        value = round(value)
    elif isinstance(value, Decimal):
        value = value.to_integral_value(ROUND_HALF_UP, EXACT)
    else:
        return int(value)
    if not -(2**63) <= value < 2**63:
        raise OverflowError(value)
    return int(value)


def to_float(value: Any) -> float:
    """A number or text as a double."""
    return double(_match(value, Kind.FLOAT)[0] if isinstance(value, str) else value)


def to_text(value: Any) -> str:
    """Any value as text: the shortest digits of a double (-0.0 is 0.0), all digits of a decimal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value or abs(value), "f")
    if isinstance(value, datetime):
        text = naive(value).isoformat(" ")
        return (text.rstrip("0") if "." in text else text) + ("+00" if value.tzinfo else "")
    return repr(value + 0.0) if isinstance(value, float) else str(value)


def to_boolean(value: Any) -> bool:
    """A number or text as a Boolean."""
    if not isinstance(value, str):
        return bool(value != 0)
    return _match(value, Kind.BOOLEAN)[0].lower() in TRUE


def to_timestamp(value: Any, zone: bool = False) -> datetime:
    """A date, a timestamp or text as a timestamp with or without time zone.

    An offset in the text means something only if the result has a time zone.
    """
    if isinstance(value, date):
        return zoned(value) if zone else naive(value)
    match = _match(value, Kind.TIMESTAMP)
    day = date(*(int(match[unit]) for unit in ("year", "month", "day")))
    hour, minute, second = (int(match[unit] or 0) for unit in ("hour", "minute", "second"))
    micro = int((match["micro"] or "").ljust(6, "0"))
    local = datetime.combine(day, time(hour, minute, second, micro))
    if not zone:
        return local
    offset = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
    return zoned(local + offset if match["sign"] == "-" else local - offset)


CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    Kind.INTEGER: to_integer,
    Kind.FLOAT: to_float,
    Kind.STRING: to_text,
    Kind.BOOLEAN: to_boolean,
    Kind.DATE: lambda value: to_timestamp(value).date(),
    Kind.TIMESTAMP: to_timestamp,
    Kind.TIMESTAMP_TZ: lambda value: to_timestamp(value, zone=True),
    Kind.TIME: time.fromisoformat,
    Kind.DURATION: lambda value: timedelta(microseconds=int(value)),
    Kind.BINARY: lambda value: bytes(value, "utf-8"),
}
"""By the kind to cast to."""
