"""Constants that are written as text and stand for a time of day, a duration or bytes.

In canonical form they are a CAST of one text: 12:30:00 for a time, a number of microseconds for a duration.
Bytes are those of the text in UTF-8.

An interval has months, days and microseconds, as in DuckDB and PostgreSQL. A duration is one without months.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time
from decimal import Decimal

from sqlglot import exp

from calitree.sql.nodes import cast
from calitree.types import Kind

EXAMPLES = {
    Kind.TIME: "write 12:30:00",
    Kind.DURATION: "write 01:30:00, or 90 minutes; months and years have no fixed length",
    Kind.BINARY: "write the text of the bytes, without backslashes",
}
"""By kind, how its constants are written."""

PARTS = {"MONTH": Decimal(30), "DAY": Decimal(86_400_000_000), "MICROSECOND": Decimal(1)}
"""What an interval consists of, and how many of the next part a fraction of each is counted as."""

_LENGTHS = {
    "MILLENNIUM": ("MONTH", 12_000),
    "CENTURY": ("MONTH", 1_200),
    "DECADE": ("MONTH", 120),
    "YEAR": ("MONTH", 12),
    "QUARTER": ("MONTH", 3),
    "MONTH": ("MONTH", 1),
    "WEEK": ("DAY", 7),
    "DAY": ("DAY", 1),
    "HOUR": ("MICROSECOND", 3_600_000_000),
    "MINUTE": ("MICROSECOND", 60_000_000),
    "SECOND": ("MICROSECOND", 1_000_000),
    "MILLISECOND": ("MICROSECOND", 1_000),
    "MICROSECOND": ("MICROSECOND", 1),
}
_SHORT = {
    "YEAR": ("Y", "YR", "YRS"),
    "MONTH": ("MON", "MONS"),
    "WEEK": ("W",),
    "DAY": ("D",),
    "HOUR": ("H", "HR", "HRS"),
    "MINUTE": ("M", "MIN", "MINS"),
    "SECOND": ("S", "SEC", "SECS"),
    "MILLISECOND": ("MS", "MSEC", "MSECS"),
    "MICROSECOND": ("US", "USEC", "USECS"),
    "CENTURY": ("CENTURIES",),
    "MILLENNIUM": ("MILLENNIA",),
}
UNIT_NAMES = {name: unit for unit in _LENGTHS for name in (unit, f"{unit}S", *_SHORT.get(unit, ()))}
"""The units of time by all of their names."""
UNITS = {name: _LENGTHS[unit] for name, unit in UNIT_NAMES.items()}
"""By the names of units: the part of an interval that one is, and how much of it."""

_AMOUNT = r"([+-]?\d+(?:\.\d+)?)\s*([a-zA-Z]+)"
_CLOCK = r"([+-]?)(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d{1,6})?))?"


def constant(text: str, kind: Kind) -> exp.Expr:
    """The node of a constant of this kind; ValueError if the text is none.

    >>> constant("90 minutes", Kind.DURATION).sql()
    "CAST('5400000000' AS INTERVAL)"
    """
    if kind is Kind.TIME:
        value = time.fromisoformat(text.strip())
        if value.tzinfo is not None:
            raise ValueError(text)
        text = value.isoformat()
    elif kind is Kind.DURATION:
        return duration(interval_parts(text))
    elif "\\" in text:
        raise ValueError(text)
    return cast(exp.Literal.string(text), kind)


def duration(parts: Mapping[str, int]) -> exp.Expr:
    """The node of an interval without months; ValueError if it has some."""
    if parts.get("MONTH"):
        raise ValueError("months have no fixed length")
    size = parts.get("DAY", 0) * int(PARTS["DAY"]) + parts.get("MICROSECOND", 0)
    return cast(exp.Literal.string(str(size)), Kind.DURATION)


def interval_parts(text: str) -> dict[str, int]:
    """An interval that is written as text, by its parts; ValueError if it is none.

    >>> interval_parts("1 year 2 months 01:30:00")
    {'MONTH': 14, 'DAY': 0, 'MICROSECOND': 5400000000}
    """
    rest, _, ago = text.strip().lower().partition(" ago")
    if ago.strip():
        raise ValueError(text)
    sums = dict.fromkeys(PARTS, Decimal(0))
    clock = re.search(rf"(?:^|\s){_CLOCK}$", rest)
    if clock is not None:
        sign, hours, minutes, seconds = clock.groups()
        size = Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds or 0)
        sums["MICROSECOND"] += size * 1_000_000 * (-1 if sign == "-" else 1)
        rest = rest[: clock.start()]
    if not re.fullmatch(rf"\s*(?:{_AMOUNT}\s*)*", rest) or not (clock or rest):
        raise ValueError(text)
    for size, name in re.findall(_AMOUNT, rest):
        part, length = UNITS.get(name.upper(), (None, 0))
        if part is None:
            raise ValueError(text)
        sums[part] += Decimal(size) * length
    whole, left = {}, Decimal(0)
    for part, of_next in PARTS.items():
        size = sums[part] + left
        whole[part] = int(size) * (-1 if text.strip().lower().endswith(" ago") else 1)
        left = (size - int(size)) * of_next
    return whole
