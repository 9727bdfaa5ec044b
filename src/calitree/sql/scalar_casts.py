"""CAST on one Python value: what `calitree.engines.reference.rowwise` uses, and as slow and plain as that.

A value that does not convert raises ValueError or OverflowError.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from calitree.types import Kind

EXACT = Context(prec=1000)
"""Decimal arithmetic that never rounds what an expression can reach."""


def double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def moment(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def zoned(value: date) -> datetime:
    value = moment(value)
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


def naive(value: date) -> datetime:
    return zoned(value).replace(tzinfo=None)


_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.I | re.A)
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6})\d*)?)?"
    r"(?:Z|([+-])(\d\d):?(\d\d)?)?)?",
    re.A,
)
_WHITE = " \t\n\v\f\r"


def to_integer(value: Any) -> int:
    if isinstance(value, str):
        text = value.strip(_WHITE)
        if not _NUMBER.fullmatch(text):
            raise ValueError(text)
        value = Decimal(text)
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
    if isinstance(value, str):
        value = value.strip(_WHITE)
        special = re.fullmatch(r"[+-]?(nan|inf|infinity)", value, re.I)
        if not (special or _NUMBER.fullmatch(value)):
            raise ValueError(value)
    return double(value)


def to_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = naive(value).isoformat(" ")
        return (text.rstrip("0") if "." in text else text) + ("+00" if value.tzinfo else "")
    return repr(value) if isinstance(value, float) else str(value)


def to_boolean(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value != 0)
    word = value.strip(_WHITE).lower()
    if word not in ("true", "t", "1", "yes", "y", "false", "f", "0", "no", "n"):
        raise ValueError(value)
    return word in ("true", "t", "1", "yes", "y")


def to_timestamp(value: Any, zone: bool = False) -> datetime:
    if isinstance(value, date):
        return zoned(value) if zone else naive(value)
    found = _TIME.fullmatch(value.strip(_WHITE))
    if not found:
        raise ValueError(value)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micro = int((found[7] or "").ljust(6, "0"))
    at = datetime(year, month, day, hour, minute, second, micro)
    if not zone:
        return at
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0))
    return zoned(at + offset if found[8] == "-" else at - offset)


CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    Kind.INTEGER: to_integer,
    Kind.FLOAT: to_float,
    Kind.STRING: to_text,
    Kind.BOOLEAN: to_boolean,
    Kind.DATE: lambda value: to_timestamp(value).date(),
    Kind.TIMESTAMP: to_timestamp,
    Kind.TIMESTAMP_TZ: lambda value: to_timestamp(value, zone=True),
}
