"""One component of an aggregate, for each of some groups, as numbers that can be added up with ⊕.

Sums of integers and decimals are 64-bit integers as long as no sum of them can be larger, and else
Python's. What is compared (min, max) is kept as its rank among the values that there are, which does
for any type; NULL, the zero of these, ranks behind all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from calitree.engines.api.semiring import Plus, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, Any]

SAFE = float(1 << 62)
"""64-bit integers whose sizes add up to less can be added in any order."""
DIGITS = 38


@dataclass(frozen=True, eq=False)
class Summand:
    """`values` with their ⊕ and its zero, and the way back to Arrow."""

    values: Array
    plus: np.ufunc
    zero: Any
    back: Callable[[Array], pa.Array]

    def summed(self, numbers: Array, count: int) -> Summand:
        """The ⊕-sums of the values that have the same number."""
        result = np.full(count, self.zero, self.values.dtype)
        self.plus.at(result, numbers, self.values)
        return replace(self, values=result)

    def others(self) -> Summand:
        """For each value the ⊕-sum of all the others, from both ends."""
        size = len(self.values)
        before, after = (np.full(size, self.zero, self.values.dtype) for _ in range(2))
        if size > 1:
            before[1:] = self.plus.accumulate(self.values[:-1])
            after[:-1] = self.plus.accumulate(self.values[:0:-1])[::-1]
        return replace(self, values=self.plus(before, after))

    def arrow(self) -> pa.Array:
        return self.back(self.values)


def summand_of(column: Any, plus: Plus, zero: Scalar) -> Summand:
    """A component as the root has absorbed it."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if plus == "any":
        values = np.asarray(whole.fill_null(False)).astype(np.int8)
        return Summand(values, np.maximum, 0, lambda found: pa.array(found.astype(bool)))
    if plus == "sum":
        return _sum(whole, zero)
    return _compared(whole, plus)


def alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Two columns of numbers as one type: an exact number is only as wide as it has to be."""
    import pyarrow as pa

    types = first.type, second.type
    if types[0] == types[1]:
        return first, second
    if any(map(pa.types.is_null, types)):
        common = types[1] if pa.types.is_null(types[0]) else types[0]
    elif any(map(pa.types.is_floating, types)):
        common = pa.float64()
    else:
        scale = max((each.scale for each in types if pa.types.is_decimal(each)), default=0)
        common = pa.decimal128(DIGITS, scale)
    return first.cast(common, safe=False), second.cast(common, safe=False)


def _sum(column: pa.Array, zero: Scalar) -> Summand:
    import pyarrow as pa

    if pa.types.is_null(column.type):  # of no rows
        column = column.cast(pa.int64())
    column = column.fill_null(zero) if column.null_count else column
    if pa.types.is_floating(column.type):
        return Summand(np.asarray(column), np.add, float(zero or 0), pa.array)
    is_decimal = pa.types.is_decimal(column.type)
    scale = column.type.scale if is_decimal else 0
    values = _unscaled(column) if is_decimal else np.asarray(column).astype(np.int64)
    if values.dtype != object and float(np.abs(values.astype(float)).sum()) >= SAFE:
        values = values.astype(object)
    if values.dtype == object or is_decimal:
        return Summand(values, np.add, 0, lambda found: _decimals(found, scale))
    return Summand(values, np.add, 0, pa.array)


def _unscaled(column: pa.Array) -> Array:
    """Decimals as whole numbers of their last digit."""
    import pyarrow as pa

    wide = column.cast(pa.decimal128(DIGITS, column.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset :][: 2 * len(wide)]
    low, high = words[::2], words[1::2]
    if np.array_equal(high, low >> 63):
        return low.copy()
    large: Array = (high.astype(object) << 64) + low.view(np.uint64).astype(object)
    return large


def _decimals(values: Array, scale: int) -> pa.Array:
    """Whole numbers as the decimals they stand for; as floats if one has too many digits."""
    import pyarrow as pa

    if values.dtype != object:
        words = np.empty(2 * len(values), np.int64)
        words[::2], words[1::2] = values, values >> 63
        buffers = [None, pa.py_buffer(words)]
        return pa.Array.from_buffers(pa.decimal128(DIGITS, scale), len(values), buffers)
    if any(abs(value) >= 10**DIGITS for value in values):
        return pa.array([float(value) / 10**scale for value in values], pa.float64())
    exact = [Decimal(f"{value}E-{scale}") for value in values]  # rounds nothing, as scaleb would
    return pa.array(exact, pa.decimal128(DIGITS, scale))


def _compared(column: pa.Array, plus: Plus) -> Summand:
    import pyarrow as pa
    import pyarrow.compute as pc

    known = column.unique().drop_null()
    known = known.take(pc.array_sort_indices(known))  # NaN comes last, as the largest
    behind = len(known) if plus == "min" else -1
    ranks = np.asarray(pc.index_in(column, value_set=known).fill_null(behind)).astype(np.int64)

    def back(found: Array) -> pa.Array:
        return known.take(pa.array(found, mask=found == behind))

    return Summand(ranks, np.minimum if plus == "min" else np.maximum, behind, back)
