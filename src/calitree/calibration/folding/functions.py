"""The folds by name: of carried values with their numbers of rows, one value for each group.

NULLs are skipped, but by `list`. A group without values is NULL, or 0 if they are counted. Where several
values are as good (the mode, the argument of an extreme, the top values) it is the smallest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.calibration.folding.carried import Array, Carried, Ranked
from calitree.calibration.folding.numbers import decimals, exact_sums, unscaled
from calitree.calibration.folding.sketches import distinct_values, representatives
from calitree.errors import QueryError
from calitree.query.carried.approximate import COUNT_DISTINCT, QUANTILE

MAX_JOINED_BYTES = 1 << 28
"""Of all texts of an answer that are joined."""
MAX_LISTED = 10_000_000
"""Values that the lists of an answer may have, all together."""

Function = Callable[..., pa.Array]
"""Folds carried values, given the options of the fold."""


def count(carried: Carried, with_null: bool = False) -> pa.Array:
    """The number of rows, or of distinct values."""
    counted = carried if with_null else carried.known()
    return pa.array(counted.totals(counted.rows))


def total(carried: Carried) -> pa.Array:
    """The sum of the values; NULL over none."""
    known = carried.known()
    sums = exact_sums(known.numbers, known.groups, known.values[0], known.rows)
    present = np.zeros(known.groups, bool)
    present[known.numbers] = True
    return pc.if_else(pa.array(present), sums, pa.scalar(None, sums.type))


def _placed(carried: Carried, groups: Array, values: pa.Array) -> pa.Array:
    """Values of some groups, and NULL for the others."""
    at = np.full(carried.groups, -1, np.int64)
    at[groups] = np.arange(len(groups))
    return values.take(pa.array(at, mask=at < 0))


def smallest(carried: Carried) -> pa.Array:
    """The smallest value."""
    return _first(carried.known(), 1)


def largest(carried: Carried) -> pa.Array:
    """The largest value."""
    return _first(carried.known(), -1)


def _first(known: Carried, sign: int) -> pa.Array:
    (ranked,) = known.ranked
    groups, at = known.firsts(known.order(sign * ranked.ranks))
    return _placed(known, groups, known.values[0].take(pa.array(at)))


def mode(carried: Carried) -> pa.Array:
    """The most frequent value; of several the smallest."""
    known = carried.known()
    groups, at = known.firsts(known.order(-known.rows, known.ranked[0].ranks))
    return _placed(known, groups, known.values[0].take(pa.array(at)))


def argument_of_smallest(carried: Carried) -> pa.Array:
    """The first value where the second is smallest; of several the smallest."""
    return _argument(carried.known(), 1)


def argument_of_largest(carried: Carried) -> pa.Array:
    """The first value where the second is largest; of several the smallest."""
    return _argument(carried.known(), -1)


def _argument(known: Carried, sign: int) -> pa.Array:
    value, by = known.ranked
    groups, at = known.firsts(known.order(sign * by.ranks, value.ranks))
    return _placed(known, groups, known.values[0].take(pa.array(at)))


class _Sorted:
    """The values of each group in order, each as often as there are rows."""

    def __init__(self, known: Carried) -> None:
        ranks = known.ranked[0].ranks
        order = known.order(ranks)
        self.ranks, self.values = ranks[order], known.ranked[0].values
        numbers = known.numbers[order]
        self.ends = np.cumsum(known.rows[order])
        self.groups, first = np.unique(numbers, return_index=True)
        before = np.concatenate([[0], self.ends])[first]
        last = np.concatenate([first[1:], [len(numbers)]]) - 1
        self.begins = before
        self.rows = (self.ends[last] - before) if len(numbers) else np.zeros(0, np.int64)

    def at(self, positions: Array) -> pa.Array:
        """The value at a position in each group."""
        places = np.searchsorted(self.ends, self.begins + positions, side="right")
        return self.values.take(pa.array(self.ranks[places]))


def quantile_disc(carried: Carried, share: float) -> pa.Array:
    """The first value that a share of the rows are not beyond."""
    known = carried.known()
    ordered = _Sorted(known)
    rows = ordered.rows
    positions = np.maximum(1, rows - np.floor(rows - share * rows).astype(np.int64)) - 1
    return _placed(known, ordered.groups, ordered.at(positions))


def quantile_cont(carried: Carried, share: float) -> pa.Array:
    """The value at a share of the way from the first row to the last, between two rows."""
    known = carried.known()
    ordered = _Sorted(known)
    place = (ordered.rows - 1) * share
    below, above = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    low, high = ordered.at(below), ordered.at(above)
    return _placed(known, ordered.groups, _between(low, high, place - below))


def _between(low: pa.Array, high: pa.Array, part: Array) -> pa.Array:
    """Values a part of the way from low to high: decimals and times are cut, not rounded."""
    dtype = low.type
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype):
        a, b = (np.asarray(side.cast(pa.float64())) for side in (low, high))
        with np.errstate(invalid="ignore"):
            return pa.array(np.where(part == 0, a, a * (1 - part) + b * part))
    if pa.types.is_date(dtype):
        low, high = (side.cast(pa.timestamp("us")) for side in (low, high))
        return _between(low, high, part)
    if pa.types.is_decimal(dtype):
        pairs = zip(unscaled(low), unscaled(high), part, strict=True)
        whole = [int(a + (b - a) * float(share)) for a, b, share in pairs]
        return decimals(np.array(whole, object), dtype.scale).cast(dtype)
    a, b = (np.asarray(side.cast(pa.int64())) for side in (low, high))
    return pa.array((a + (b - a) * part).astype(np.int64)).cast(dtype)


def approx_quantile(carried: Carried, share: float, is_whole: bool) -> pa.Array:
    """A number close to that which a share of the rows are not beyond, given the buckets of all."""
    return representatives(quantile_disc(carried, share), is_whole)


def top_k(carried: Carried, size: int) -> pa.Array:
    """The values of the largest weight, the largest first; of several the smallest first."""
    known = carried.known()
    known = known.chosen(np.asarray(known.weights.is_valid()))
    weights = Ranked.of(known.weights).ranks
    order = known.order(-weights, known.ranked[0].ranks)
    numbers = known.numbers[order]
    starts = np.searchsorted(numbers, np.arange(known.groups))
    kept = order[np.arange(len(order)) - starts[numbers] < size]
    return _lists(known, known.values[0].take(pa.array(kept)), known.numbers[kept])


def _lists(carried: Carried, values: pa.Array, numbers: Array) -> pa.Array:
    """Values as a list for each group, given the group of each in order; NULL for no values."""
    sizes = np.bincount(numbers, minlength=carried.groups)
    offsets = pa.array(carried.offsets(sizes).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(sizes == 0))


def _check_listed(size: int) -> None:
    if size > MAX_LISTED:
        raise QueryError(
            f"The lists of this answer would have {size:,} values, of at most {MAX_LISTED:,}. Count the "
            "values, list distinct ones, or take the top_k."
        )


def listed(carried: Carried, descending: bool) -> pa.Array:
    """All values in order, each as often as there are rows; NULLs last."""
    ranks = carried.ranked[0].ranks
    last = len(carried.ranked[0].values)
    keys = np.where(ranks == last, last, -ranks) if descending else ranks
    order = carried.order(keys)
    rows = carried.rows[order]
    _check_listed(int(rows.sum()))
    repeated = np.repeat(order, rows)
    return _lists(carried, carried.values[0].take(pa.array(repeated)), carried.numbers[repeated])


def joined(carried: Carried, separator: str, descending: bool) -> pa.Array:
    """All texts in order, in one."""
    known = carried.known()
    lengths = pc.binary_length(known.values[0]).to_numpy(zero_copy_only=False)
    size = int((known.rows * (lengths + len(separator.encode()))).sum())
    if size > MAX_JOINED_BYTES:
        raise QueryError(
            f"The texts of this answer would have {size:,} bytes, of at most {MAX_JOINED_BYTES:,}. Join "
            "distinct ones, or take the top_k."
        )
    return pc.binary_join(listed(known, descending), separator)


def histogram(carried: Carried) -> pa.Array:
    """A map from each value to its number of rows."""
    known = carried.known()
    order = known.order(known.ranked[0].ranks)
    sizes = np.bincount(known.numbers, minlength=known.groups)
    ends = known.offsets(sizes).astype(np.int32)
    offsets = pa.array(ends, mask=np.append(sizes == 0, False))
    values = known.values[0].take(pa.array(order))
    return pa.MapArray.from_arrays(offsets, values, pa.array(known.rows[order].astype(np.uint64)))


FUNCTIONS: dict[str, Function] = {
    "count": count,
    "sum": total,
    "min": smallest,
    "max": largest,
    "mode": mode,
    "arg_min": argument_of_smallest,
    "arg_max": argument_of_largest,
    "quantile_disc": quantile_disc,
    "quantile_cont": quantile_cont,
    "top_k": top_k,
    "list": listed,
    "string_agg": joined,
    "histogram": histogram,
    COUNT_DISTINCT: distinct_values,
    QUANTILE: approx_quantile,
}
"""By the name that a `Fold` has."""


def folded(name: str, carried: Carried, options: tuple[Any, ...]) -> pa.Array:
    """One value for each group."""
    return FUNCTIONS[name](carried, *options)
