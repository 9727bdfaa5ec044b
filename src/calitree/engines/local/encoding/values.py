"""Annotations as NumPy arrays: exact integers as long as these fit 64 bits, else doubles.

Decimals are scaled to integers. Before two arrays are multiplied or summed their magnitudes are
bounded; what might not fit continues as doubles and is marked inexact. Nothing wraps.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.encoding.texts import Texts
from calitree.engines.local.vm.compiled import compiled

Array = np.ndarray[Any, Any]
INT64_LIMIT = 2**63
DIGITS = 38
"""Of a decimal of 128 bits."""


Labels: TypeAlias = pa.Array | Texts | pa.DataType


class Value:
    """One component of an annotation on every row: an array, how it is read, what is known of it."""

    def __init__(
        self,
        data: Array,
        valid: Array | None = None,
        *,
        scale: int = 0,
        labels: Labels | None = None,
        exact: bool = True,
        bound: int | None = None,
        positive: bool = False,
        peak: Array | None = None,
    ) -> None:
        """A value from its arrays.

        Args:
            data: Integers of 64 bits, doubles or booleans.
            valid: Where it is not NULL; None if it is NULL nowhere.
            scale: How many digits of the integers are decimals.
            labels: What `data` stands for, where MIN and MAX are not of numbers: sorted values of which
                it holds the positions, or `Texts` in no order, or the type of dates and times.
            exact: Whether nothing was rounded that an exact type would have kept.
            bound: At least the largest magnitude of integers, if that is known.
            positive: Whether all are known to be greater than zero: they are counts.
            peak: The largest magnitude that each floating-point sum has had since it was computed from
                rows, where it was changed since: so much of it may be noise.
        """
        self.data, self.valid = data, valid
        self.scale, self.labels = scale, labels
        self.exact, self.positive, self.peak = exact, positive, peak
        self._bound = bound
        self._finite: bool | None = None

    @property
    def is_integer(self) -> bool:
        """Whether it holds integers, or positions among labels."""
        return bool(self.data.dtype == np.int64)

    @property
    def bound(self) -> int:
        """At least the largest magnitude, for integers."""
        if self._bound is None:
            self.tighten()
        assert self._bound is not None
        return self._bound

    @property
    def bound_if_known(self) -> int | None:
        """The same, without looking at the data."""
        return self._bound

    def tighten(self) -> None:
        """Look at the data, where what was known of it is not enough."""
        data = self.data
        self._bound = max(-int(data.min()), int(data.max())) if len(data) else 0

    @property
    def is_finite(self) -> bool:
        """Whether no double is NaN or infinite."""
        if self._finite is None:
            self._finite = self.data.dtype != np.float64 or bool(np.isfinite(self.data).all())
        return self._finite

    @property
    def nbytes(self) -> int:
        """Bytes in memory, labels aside."""
        return int(self.data.nbytes) + (0 if self.valid is None else int(self.valid.nbytes))

    def with_exact(self, exact: bool) -> Value:
        """The same numbers, marked as exact or not."""
        return self._with(self.data, self.valid, self.peak, exact)

    def with_data(self, data: Array, valid: Array | None, peak: Array | None = None) -> Value:
        """Some of these numbers: all that is known of them still holds."""
        return self._with(data, valid, peak, self.exact)

    def _with(self, data: Array, valid: Array | None, peak: Array | None, exact: bool) -> Value:
        return Value(
            data,
            valid,
            scale=self.scale,
            labels=self.labels,
            exact=exact,
            bound=self._bound,
            positive=self.positive,
            peak=peak,
        )

    def take(self, index: Array | None) -> Value:
        """The numbers at some positions; all of them if there is no index."""
        if index is None:
            return self
        valid = None if self.valid is None else self.valid[index]
        peak = None if self.peak is None else self.peak[index]
        return self._with(self.data[index], valid, peak, self.exact)

    def as_float(self) -> Value:
        """The same numbers as doubles."""
        if self.data.dtype == np.float64:
            return self
        data = self.data.astype(np.float64)
        return Value(data / 10.0**self.scale if self.scale else data, self.valid, exact=self.exact)

    def at_scale(self, scale: int) -> Value:
        """The same integers at a finer scale, as doubles if they do not fit."""
        factor = 10 ** (scale - self.scale)
        if self.bound * factor >= INT64_LIMIT:
            self.tighten()
            if self.bound * factor >= INT64_LIMIT:
                return self.as_float()
        bound = self.bound * factor
        return Value(self.data * factor, self.valid, scale=scale, exact=self.exact, bound=bound)

    def filled(self, zero: Any) -> Value:
        """NULLs replaced by the semiring's zero."""
        if self.valid is None:
            return self
        data = np.where(self.valid, self.data, self.data.dtype.type(zero))
        return Value(data, scale=self.scale, labels=self.labels, exact=self.exact)


