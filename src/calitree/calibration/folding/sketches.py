"""What sketches tell: how many values have fallen into some cells, and which number stands for a bucket.

A value falls into a cell of rank k with probability t = 2^-(k+1) / 2^11, so n values leave it empty with
probability e^(-nt). The estimate is the n for which the cells that are taken are the most likely. It is
closer than that of HyperLogLog, which has the highest rank of each register alone: its standard error is
0.65/√m for m registers, not 1.04/√m.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.calibration.folding.carried import Array, Carried
from calitree.calibration.folding.numbers import decimals
from calitree.sql.rules.sketches import BUCKET_BITS, DIGIT_BITS, RANKS, REGISTER_BITS

MAX_STEPS = 100
"""Of Newton's method; far from the end each about doubles the estimate."""
MAX_WHOLE = 2.0**63
"""Smaller numbers are integers of 64 bits."""


def distinct_values(carried: Carried) -> pa.Array:
    """About how many values each group has, given the cells that they are in."""
    known = carried.known()
    ranks = np.asarray(known.values[0].cast(pa.int64())) % RANKS
    taken = np.bincount(known.numbers * RANKS + ranks, minlength=known.groups * RANKS)
    return pa.array(np.rint(_most_likely(taken.reshape(known.groups, RANKS))).astype(np.int64))


def _most_likely(taken: Array) -> Array:
    """The number of values for which so many cells of each rank are most likely taken, by group.

    The likelihood has one maximum, where Σ taken * t / (1 - e^(-nt)) is 1. That sum falls with n and is
    convex, and for as many values as cells it is not less than 1: from there, Newton's steps go up to it.
    """
    tail = np.minimum(
        np.arange(RANKS) + 1, RANKS - 1
    )  # the last rank is as likely as that before it
    chance = np.ldexp(1.0, -tail - REGISTER_BITS)
    estimate: Array = taken.sum(axis=1).astype(float)
    open_: Array = np.flatnonzero(estimate)
    for _ in range(MAX_STEPS):
        if not len(open_):
            break
        empty = -np.expm1(-estimate[open_, None] * chance)
        terms = taken[open_] * chance / empty
        slope = (terms * chance * (1 - empty) / empty).sum(axis=1)
        step = (terms.sum(axis=1) - 1) / slope
        estimate[open_] += step
        open_ = open_[step > 1e-9 * estimate[open_]]
    return estimate


def representatives(buckets: pa.Array, is_whole: bool) -> pa.Array:
    """For each bucket a number that all in it are close to; a whole one, if all are."""
    numbers = np.asarray(buckets.cast(pa.int64()).fill_null(0))
    sizes, missing = np.abs(numbers), np.asarray(buckets.is_null())
    low = (sizes << (DIGIT_BITS - BUCKET_BITS)).view(np.float64)
    digits = 1 + (sizes % (1 << BUCKET_BITS)) / (1 << BUCKET_BITS)
    width = 1 / digits / (1 << BUCKET_BITS)  # as a part of the least number in it
    means = low * (
        2 * (1 + width) / (2 + width)
    )  # as far from the least as from the largest, in parts of each
    signs = np.sign(numbers)
    if not is_whole:
        return pa.array(signs * means, mask=missing)
    whole = signs * np.maximum(np.ceil(low), np.floor(means))
    if (np.abs(whole) < MAX_WHOLE).all():
        return pa.array(whole.astype(np.int64), mask=missing)
    exact: list[Any] = [int(value) for value in whole]
    return pc.if_else(pa.array(missing), None, decimals(np.array(exact, object), 0))
