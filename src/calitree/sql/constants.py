"""Constants that are written as text and stand for a time of day, a duration or bytes.

In canonical form they are a CAST of one text: 12:30:00 for a time, a number of microseconds for a duration.
Bytes are those of the text in UTF-8.
"""

from __future__ import annotations

import re
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

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_AMOUNT = rf"([+-]?\d+(?:\.\d+)?)\s*({'|'.join(_MICROSECONDS)})s?"
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
        text = str(_microseconds(text.strip()))
    elif "\\" in text:
        raise ValueError(text)
    return cast(exp.Literal.string(text), kind)


def _microseconds(text: str) -> int:
    clock = re.fullmatch(_CLOCK, text)
    if clock is not None:
        sign, hours, minutes, seconds = clock.groups()
        total = Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds or 0)
        return int(total * 1_000_000) * (-1 if sign == "-" else 1)
    if not re.fullmatch(rf"(?:{_AMOUNT}\s*)+", text, re.IGNORECASE):
        raise ValueError(text)
    amounts = re.findall(_AMOUNT, text, re.IGNORECASE)
    return int(sum(Decimal(size) * _MICROSECONDS[unit.lower()] for size, unit in amounts))