def from_arrow(array: pa.Array) -> Value:
    """An Arrow array as a value; anything that is not a number or a boolean by its order."""
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    dtype = array.type
    if pa.types.is_null(dtype):
        return Value(np.zeros(len(array), np.int64), np.zeros(len(array), bool))
    if pa.types.is_boolean(dtype):
        return Value(array.fill_null(False).to_numpy(zero_copy_only=False), valid)
    if pa.types.is_uint64(dtype):
        array, dtype = array.cast(pa.decimal128(20, 0)), pa.decimal128(20, 0)
    if pa.types.is_integer(dtype):
        return Value(_numpy(array.cast(pa.int64()), 0), valid)
    if pa.types.is_floating(dtype):
        return Value(_numpy(array.cast(pa.float64()), 0.0), valid)
    if pa.types.is_decimal(dtype):
        return _from_decimal(array, valid)
    labels = array.unique().drop_null()
    labels = labels.take(pc.sort_indices(labels))
    index = pc.index_in(array, value_set=labels)
    return Value(_numpy(index.cast(pa.int64()), 0), valid, labels=labels)


def _from_decimal(array: pa.Array, valid: Array | None) -> Value:
    """A decimal as an integer and a scale; as a double if it does not fit 64 bits."""
    scale = array.type.scale
    try:
        whole = _rescaled(array.cast(pa.decimal128(38, scale)), 0)
        return Value(_numpy(whole.cast(pa.int64()), 0), valid, scale=scale)
    except pa.ArrowInvalid:
        return Value(_numpy(array.cast(pa.float64()), 0.0), valid, exact=False)


def _numpy(array: pa.Array, zero: Any) -> Array:
    if array.null_count:
        array = array.fill_null(zero)
    result: Array = array.to_numpy(zero_copy_only=False)
    return result


def to_arrow(value: Value) -> pa.Array:
    """Back to Arrow: scaled integers as decimals, positions as what they stand for."""
    mask = None if value.valid is None else ~value.valid
    if isinstance(value.labels, Texts):
        return value.labels.take(value.data, mask)
    if isinstance(value.labels, pa.DataType):
        width = pa.int32() if value.labels.bit_width == 32 else pa.int64()
        return pa.array(value.data, mask=mask).cast(width).view(value.labels)
    if value.labels is not None:
        return value.labels.take(pa.array(value.data, pa.int64(), mask=mask))
    if value.scale > DIGITS:  # Arrow makes such decimals, and fails when they are read
        value = value.as_float()
    array = pa.array(value.data, mask=mask)
    if not value.scale:
        return array
    return _rescaled(array.cast(pa.decimal128(38, 0)), value.scale)


def _rescaled(decimals: pa.Array, scale: int) -> pa.Array:
    """The same unscaled integers read at another scale: no arithmetic, only another type."""
    return pa.Array.from_buffers(
        pa.decimal128(38, scale),
        len(decimals),
        decimals.buffers(),
        decimals.null_count,
        decimals.offset,
    )


def multiply(left: Value, right: Value) -> Value:
    """× of numbers."""
    exact = left.exact and right.exact
    if left.is_integer and right.is_integer:
        if left.bound * right.bound >= INT64_LIMIT:
            left.tighten()
            right.tighten()
        bound = left.bound * right.bound
        if bound < INT64_LIMIT:
            return Value(
                left.data * right.data,
                scale=left.scale + right.scale,
                exact=exact,
                bound=bound,
                positive=left.positive and right.positive,
            )
        exact = False
    return Value(left.as_float().data * right.as_float().data, exact=exact)


