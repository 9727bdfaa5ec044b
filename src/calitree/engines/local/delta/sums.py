"""⊕ and ⊖ of a large array of annotations and small ones that go to some of its rows.

As everywhere here, integers are bounded before they are added, and continue as wide integers, or as
doubles, only where one does not fit. Doubles that are subtracted must leave enough digits: if not,
there is no sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calitree.engines.local.annotation import wide
from calitree.engines.local.annotation.labels import (
    better,
    compacted,
    has_leftovers,
    with_common_labels,
)
from calitree.engines.local.annotation.texts import Texts
from calitree.engines.local.annotation.values import INT64_LIMIT, Value, of_wide, unified

Array = np.ndarray[Any, Any]
Placed = tuple[Value, Array]
"""Values, and the row that each goes to. No row occurs twice."""

MAX_CANCELLATION = 100
"""A difference must be at least one part in so many of what it was made of."""


@dataclass(frozen=True)
class Addition:
    """One component: a large array, and small ones that are added to its rows or subtracted."""

    large: Value
    plus: Sequence[Placed]
    minus: Sequence[Placed]
    count: int
    """The rows of the sum, of which `large` has the first."""
    left: Array | None = None
    """Zero for the rows that have no joined rows left: their digits do not matter."""

    @property
    def values(self) -> list[Value]:
        """All the values."""
        return [self.large, *(value for value, _ in (*self.plus, *self.minus))]

    def combined(self, way: str) -> Value | None:
        """⊕ of all; None if digits are lost."""
        if way == "any":
            return self._any()
        if way != "sum":
            return self._extreme(way == "max")
        filled = self._mapped(lambda value: value.filled(0))
        values = _present(filled.values)
        exact = all(value.exact for value in values)
        if all(value.is_integer for value in values):
            scale = max(value.scale for value in values)
            scaled = filled._at_scale(scale)
            if all(value.is_integer for value in _present(scaled.values)):
                total = scaled._integers(scale, exact)
                if total is not None:
                    return total
            exact = False
        return filled._doubles(exact)

    def _mapped(self, change: Callable[[Value], Value]) -> Addition:
        plus = [(change(value), rows) for value, rows in self.plus]
        minus = [(change(value), rows) for value, rows in self.minus]
        return replace(self, large=change(self.large), plus=plus, minus=minus)

    def _at_scale(self, scale: int) -> Addition:
        if all(value.scale == scale for value in self.values):
            return self
        return self._mapped(lambda value: value.at_scale(scale) if len(value.data) else value)

    def _integers(self, scale: int, exact: bool) -> Value | None:
        """Sums of integers at this scale; None if one does not even fit 128 bits."""
        values = _present(self.values)
        if sum(value.bound for value in values) >= INT64_LIMIT:
            for value in values:
                value.tighten()
        bound = sum(value.bound for value in values)
        if bound >= INT64_LIMIT or any(value.is_wide for value in values):
            return self._wide_integers(scale, exact)
        data = _longer(self.large.data, self.count, np.int64)
        for value, rows in self.plus:
            data[rows] += value.data
        for value, rows in self.minus:
            data[rows] -= value.data
        positive = self._is_positive(data)
        return Value(data, scale=scale, exact=exact, bound=bound, positive=positive)

    def _is_positive(self, data: Array) -> bool:
        """Whether all are counts, and none was subtracted to zero of which joined rows are left."""
        added = _present([self.large, *(value for value, _ in self.plus)])
        left = data if self.left is None else self.left
        return all(value.positive for value in added) and all(
            ((data[rows] > 0) | (left[rows] == 0)).all() for _, rows in self.minus
        )

    def _wide_integers(self, scale: int, exact: bool) -> Value | None:
        """Sums that may pass 64 bits; None if one does not fit 128."""
        data = _longer(wide.widened(self.large.data), self.count, wide.WIDE)
        for placed, sign in ((self.plus, 1), (self.minus, -1)):
            for value, rows in placed:
                total = wide.added(data[rows], value.data, sign)
                if total is None:
                    return None
                data[rows] = total
        positive = self._is_positive(wide.signs(data))
        return of_wide(data, scale=scale, exact=exact, positive=positive)

    def _doubles(self, exact: bool) -> Value | None:
        data = _longer(self.large.as_float().data, self.count, np.float64)
        peak = _longer(_peak(self.large), self.count, np.float64)
        with np.errstate(all="ignore"):  # what is not finite is seen below, or was there before
            for placed, change in ((self.plus, np.add), (self.minus, np.subtract)):
                for value, rows in placed:
                    data[rows] = change(data[rows], value.as_float().data)
                    largest = np.maximum(_peak(value), np.abs(data[rows]))
                    peak[rows] = np.maximum(peak[rows], largest)
            for _, rows in self.minus:
                after = data[rows]
                enough = (np.abs(after) >= peak[rows] / MAX_CANCELLATION) & np.isfinite(after)
                if self.left is not None:
                    enough |= self.left[rows] == 0
                if not enough.all():
                    return None
        return Value(data, exact=exact, peak=peak)

    def _any(self) -> Value:
        data = _longer(self.large.data, self.count, bool)
        for value, rows in self.plus:
            data[rows] |= value.data.astype(bool)
        return Value(data)

    def _extreme(self, largest: bool) -> Value:
        """MIN or MAX, where NULL stands for none. NaN is greater than every number."""
        first, *values = _alike([self.large, *(value for value, _ in self.plus)])
        data, seen = _longer(first.data, self.count, first.data.dtype), None
        if first.is_wide or first.valid is not None or self.count > len(first.data):
            seen = np.zeros(self.count, bool)
            seen[: len(first.data)] = True if first.valid is None else first.valid
        for value, (_, rows) in zip(values, self.plus, strict=True):
            if first.is_wide and seen is not None:
                present = slice(None) if value.valid is None else value.valid
                wide.improve(data, seen, rows[present], value.data[present], largest)
            else:
                _improve(data, seen, rows, value, largest)
        valid = None if seen is None or seen.all() else seen
        exact = all(value.exact for value in _present([first, *values]))
        if first.is_wide:
            return of_wide(data, valid, scale=first.scale, exact=exact)
        result = Value(data, valid, scale=first.scale, labels=first.labels, exact=exact)
        return compacted(result) if has_leftovers(result) else result


def _improve(data: Array, seen: Array | None, rows: Array, value: Value, largest: bool) -> None:
    """Put values in place of those in some rows where they are smaller, or larger."""
    before = data[rows]
    if isinstance(value.labels, Texts):
        chosen = better(value.labels, before, value.data, largest)
    else:
        with np.errstate(invalid="ignore"):
            chosen = (np.maximum if largest else np.fmin)(before, value.data)
    if seen is not None:
        chosen = np.where(seen[rows], chosen, value.data)
        seen[rows] |= True if value.valid is None else value.valid
    if value.valid is not None:
        chosen = np.where(value.valid, chosen, before)
    data[rows] = chosen


def one_row(way: str, plus: Sequence[Value], minus: Sequence[Value]) -> Value | None:
    """The same for values of one row each, of which there are thousands a second."""
    if way != "sum":
        row = np.zeros(1, np.intp)
        return Addition(plus[0], [(value, row) for value in plus[1:]], (), 1).combined(way)
    plus, minus = [value.filled(0) for value in plus], [value.filled(0) for value in minus]
    exact, is_integer, scale = True, True, 0
    for value in (*plus, *minus):
        exact, is_integer = exact and value.exact, is_integer and value.is_integer
        scale = max(scale, value.scale)
    if is_integer:
        return _one_integer(plus, minus, scale, exact)
    return _one_double(plus, minus, exact)


def _one_integer(plus: Sequence[Value], minus: Sequence[Value], scale: int, exact: bool) -> Value:
    result, positive = 0, True
    for value in plus:
        result += _item(value) * 10 ** (scale - value.scale)
        positive = positive and value.positive
    for value in minus:
        result -= _item(value) * 10 ** (scale - value.scale)
    positive = positive and result > 0
    if -INT64_LIMIT <= result < INT64_LIMIT:
        data = np.array([result])
    elif abs(result) < wide.WIDE_LIMIT:
        data = wide.of_integers([result])
    else:
        return Value(np.array([result / 10**scale]), exact=False)
    return Value(data, scale=scale, exact=exact, bound=abs(result), positive=positive)


def _item(value: Value) -> Any:
    """The one number of an array."""
    item = value.data.item()
    return item if type(item) is not tuple else wide.to_integers(value.data)[0]


def _one_double(plus: Sequence[Value], minus: Sequence[Value], exact: bool) -> Value | None:
    before = sum([_item(value) / 10**value.scale for value in plus])
    after = before - sum([_item(value) / 10**value.scale for value in minus])
    peak = max(abs(before), *[_peak(value).item() for value in (*plus, *minus)])
    if minus and (not math.isfinite(after) or abs(after) < peak / MAX_CANCELLATION):
        return None
    return Value(np.array([after], np.float64), exact=exact, peak=np.array([peak]))


def _present(values: Sequence[Value]) -> list[Value]:
    """Those that have rows: the type of an empty one means nothing."""
    return [value for value in values if len(value.data)]


def _longer(data: Array, count: int, dtype: Any) -> Array:
    """A copy, padded with zeros to `count` rows."""
    longer = np.zeros(count, dtype)
    longer[: len(data)] = data
    return longer


def _peak(value: Value) -> Array:
    """The largest magnitude that each sum has had."""
    return np.abs(value.as_float().data) if value.peak is None else value.peak


def _alike(values: Sequence[Value]) -> list[Value]:
    """The same values in one type, at one scale or by the same labels."""
    present = _present(values)
    if any(value.labels is not None for value in present):
        return with_common_labels(values)
    return unified(values)
