"""Integers of 128 bits in arrays: what the sums and products of numbers of 64 bits need.

An array of type `WIDE` has the layout of Arrow's decimals, so both share memory. Numbers are less than
10^38 in magnitude, as those of a decimal of 38 digits are; what is larger is `BEYOND`, which no number
but zero takes back when it is multiplied. All loops are compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calitree.process.compiled import compiled, helper

Array = np.ndarray[Any, Any]
WIDE = np.dtype([("low", np.uint64), ("high", np.int64)])
WIDE_LIMIT = 10**38
"""All numbers are smaller in magnitude."""

_MASK = (1 << 64) - 1
_LIMIT_HIGH, _LIMIT_LOW = np.uint64(WIDE_LIMIT >> 64), np.uint64(WIDE_LIMIT & _MASK)
_BEYOND = np.uint64(1 << 63)
"""The upper half of what stands for a number that is too large; its lower half is zero."""
_ZERO, _ONE, _HALF, _LAST = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(63)
_LOWER = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(_MASK)


# -- one number, by its halves ---------------------------------------------------------------------


@helper
def _size(low: Any, high: Any) -> Any:  # pragma: no cover (compiled)
    """The magnitude, by its halves."""
    if high >> _LAST:
        low = ~low + _ONE
        high = ~high + (_ONE if low == _ZERO else _ZERO)
    return low, high


@helper
def _signed(low: Any, high: Any, negative: bool) -> Any:  # pragma: no cover (compiled)
    """A number of this magnitude and sign; BEYOND if it is too large."""
    if high > _LIMIT_HIGH or (high == _LIMIT_HIGH and low >= _LIMIT_LOW):
        return _ZERO, _BEYOND
    if negative:
        low = ~low + _ONE
        high = ~high + (_ONE if low == _ZERO else _ZERO)
    return low, high


@helper
def _long_product(a: Any, b: Any) -> Any:  # pragma: no cover (compiled)
    """The product of two numbers of 64 bits without sign, by its halves."""
    a0, a1, b0, b1 = a & _LOWER, a >> _HALF, b & _LOWER, b >> _HALF
    inner = a1 * b0 + (a0 * b0 >> _HALF)
    outer = a0 * b1 + (inner & _LOWER)
    return a * b, a1 * b1 + (inner >> _HALF) + (outer >> _HALF)


@helper
def _product(a: Any, b: Any) -> Any:  # pragma: no cover (compiled)
    """The product of two numbers, each given by its halves."""
    (a_low, a_high), (b_low, b_high) = a, b
    negative = (a_high ^ b_high) >> _LAST != _ZERO
    if (a_low | a_high) == _ZERO or (b_low | b_high) == _ZERO:
        return _ZERO, _ZERO
    a_low, a_high = _size(a_low, a_high)
    b_low, b_high = _size(b_low, b_high)
    if a_high != _ZERO and b_high != _ZERO:
        return _ZERO, _BEYOND
    low, high = _long_product(a_low, b_low)
    cross, above = _ZERO, _ZERO
    if a_high != _ZERO:
        cross, above = _long_product(a_high, b_low)
    elif b_high != _ZERO:
        cross, above = _long_product(a_low, b_high)
    upper = high + cross
    if above != _ZERO or upper < high:
        return _ZERO, _BEYOND
    return _signed(low, upper, negative)


# -- arrays ----------------------------------------------------------------------------------------


def _halves(numbers: Array) -> Array:
    """The lower and the upper half of each number."""
    halves: Array = np.ascontiguousarray(numbers).view(np.uint64).reshape(-1, 2)
    return halves


def widened(numbers: Array) -> Array:
    """Integers of 64 bits, or wide ones, as wide ones."""
    if numbers.dtype == WIDE:
        return numbers
    wide = np.empty(len(numbers), WIDE)
    wide["low"], wide["high"] = numbers.view(np.uint64), numbers >> 63
    return wide


def narrowed(numbers: Array) -> Array | None:
    """Wide integers as integers of 64 bits, if all fit."""
    low = numbers["low"].view(np.int64)
    return np.ascontiguousarray(low) if np.array_equal(low >> 63, numbers["high"]) else None


def of_integers(numbers: list[int]) -> Array:
    """Python's integers, all of which are less than the limit."""
    return np.array([(x & _MASK, x >> 64) for x in numbers], WIDE)


