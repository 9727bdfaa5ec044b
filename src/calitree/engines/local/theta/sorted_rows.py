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

    def ranges(self, tests: Sequence[tuple[str, Ordered]], groups: Array) -> Ranges:
        """The rows of a group whose value passes all tests `value operator given`, for each look-up."""
        first = groups.astype(np.int64) * self.ranks.span
        starts, ends = first, first + (self.ranks.span - 1)
        for operator, given in tests:
            if operator in (">", ">=", "="):
                above = self.ranks.find(given.data, "right" if operator == ">" else "left")
                starts = np.maximum(starts, first + above)
            if operator in ("<", "<=", "="):
                below = self.ranks.find(given.data, "left" if operator == "<" else "right")
                ends = np.minimum(ends, first + below)
            if given.valid is not None:
                ends = np.where(given.valid, ends, starts)
        return Ranges(self._positions(starts), self._positions(np.maximum(starts, ends)))


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
