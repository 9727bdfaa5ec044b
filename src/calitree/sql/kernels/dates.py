"""Functions of dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

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
    "ISODOW": partial(pc.day_of_week, count_from_zero=False, week_start=1),
}


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
