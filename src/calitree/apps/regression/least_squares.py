"""Least squares from moments: which coefficients fit best, and how well others do.

The columns are a constant, the numbers less their means, and one column of 0 and 1 a level. That of the
most levels is eliminated first, since its block of the gram matrix is diagonal; what is left is
dense, is scaled to a diagonal of ones, and its eigenvectors tell which columns depend on others.

Where some do, many coefficients fit equally well. As scikit-learn's, ours are those of the smallest norm,
and that in the units of the columns themselves, whatever was scaled on the way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calitree.apps.regression.gram import Gram
from calitree.errors import QueryError

if TYPE_CHECKING:
    from calitree.apps.regression.gram import Array

DEPENDENT = 1e-11
"""Where columns, scaled to length one, add up to nothing but the root of this (3 in a million), that is
taken for rounding: they depend on each other."""
LARGEST = 10_000
"""Of a dense matrix: 800 MB."""

CONSTANT, NUMBERS = "", "\0"
"""What no column is called."""


@dataclass(frozen=True)
class Solution:
    """A linear model: `base` at the `means` of the numbers, plus `slopes` times what they are away from
    there, plus the `effects` of levels. A level that it does not know has no effect.
    """

    base: float
    means: Mapping[str, float]
    slopes: Mapping[str, float]
    effects: Mapping[str, Mapping[Any, float]]

    @property
    def intercept(self) -> float:
        """Its value where all numbers are zero."""
        return self.base - math.fsum(self.slopes[each] * self.means[each] for each in self.slopes)

    def coefficients(self, features: Sequence[str]) -> dict[str, float]:
        """By label, in the order of these features: `weight`, `city=Quito`."""
        found: dict[str, float] = {}
        for name in features:
            if name in self.effects:
                found |= {f"{name}={level}": v for level, v in self.effects[name].items()}
            else:
                found[name] = self.slopes[name]
        return found

    def r2(self, gram: Gram) -> float:
        """The part of the target's variance over these rows that it explains, at most 1.

        As scikit-learn has it: NaN over fewer than two rows; of a target that does not vary 1 if it is
        met, else 0.
        """
        import numpy as np

        if gram.rows < 2:
            return math.nan
        # The residual is a weighted sum of the columns and a constant; its square is asked for.
        centres, at = gram.centres, gram.positions
        constant = centres[gram.target] - self.base
        weights = np.zeros(len(gram.numbers))
        weights[at[gram.target]] = 1.0
        for name, slope in self.slopes.items():
            weights[at[name]] = -slope
            constant -= slope * (centres[name] - self.means[name])
        own = {
            name: np.array([-self.effects[name].get(level, 0.0) for level in levels])
            for name, levels in gram.levels.items()
        }
        square = weights @ gram.products @ weights + 2 * constant * (weights @ gram.sums)
        square += constant * constant * gram.rows
        for name, effects in own.items():
            rest = gram.sums_by[name] @ weights
            square += effects @ (2 * rest + (2 * constant + effects) * gram.counts[name])
        for (one, other), block in gram.pairs.items():
            square += 2 * (own[one] @ (block @ own[other]))
        y = at[gram.target]
        spread = gram.spread[y, y]
        if spread == 0:
            size = gram.products[y, y] + gram.rows * gram.means[y] ** 2
            return 1.0 if square <= 1e-14 * size else 0.0
        return float(1 - max(square, 0.0) / spread)


def solve(
    gram: Gram,
    *,
    alpha: float = 0.0,
    intercept: bool = True,
    standardise: bool = False,
    drop_first: bool = False,
) -> Solution:
    """The coefficients with the least sum of squared residuals plus `alpha` times that of the
    coefficients: in the units of the columns, or with `standardise` those of numbers for a change of
    one standard deviation. With `drop_first` the first level of each column has no effect.
    """
    if gram.rows < 1:
        raise QueryError(
            "There is no row to fit: the join is empty where the condition holds and nothing is NULL."
        )
    design = _Design(gram, intercept, drop_first)
    pull = design.pull(standardise)
    found, free = _solved(design, alpha, pull)
    if free.shape[1]:
        found -= _part(found, free, pull)
    return design.solution(found)


class _Design:
    """The columns that are multiplied by coefficients, in groups: the constant, the numbers that vary, the
    levels of each column that has some, the most levels last.
    """

    def __init__(self, gram: Gram, intercept: bool, drop_first: bool) -> None:
        import numpy as np

        self.gram, self.intercept = gram, intercept
        # Around the means; without a constant, around zero.
        self.means = gram.means if intercept else np.zeros(len(gram.numbers))
        moved = np.array([gram.centres[each] for each in gram.numbers]) - self.means
        self.products = gram.spread
        if not intercept:
            self.products = gram.spread + gram.rows * np.outer(gram.means, gram.means)
        varies = np.diag(self.products) > 0
        self.y = gram.positions[gram.target]
        self.x = [i for i in range(len(gram.numbers)) if varies[i] and i != self.y]
        self.used = {
            name: counts.nonzero()[0][1 if drop_first else 0 :]
            for name, counts in gram.counts.items()
        }
        """For each column with levels the positions of those that have a coefficient."""
        leveled = sorted(self.used, key=lambda each: len(self.used[each]))
        self.dense = [*([CONSTANT] if intercept else []), NUMBERS, *leveled[:-1]]
        self.largest = leveled[-1] if leveled else None
        size = sum(map(self.size, self.dense))
        if size > LARGEST:
            raise QueryError(
                f"The features but {self.largest} stand for {size:,} columns, and at most {LARGEST:,} "
                "can be solved for at once; leave out one that has many levels."
            )
        self.sums = (gram.sums + gram.rows * moved) * varies
        self.sums_by = {
            name: ((values + np.outer(gram.counts[name], moved)) * varies)[self.used[name]]
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
        import numpy as np

        order = self.groups.index
        if order(one) > order(other):
            return self.block(other, one).T
        if one == CONSTANT:
            if other == CONSTANT:
                return np.array([[self.gram.rows]])
            return (self.sums[self.x] if other == NUMBERS else self.counts(other))[None, :]
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
        import numpy as np

        if group == CONSTANT:
            return np.array([self.sums[self.y]])
        return self.products[self.x, self.y] if group == NUMBERS else self.sums_by[group][:, self.y]

    def pull(self, standardise: bool) -> Array:
        """How strongly each coefficient is drawn to zero, the constant's not at all."""
        import numpy as np

        pull = np.ones(sum(map(self.size, self.groups)))
        if self.intercept:
            pull[0] = 0.0
        if standardise:
            at = slice(int(self.intercept), int(self.intercept) + len(self.x))
            deviation = np.sqrt(np.diag(self.gram.spread)[self.x] / self.gram.rows)
            pull[at] = np.where(deviation > 0, deviation, 1.0)
        return pull

    def solution(self, found: Array) -> Solution:
        """The model that these coefficients are."""
        numbers = self.gram.numbers
        slopes = {name: 0.0 for i, name in enumerate(numbers) if i != self.y}
        at, effects = int(self.intercept), {}
        for group in self.groups[at:]:
            values = found[at : at + self.size(group)].tolist()
            at += len(values)
            if group == NUMBERS:
                slopes |= {numbers[i]: value for i, value in zip(self.x, values, strict=True)}
            else:
                levels = [self.gram.levels[group][i] for i in self.used[group]]
                effects[group] = dict(zip(levels, values, strict=True))
        base = 0.0
        if self.intercept:
            known = ((self.counts(name), list(each.values())) for name, each in effects.items())
            base = self.means[self.y] - sum(n @ values for n, values in known) / self.gram.rows
        means = {name: float(self.means[self.gram.positions[name]]) for name in slopes}
        return Solution(float(base), means, slopes, effects)


