"""What the footers of Parquet files say of one column: its least and greatest value in each row group.

Only what is sure to hold for every row is taken over. Where there is no statistic, or one of a type
that is not compared here, the bounds are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.parquet import FileMetaData

from calitree.storage.files import Partition
from calitree.types import Kind, kind_of_arrow

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
"""One flag for each row group."""

_MOST_DIGITS = 38
_RAW = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)
"""Kinds that are read as numbers: not all of their values are dates of Python."""

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


@dataclass(frozen=True)
class Bounds:
    """One column in each row group: `low` ≤ value ≤ `high` where they are known."""

    low: pa.Array
    high: pa.Array
    known: Mask
    values: Mask
    """Whether there may be a value that is not NULL."""

    nulls: Mask
    """Whether there may be a NULL."""


class Said(NamedTuple):
    """What is said of one row group; None for what is not said."""

    low: Any = None
    high: Any = None
    values: bool = True
    nulls: bool = True


def flat_columns(footer: FileMetaData) -> dict[str, int]:
    """Where the columns are that are not part of another one."""
    columns = map(footer.schema.column, range(footer.num_columns))
    return {each.name: at for at, each in enumerate(columns) if each.name == each.path}


def bounds_of(
    label: str, dtype: pa.DataType, files: Iterable[tuple[FileMetaData, Partition]]
) -> tuple[Bounds, ...]:
    """The bounds of a column in all row groups of all files, in order.

    Those of floats are two, one of which holds for each row: those of the numbers, and NaN, which
    any row group may have.
    """
    dtype = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    said: list[Said] = []
    lows, highs = [], []
    for footer, partition in files:
        found = list(_said(label, dtype, footer, partition))
        said += found
        stored = _stored(label, dtype, footer)
        lows.append(_array([each.low for each in found], stored, dtype))
        highs.append(_array([each.high for each in found], stored, dtype))
    low, high = (pa.concat_arrays(each) for each in (lows, highs))
    values = np.array([each.values for each in said], bool)
    nulls = np.array([each.nulls for each in said], bool)
    if pa.types.is_floating(low.type):
        # Statistics leave NaN out, so one in them is a mistake.
        low, high = (pc.if_else(pc.is_nan(e), pa.scalar(None, e.type), e) for e in (low, high))
        nan = pa.repeat(pa.scalar(float("nan")), len(said))
        beside = Bounds(nan, nan, np.ones(len(said), bool), values, np.zeros(len(said), bool))
        return Bounds(low, high, _known(low, high), values, nulls), beside
    if pa.types.is_timestamp(low.type) and low.type.unit == "ns":
        # With years that nanoseconds cannot count, comparisons are made in microseconds. The
        # first moment of all has no microsecond to go to.
        low = pc.min_element_wise(low, pc.floor_temporal(low, unit="microsecond"))
    return (Bounds(low, high, _known(low, high), values, nulls),)


def _said(
    label: str, dtype: pa.DataType, footer: FileMetaData, partition: Partition
) -> Iterator[Said]:
    at = flat_columns(footer).get(label)
    there = label in footer.schema.to_arrow_schema().names
    for number in range(footer.num_row_groups):
        if there:
            yield Said() if at is None else _of_group(footer.row_group(number), at, dtype)
        else:
            value = partition[label]
            yield Said(value.as_py(), value.as_py(), value.is_valid, not value.is_valid)


def _of_group(group: Any, at: int, dtype: pa.DataType) -> Said:
    found = group.column(at).statistics
    if found is None:
        return Said()
    nulls = found.null_count if found.has_null_count else None
    low = high = None
    if found.has_min_max and _target(dtype) is not None:
        raw = kind_of_arrow(dtype) in _RAW
        try:
            low, high = (found.min_raw, found.max_raw) if raw else (found.min, found.max)
        except ValueError:  # text that was cut within a character
            low = high = None
    return Said(low, high, nulls != group.num_rows, nulls != 0)


def _stored(label: str, dtype: pa.DataType, footer: FileMetaData) -> pa.DataType | None:
    """The type in which a file counts its dates and times; None for all others."""
    at = flat_columns(footer).get(label)
    if at is None or kind_of_arrow(dtype) not in _RAW:
        return None
    if kind_of_arrow(dtype) is Kind.DATE:
        return pa.date32()
    logical = json.loads(footer.schema.column(at).logical_type.to_json())
    unit = _UNITS.get(logical.get("timeUnit"))
    return pa.timestamp(unit, dtype.tz) if unit else None


def _array(values: Sequence[Any], stored: pa.DataType | None, dtype: pa.DataType) -> pa.Array:
    """Statistics as the column that they are of; NULL where that is not possible."""
    target = _target(dtype)
    if target is None:
        return pa.nulls(len(values))
    try:
        if stored is None:
            return pa.array(values, target)
        counted = pa.array(values, pa.int32() if pa.types.is_date32(stored) else pa.int64())
        return counted.cast(stored).cast(target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(len(values), target)


def _target(dtype: pa.DataType) -> pa.DataType | None:
    """The type in which bounds of a column are compared; None if they are not.

    A decimal of more digits is compared as a double if one of its values needs them, and which
    values those are is not known here.
    """
    kind = kind_of_arrow(dtype)
    if kind is Kind.INTEGER:
        return pa.uint64() if pa.types.is_unsigned_integer(dtype) else pa.int64()
    if kind is Kind.DECIMAL:
        return dtype if dtype.precision <= _MOST_DIGITS else None
    if kind is Kind.FLOAT:
        return None if pa.types.is_float16(dtype) else pa.float64()
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        return dtype
    return {
        Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string(), Kind.DATE: pa.date32(),
    }.get(kind)  # fmt: skip


def _known(low: pa.Array, high: pa.Array) -> Mask:
    return np.asarray(pc.and_(low.is_valid(), high.is_valid()), bool)
