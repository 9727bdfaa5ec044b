"""⊕ and ⊖ of a large array of annotations and small ones that go to some of its rows.

As everywhere here, integers are bounded before they are added, and continue as doubles only where
one does not fit. Doubles that are subtracted must leave enough digits: if not, there is no sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.encoding.values import LIMIT, Value

Array = np.ndarray[Any, Any]
Placed = tuple[Value, Array]
"""Values, and the row that each goes to. No row is met twice."""

ENOUGH = 100
"""A difference must be at least one part in so many of what it was made of."""


def combined(
    way: str,
    large: Value,
    plus: Sequence[Placed],
    minus: Sequence[Placed],
    count: int,
    left: Array | None,
) -> Value | None:
    """A component's ⊕ on `count` rows, of which `large` has the first; None if digits are lost.

    `left` tells how many joined rows each has left; without any, its digits do not matter.
    """
    if way == "any":
        return _any(large, plus, count)
    if way != "sum":
        return _extreme(way == "max", large, plus, count)
    large = large.filled(0)
    plus = [(value.filled(0), rows) for value, rows in plus]
    minus = [(value.filled(0), rows) for value, rows in minus]
    values = _present([large, *(v for v, _ in plus), *(v for v, _ in minus)])
    exact = all(value.exact for value in values)
    if all(value.is_integer for value in values):
        whole = _integers(large, plus, minus, count, left, max(v.scale for v in values), exact)
        if whole is not None:
            return whole
        exact = False
    return _doubles(large, plus, minus, count, left, exact)


def one_row(way: str, plus: Sequence[Value], minus: Sequence[Value]) -> Value | None:
    """The same for values of one row each, of which there are thousands a second."""
    if way != "sum":
        here = np.zeros(1, np.intp)
        return combined(way, plus[0], [(each, here) for each in plus[1:]], (), 1, None)
    plus, minus = [each.filled(0) for each in plus], [each.filled(0) for each in minus]
    values = (*plus, *minus)
    exact = whole = positive = True
    scale = 0
    for each in values:
        exact, whole = exact and each.exact, whole and each.is_integer
        scale = max(scale, each.scale)
    if whole:
        total = 0
        for each in plus:
            total += _whole(each, scale)
            positive = positive and each.positive
        for each in minus:
            total -= _whole(each, scale)
        if -LIMIT <= total < LIMIT:
            positive = positive and total > 0
            return Value(
                np.array([total]), scale=scale, exact=exact, bound=abs(total), positive=positive
            )
        return Value(np.array([total / 10**scale]), exact=False)
    before = sum(_double(each) for each in plus)
    after = before - sum(_double(each) for each in minus)
    most = max(abs(before), *(_peak(each).item() for each in values))
    if minus and (not math.isfinite(after) or abs(after) < most / ENOUGH):
        return None
    return Value(np.array([after], np.float64), exact=exact, peak=np.array([most]))


def _whole(value: Value, scale: int) -> int:
    number: int = value.data.item()
    return number if value.scale == scale else number * 10 ** (scale - value.scale)


def _double(value: Value) -> float:
    number = float(value.data.item())
    return number / 10**value.scale if value.scale else number


def _present(values: Sequence[Value]) -> list[Value]:
    """Those that have rows: the type of an empty one means nothing."""
    return [value for value in values if len(value.data)]


def _longer(data: Array, count: int, dtype: Any) -> Array:
    """A copy, with zeros behind it."""
    if len(data) == count:
        return data.astype(dtype)
    longer = np.empty(count, dtype)
    longer[: len(data)] = data
    longer[len(data) :] = 0
    return longer


def _integers(
    large: Value,
    plus: Sequence[Placed],
    minus: Sequence[Placed],
    count: int,
    left: Array | None,
    scale: int,
    exact: bool,
) -> Value | None:
    """Sums of integers at this scale; None if some do not fit it."""
    if any(value.scale != scale for value, _ in ((large, None), *plus, *minus)):
        large = large.at_scale(scale) if len(large.data) else Value(large.data[:0].astype(np.int64))
        plus = [(value.at_scale(scale), rows) for value, rows in plus]
        minus = [(value.at_scale(scale), rows) for value, rows in minus]
        if not all(value.is_integer for value, _ in ((large, None), *plus, *minus)):
            return None
    values = [large, *(value for value, _ in plus), *(value for value, _ in minus)]
    bound = sum(value.bound for value in values)
    if bound >= LIMIT:
        for value in values:
            value.tighten()
        bound = sum(value.bound for value in values)
        if bound >= LIMIT:
            return _beyond(large, plus, minus, count, scale, exact)
    data = _longer(large.data, count, np.int64)
    for value, rows in plus:
        data[rows] += value.data
    for value, rows in minus:
        data[rows] -= value.data
    positive = large.positive or not len(large.data)
    positive = positive and all(value.positive for value, _ in plus)
    if positive:
        left = data if left is None else left
        positive = all(bool(((data[rows] > 0) | (left[rows] == 0)).all()) for _, rows in minus)
    return Value(data, scale=scale, exact=exact, bound=bound, positive=positive)


def _beyond(
    large: Value,
    plus: Sequence[Placed],
    minus: Sequence[Placed],
    count: int,
    scale: int,
    exact: bool,
) -> Value:
    """Sums that may pass 64 bits, by Python's integers; doubles if one really does."""
    data = _longer(large.data, count, np.int64)
    sums: dict[int, int] = {}
    for placed, sign in ((plus, 1), (minus, -1)):
        for value, rows in placed:
            for row, number in zip(rows.tolist(), value.data.tolist(), strict=True):
                sums[row] = sums.get(row, int(data[row])) + sign * number
    where = list(sums)
    if all(-LIMIT <= each < LIMIT for each in sums.values()):
        data[where] = list(sums.values())
        return Value(data, scale=scale, exact=exact)
    real = data / 10.0**scale
    real[where] = [each / 10**scale for each in sums.values()]
    return Value(real, exact=False)


