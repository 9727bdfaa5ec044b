"""Functions of dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels.values import Datum, kind_of
from calitree.types import Kind

_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "DOY": pc.day_of_year,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "SECOND": pc.second,
    "DOW": partial(pc.day_of_week, count_from_zero=True, week_start=7),
    "ISOYEAR": pc.iso_year,
    "MICROSECOND": lambda at: _microsecond(at),
    "ISODOW": partial(pc.day_of_week, count_from_zero=False, week_start=1),
}


def _microsecond(at: Datum) -> Datum:
    """Microseconds since the start of the minute."""
    below = pc.add(pc.multiply(pc.millisecond(at), 1000), pc.microsecond(at))
    return pc.add(pc.multiply(pc.second(at), 1_000_000), below)


def _wall_clock(datum: Datum) -> Datum:
    """A timestamp with time zone as one without, in UTC."""
    if kind_of(datum) is Kind.TIMESTAMP_TZ:
        return pc.cast(datum, pa.timestamp(datum.type.unit))
    return datum


def part(datum: Datum, name: str) -> Datum:
    """YEAR … SECOND; WEEK is ISO's, DOW is 0 on Sundays, ISODOW 7."""
    return pc.cast(_PARTS[name](_wall_clock(datum)), pa.int64())


def truncate(datum: Datum, unit: str) -> Datum:
    """The start of the year … second; weeks start on Monday."""
    floor = pc.floor_temporal(_wall_clock(datum), unit=unit.lower(), week_starts_monday=True)
    return pc.cast(floor, datum.type)


def days_between(end: Datum, start: Datum) -> Datum:
    """Days from one date to another."""
    return pc.days_between(start, end)


def elapsed(end: Datum, start: Datum) -> Datum:
    """What lies between two timestamps, as a duration."""
    return pc.subtract_checked(
        *(pc.cast(at, pa.timestamp("us"), safe=False) for at in (end, start))
    )


def microseconds(datum: Datum) -> Datum:
    """Microseconds since 1970, or of a time or duration."""
    kind = kind_of(datum)
    of_kind = {Kind.TIME: pa.time64("us"), Kind.DURATION: pa.duration("us")}
    fine = pc.cast(datum, of_kind.get(kind, pa.timestamp("us")), safe=False)
    return pc.cast(fine, pa.int64())


def moved(datum: Datum, amount: Datum, unit: str) -> Datum:
    """A timestamp moved by months, days or microseconds; the 31st may become the 28th."""
    try:
        micros, by = microseconds(datum), pc.cast(amount, pa.int64())
        if unit == "MONTH":
            result = _moved_by_months(micros, by)
        else:
            size = 1 if unit == "MICROSECOND" else _DAY
            result = pc.add_checked(micros, pc.multiply_checked(by, size))
    except pa.ArrowInvalid:
        raise ExpressionError("a date is out of range") from None
    return pc.cast(result, pa.timestamp("us"))


_DAY = 86_400_000_000
_MAX_MONTHS = 12 * 290_000
"""More than there are between the first and the last timestamp of 64 bits."""


def _moved_by_months(micros: Datum, amount: Datum) -> Datum:
    if isinstance(micros, pa.Scalar) and isinstance(amount, pa.Scalar):
        return _moved_by_months(pa.repeat(micros, 1), amount)[0]
    known = pc.and_(pc.is_valid(micros), pc.is_valid(amount))
    at, by = (_numpy(pc.coalesce(datum, 0)) for datum in (micros, amount))
    if np.any(np.abs(by) > _MAX_MONTHS):
        raise ExpressionError("a date is out of range")
    days = np.floor_divide(at, _DAY)
    months = days.astype("M8[D]").astype("M8[M]")
    day = days - months.astype("M8[D]").astype(np.int64)
    target = months.astype(np.int64) + by
    first, following = (
        number.astype("M8[M]").astype("M8[D]").astype(np.int64) for number in (target, target + 1)
    )
    moved = first + np.minimum(day, following - first - 1)
    if np.any(np.abs(moved) > (1 << 63) // _DAY):
        raise ExpressionError("a date is out of range")
    result = moved * _DAY + (at - days * _DAY)
    return pc.if_else(known, pa.array(result), pa.scalar(None, pa.int64()))


def _numpy(datum: Datum) -> np.ndarray[Any, Any]:
    if isinstance(datum, pa.Scalar):
        return np.array([datum.as_py()], np.int64)
    values: np.ndarray[Any, Any] = datum.to_numpy(zero_copy_only=False)
    return values