def to_integers(numbers: Array) -> list[int]:
    """As Python's integers."""
    return [(high << 64) | low for low, high in numbers.tolist()]


def to_doubles(numbers: Array) -> Array:
    """The nearest doubles, up to their last bit."""
    doubles = np.empty(len(numbers))
    _to_doubles(_halves(numbers), doubles)
    return doubles


def to_long_doubles(numbers: Array) -> Array:
    """The nearest numbers of NumPy's widest type."""
    near = to_doubles(numbers)
    size, more, less = np.abs(near), np.empty_like(numbers), np.empty_like(numbers)
    more["high"] = less["high"] = upper = np.floor(size / 2.0**64)
    more["low"] = less["low"] = size - upper * 2.0**64
    _add(_halves(more), _halves(numbers), -1)  # of those that are not negative, near less exact
    _add(_halves(less), _halves(numbers), 1)  # of the others, exact less near
    rest = np.where(near < 0, -to_doubles(less), to_doubles(more))
    doubles: Array = near.astype(np.longdouble) - rest
    return doubles


@compiled
def _to_doubles(numbers: Array, doubles: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(numbers)):
        low, high = _size(numbers[i, 0], numbers[i, 1])
        size = np.float64(high) * 2.0**64 + np.float64(low)
        doubles[i] = -size if numbers[i, 1] >> _LAST else size


def bound(numbers: Array) -> int:
    """The largest magnitude."""
    low, high = _bound(_halves(numbers))
    return (int(high) << 64) | int(low)


@compiled
def _bound(numbers: Array) -> Any:  # pragma: no cover (compiled)
    most_low, most_high = _ZERO, _ZERO
    for i in range(len(numbers)):
        low, high = _size(numbers[i, 0], numbers[i, 1])
        if high > most_high or (high == most_high and low > most_low):
            most_low, most_high = low, high
    return most_low, most_high


def signs(numbers: Array) -> Array:
    """1, 0 or -1 for each number."""
    high = numbers["high"]
    signs: Array = np.where(high == 0, (numbers["low"] != 0).astype(np.int64), np.sign(high))
    return signs


def multiplied(left: Array, right: Array) -> Array | None:
    """Products of integers, wide or not; None if one is too large."""
    product = widened(left).copy()
    multiply_by(product, right)
    return product if is_within(product) else None


def multiply_by(product: Array, factor: Array) -> None:
    """Multiply wide integers by others, wide or not, in place; what is too large becomes BEYOND."""
    _multiply(_halves(product), _halves(widened(factor)))


@compiled
def _multiply(product: Array, factor: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(product)):
        product[i, 0], product[i, 1] = _product(
            (product[i, 0], product[i, 1]), (factor[i, 0], factor[i, 1])
        )


def is_within(numbers: Array) -> bool:
    """Whether none is BEYOND."""
    return not bool(((numbers["low"] == 0) & (numbers["high"] == np.iinfo(np.int64).min)).any())


def added(left: Array, right: Array, sign: int = 1) -> Array | None:
    """Sums of integers, wide or not, or their differences; None if one is too large."""
    total = widened(left).copy()
    _add(_halves(total), _halves(widened(right)), sign)
    return total if is_within(total) else None


@compiled
def _add(total: Array, other: Array, sign: int) -> None:  # pragma: no cover (compiled)
    for i in range(len(total)):
        low, high = other[i, 0], other[i, 1]
        if sign < 0:
            low = ~low + _ONE
            high = ~high + (_ONE if low == _ZERO else _ZERO)
        # Two numbers of less than 10^38 < 2^127 are less than 2^128: only the sign may be wrong.
        is_like = (high ^ total[i, 1]) >> _LAST == _ZERO
        sum_low = total[i, 0] + low
        sum_high = total[i, 1] + high + (_ONE if sum_low < low else _ZERO)
        if is_like and (sum_high ^ high) >> _LAST != _ZERO:
            sum_low, sum_high = _ZERO, _BEYOND
        else:
            size_low, size_high = _size(sum_low, sum_high)
            sum_low, sum_high = _signed(size_low, size_high, sum_high >> _LAST != _ZERO)
        total[i, 0], total[i, 1] = sum_low, sum_high


