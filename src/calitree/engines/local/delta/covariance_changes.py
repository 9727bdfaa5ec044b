"""⊕ and ⊖ of a large covariance and small ones that go to some of its groups.

What is subtracted must leave digits: if the deviations of a value become a small part of what they were,
the change is refused. So much of the means is then noise, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calitree.engines.local.annotation.covariances import (
    Matrix,
    as_values,
    matrix_of,
    merged,
    squares_of,
)
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.delta.sums import MAX_CANCELLATION

Array = np.ndarray[Any, Any]
PlacedElements = tuple[Sequence[Value], Array]
"""The components of some groups, and the row that each group goes to. No row occurs twice."""


def changed(
    large: Sequence[Value],
    plus: Sequence[PlacedElements],
    minus: Sequence[PlacedElements],
    count: int,
    left: Array | None,
) -> list[Value] | None:
    """The sum, which has `count` rows; None if digits are lost in a group that has joined rows `left`."""
    before = matrix_of(large)
    matrix = np.zeros((len(before), count))
    matrix[:, : before.shape[1]] = before
    squares = squares_of(len(matrix))
    peaks = np.zeros((len(squares), count))
    peaks[:, : before.shape[1]] = _peaks(large, squares)
    for placed, sign in ((plus, 1), (minus, -1)):
        for parts, rows in placed:
            result = merged(matrix[:, rows], matrix_of(parts), sign)
            matrix[:, rows] = result
            peak = np.maximum(_peaks(parts, squares), np.abs(result[squares]))
            peaks[:, rows] = np.maximum(peaks[:, rows], peak)
    for _, rows in minus:
        after = matrix[squares][:, rows]
        with np.errstate(all="ignore"):
            enough = (after >= peaks[:, rows] / MAX_CANCELLATION) & np.isfinite(after)
        enough |= matrix[0, rows] == 0
        if left is not None:
            enough |= left[rows] == 0
        if not enough.all():
            return None
    return _with_peaks(matrix, squares, peaks)


def _peaks(parts: Sequence[Value], squares: Sequence[int]) -> Array:
    """The largest that the deviations of each value have been."""
    values = [parts[at] for at in squares]
    return np.stack([np.abs(v.data) if v.peak is None else v.peak for v in values])


def _with_peaks(matrix: Matrix, squares: Sequence[int], peaks: Array) -> list[Value]:
    values = as_values(matrix)
    for at, peak in zip(squares, peaks, strict=True):
        values[at].peak = peak
    return values