def _doubles(
    large: Value,
    plus: Sequence[Placed],
    minus: Sequence[Placed],
    count: int,
    left: Array | None,
    exact: bool,
) -> Value | None:
    data = _longer(large.as_float().data, count, np.float64)
    peak = _longer(_peak(large), count, np.float64)
    with np.errstate(all="ignore"):  # what is not finite is seen below, or was there before
        for placed, change in ((plus, np.add), (minus, np.subtract)):
            for value, rows in placed:
                data[rows] = change(data[rows], value.as_float().data)
                peak[rows] = np.maximum(peak[rows], np.maximum(_peak(value), np.abs(data[rows])))
        for _, rows in minus:
            after = data[rows]
            enough = (np.abs(after) >= peak[rows] / ENOUGH) & np.isfinite(after)
            if left is not None:
                enough |= left[rows] == 0
            if not enough.all():
                return None
    return Value(data, exact=exact, peak=peak)


def _peak(value: Value) -> Array:
    """The largest magnitude that each sum has had."""
    return np.abs(value.as_float().data) if value.peak is None else value.peak


def _any(large: Value, plus: Sequence[Placed], count: int) -> Value:
    data = _longer(large.data, count, bool)
    for value, rows in plus:
        data[rows] |= value.data.astype(bool)
    return Value(data)


def _extreme(largest: bool, large: Value, plus: Sequence[Placed], count: int) -> Value:
    """MIN or MAX, where NULL stands for none. NaN is greater than every number."""
    first, *values = _alike([large, *(value for value, _ in plus)])
    data, seen = _longer(first.data, count, first.data.dtype), None
    if first.valid is not None or count > len(first.data):
        seen = np.zeros(count, bool)
        seen[: len(first.data)] = True if first.valid is None else first.valid
    for value, (_, rows) in zip(values, plus, strict=True):
        here = data[rows]
        with np.errstate(invalid="ignore"):
            chosen = (np.maximum if largest else np.fmin)(here, value.data)
        if seen is not None:
            chosen = np.where(seen[rows], chosen, value.data)
            seen[rows] |= True if value.valid is None else value.valid
        if value.valid is not None:
            chosen = np.where(value.valid, chosen, here)
        data[rows] = chosen
    valid = None if seen is None or seen.all() else seen
    exact = all(value.exact for value in _present([first, *values]))
    return Value(data, valid, scale=first.scale, labels=first.labels, exact=exact)


def _alike(values: Sequence[Value]) -> list[Value]:
    """The same values in one type, at one scale or by the same labels."""
    present = _present(values)
    labels = [value.labels for value in present if value.labels is not None]
    if labels:
        return _labelled(values, labels)
    if len({(value.data.dtype, value.scale) for value in present}) > 1:
        if all(value.is_integer for value in present):
            scale = max(value.scale for value in present)
            present = [value.at_scale(scale) for value in present]
        if not all(value.is_integer for value in present):
            present = [value.as_float() for value in present]
    rest = iter(present)
    empty = present[0].take(np.empty(0, np.intp))
    return [next(rest) if len(value.data) else empty for value in values]


def _labelled(values: Sequence[Value], labels: Sequence[pa.Array]) -> list[Value]:
    """Positions in labels as positions in the labels of all."""
    if all(each is labels[0] or each.equals(labels[0]) for each in labels):
        every = labels[0]
    else:
        every = pa.concat_arrays(labels).unique()
        every = every.take(pc.sort_indices(every))
    found = []
    for value in values:
        data = np.zeros(len(value.data), np.int64)
        if value.labels is not None and len(value.labels) and len(data):
            at = pc.index_in(value.labels, value_set=every).to_numpy(zero_copy_only=False)
            data = at.astype(np.int64)[value.data]
        found.append(Value(data, value.valid, labels=every, exact=value.exact))
    return found
