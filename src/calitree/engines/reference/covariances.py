"""⊕ of a `covariance` by exact fractions, which are rounded only to be stored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

from calitree.engines.api.semiring import Semiring
from calitree.sql.scalar_casts import double


def element(semiring: Semiring, values: Sequence[Any]) -> list[float]:
    """A row with these numbers as a group of its own; zero if one of them is NULL."""
    size = len(semiring.components)
    if None in values:
        return [0.0] * size
    means = []
    for value in values:
        mean = double(value)
        low = float(Fraction(value) - Fraction(mean)) if math.isfinite(mean) else 0.0
        means += [mean, low]
    return [1.0, *means, *[0.0] * (size - 1 - len(means))]


def several(semiring: Semiring, count: float) -> list[float]:
    """So many times the one of the semiring."""
    return [float(count), *(float(one or 0) for one in semiring.one[1:])]


def merged(semiring: Semiring, left: Sequence[float], right: Sequence[float]) -> list[float]:
    """⊕ of two elements; ⊖ if all of `right` but its means has the other sign."""
    if not all(map(math.isfinite, (*left, *right))):
        return [left[0] + right[0], *[math.nan] * (len(left) - 1)]
    (n, means, deviations), other = _parts(semiring, left), _parts(semiring, right)
    total = n + other[0]
    if not total:
        return [0.0] * len(left)
    apart = [b - a for a, b in zip(means, other[1], strict=True)]
    between = combinations_with_replacement(apart, 2)
    rounded = [float(total)]
    for a, b in zip(means, apart, strict=True):
        mean = a + b * other[0] / total
        rounded += [float(mean), float(mean - Fraction(float(mean)))]
    for a, b, (x, y) in zip(deviations, other[2], between, strict=True):
        rounded.append(float(a + b + x * y * n * other[0] / total))
    return rounded


def _parts(
    semiring: Semiring, element: Sequence[float]
) -> tuple[Fraction, list[Fraction], list[Fraction]]:
    """The number of rows, the means and the deviations of an element."""
    n, *parts = map(Fraction, element)
    last = 2 * semiring.values
    means = [high + low for high, low in zip(parts[:last:2], parts[1:last:2], strict=True)]
    return n, means, parts[last:]
