"""Values for a column: taken if its type holds them as they are, else refused.

An integer is a decimal and a date is a timestamp; a timestamp is a date at midnight only. Text is read as what
the column holds, but nothing becomes text. Floats are an exception: as in every database they are rounded to
the nearest one that a column of floats can hold.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from calitree.grouping import contiguous
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    Column: TypeAlias = pa.Array | pa.ChunkedArray

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_SOURCES = {
    **dict.fromkeys(_NUMBERS, (*_NUMBERS, Kind.STRING)),
    Kind.BOOLEAN: (Kind.BOOLEAN, Kind.STRING),
    Kind.DATE: (Kind.DATE, Kind.TIMESTAMP, Kind.STRING),
    Kind.TIMESTAMP: (Kind.TIMESTAMP, Kind.DATE, Kind.STRING),
    Kind.TIMESTAMP_TZ: (Kind.TIMESTAMP_TZ, Kind.STRING),
}
"""By kind of column, the kinds of values that may fit; for all others only values of the same kind."""

_EXACT_DIGITS = 15
"""A decimal of so many digits is told apart from all others as a double."""


def fitted(column: Column, dtype: pa.DataType) -> Column | None:
    """The values in this type; None if one of them is not what it was."""
    import pyarrow as pa

    if column.type == dtype:
        return column
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), dtype)])
    source, target = kind_of_arrow(column.type), kind_of_arrow(dtype)
    if source not in _SOURCES.get(target, (target,)) or Kind.OTHER in (source, target):
        return None
    try:
        return _converted(contiguous(column), source, dtype)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def first_misfit(column: Column, dtype: pa.DataType) -> Any:
    """The first value that does not fit, where one does not."""
    while len(column) > 1:
        half = len(column) // 2
        column = column[half:] if fitted(column[:half], dtype) is not None else column[:half]
    try:
        return column[0].as_py()
    except ValueError:  # nanoseconds, which Python does not have
        return str(column[0])


def _converted(values: pa.Array, source: Kind, dtype: pa.DataType) -> pa.Array | None:
    """Arrow refuses what does not fit; but for floats, and for the time of a date."""
    import pyarrow as pa

    target = kind_of_arrow(dtype)
    if target is Kind.FLOAT and source in (Kind.FLOAT, Kind.DECIMAL):
        return _floats(values, dtype)
    if target is Kind.DECIMAL and source is Kind.INTEGER:
        values = values.cast(pa.decimal256(76, 0))  # Arrow wants room for all integers of a type
    result = values.cast(dtype)
    lossy = (source, target) in ((Kind.FLOAT, Kind.DECIMAL), (Kind.TIMESTAMP, Kind.DATE))
    return result if not lossy or _back(result, values.type).equals(values) else None


def _back(values: pa.Array, dtype: pa.DataType) -> pa.Array:
    from calitree.sql.kernels.values import double

    is_decimal = kind_of_arrow(values.type) is Kind.DECIMAL
    return (double(values) if is_decimal else values).cast(dtype)


def _floats(values: pa.Array, dtype: pa.DataType) -> pa.Array | None:
    import pyarrow.compute as pc

    from calitree.sql.kernels.values import double

    doubles = double(values)
    if kind_of_arrow(values.type) is Kind.DECIMAL and values.type.precision > _EXACT_DIGITS:
        pairs = zip(values.to_pylist(), doubles.to_pylist(), strict=True)
        if any(value is not None and Decimal(repr(near)) != value for value, near in pairs):
            return None
    result = doubles.cast(dtype, safe=False)
    return result if pc.is_inf(result).equals(pc.is_inf(doubles)) else None
