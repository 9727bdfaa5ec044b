"""Whole numbers of 38 digits: decimals as such, and exact sums of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.sql.kernels.values import MAX_DIGITS

Array = np.ndarray[Any, Any]

MAX_INTEGER_SUM = float(1 << 62)
"""64-bit integers whose absolute values add up to less can be added in any order."""


def exact_sums(numbers: Array, groups: int, values: pa.Array, rows: Array) -> pa.Array:
    """Σ value × rows by group: exact for whole numbers and decimals of up to 38 digits."""
    if pa.types.is_floating(values.type):
        products = np.asarray(values.cast(pa.float64())) * rows
        return pa.array(_summed(numbers, groups, products))
    is_decimal = pa.types.is_decimal(values.type)
    whole = unscaled(values) if is_decimal else np.asarray(values.cast(pa.int64()))
    if whole.dtype == object or float(np.abs(whole.astype(float) * rows).sum()) >= MAX_INTEGER_SUM:
        whole, rows = whole.astype(object), rows.astype(object)
    sums = _summed(numbers, groups, whole * rows)
    if is_decimal or sums.dtype == object:
        return decimals(sums, values.type.scale if is_decimal else 0)
    return pa.array(sums)


def _summed(numbers: Array, groups: int, values: Array) -> Array:
    sums = np.zeros(groups, values.dtype)
    with np.errstate(invalid="ignore"):  # infinities of both signs are NaN together
        np.add.at(sums, numbers, values)
    return sums


def unscaled(column: pa.Array) -> Array:
    """Decimals as whole numbers of their last digit."""
    wide = column.cast(pa.decimal128(MAX_DIGITS, column.type.scale))
    halves = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
    low, high = halves[::2], halves[1::2]
    if np.array_equal(high, low >> 63):
        return low.copy()
    large: Array = (high.astype(object) << 64) + low.view(np.uint64).astype(object)
    return large


def decimals(values: Array, scale: int) -> pa.Array:
    """Whole numbers as the decimals they stand for; as floats if one has too many digits."""
    if values.dtype != object:
        halves = np.empty(2 * len(values), np.int64)
        halves[::2], halves[1::2] = values, values >> 63
        buffers = [None, pa.py_buffer(halves)]
        return pa.Array.from_buffers(pa.decimal128(MAX_DIGITS, scale), len(values), buffers)
    if any(abs(value) >= 10**MAX_DIGITS for value in values):
        return pa.array([float(value) / 10**scale for value in values], pa.float64())
    exact = [Decimal(f"{value}E-{scale}") for value in values]  # rounds nothing, as scaleb would
    return pa.array(exact, pa.decimal128(MAX_DIGITS, scale))
