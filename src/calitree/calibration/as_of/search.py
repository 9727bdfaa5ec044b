"""The search of an as-of join: for each key and time, the latest time at or before it.

Keys and times are made one integer each, in their order, so that one sort of either side is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.arithmetic import subtract
from calitree.sql.kernels.comparison import greater_equal
from calitree.sql.kernels.values import column, constant, unify

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_COMPOSITE = 2**62
"""Keys and times as one integer are less."""


def latest(left: pa.Table, right: pa.Table, tolerance: int | float | None) -> pa.Array:
    """For each row on the left, the latest time of those on the right with its keys, or NULL.

    The columns of both are keys, in the same order, and at last a time; none has a NULL. The tolerance of
    dates and timestamps is in microseconds.

    >>> trades = pa.table({"s": ["x", "x", "y"], "t": [1, 5, 5]})
    >>> latest(trades, pa.table({"s": ["x", "x"], "t": [2, 3]}), None).to_pylist()
    [None, 3, None]
    """
    rows, times_there = left.num_rows, right.column(-1)
    if not rows or not right.num_rows:
        return pa.nulls(rows, times_there.type)
    keys = np.zeros(rows + right.num_rows, np.int64)
    *codes, times = map(_codes, left.columns, right.columns)
    for code in codes:
        keys = _combined(keys, code)
    span = int(times.max()) + 1
    if span > MAX_COMPOSITE // (int(keys.max()) + 1):
        times = _ranked(times)
        span = int(times.max()) + 1
    composite = keys * span + times
    ours, theirs = composite[:rows], composite[rows:]
    order = np.argsort(theirs)
    theirs = theirs[order]
    at = np.empty(rows, np.int64)
    in_order = np.argsort(ours)  # as looking up neighbours one after the other is quick
    at[in_order] = np.searchsorted(theirs, ours[in_order], side="right") - 1
    is_there = (at >= 0) & (theirs[at] // span == keys[:rows])
    if tolerance is not None:
        is_there &= _is_close(left.column(-1), times_there.take(pa.array(order[at])), tolerance)
    return times_there.take(pa.array(order[at], mask=~is_there)).combine_chunks()


def _is_close(
    times: pa.ChunkedArray, earlier: pa.ChunkedArray, tolerance: int | float
) -> NDArray[np.bool_]:
    ours, theirs = unify([column(times), column(earlier)])
    if pa.types.is_temporal(ours.type):
        ours, theirs = (
            datum.cast(pa.timestamp("us", getattr(datum.type, "tz", None))).view(pa.int64())
            for datum in (ours, theirs)
        )
    close = greater_equal(theirs, subtract(ours, constant(tolerance)))
    return np.asarray(close.to_numpy(zero_copy_only=False))


def _combined(keys: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Two codes as one."""
    if int(codes.max()) + 1 > MAX_COMPOSITE // (int(keys.max()) + 1):
        keys, codes = _ranked(keys), _ranked(codes)
    return _ranked(keys * (int(codes.max()) + 1) + codes) if keys.any() else codes


def _codes(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> NDArray[np.int64]:
    """Values of both sides as numbers from 0 on, in the order of the values."""
    both = pa.concat_arrays(unify([column(ours), column(theirs)]))
    if pa.types.is_date(both.type):
        both = both.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(both.type):
        both = both.view(pa.int64())
    if pa.types.is_int64(both.type):
        values = both.to_numpy(zero_copy_only=False)
        low = int(values.min())
        if int(values.max()) - low < MAX_COMPOSITE:
            return np.asarray(values - low)
        return _ranked(values)
    if pa.types.is_floating(both.type):
        return _ranked(both.to_numpy(zero_copy_only=False))
    encoded = both.dictionary_encode()
    ranks = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy()
    return np.asarray(ranks[encoded.indices.to_numpy()], np.int64)


def _ranked(values: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64).reshape(-1)
