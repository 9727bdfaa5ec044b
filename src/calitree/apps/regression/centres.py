"""A number near the mean of each column, and whether it is near enough.

What is subtracted before squaring must be near the mean relative to the *spread*. The first estimate is made of
sums around zero. If the spread is lost in the rounding of these, the mean is still known to some nine digits,
and around that the next sums have as many digits more: values of 64 bits need three rounds at most.

A column that does not vary has no spread to be found. Its least and its largest value tell it from one that
hardly varies.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_RELATIVE_DEVIATION = 1e-5
"""A smaller deviation, relative to the distance of the mean, may be lost in the rounding of the squares."""
MAX_ROUNDS = 4
"""Rounds of sums for the centres; the last of them finds a deviation in any case."""
MIN_SPREAD = 1e-6
"""Where less of the squares around a centre is spread, the centre is too far from the mean."""
MAX_SQUARES = 1e3
"""Squares of a fold around a centre, relative to the spread of all that it is added to: what is lost of its
own spread does not matter there."""
MIN_MEAN_SQUARE = 1e-240
"""Smaller numbers have squares that are lost, or soon will be."""


def next_centre(centre: float, offset: float, square: float) -> tuple[float, bool]:
    """A number nearer to the mean than a centre, and whether it is near enough.

    `offset` is the mean of the values less the centre, `square` that of their squares.

    >>> next_centre(0.0, offset=12.345, square=12.345**2 + 0.5**2)
    (12.3, True)
    """
    if square == 0:
        return centre, True
    variance = square - offset * offset
    if variance <= MIN_RELATIVE_DEVIATION**2 * offset * offset:
        return centre + float(f"{offset:.9g}"), False
    return rounded(centre + offset, math.sqrt(variance)), True


def rounded(mean: float, deviation: float) -> float:
    """A number less than a deviation away from the mean, with few digits.

    So it stays the same if some rows come or go, and messages that were computed with it need only be
    maintained.
    """
    return round(mean, -math.floor(math.log10(deviation)))


def doubtful(
    rows: Array, offsets: Array, own: Array, squares: Array, target: int
) -> NDArray[np.bool_]:
    """For each fold and number whether its spread may be lost where it matters.

    `own` is the spread as it was computed, `squares` the sum of squares around the centre. The target's
    spread matters in each fold. That of a feature only matters in what is fitted, the sum of all folds but one:
    if means differ from fold to fold, it has enough of it without.
    """
    lost: NDArray[np.bool_] = (rows > 1)[:, None] & (own < MIN_SPREAD * squares)
    if len(rows) < 2 or not lost.any():
        return lost
    least = np.full(own.shape, np.inf)
    for fold in range(len(rows)):
        rest = np.arange(len(rows)) != fold
        weights = rows[rest] / rows[rest].sum()
        between = rows[rest] @ (offsets[rest] - weights @ offsets[rest]) ** 2
        least[rest] = np.minimum(least[rest], between + own[rest].clip(0).sum(axis=0))
    matters: NDArray[np.bool_] = squares > MAX_SQUARES * least
    matters[:, target] = True
    return np.logical_and(lost, matters)
