"""⊕ of annotations by group, and the sums of a scan as annotations."""

from __future__ import annotations

from typing import Any

import numpy as np

from calitree.engines.local.annotation import wide
from calitree.engines.local.annotation.values import INT64_LIMIT, Value, of_wide
from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]


def count_of(groups: Array, count: int) -> Value:
    """How many rows each group has."""
    return Value(np.bincount(groups, minlength=count), bound=len(groups), positive=True)


def total(value: Value, groups: Array, count: int) -> Value:
    """⊕ = sum, by group."""
    exact = value.exact
    if value.is_integer:
        bound, positive = value.bound * len(value.data), value.positive
        if bound >= INT64_LIMIT:
            value.tighten()
            bound = value.bound * len(value.data)
        if bound < INT64_LIMIT and not value.is_wide:
            result = np.zeros(count, np.int64)
            _add(result, groups, value.data)
            return Value(result, scale=value.scale, exact=exact, bound=bound, positive=positive)
        sums = wide.WideSums(count)
        sums.add(groups, wide.widened(value.data))
        large = sums.total()
        if large is not None:
            return of_wide(large, scale=value.scale, exact=exact, positive=positive)
        exact = False
    data = np.zeros(count)
    _add(data, groups, value.as_float().data)
    return Value(data, exact=exact)


@compiled
def _add(into: Array, groups: Array, data: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(groups)):
        into[np.uint64(groups[i])] += data[i]


def from_halves(upper: Array, lower: Array, scale: int, exact: bool) -> Value:
    """Integers from the sums of their upper and of their lower 32 bits."""
    return of_wide(wide.of_halves(upper, lower), scale=scale, exact=exact)


def extreme(value: Value, groups: Array, count: int, largest: bool) -> Value:
    """⊕ = min or max, by group; NULL where a group has no value. NaN is greater than every number."""
    if value.valid is not None:
        groups, value = groups[value.valid], value.take(value.valid)
    data = value.data
    seen = np.zeros(count, bool)
    seen[groups] = True
    if data.dtype == np.float64:
        start = -np.inf if largest else np.nan
        result = np.full(count, start)
        with np.errstate(invalid="ignore"):  # NumPy warns of NaN here, though it is as it should be
            (np.maximum if largest else np.fmin).at(result, groups, data)
    elif value.is_wide:
        result = np.zeros(count, wide.WIDE)
        wide.improve(result, np.zeros(count, bool), groups, data, largest)
    else:
        as_int = data.astype(np.int64)
        limits = np.iinfo(np.int64)
        result = np.full(count, limits.min if largest else limits.max, np.int64)
        (np.maximum if largest else np.minimum).at(result, groups, as_int)
        if data.dtype == bool:
            result = result > 0
    return extremes(result, seen, value)


def extremes(result: Array, seen: Array, like: Value) -> Value:
    """The extremes of groups, NULL where no value was seen."""
    valid = None if seen.all() else seen
    if result.dtype == wide.WIDE:
        return of_wide(result, valid, scale=like.scale, exact=like.exact)
    if valid is not None:
        result = np.where(valid, result, result.dtype.type(0))
    return Value(result, valid, scale=like.scale, labels=like.labels, exact=like.exact)


def any_of(value: Value, groups: Array, count: int) -> Value:
    """⊕ = any, by group."""
    result = np.zeros(count, bool)
    result[groups[value.signs != 0]] = True
    return Value(result)
