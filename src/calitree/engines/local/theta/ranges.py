"""⊕ of ranges of an array, and ⊕ into ranges of one: without subtraction where digits would be lost.

Sums of integers are differences of prefix sums. Of anything else a tree of partial results is built, of
which each range takes at most two nodes a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from calitree.cache import cached_property
from calitree.engines.local.annotation.by_group import extremes, from_halves
from calitree.engines.local.annotation.texts import Texts
from calitree.engines.local.annotation.values import INT64_LIMIT, Value
from calitree.interrupts import run
from calitree.process.compiled import compiled, helper

Array = np.ndarray[Any, Any]
SUM, MIN, MAX = 0, 1, 2
COMBINE = (np.add, np.minimum, np.maximum)


class Ranges(NamedTuple):
    """Half-open ranges of positions. If all begin or end at the same one, that is a view of one number."""

    starts: Array
    ends: Array

    @property
    def sizes(self) -> Array:
        """How many positions each has."""
        sizes: Array = self.ends - self.starts
        return sizes


class RangeMatches:
    """What is looked up is in order, and each look-up matches a range of it, or several."""

    def __init__(self, order: Array, ranges: Sequence[Ranges]) -> None:
        self.order, self.ranges = order, ranges

    @property
    def counts(self) -> Array:
        """How many rows each look-up matches."""
        counts: Array = np.add.reduce([ranges.sizes for ranges in self.ranges])
        return counts

    def combine(self, data: Array, way: int) -> Array:
        """⊕ of the numbers of matching rows; its neutral element where there is none."""
        data = data[self.order]
        tree = None if _is_whole_sum(data, way) or not len(data) else _tree(data, way)
        results = [_combined(data, tree, ranges, way) for ranges in self.ranges]
        combined: Array = reduce(COMBINE[way], results)
        return combined


def _is_whole_sum(data: Array, way: int) -> bool:
    """Whether differences of sums are exact."""
    return way == SUM and bool(data.dtype == np.int64)


def _combined(data: Array, tree: Array | None, ranges: Ranges, way: int) -> Array:
    starts, ends = map(np.ascontiguousarray, ranges)
    result = neutral(len(starts), data.dtype, way)
    if tree is not None:
        run(lambda: _combine_ranges(tree, starts, ends, way, result), 20 * len(starts))
    elif len(data):
        upto = np.concatenate(([0], np.cumsum(data)))
        result = upto[ends] - upto[starts]
    return result


class StabbedMatches:
    """Look-ups are in order, and each row that is looked up matches a range of them."""

    def __init__(self, order: Array, ranges: Ranges, rows: Array | None, count: int) -> None:
        """Matches from ranges.

        Args:
            order: The look-ups, in order, that match anything.
            ranges: For some rows, the range of look-ups that each matches.
            rows: These rows; None if they are all.
            count: How many look-ups there are.
        """
        self.order, self.ranges, self.rows, self.count = order, ranges, rows, count

    @cached_property
    def counts(self) -> Array:
        """How many rows each look-up matches."""
        return self._from_steps(None)

    def _from_steps(self, data: Array | None) -> Array:
        """Sums of integers, which change where ranges begin and end; of 1 in each row without any."""
        steps = np.zeros(len(self.order) + 1, np.int64)
        for sign, positions in zip((1, -1), self.ranges, strict=True):
            _add_at(steps, positions, data, sign)
        result = np.zeros(self.count, np.int64)
        result[self.order] = np.cumsum(steps[:-1])
        return result

    def combine(self, data: Array, way: int) -> Array:
        """⊕ of the numbers of matching rows; its neutral element where there is none."""
        if self.rows is not None:
            data = data[self.rows]
        if _is_whole_sum(data, way):
            return self._from_steps(data)
        (starts, ends), size = map(np.ascontiguousarray, self.ranges), len(self.order)
        nodes, stabbed = neutral(2 * size, data.dtype, way), neutral(size, data.dtype, way)
        run(lambda: _combine_into(nodes, starts, ends, data, way), 20 * len(starts))
        run(lambda: _stab(nodes, way, stabbed), 20 * size)
        result = neutral(self.count, data.dtype, way)
        result[self.order] = stabbed
        return result


def _add_at(steps: Array, positions: Array, data: Array | None, sign: int) -> None:
    """Add numbers, or 1 each, at their positions."""
    if positions.strides == (0,):
        if len(positions):
            steps[positions[0]] += sign * (len(positions) if data is None else int(data.sum()))
    elif data is None:
        run(lambda: _count_steps(steps, positions, sign), len(positions))
    else:
        run(lambda: _add_steps(steps, positions, data, sign), len(positions))


def neutral(length: int, dtype: Any, way: int) -> Array:
    """The neutral element of ⊕, so many times."""
    limits = np.iinfo(np.int64)
    return np.full(length, (0, limits.max, limits.min)[way], dtype)


Matches = RangeMatches | StabbedMatches


def total(value: Value, matches: Matches) -> Value | None:
    """⊕ = sum over what each look-up matches; None if that would have to be in wide integers."""
    if value.is_wide:
        return None
    if not value.is_integer:
        data = value.data.astype(np.float64, copy=False)
        return Value(matches.combine(data, SUM), exact=value.exact)
    whole: Array = value.data.astype(np.int64, copy=False)
    bound = value.bound * len(value.data)
    if bound >= INT64_LIMIT:
        value.tighten()
        bound = value.bound * len(value.data)
    if bound < INT64_LIMIT:
        sums = matches.combine(whole, SUM)
        return Value(
            sums, scale=value.scale, exact=value.exact, bound=bound, positive=value.positive
        )
    upper, lower = (matches.combine(half, SUM) for half in (whole >> 32, whole & 0xFFFFFFFF))
    return from_halves(upper, lower, value.scale, value.exact)


def extreme(value: Value, matches: Matches, largest: bool) -> Value | None:
    """⊕ = min or max, NULL where nothing that matches has a value; None if the values have no order here."""
    if value.is_wide or isinstance(value.labels, Texts):
        return None
    data, way = value.data, MAX if largest else MIN
    distinct: Array | None = None
    if data.dtype == np.float64:  # by their order, in which NaN is the last
        distinct, data = np.unique(data, return_inverse=True)
    limits = np.iinfo(np.int64)
    numbers = data.astype(np.int64)
    seen = matches.counts > 0
    if value.valid is not None:
        numbers = np.where(value.valid, numbers, limits.min if largest else limits.max)
        seen &= matches.combine(value.valid.astype(np.int64), SUM) > 0
    best = np.where(seen, matches.combine(numbers, way), 0)
    if distinct is not None:
        best = distinct[best] if len(distinct) else np.zeros(len(best))
    return extremes(best > 0 if value.data.dtype == bool else best, seen, value)


def any_of(value: Value, matches: Matches) -> Value:
    """⊕ = any."""
    return Value(matches.combine((value.signs != 0).astype(np.int64), SUM) > 0)


def _tree(data: Array, way: int) -> Array:
    """Partial results: the leaves are in the second half, and each node combines its two children."""
    tree = np.empty(2 * len(data), data.dtype)
    tree[len(data) :] = data
    _build(tree, len(data), way)
    return tree


@helper
def _better(a: Any, b: Any, way: int) -> Any:  # pragma: no cover (compiled)
    if way == 0:
        return a + b
    if way == 1:
        return min(a, b)
    return max(a, b)


@compiled
def _build(tree: Array, size: int, way: int) -> None:  # pragma: no cover (compiled)
    for node in range(size - 1, 0, -1):
        tree[node] = _better(tree[2 * node], tree[2 * node + 1], way)


@compiled
def _combine_ranges(
    tree: Array, starts: Array, ends: Array, way: int, result: Array
) -> None:  # pragma: no cover (compiled)
    size = len(tree) // 2
    for i in range(len(starts)):
        low, high = starts[i] + size, ends[i] + size
        best = result[i]
        while low < high:
            if low & 1:
                best = _better(best, tree[low], way)
                low += 1
            if high & 1:
                high -= 1
                best = _better(best, tree[high], way)
            low >>= 1
            high >>= 1
        result[i] = best


@compiled
def _count_steps(steps: Array, positions: Array, sign: int) -> None:  # pragma: no cover (compiled)
    for i in range(len(positions)):
        steps[positions[i]] += sign


@compiled
def _add_steps(
    steps: Array, positions: Array, data: Array, sign: int
) -> None:  # pragma: no cover (compiled)
    for i in range(len(positions)):
        steps[positions[i]] += sign * data[i]


@compiled
def _combine_into(
    nodes: Array, starts: Array, ends: Array, data: Array, way: int
) -> None:  # pragma: no cover (compiled)
    size = len(nodes) // 2
    for i in range(len(starts)):
        low, high = starts[i] + size, ends[i] + size
        while low < high:
            if low & 1:
                nodes[low] = _better(nodes[low], data[i], way)
                low += 1
            if high & 1:
                high -= 1
                nodes[high] = _better(nodes[high], data[i], way)
            low >>= 1
            high >>= 1


@compiled
def _stab(nodes: Array, way: int, stabbed: Array) -> None:  # pragma: no cover (compiled)
    size = len(nodes) // 2
    for i in range(size):
        node = i + size
        while node >= 1:
            stabbed[i] = _better(stabbed[i], nodes[node], way)
            node >>= 1