def add(left: Value, right: Value) -> Value:
    """+ of numbers, NULL where either is: ⊗ of (min, +)."""
    valid = left.valid if right.valid is None else right.valid
    if left.valid is not None and right.valid is not None:
        valid = left.valid & right.valid
    exact = left.exact and right.exact
    if left.is_integer and right.is_integer:
        scale = max(left.scale, right.scale)
        a, b = left.at_scale(scale), right.at_scale(scale)
        if a.is_integer and b.is_integer:
            if a.bound + b.bound >= INT64_LIMIT:
                a.tighten()
                b.tighten()
            if a.bound + b.bound < INT64_LIMIT:
                bound = a.bound + b.bound
                return Value(a.data + b.data, valid, scale=scale, exact=exact, bound=bound)
        exact = False
    return Value(left.as_float().data + right.as_float().data, valid, exact=exact)


def count_of(groups: Array, count: int) -> Value:
    """How many rows each group has."""
    return Value(np.bincount(groups, minlength=count), bound=len(groups), positive=True)


def total(value: Value, groups: Array, count: int) -> Value:
    """⊕ = sum, by group."""
    if not value.is_integer:
        data = np.zeros(count)
        _add(data, groups, value.data)
        return Value(data, exact=value.exact)
    if value.bound * len(value.data) >= INT64_LIMIT:
        value.tighten()
        if value.bound * len(value.data) >= INT64_LIMIT:
            return _total_of_halves(value, groups, count)
    result = np.zeros(count, np.int64)
    _add(result, groups, value.data)
    return Value(
        result,
        scale=value.scale,
        exact=value.exact,
        bound=value.bound * len(value.data),
        positive=value.positive,
    )


@compiled
def _add(into: Array, groups: Array, data: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(groups)):
        into[np.uint64(groups[i])] += data[i]


def _total_of_halves(value: Value, groups: Array, count: int) -> Value:
    """Sums that may pass 64 bits: those of the upper and of the lower 32 bits cannot."""
    upper, lower = np.zeros(count, np.int64), np.zeros(count, np.int64)
    _add(upper, groups, value.data >> 32)
    _add(lower, groups, value.data & 0xFFFFFFFF)
    return from_halves(upper, lower, value.scale, value.exact)


def from_halves(upper: Array, lower: Array, scale: int, exact: bool) -> Value:
    """Integers from the sums of their upper and of their lower 32 bits; doubles if one is too big."""
    sums = [(u << 32) + low for u, low in zip(upper.tolist(), lower.tolist(), strict=True)]
    if all(-INT64_LIMIT <= total < INT64_LIMIT for total in sums):
        return Value(np.array(sums, np.int64), scale=scale, exact=exact)
    return Value(np.array([total / 10**scale for total in sums], np.float64), exact=False)


def extreme(value: Value, groups: Array, count: int, largest: bool) -> Value:
    """⊕ = min or max, by group; NULL where a group has no value. NaN is greater than every number."""
    if value.valid is not None:
        groups, value = groups[value.valid], value.take(value.valid)
    data = value.data
    seen = np.zeros(count, bool)
    seen[groups] = True
    if data.dtype == np.float64:
        start = -np.inf if largest else np.nan
        result = np.full(count, start)
        with np.errstate(invalid="ignore"):  # NumPy warns of NaN here, though it is as it should be
            (np.maximum if largest else np.fmin).at(result, groups, data)
    else:
        as_int = data.astype(np.int64)
        limits = np.iinfo(np.int64)
        result = np.full(count, limits.min if largest else limits.max, np.int64)
        (np.maximum if largest else np.minimum).at(result, groups, as_int)
        if data.dtype == bool:
            result = result > 0
    return extremes(result, seen, value)


def extremes(result: Array, seen: Array, like: Value) -> Value:
    """The extremes of groups, NULL where no value was seen."""
    valid = None if seen.all() else seen
    if valid is not None:
        result = np.where(valid, result, result.dtype.type(0))
    return Value(result, valid, scale=like.scale, labels=like.labels, exact=like.exact)


def any_of(value: Value, groups: Array, count: int) -> Value:
    """⊕ = any, by group."""
    result = np.zeros(count, bool)
    result[groups[value.data.astype(bool)]] = True
    return Value(result)
