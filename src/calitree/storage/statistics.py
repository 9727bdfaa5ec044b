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

_RAW = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)
"""Kinds that are read as numbers: not all of their values are dates of Python."""

_PHYSICAL = {
    Kind.STRING: ("BYTE_ARRAY",),
    Kind.FLOAT: ("FLOAT", "DOUBLE"),
    Kind.BOOLEAN: ("BOOLEAN",),
}
"""How Parquet stores kinds that may also be converted from something else."""

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


class GroupStatistics(NamedTuple):
    """The statistics of a column in one row group; None for what is not known."""

    low: Any = None
    high: Any = None
    values: bool = True
    nulls: bool = True


def flat_columns(footer: FileMetaData) -> dict[str, int]:
    """The positions of columns that are not part of another one."""
    columns = map(footer.schema.column, range(footer.num_columns))
    return {column.name: at for at, column in enumerate(columns) if column.name == column.path}


def bounds_of(
    label: str, dtype: pa.DataType, files: Iterable[tuple[FileMetaData, Partition]]
) -> tuple[Bounds, ...]:
    """The bounds of a column in all row groups of all files, in order.

    Those of floats are two, one of which holds for each row: those of the numbers, and NaN, which
    any row group may have.
    """
    groups: list[GroupStatistics] = []
    lows, highs = [], []
    for footer, partition in files:
        new = list(_group_statistics(label, dtype, footer, partition))
        groups += new
        stored = _stored(label, dtype, footer)
        lows.append(_array([group.low for group in new], stored, dtype))
        highs.append(_array([group.high for group in new], stored, dtype))
    low, high = pa.concat_arrays(lows), pa.concat_arrays(highs)
    values = np.array([group.values for group in groups], bool)
    nulls = np.array([group.nulls for group in groups], bool)
    if pa.types.is_floating(low.type):
        # Statistics leave NaN out, so one in them is a mistake.
        low, high = (pc.if_else(pc.is_nan(e), pa.scalar(None, e.type), e) for e in (low, high))
        nan, count = pa.repeat(pa.scalar(float("nan")), len(groups)), len(groups)
        of_nan = Bounds(nan, nan, np.ones(count, bool), values, np.zeros(count, bool))
        return Bounds(low, high, _known(low, high), values, nulls), of_nan
    if pa.types.is_timestamp(low.type) and low.type.unit == "ns":
        # With years that nanoseconds cannot count, comparisons are made in microseconds. The
        # least timestamp of all cannot be rounded down to one.
        local = low.cast(pa.timestamp("ns"))
        low = pc.min_element_wise(local, pc.floor_temporal(local, unit="microsecond"))
        low = low.cast(high.type)
    return (Bounds(low, high, _known(low, high), values, nulls),)


def _group_statistics(
    label: str, dtype: pa.DataType, footer: FileMetaData, partition: Partition
) -> Iterator[GroupStatistics]:
    at = flat_columns(footer).get(label)
    is_stored = label in footer.schema.to_arrow_schema().names
    for number in range(footer.num_row_groups):
        if not is_stored:
            value = partition[label]
            yield GroupStatistics(value.as_py(), value.as_py(), value.is_valid, not value.is_valid)
        elif at is None:
            yield GroupStatistics()
        else:
            yield _of_group(footer.row_group(number), at, dtype)


def _of_group(group: Any, at: int, dtype: pa.DataType) -> GroupStatistics:
    known = group.column(at).statistics
    if known is None:
        return GroupStatistics()
    nulls = known.null_count if known.has_null_count else None
    low = high = None
    if known.has_min_max and _target(dtype) is not None and _is_stored_as(dtype, known):
        raw = kind_of_arrow(dtype) in _RAW
        try:
            low, high = (known.min_raw, known.max_raw) if raw else (known.min, known.max)
        except ValueError:  # text that was cut within a character
            low = high = None
    return GroupStatistics(low, high, nulls != group.num_rows, nulls != 0)


def _is_stored_as(dtype: pa.DataType, known: Any) -> bool:
    """Whether a file has values as they are: no UUID as bytes, no float in two, no 0 and 1 for a boolean."""
    physical = _PHYSICAL.get(kind_of_arrow(dtype))
    return physical is None or known.physical_type in physical


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
    """The type in which bounds of a column are compared; None if they are not."""
    kind = kind_of_arrow(dtype)
    if kind is Kind.INTEGER:
        return pa.uint64() if pa.types.is_unsigned_integer(dtype) else pa.int64()
    if kind is Kind.DECIMAL:
        return dtype
    if kind is Kind.FLOAT:
        return pa.float64()
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_TZ):
        return dtype
    return {
        Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string(), Kind.DATE: pa.date32(),
    }.get(kind)  # fmt: skip


def _known(low: pa.Array, high: pa.Array) -> Mask:
    return np.asarray(pc.and_(low.is_valid(), high.is_valid()), bool)
