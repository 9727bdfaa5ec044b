"""Annotations as NumPy arrays: exact integers of 64 bits, of 128 where these do not fit, or doubles.

Decimals are scaled to integers. Before two arrays are multiplied or summed their magnitudes are
bounded; what might not fit 64 bits continues as wide integers, and as doubles, marked inexact, only
what a decimal of 38 digits cannot hold. Nothing wraps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.annotation import wide
from calitree.engines.local.annotation.texts import Texts

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
            data: Integers of 64 bits, wide ones, doubles or booleans.
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
        return self.data.dtype.kind in "iV"

    @property
    def is_wide(self) -> bool:
        """Whether its integers have 128 bits."""
        return bool(self.data.dtype.kind == "V")

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
        if self.is_wide:
            self._bound = wide.bound(data)
        else:
            self._bound = max(-int(data.min()), int(data.max())) if len(data) else 0

    @property
    def is_finite(self) -> bool:
        """Whether no double is NaN or infinite."""
        if self._finite is None:
            self._finite = self.data.dtype != np.float64 or bool(np.isfinite(self.data).all())
        return self._finite

    @property
    def nbytes(self) -> int:
        """Bytes in memory. Of labels, which other values may share, those that its rows can have."""
        labels = 0
        if self.labels is not None and hasattr(self.labels, "nbytes"):
            share = min(1.0, len(self.data) / max(1, len(self.labels)))
            labels = int(self.labels.nbytes * share)
        arrays = (array for array in (self.valid, self.peak) if array is not None)
        return int(self.data.nbytes) + sum(int(array.nbytes) for array in arrays) + labels

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

    def range(self, rows: slice) -> Value:
        """A view of those at positions that follow one another."""
        valid = None if self.valid is None else self.valid[rows]
        peak = None if self.peak is None else self.peak[rows]
        return self._with(self.data[rows], valid, peak, self.exact)

    def as_float(self) -> Value:
        """The same numbers as doubles."""
        if self.data.dtype == np.float64:
            return self
        data = wide.to_doubles(self.data) if self.is_wide else self.data.astype(np.float64)
        return Value(data / 10.0**self.scale if self.scale else data, self.valid, exact=self.exact)

    def at_scale(self, scale: int) -> Value:
        """The same integers at a finer scale, as doubles if they do not fit."""
        if scale == self.scale:
            return self
        digits = scale - self.scale
        return multiply(self, repeated(10**digits, len(self.data), digits), self.valid)

    def element(self, number: Any) -> Any:
        """A number as an element of its array."""
        if self.is_wide:
            return wide.of_integers([int(number)])[0]
        return self.data.dtype.type(number)

    def filled(self, zero: Any) -> Value:
        """NULLs replaced by the semiring's zero."""
        if self.valid is None:
            return self
        data = np.where(self.valid, self.data, self.element(zero))
        return Value(data, scale=self.scale, labels=self.labels, exact=self.exact)

    @property
    def signs(self) -> Array:
        """Numbers that can be compared with zero as these can."""
        return wide.signs(self.data) if self.is_wide else self.data


def repeated(number: int, length: int, scale: int = 0) -> Value:
    """The same integer, not a negative one, on every row."""
    if number < INT64_LIMIT:
        return Value(np.full(length, number), scale=scale, bound=number)
    if number >= wide.WIDE_LIMIT:
        return Value(np.full(length, number / 10**scale), exact=False)
    return Value(np.full(length, wide.of_integers([number])[0]), scale=scale, bound=number)


def of_wide(
    data: Array,
    valid: Array | None = None,
    *,
    scale: int = 0,
    exact: bool = True,
    positive: bool = False,
) -> Value:
    """Wide integers; of 64 bits if all fit."""
    narrow = wide.narrowed(data)
    data = data if narrow is None else narrow
    return Value(data, valid, scale=scale, exact=exact, positive=positive)


def unified(values: Sequence[Value]) -> list[Value]:
    """The same numbers in one type, at one scale; the type of those without rows means nothing."""
    present = [value for value in values if len(value.data)]
    if len({(value.data.dtype, value.scale) for value in present}) > 1:
        present = _converted(present)
    rest, empty = iter(present), present[0].take(np.empty(0, np.intp)) if present else values[0]
    return [next(rest) if len(value.data) else empty for value in values]


def _converted(values: Sequence[Value]) -> list[Value]:
    if all(value.is_integer for value in values):
        scale = max(value.scale for value in values)
        values = [value.at_scale(scale) for value in values]
    if not all(value.is_integer for value in values):
        return [value.as_float() for value in values]
    if not any(value.is_wide for value in values):
        return list(values)
    return [value.with_data(wide.widened(value.data), value.valid) for value in values]


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
    """A decimal as an integer and a scale; as a double if it has more digits than 38."""
    scale = array.type.scale
    try:
        whole = array.cast(pa.decimal128(DIGITS, scale))
    except pa.ArrowInvalid:
        return Value(_numpy(array.cast(pa.float64()), 0.0), valid, exact=False)
    if whole.null_count:
        whole = whole.fill_null(0)
    data = np.zeros(len(whole), wide.WIDE)
    if len(whole):
        data[:] = np.frombuffer(whole.buffers()[1], wide.WIDE)[whole.offset :][: len(whole)]
    return of_wide(data, valid, scale=scale)


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
    if value.is_wide:
        return wide_decimals(value, value.scale)
    array = pa.array(value.data, mask=mask)
    if not value.scale:
        return array
    return _rescaled(array.cast(pa.decimal128(DIGITS, 0)), value.scale)


def wide_decimals(value: Value, scale: int) -> pa.Array:
    """Wide integers as decimals of this scale, which share their memory."""
    validity = None if value.valid is None else pa.array(value.valid).buffers()[1]
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(value.data))]
    return pa.Array.from_buffers(pa.decimal128(DIGITS, scale), len(value.data), buffers)


def _rescaled(decimals: pa.Array, scale: int) -> pa.Array:
    """The same unscaled integers read at another scale: no arithmetic, only another type."""
    return pa.Array.from_buffers(
        pa.decimal128(38, scale),
        len(decimals),
        decimals.buffers(),
        decimals.null_count,
        decimals.offset,
    )


def multiply(left: Value, right: Value, valid: Array | None = None) -> Value:
    """× of numbers."""
    exact = left.exact and right.exact
    if left.is_integer and right.is_integer:
        if left.bound * right.bound >= INT64_LIMIT:
            left.tighten()
            right.tighten()
        scale, positive = left.scale + right.scale, left.positive and right.positive
        exact = exact and scale <= DIGITS
        bound = left.bound * right.bound
        if bound < INT64_LIMIT and not (left.is_wide or right.is_wide):
            data = left.data * right.data
            return Value(data, valid, scale=scale, exact=exact, bound=bound, positive=positive)
        product = wide.multiplied(left.data, right.data)
        if product is not None:
            return of_wide(product, valid, scale=scale, exact=exact, positive=positive)
        exact = False
    return Value(left.as_float().data * right.as_float().data, valid, exact=exact)


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
            bound = a.bound + b.bound
            if bound < INT64_LIMIT and not (a.is_wide or b.is_wide):
                return Value(a.data + b.data, valid, scale=scale, exact=exact, bound=bound)
            total = wide.added(a.data, b.data)
            if total is not None:
                return of_wide(total, valid, scale=scale, exact=exact)
        exact = False
    return Value(left.as_float().data + right.as_float().data, valid, exact=exact)