def of_halves(upper: Array, lower: Array) -> Array:
    """Numbers from the sums of their upper and of their lower 32 bits; the latter are not negative."""
    wide = np.empty(len(upper), WIDE)
    shifted = (upper << 32).view(np.uint64)
    wide["low"] = shifted + lower.view(np.uint64)
    wide["high"] = (upper >> 32) + (wide["low"] < shifted)
    return wide


# -- by group --------------------------------------------------------------------------------------


class WideSums:
    """Sums by group, of 192 bits: no number of rows makes them too large."""

    def __init__(self, count: int) -> None:
        self._limbs = np.zeros((count, 3), np.uint64)

    def add(self, groups: Array, numbers: Array) -> bool:
        """Add wide integers to the sums of their groups; False if one is BEYOND."""
        return bool(_scatter(self._limbs, groups.astype(np.int64, copy=False), _halves(numbers)))

    def merge(self, other: WideSums) -> None:
        """Add the sums of another thread."""
        _merge(self._limbs, other._limbs)

    def total(self) -> Array | None:
        """The sums as wide integers; None if one is too large."""
        low, high, above = self._limbs.T
        if not np.array_equal(high.view(np.int64) >> 63, above.view(np.int64)):
            return None
        total = np.empty(len(low), WIDE)
        total["low"], total["high"] = low, high.view(np.int64)
        return total if bound(total) < WIDE_LIMIT else None


@helper
def _add_limbs(sums: Array, at: Any, limbs: Any) -> None:  # pragma: no cover (compiled)
    low, high, above = limbs
    sums[at, 0] += low
    over = _ONE if sums[at, 0] < low else _ZERO
    before = sums[at, 1]
    sums[at, 1] = before + high + over
    is_over = sums[at, 1] < before or (over != _ZERO and sums[at, 1] == before)
    sums[at, 2] += above + (_ONE if is_over else _ZERO)


@compiled
def _scatter(sums: Array, groups: Array, numbers: Array) -> bool:  # pragma: no cover (compiled)
    within = True
    for i in range(len(numbers)):
        low, high = numbers[i, 0], numbers[i, 1]
        if high == _BEYOND and low == _ZERO:
            within = False
        _add_limbs(sums, np.uint64(groups[i]), (low, high, _ALL if high >> _LAST else _ZERO))
    return within


@compiled
def _merge(sums: Array, others: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(sums)):
        _add_limbs(sums, np.uint64(i), (others[i, 0], others[i, 1], others[i, 2]))


# -- the smallest and the largest ------------------------------------------------------------------


def improve(best: Array, seen: Array, groups: Array, numbers: Array, largest: bool) -> None:
    """Put numbers in place of those of their groups where they are smaller, or larger, in place.

    `seen` tells which groups have one already; then it is set for all groups that have.
    """
    groups = groups.astype(np.int64, copy=False)
    _improve(_halves(best), seen, groups, _halves(widened(numbers)), largest)


@compiled
def _improve(
    best: Array, seen: Array, groups: Array, numbers: Array, largest: bool
) -> None:  # pragma: no cover (compiled)
    for i in range(len(numbers)):
        at = np.uint64(groups[i])
        low, high = numbers[i, 0], np.int64(numbers[i, 1])
        best_low, best_high = best[at, 0], np.int64(best[at, 1])
        is_less = high < best_high or (high == best_high and low < best_low)
        is_same = high == best_high and low == best_low
        if not seen[at] or (not is_same and is_less != largest):
            best[at, 0], best[at, 1] = low, numbers[i, 1]
            seen[at] = True
