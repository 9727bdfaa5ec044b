"""Attribute values ↔ small integers, shared by all relations that have the attribute.

A code is a position in the attribute's dictionary; NULL is -1 and is in no dictionary, so it can
never match. Codes are what joins and groups work on; a predicate on one attribute is evaluated on
its dictionary, not on the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import EngineError

Codes = np.ndarray[Any, np.dtype[np.int32]]


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array of a type that equal values share: 64-bit numbers, one kind of text, one
    zero.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = (
                pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
            )
    dtype = values.type
    if pa.types.is_dictionary(dtype):
        return plain(values.dictionary_decode())
    if pa.types.is_uint64(dtype):
        return values.cast(pa.decimal128(20, 0))
    if pa.types.is_integer(dtype):
        return values.cast(pa.int64())
    if pa.types.is_floating(dtype):
        return pc.add(values.cast(pa.float64()), 0.0)
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return values.cast(pa.string())
    if pa.types.is_timestamp(dtype) and dtype.unit != "ns":
        return values.cast(pa.timestamp("us", dtype.tz))
    if pa.types.is_date64(dtype):
        return values.cast(pa.date32())
    if pa.types.is_large_binary(dtype) or pa.types.is_fixed_size_binary(dtype):
        return values.cast(pa.binary())
    return values


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type in which values of both can be compared."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return pa.float64()
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return pa.timestamp("ns", a.tz)
    if pa.types.is_decimal(a) or pa.types.is_decimal(b):
        scale = max(t.scale if pa.types.is_decimal(t) else 0 for t in (a, b))
        return pa.decimal256(76, scale)
    return a


class Dictionary:
    """The values of one attribute seen so far, in order of appearance. It only grows."""

    def __init__(self) -> None:
        self.values: pa.Array = pa.nulls(0)

    def __len__(self) -> int:
        return len(self.values)

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Codes:
        """The code of every value; new values are added."""
        encoded = plain(column).dictionary_encode()
        local = encoded.dictionary
        dtype = common(self.values.type, local.type)
        try:
            self.values, local = self.values.cast(dtype), local.cast(dtype)
        except pa.ArrowInvalid as error:
            raise EngineError(
                f"Keys of type {self.values.type} and {local.type} cannot be compared: {error}. "
                "Cast one of the columns in its source."
            ) from None
        known = pc.index_in(local, value_set=self.values)
        fresh = pc.is_null(known)
        if pc.any(fresh).as_py():
            # Casting (3 and 3.0) may have made two local values equal: keep each once.
            added = local.filter(fresh).unique()
            self.values = pa.concat_arrays([self.values, added])
            known = pc.index_in(local, value_set=self.values)
        codes = np.append(known.to_numpy(zero_copy_only=False).astype(np.int32), np.int32(-1))
        indices = encoded.indices.fill_null(len(local)).to_numpy(zero_copy_only=False)
        found: Codes = codes[indices]
        return found

    def decode(self, codes: Codes) -> pa.Array:
        """The values of these codes."""
        return self.values.take(pa.array(codes, mask=codes < 0))
