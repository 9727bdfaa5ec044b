"""Least squares from a Gram matrix: which coefficients fit best.

The columns are a constant, the numbers less their means, and an indicator column (0 or 1) for each level.
The indicators of the column with the most levels are eliminated first, since their block of the matrix is
diagonal; what remains is dense, is scaled to a diagonal of ones, and its eigenvectors show which columns
depend on others.

Where some do, many coefficients fit equally well. As scikit-learn's, ours are those of the smallest norm,
and that in the units of the columns themselves, whatever was scaled in between.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calitree.apps.regression.gram import Array, Gram
from calitree.apps.regression.solution import Solution
from calitree.errors import QueryError

RANK_TOLERANCE = 1e-11
"""Columns of length one depend on each other if a combination of them is shorter than the root of this (3 in
a million)."""
MAX_DENSE_COLUMNS = 10_000
"""Columns of a dense matrix, which then takes 800 MB."""

CONSTANT, NUMBERS = "", "\0"
"""The groups of columns that are not the levels of one; no column has such a name."""


def solve(
    gram: Gram,
    *,
    alpha: float = 0.0,
    intercept: bool = True,
    standardise: bool = False,
    drop_first: bool = False,
) -> Solution:
    """The coefficients with the least sum of squared residuals plus `alpha` times that of coefficients.

    The penalty is on coefficients in the units of the columns; with `standardise` on those of numbers
    scaled to a standard deviation of one. With `drop_first` the first level of each column has no effect.
    """
    if gram.rows < 1:
        raise QueryError(
            "There is no row to fit: the join is empty where the condition holds and nothing is NULL."
        )
    design = _Design(gram, intercept, drop_first)
    scales = design.penalty_scales(standardise)
    coefficients, null_space = _solved(design, alpha, scales)
    if null_space.shape[1]:
        coefficients -= _projection(coefficients, null_space, scales)
    return design.solution(coefficients)


class _Design:
    """The columns of the design matrix, in groups.

    The groups are the constant, the numbers that vary, and the levels of each column that has some; the
    one with the most levels comes last.
    """

    def __init__(self, gram: Gram, intercept: bool, drop_first: bool) -> None:
        self.gram, self.intercept = gram, intercept
        # Around the means; without a constant, around zero.
        shift = np.zeros(len(gram.numbers)) if intercept else gram.means
        self.products = gram.spread + gram.rows * np.outer(shift, shift)
        varies = np.diag(self.products) > 0
        self.y = gram.positions[gram.target]
        self.x = [i for i in range(len(gram.numbers)) if varies[i] and i != self.y]
        self.used = {
            name: counts.nonzero()[0][1 if drop_first else 0 :]
            for name, counts in gram.counts.items()
        }
        """For each column with levels the positions of those that have a coefficient."""
        leveled = sorted(self.used, key=lambda name: len(self.used[name]))
        self.dense = [*([CONSTANT] if intercept else []), NUMBERS, *leveled[:-1]]
        self.largest = leveled[-1] if leveled else None
        size = sum(map(self.size, self.dense))
        if size > MAX_DENSE_COLUMNS:
            raise QueryError(
                f"The features but {self.largest} stand for {size:,} columns, and at most "
                f"{MAX_DENSE_COLUMNS:,} can be solved for at once; leave out one that has many levels."
            )
        self.sums_by = {
            name: ((values + np.outer(gram.counts[name], shift)) * varies)[self.used[name]]
            for name, values in gram.sums_by.items()
        }

    def size(self, group: str) -> int:
        if group == CONSTANT:
            return 1
        return len(self.x) if group == NUMBERS else len(self.used[group])

    @property
    def groups(self) -> list[str]:
        return [*self.dense, *([self.largest] if self.largest is not None else [])]

    def counts(self, group: str) -> Array:
        return self.gram.counts[group][self.used[group]]

    def block(self, one: str, other: str) -> Any:
        """The products of two groups of columns; of the levels of two columns it is sparse."""
        order = self.groups.index
        if order(one) > order(other):
            return self.block(other, one).T
        if one == CONSTANT:
            if other == CONSTANT:
                return np.array([[self.gram.rows]])
            return (np.zeros(len(self.x)) if other == NUMBERS else self.counts(other))[None, :]
        if one == NUMBERS:
            if other == NUMBERS:
                return self.products[np.ix_(self.x, self.x)]
            return self.sums_by[other][:, self.x].T
        if one == other:
            return np.diag(self.counts(one))
        pairs = self.gram.pairs
        block = pairs[one, other] if (one, other) in pairs else pairs[other, one].T
        return block.tocsr()[self.used[one]][:, self.used[other]]

    def with_target(self, group: str) -> Array:
        """The products of a group of columns with the target."""
        if group == CONSTANT:
            return np.zeros(1)
        return self.products[self.x, self.y] if group == NUMBERS else self.sums_by[group][:, self.y]

    def penalty_scales(self, standardise: bool) -> Array:
        """What each coefficient is multiplied by in the penalty; the constant has none."""
        scales = np.ones(sum(map(self.size, self.groups)))
        if self.intercept:
            scales[0] = 0.0
        if standardise:
            at = slice(int(self.intercept), int(self.intercept) + len(self.x))
            deviation = np.sqrt(np.diag(self.gram.spread)[self.x] / self.gram.rows)
            scales[at] = np.where(deviation > 0, deviation, 1.0)
        return scales

    def solution(self, coefficients: Array) -> Solution:
        """The model with these coefficients."""
        numbers = self.gram.numbers
        slopes = {name: 0.0 for i, name in enumerate(numbers) if i != self.y}
        at, effects = int(self.intercept), {}
        for group in self.groups[at:]:
            values = coefficients[at : at + self.size(group)].tolist()
            at += len(values)
            if group == NUMBERS:
                slopes |= {numbers[i]: value for i, value in zip(self.x, values, strict=True)}
            else:
                levels = [self.gram.levels[group][i] for i in self.used[group]]
                effects[group] = dict(zip(levels, values, strict=True))
        if not self.intercept:
            return Solution(0.0, 0.0, dict.fromkeys(slopes, 0.0), slopes, effects)
        # The mean residual is zero.
        gram, offsets = self.gram, dict(zip(numbers, self.gram.offsets.tolist(), strict=True))
        of_numbers = (slope * offsets[name] for name, slope in slopes.items())
        of_levels = (self.counts(name) @ list(own.values()) for name, own in effects.items())
        base = offsets[gram.target] - math.fsum(of_numbers) - sum(of_levels) / gram.rows
        centres = {name: gram.centres[name] for name in slopes}
        return Solution(gram.centres[gram.target], float(base), centres, slopes, effects)


def _solved(design: _Design, alpha: float, scales: Array) -> tuple[Array, Array]:
    """Coefficients that fit best, and a basis of the null space, as the columns of a matrix."""
    penalty = alpha * scales**2
    matrix = np.block([[_dense(design.block(a, b)) for b in design.dense] for a in design.dense])
    right = np.concatenate([design.with_target(group) for group in design.dense])
    size = len(right)
    matrix = matrix + np.diag(penalty[:size])
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    if design.largest is None:
        return _by_eigenvectors(matrix, right, scale)
    from scipy.sparse import diags_array, hstack, issparse

    across = [design.block(design.largest, group) for group in design.dense]
    joined = hstack(across, "csr") if any(map(issparse, across)) else np.hstack(across)
    diagonal = design.counts(design.largest) + penalty[size:]
    within = diags_array(1 / diagonal) @ joined
    target = design.with_target(design.largest)
    dense, null_space = _by_eigenvectors(
        matrix - _dense(joined.T @ within), right - within.T @ target, scale
    )
    return (
        np.concatenate([dense, target / diagonal - within @ dense]),
        np.concatenate([null_space, -(within @ null_space)]),
    )


def _by_eigenvectors(matrix: Array, right: Array, scale: Array) -> tuple[Array, Array]:
    """Solve a symmetric system, with columns scaled to about the same length."""
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    free = values <= RANK_TOLERANCE * max(1.0, values[-1] if len(values) else 0.0)
    bound, null_space = vectors[:, ~free], vectors[:, free]
    solution = bound @ ((bound.T @ (right / scale)) / values[~free])
    # A column that takes no part in a dependence does so exactly: what rounding has left there would be
    # large in the units of a column of small numbers.
    apart = np.linalg.norm(null_space, axis=1) <= math.sqrt(RANK_TOLERANCE)
    null_space[apart] = 0.0
    return solution / scale, null_space / scale[:, None]


def _projection(coefficients: Array, null_space: Array, scales: Array) -> Array:
    """The part of some coefficients in the null space, by the norm of the scaled coefficients."""
    scaled = null_space * scales[:, None]
    length = np.linalg.norm(scaled, axis=0)
    part, *_ = np.linalg.lstsq(scaled / length, coefficients * scales, rcond=None)
    projection: Array = null_space @ (part / length)
    return projection


def _dense(block: Any) -> Array:
    from scipy.sparse import issparse

    dense: Array = block.toarray() if issparse(block) else block
    return dense
