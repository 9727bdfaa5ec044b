"""One component of an aggregate, for each of some groups, as numbers that can be added up with ⊕.

Those of a `covariance` only together.

Sums of integers and decimals are 64-bit integers as long as no sum of them can be larger, and else
Python's integers. The operands of MIN and MAX are kept as their ranks among the distinct values, which works
for any type; NULL, the zero of both, has the rank that never wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.calibration.folding.numbers import MAX_INTEGER_SUM, decimals, unscaled
from calitree.engines.api.contraction import stored_parts
from calitree.engines.api.semiring import Plus, Scalar, Semiring
from calitree.engines.local.annotation.covariances import merged, merged_by, running_merges
from calitree.grouping import contiguous
from calitree.sql.kernels.values import MAX_DIGITS, common_type

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Summand:
    """The component `name`: its `values` with their ⊕ and its zero, and the way back to Arrow."""

    name: str
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

    def running(self, starts: Sequence[int]) -> Summand:
        """For each value the ⊕-sum from the last start on, which is the first of some values, up to it."""
        parts = np.split(self.values, starts[1:])
        return replace(self, values=np.concatenate([self.plus.accumulate(p) for p in parts]))

    def taken(self, rows: Array) -> Summand:
        """The values of these groups, in this order."""
        return replace(self, values=self.values[rows])

    def columns(self) -> dict[str, pa.Array]:
        """The values as a column of an absorbed table."""
        return {self.name: self.back(self.values)}


@dataclass(frozen=True, eq=False)
class CovarianceSummand:
    """All components of a `covariance`, which are added up together."""

    names: tuple[str, ...]
    matrix: Array

    def summed(self, numbers: Array, count: int) -> CovarianceSummand:
        """The ⊕-sums of the groups that have the same number."""
        return replace(self, matrix=merged_by(self.matrix, numbers, count))

    def others(self) -> CovarianceSummand:
        """For each group the ⊕-sum of all the others, from both ends."""
        before, after = running_merges(self.matrix), running_merges(self.matrix[:, ::-1])[:, ::-1]
        return replace(self, matrix=merged(before, after))

    def running(self, starts: Sequence[int]) -> CovarianceSummand:
        """For each group the ⊕-sum from the last start on up to it."""
        parts = np.split(self.matrix, starts[1:], axis=1)
        sums = [merged(running_merges(part), part) for part in parts]
        return replace(self, matrix=np.concatenate(sums, axis=1))

    def taken(self, rows: Array) -> CovarianceSummand:
        """The values of these groups, in this order."""
        return replace(self, matrix=self.matrix[:, rows])

    def columns(self) -> dict[str, pa.Array]:
        """The components as columns of an absorbed table."""
        return dict(zip(self.names, map(pa.array, self.matrix), strict=True))


def summands_of(
    name: str, semiring: Semiring, columns: Mapping[str, Any]
) -> Sequence[Summand | CovarianceSummand]:
    """An aggregate as the root has absorbed it in some of these columns."""
    names = stored_parts(name, semiring)
    if semiring.values:
        parts = [np.asarray(contiguous(columns[part]).cast(pa.float64())) for part in names]
        return [CovarianceSummand(names, np.stack(parts))]
    ways = zip(names, semiring.plus, semiring.zero, strict=True)
    return [_summand(part, columns[part], plus, zero) for part, plus, zero in ways]


def _summand(name: str, column: Any, plus: Plus, zero: Scalar) -> Summand:
    column = contiguous(column)
    if plus == "any":
        values = np.asarray(column.fill_null(False)).astype(np.int8)
        return Summand(name, values, np.maximum, 0, lambda sums: pa.array(sums.astype(bool)))
    return _sum(name, column, zero) if plus == "sum" else _compared(name, column, plus)


def same_type(first: Any, second: Any) -> tuple[Any, Any]:
    """Two columns of numbers as one type."""
    common = common_type(first.type, second.type, digits=MAX_DIGITS)
    return first.cast(common, safe=False), second.cast(common, safe=False)


def _sum(name: str, column: pa.Array, zero: Scalar) -> Summand:
    if pa.types.is_null(column.type):  # of no rows
        column = column.cast(pa.int64())
    column = column.fill_null(zero) if column.null_count else column
    if pa.types.is_floating(column.type):
        return Summand(name, np.asarray(column), np.add, float(zero or 0), pa.array)
    is_decimal = pa.types.is_decimal(column.type)
    scale = column.type.scale if is_decimal else 0
    values = unscaled(column) if is_decimal else np.asarray(column).astype(np.int64)
    if values.dtype != object and float(np.abs(values.astype(float)).sum()) >= MAX_INTEGER_SUM:
        values = values.astype(object)
    if values.dtype == object or is_decimal:
        return Summand(name, values, np.add, 0, lambda sums: decimals(sums, scale))
    return Summand(name, values, np.add, 0, pa.array)


def _compared(name: str, column: pa.Array, plus: Plus) -> Summand:
    known = column.unique().drop_null()
    known = known.take(pc.array_sort_indices(known))  # NaN comes last, as the largest
    null = len(known) if plus == "min" else -1
    ranks = np.asarray(pc.index_in(column, value_set=known).fill_null(null)).astype(np.int64)

    def back(ranks: Array) -> pa.Array:
        return known.take(pa.array(ranks, mask=ranks == null))

    return Summand(name, ranks, np.minimum if plus == "min" else np.maximum, null, back)
