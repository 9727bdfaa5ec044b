"""The cells that values of all types fall into, by their hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels.casts import try_cast
from calitree.sql.kernels.sketches import xxhash
from calitree.sql.kernels.sketches.buckets import doubles, with_nulls
from calitree.sql.kernels.strings import OFFSETS
from calitree.sql.kernels.values import number, on_arrays, unify
from calitree.sql.rules.sketches import RANKS, REGISTER_BITS
from calitree.types import Kind

Array = np.ndarray[Any, Any]


@on_arrays
def cell(values: pa.Array) -> pa.Array:
    """The register of each value, and its rank there."""
    hashed = _hashed(values)
    registers = hashed & np.uint64((1 << REGISTER_BITS) - 1)
    others = (hashed >> np.uint64(REGISTER_BITS)) | np.uint64(1 << RANKS - 1)
    ranks = np.bitwise_count(others ^ (others - np.uint64(1))) - 1
    return with_nulls(registers.astype(np.int64) * RANKS + ranks, values)


def _hashed(values: pa.Array) -> Array:
    """The hash of each value, the same for equal ones of all engines; of NULL it is any number."""
    t, dtype = pa.types, values.type
    if dtype in OFFSETS:
        return xxhash.of_bytes(values)
    if t.is_floating(dtype):
        numbers = doubles(values) + 0.0  # -0.0 becomes 0.0
        return xxhash.of_integers(np.where(np.isnan(numbers), np.nan, numbers).view(np.int64))
    if t.is_decimal(dtype) or t.is_uint64(dtype):
        return _of_decimals(number(values))
    if t.is_boolean(dtype) or t.is_integer(dtype):
        return xxhash.of_integers(_integers(values))
    if t.is_date32(dtype):
        return xxhash.of_integers(_integers(values.cast(pa.int32())))
    if t.is_time(dtype):
        return xxhash.of_integers(_integers(values.cast(pa.time64("ns"))))
    if t.is_timestamp(dtype) or t.is_duration(dtype):
        return xxhash.of_integers(_microseconds(values))
    raise ExpressionError(f"a value of type {dtype} has no hash")


def _integers(values: pa.Array) -> Array:
    return np.asarray(pc.fill_null(values.cast(pa.int64()), 0))


def _microseconds(values: pa.Array) -> Array:
    """As other engines have them. These have no nanoseconds, which stay if they are no whole number."""
    moments = _integers(values)
    if values.type.unit != "ns":
        return moments * {"s": 1_000_000, "ms": 1_000, "us": 1}[values.type.unit]
    return np.where(moments % 1_000 == 0, moments // 1_000, moments)


def _of_decimals(values: pa.Array) -> Array:
    """Whole numbers as integers if 64 bits hold them; others by their digits, without zeros at the end."""
    whole = try_cast(values, Kind.INTEGER)
    is_whole = np.asarray(pc.fill_null(pc.equal(*unify([whole, values])), False))
    hashed = xxhash.of_integers(_integers(whole))
    rest = ~is_whole
    if rest.any():
        texts = try_cast(values.filter(pa.array(rest)), Kind.STRING)
        pointed = pc.if_else(
            pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, "", ".")
        )
        digits = pc.ascii_rtrim(pc.ascii_rtrim(pointed, characters="0"), characters=".")
        hashed[rest] = xxhash.of_bytes(digits)
    return hashed
