"""Keys as SQL groups by them: one NaN, one zero, and rows of several columns as one number.

Arrow tells NaNs apart by their bits, and -0.0 from 0.0; Python's NaN is not equal to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from calitree.interrupts import run

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

NAN = float("nan")
MAX_COMBINATIONS = 1 << 62
"""Combinations of codes that a number of 64 bits can tell apart."""


def canonical(value: Any) -> Any:
    """A Python value such that `==` and dictionaries group as SQL does: one NaN, one zero."""
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    return value


def contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def canonical_type(dtype: pa.DataType) -> pa.DataType:
    """The type in which values of this type are compared: integers and doubles of 64 bits, one text."""
    import pyarrow as pa

    t = pa.types
    if t.is_string(dtype):
        return dtype
    if t.is_uint64(dtype):
        return pa.decimal128(20, 0)
    if t.is_integer(dtype):
        return pa.int64()
    if t.is_floating(dtype):
        return pa.float64()
    if t.is_large_string(dtype) or t.is_string_view(dtype):
        return pa.string()
    if t.is_timestamp(dtype) and dtype.unit != "ns":
        return pa.timestamp("us", dtype.tz)
    if t.is_date64(dtype):
        return pa.date32()
    if t.is_large_binary(dtype) or t.is_fixed_size_binary(dtype):
        return pa.binary()
    return dtype


def canonical_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array in which equal values have equal bits: one NaN, one zero, one type."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    values = contiguous(column)
    if t.is_dictionary(values.type):
        return canonical_array(values.dictionary_decode())
    dtype = canonical_type(values.type)
    values = values if dtype == values.type else values.cast(dtype)
    if not t.is_float64(dtype):
        return values
    values = pc.add(values, 0.0)  # -0.0 becomes 0.0
    is_nan = pc.is_nan(values)
    return pc.if_else(is_nan, NAN, values) if pc.any(is_nan).as_py() else values


def row_keys(columns: Sequence[Array], sizes: Sequence[int]) -> tuple[Array, int]:
    """One integer for each row of several columns of codes: rows with equal codes have equal keys.

    Args:
        columns: Codes from 0 on; at least one column.
        sizes: For each column, a number that all its codes are less than.

    Returns:
        The keys, and a number that all of them are less than.
    """
    import numpy as np

    keys, span = columns[0].astype(np.int64), sizes[0]
    for codes, size in zip(columns[1:], sizes[1:], strict=True):
        if span * size >= MAX_COMBINATIONS:  # number those that there are, which are fewer
            known, keys = run(partial(np.unique, keys, return_inverse=True), len(keys))
            span = len(known)
        keys, span = keys * size + codes, span * size
    return keys, span
