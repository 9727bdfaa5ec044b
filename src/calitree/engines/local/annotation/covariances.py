"""⊕ and ⊖ of a `covariance`: each group's number of rows, means, and sums of products of deviations.

A column of a covariance is a matrix with a row for each component. Groups are merged as Chan, Golub and
LeVeque merge parts of a sample: what is squared is the distance of values of one group, never a value
itself. A mean is the sum of two doubles, so that the distance of two means near 1e9 has digits too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from calitree.engines.api.semiring import Semiring
from calitree.engines.local.annotation import wide
from calitree.engines.local.annotation.values import Value
from calitree.process.compiled import compiled

MAX_EXACT_DOUBLE = 2**53
"""Integers of smaller size are doubles."""

Array = np.ndarray[Any, Any]
Matrix = np.ndarray[Any, Any]
"""A row for each component: n, then m and l of each value, then d of each pair of values."""


def element(semiring: Semiring, lifts: Sequence[Value]) -> list[Value]:
    """Each row as a group of its own with these values; zero where one of them is NULL."""
    valid = [value.valid for value in lifts if value.valid is not None]
    present = np.logical_and.reduce(valid) if valid else None
    matrix = np.zeros((len(semiring.components), len(lifts[0].data)))
    matrix[0] = 1.0 if present is None else present
    for i, value in enumerate(lifts):
        for row, data in zip(matrix[1 + 2 * i :], split(value), strict=False):
            row[:] = data if present is None else np.where(present, data, 0.0)
    return as_values(matrix)


def split(value: Value) -> tuple[Array, Array | float]:
    """Numbers as the nearest doubles, and what integers and decimals are more than these."""
    high = value.as_float().data
    if not value.is_integer or value.bound < MAX_EXACT_DOUBLE:
        return high, 0.0
    if value.scale or value.is_wide:
        whole = wide.to_long_doubles(value.data) if value.is_wide else value.data
        exact = whole.astype(np.longdouble) / np.longdouble(10) ** value.scale
        return high, (exact - high).astype(np.float64)
    below = np.minimum(high, np.nextafter(2.0**63, 0)).astype(np.int64)
    return below.astype(np.float64), (value.data - below).astype(np.float64)


def scaled(parts: Sequence[Value], weight: Value) -> list[Value]:
    """So many times each row."""
    weights, means = weight.as_float().data, slice(1, 1 + 2 * values_of(len(parts)))
    matrix = matrix_of(parts)
    kept = matrix[means].copy()
    with np.errstate(all="ignore"):
        matrix = np.where(weights == 0, 0.0, matrix * weights)  # no rows of NaN are no rows
    matrix[means] = kept
    return as_values(matrix)


def matrix_of(parts: Sequence[Value]) -> Matrix:
    """The components as a matrix of its own."""
    return np.stack([value.as_float().data for value in parts])


def as_values(matrix: Matrix) -> list[Value]:
    """A matrix as one value a component."""
    return [Value(row) for row in matrix]


def values_of(components: int) -> int:
    """The number k of values; there are 1 + 2k + k(k + 1) / 2 components."""
    return (isqrt(8 * components + 17) - 5) // 2


def squares_of(components: int) -> list[int]:
    """The positions of the deviations of each value, multiplied with themselves."""
    values = values_of(components)
    first, steps = 1 + 2 * values, range(values, 0, -1)
    return [first, *(first + sum(steps[:i]) for i in range(1, values))]


def merged_by(matrix: Matrix, groups: Array, count: int) -> Matrix:
    """⊕ of the columns of each group."""
    values = values_of(len(matrix))
    result, shifts, rests = (np.zeros((n, count)) for n in (len(matrix), values, values))
    with np.errstate(all="ignore"):
        _sum_around_first(matrix, groups, result, shifts)
        np.divide(shifts, result[0], out=shifts, where=result[0] != 0)
        _sum_around_mean(matrix, groups, result, shifts, rests)
        return corrected(result, shifts, rests)


@compiled
def _sum_around_first(
    matrix: Matrix, groups: Array, result: Matrix, shifts: Array
) -> None:  # pragma: no cover (compiled)
    """The number of rows, the first mean of each group, and the sum of deviations from it."""
    for r in range(matrix.shape[1]):
        n, g = matrix[0, r], groups[r]
        if n != 0.0:
            for i in range(len(shifts)):
                m = 1 + 2 * i
                if result[0, g] == 0.0:
                    result[m, g] = matrix[m, r]
                shifts[i, g] += n * ((matrix[m, r] - result[m, g]) + matrix[m + 1, r])
            result[0, g] += n


@compiled
def _sum_around_mean(
    matrix: Matrix, groups: Array, result: Matrix, shifts: Array, rests: Array
) -> None:  # pragma: no cover (compiled)
    """The sums of deviations from the mean, which are nearly zero, and of products of these."""
    apart = np.empty(len(shifts))
    for r in range(matrix.shape[1]):
        n, g = matrix[0, r], groups[r]
        if n != 0.0:
            for i in range(len(shifts)):
                m = 1 + 2 * i
                apart[i] = (matrix[m, r] - result[m, g]) + matrix[m + 1, r] - shifts[i, g]
                rests[i, g] += n * apart[i]
            at = 1 + 2 * len(shifts)
            for i in range(len(shifts)):
                for j in range(i, len(shifts)):
                    result[at, g] += matrix[at, r] + n * apart[i] * apart[j]
                    at += 1


def corrected(sums: Matrix, shifts: Array | float, rests: Array) -> Matrix:
    """Groups from sums around a centre that is near the mean.

    In place of the means `sums` has numbers which, with `shifts` added, are the centres. `rests` are the
    sums of the deviations from these.
    """
    rows = sums[0]
    count = np.where(rows == 0, 1.0, rows)
    values = len(rests)
    means, lows = sums[1 : 1 + 2 * values : 2], sums[2 : 2 + 2 * values : 2]
    means[:], lows[:] = _normalised(means, shifts + rests / count)
    at = 1 + 2 * values
    for i in range(values):
        for j in range(i, values):
            products = sums[at]
            exact = products - rests[i] / count * rests[j]
            if i == j:
                exact = np.where(exact < 0, 0.0, exact)
            sums[at] = np.where(np.isinf(products), products, exact)
            at += 1
    return sums


def _normalised(high: Array, low: Array) -> tuple[Array, Array]:
    """The same sum of two doubles, of which the first is the nearest to it."""
    total = high + low
    added = total - high
    return total, (high - (total - added)) + (low - added)


def merged(left: Matrix, right: Matrix, sign: int = 1) -> Matrix:
    """⊕ of each two columns, or ⊖; of no rows the means are zero."""
    values = values_of(len(left))
    with np.errstate(all="ignore"):
        n, other = left[0], right[0]
        rows = n + sign * other
        count = np.where(rows == 0, 1.0, rows)
        result = np.empty(np.broadcast_shapes(left.shape, right.shape))
        result[0] = rows
        apart = []
        for m in range(1, 1 + 2 * values, 2):
            apart.append((right[m] - left[m]) + (right[m + 1] - left[m + 1]))
            low = left[m + 1] + apart[-1] * (sign * other / count)
            result[m], result[m + 1] = _normalised(left[m], low)
        at, between = 1 + 2 * values, n * other / count
        for i in range(values):
            for j in range(i, values):
                result[at] = left[at] + sign * (right[at] + apart[i] * apart[j] * between)
                at += 1
    result[:, rows == 0] = 0.0
    _keep_other(result, left, right[0] == 0)
    if sign > 0:
        _keep_other(result, right, left[0] == 0)
    return result


def running_merges(matrix: Matrix) -> Matrix:
    """For each column the ⊕ of all before it."""
    result = np.zeros_like(matrix)
    step, count = 1, matrix.shape[1]
    result[:, 1:] = matrix[:, :-1]
    while step < count:  # each column then has the merge of twice as many before it
        result[:, step:] = merged(result[:, step:], result[:, :-step])
        step *= 2
    return result


def _keep_other(result: Matrix, other: Matrix, where: Array) -> None:
    """What is merged with no rows stays as it is."""
    if where.any():
        result[:, where] = other[:, where]
