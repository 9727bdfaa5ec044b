"""Rows in the order of a group and a value, in which look-ups find ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calitree.engines.local.encoding.numbering import is_small
from calitree.engines.local.encoding.spaces import order_by_id
from calitree.engines.local.theta.comparisons import Ordered
from calitree.engines.local.theta.ranges import Ranges
from calitree.interrupts import run
from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]

MIN_SORTED_LOOKUPS = 1 << 12
"""So many look-ups are sorted first: one by one, they would wait for memory each time."""
MAX_SPAN = 1 << 62


class SortedRows:
    """Rows by group, and inside a group by value. Rows without a value, or without a group, are left out."""

    def __init__(self, values: Ordered, groups: Array | None, count: int) -> None:
        """Sort rows.

        Args:
            values: What rows are sorted by.
            groups: The group of each row, negative for none; None if all are in one.
            count: How many groups there are.
        """
        self.count = count
        present = values.valid
        if groups is not None and len(groups) and groups.min() < 0:
            present = groups >= 0 if present is None else present & (groups >= 0)
        rows = None if present is None or present.all() else np.flatnonzero(present)
        data = values.data if rows is None else values.data[rows]
        if groups is not None and rows is not None:
            groups = groups[rows]
        self.ranks = _ranks(data, count)
        numbers = self.ranks.of(data)
        if groups is not None and count > 1:
            numbers = groups.astype(np.int64) * self.ranks.span + numbers
        order = self._sort(numbers, count)
        self.order = order if rows is None else rows[order]

    def _sort(self, numbers: Array, count: int) -> Array:
        """The order of these numbers; a table of where each begins, if they are dense."""
        span = count * self.ranks.span
        self.table: Array | None = None
        if not is_small(span, len(numbers)):
            order = run(lambda: np.argsort(numbers), len(numbers))
            self.numbers = numbers[order]
            return order
        starts = np.zeros(span + 1, np.int64)
        np.cumsum(np.bincount(numbers, minlength=span), out=starts[1:])
        self.table, order = starts, np.empty(len(numbers), np.int32)
        order_by_id(numbers, starts.copy(), order)
        return order

    def _positions(self, numbers: Array) -> Array:
        """How many rows have smaller numbers."""
        if self.table is not None:
            return self.table[numbers]
        if len(numbers) < MIN_SORTED_LOOKUPS:
            return np.searchsorted(self.numbers, numbers)
        order = run(lambda: np.argsort(numbers), len(numbers))
        positions = np.empty(len(numbers), np.int64)
        positions[order] = np.searchsorted(self.numbers, numbers[order])
        return positions

    def ranges(self, tests: Sequence[tuple[str, Ordered]], groups: Array | None) -> Ranges:
        """The rows of a group whose value passes all tests `value operator given`, for each look-up.

        `groups` are those of the look-ups; None if there is only one.
        """
        length = len(tests[0][1].data) if groups is None else len(groups)
        groups = groups if self.count > 1 else None
        starts, ends = self._limits(groups, length)
        for operator, given in tests:
            if operator in (">", ">=", "="):
                above = self._boundaries(given.data, "right" if operator == ">" else "left", groups)
                starts = above if _is_one(starts) else np.maximum(starts, above)
            if operator in ("<", "<=", "="):
                below = self._boundaries(given.data, "left" if operator == "<" else "right", groups)
                ends = below if _is_one(ends) else np.minimum(ends, below)
            if given.valid is not None:
                ends = np.where(given.valid, ends, starts)
        is_half_open = _is_one(starts) or _is_one(ends)
        return Ranges(starts, ends if is_half_open else np.maximum(starts, ends))

    def _limits(self, groups: Array | None, length: int) -> tuple[Array, Array]:
        """Where the group of each look-up begins and ends; of one group the same position each time."""
        limits = self._positions(np.arange(self.count + 1) * self.ranks.span)
        if groups is None:
            return np.broadcast_to(limits[0], length), np.broadcast_to(limits[-1], length)
        return limits[groups], limits[groups + 1]

    def _boundaries(self, data: Array, side: str, groups: Array | None) -> Array:
        """How many rows are in the groups before, or have a smaller value, or one that is not greater."""
        ranks, table = self.ranks, self.table
        if table is not None and isinstance(ranks, _Integers):
            least = ranks.low if side == "left" else ranks.low - 1
            of_groups = _NO_GROUPS if groups is None else groups.astype(np.int64, copy=False)
            positions = np.empty(len(data), np.int64)
            run(lambda: _look_up(table, data, (least, ranks.span), of_groups, positions), len(data))
            return positions
        numbers = ranks.find(data, side)
        if groups is not None:
            numbers = groups.astype(np.int64) * ranks.span + numbers
        return self._positions(numbers)


_NO_GROUPS = np.empty(0, np.int64)


def _is_one(positions: Array) -> bool:
    """Whether all are the same position, of which no array was made."""
    return positions.strides == (0,)


class _Integers:
    """The rank of an integer is its distance from the least."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high, self.span = low, high, high - low + 2

    def of(self, data: Array) -> Array:
        return data - self.low

    def find(self, data: Array, side: str) -> Array:
        """How many ranks are smaller than the value's, or not greater."""
        if side == "left":
            return np.clip(data, self.low, self.high + 1) - self.low
        return np.clip(data, self.low - 1, self.high) - (self.low - 1)


class _Distinct:
    """The rank of a value is its place among all."""

    def __init__(self, data: Array) -> None:
        self.values = run(lambda: np.unique(data), len(data))
        self.span = len(self.values) + 1

    def of(self, data: Array) -> Array:
        return np.searchsorted(self.values, data)

    def find(self, data: Array, side: Any) -> Array:
        """How many ranks are smaller than the value's, or not greater."""
        return np.searchsorted(self.values, data, side)


def _ranks(data: Array, count: int) -> _Integers | _Distinct:
    limits = np.iinfo(np.int64)
    if data.dtype == np.int64 and len(data):
        low, high = int(data.min()), int(data.max())
        if low > limits.min and high < limits.max and (high - low + 2) * count < MAX_SPAN:
            return _Integers(low, high)
    return _Distinct(data)


@compiled
def _look_up(
    table: Array, data: Array, ranks: tuple[int, int], groups: Array, positions: Array
) -> None:  # pragma: no cover (compiled)
    """What a table has for the rank of each integer: its distance from the least of a group's ranks."""
    least, span = ranks
    for i in range(len(data)):
        rank = 0
        if data[i] >= least + (span - 1):
            rank = span - 1
        elif data[i] > least:
            rank = data[i] - least
        positions[i] = table[rank + (groups[i] * span if len(groups) else 0)]