def _solved(design: _Design, alpha: float, pull: Array) -> tuple[Array, Array]:
    """Coefficients that fit best, and combinations of columns (each a column of a matrix) that make no
    difference.
    """
    import numpy as np

    penalty = alpha * pull**2
    matrix = np.block([[_dense(design.block(a, b)) for b in design.dense] for a in design.dense])
    right = np.concatenate([design.with_target(each) for each in design.dense])
    size = len(right)
    matrix = matrix + np.diag(penalty[:size])
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0] = 1.0
    if design.largest is None:
        return _by_eigenvectors(matrix, right, scale)
    from scipy.sparse import diags_array, hstack, issparse

    across = [design.block(design.largest, each) for each in design.dense]
    joined = hstack(across, "csr") if any(map(issparse, across)) else np.hstack(across)
    diagonal = design.counts(design.largest) + penalty[size:]
    within = diags_array(1 / diagonal) @ joined
    target = design.with_target(design.largest)
    found, free = _by_eigenvectors(
        matrix - _dense(joined.T @ within), right - within.T @ target, scale
    )
    return (
        np.concatenate([found, target / diagonal - within @ found]),
        np.concatenate([free, -(within @ free)]),
    )


def _by_eigenvectors(matrix: Array, right: Array, scale: Array) -> tuple[Array, Array]:
    """Solve a symmetric system, with columns scaled to about the same length."""
    import numpy as np

    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    free = values <= DEPENDENT * max(1.0, values[-1] if len(values) else 0.0)
    bound = vectors[:, ~free]
    found = bound @ ((bound.T @ (right / scale)) / values[~free])
    return found / scale, vectors[:, free] / scale[:, None]


def _part(found: Array, free: Array, pull: Array) -> Array:
    """The part of some coefficients that makes no difference, as long as it can be by their pull."""
    import numpy as np

    drawn = free * pull[:, None]
    length = np.linalg.norm(drawn, axis=0)
    part, *_ = np.linalg.lstsq(drawn / length, found * pull, rcond=None)
    shift: Array = free @ (part / length)
    return shift


def _dense(block: Any) -> Array:
    from scipy.sparse import issparse

    dense: Array = block.toarray() if issparse(block) else block
    return dense
