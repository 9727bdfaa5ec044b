"""Functions of text, dates and timestamps."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import Datum, kind_of, unify
from calitree.sql.rules.text import SPACES
from calitree.types import Kind


def like(datum: Datum, pattern: str) -> Datum:
    """% is any text, _ any character, and nothing is an escape (a backslash is one for Arrow)."""
    inner = pattern.strip("%")
    if "%" in inner or "_" in inner or not inner:
        return pc.match_substring_regex(datum, _regex(pattern))
    before, after = pattern.startswith("%"), pattern.endswith("%")
    if before and after:
        return pc.match_substring(datum, inner)
    if before or after:
        return (pc.ends_with if before else pc.starts_with)(datum, inner)
    return pc.equal(datum, pa.scalar(pattern, datum.type))


def _regex(pattern: str) -> str:
    parts = {"%": ".*", "_": "."} | {char: f"\\{char}" for char in r"\.^$|?*+()[]{}"}
    return r"(?s)\A" + "".join(parts.get(char, char) for char in pattern) + r"\z"


def ilike(datum: Datum, pattern: str) -> Datum:
    return like(pc.utf8_lower(datum), pc.utf8_lower(pa.scalar(pattern)).as_py())


def length(datum: Datum) -> Datum:
    """Characters, not bytes."""
    return pc.cast(pc.utf8_length(datum), pa.int64())


def trim(datum: Datum) -> Datum:
    return pc.utf8_trim(datum, characters=SPACES)


def substring(datum: Datum, start: int, count: int | None) -> Datum:
    """`count` characters from the `start`th (the first is 1)."""
    stop = None if count is None else start - 1 + count
    return pc.utf8_slice_codeunits(datum, start=start - 1, stop=stop)


def concatenate(left: Datum, right: Datum) -> Datum:
    a, b = unify([left, right])
    return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))


_PARTS: dict[str, Callable[[Datum], Datum]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "WEEK": pc.iso_week,
    "DAY": pc.day,
    "DOY": pc.day_of_year,
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
}


def _wall_clock(datum: Datum) -> Datum:
    """A moment as it reads in UTC."""
    if kind_of(datum) is Kind.TIMESTAMP_TZ:
        return pc.cast(datum, pa.timestamp(datum.type.unit))
    return datum


def part(datum: Datum, name: str) -> Datum:
    """YEAR … MINUTE; WEEK is ISO's."""
    return pc.cast(_PARTS[name](_wall_clock(datum)), pa.int64())


def truncate(datum: Datum, unit: str) -> Datum:
    """The start of the year … minute; weeks start on Monday."""
    floor = pc.floor_temporal(_wall_clock(datum), unit=unit.lower(), week_starts_monday=True)
    return pc.cast(floor, datum.type)
