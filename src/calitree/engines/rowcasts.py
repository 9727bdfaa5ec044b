"""CAST on one Python value: what `calitree.engines.rowwise` uses, and as slow and plain as that.

A value that does not convert raises ValueError or OverflowError.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Context
from typing import Any

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
