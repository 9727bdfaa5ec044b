"""A linear model as numbers: what it predicts, and how well it fits the rows of a Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calitree.apps.regression.gram import Gram


@dataclass(frozen=True)
class Solution:
    """A linear function of numbers and levels.

    It is `origin + base` at the `centres` of the numbers, plus `slopes` times their differences from there,
    plus the `effects` of levels. A level that it does not know has no effect. The `origin` is a value
    near those of the target: what varies beside it keeps its digits.
    """

    origin: float
    base: float
    centres: Mapping[str, float]
    slopes: Mapping[str, float]
    effects: Mapping[str, Mapping[Any, float]]

    @property
    def intercept(self) -> float:
        """Its value where all numbers are zero."""
        terms = (-slope * self.centres[name] for name, slope in self.slopes.items())
        return math.fsum([self.origin, self.base, *terms])

    def coefficients(self, features: Sequence[str]) -> dict[str, float]:
        """By label, in the order of these features: `weight`, `city=Quito`."""
        by_label: dict[str, float] = {}
        for name in features:
            if name in self.effects:
                by_label |= {f"{name}={level}": v for level, v in self.effects[name].items()}
            else:
                by_label[name] = self.slopes[name]
        return by_label

    def r2(self, gram: Gram) -> float:
        """The part of the target's variance over these rows that it explains, at most 1.

        As scikit-learn has it: NaN over fewer than two rows; of a target that does not vary 1 if every
        prediction is right, else 0.
        """
        if gram.rows < 2:
            return math.nan
        # The residual is a weighted sum of the numbers less their means, and of a constant; what is
        # needed is its square.
        centres, at = gram.centres, gram.positions
        y = at[gram.target]
        constant = centres[gram.target] - self.origin + (gram.offsets[y] - self.base)
        weights = np.zeros(len(gram.numbers))
        weights[y] = 1.0
        for name, slope in self.slopes.items():
            weights[at[name]] = -slope
            constant -= slope * (centres[name] - self.centres[name] + gram.offsets[at[name]])
        own = {
            name: np.array([-self.effects[name].get(level, 0.0) for level in levels])
            for name, levels in gram.levels.items()
        }
        square = weights @ gram.spread @ weights + constant * constant * gram.rows
        for name, effects in own.items():
            rest = gram.sums_by[name] @ weights
            square += effects @ (2 * rest + (2 * constant + effects) * gram.counts[name])
        for (one, other), block in gram.pairs.items():
            square += 2 * (own[one] @ (block @ own[other]))
        spread = gram.spread[y, y]
        if spread == 0:
            return 1.0 if square <= 1e-14 * gram.rows * gram.means[y] ** 2 else 0.0
        return float(1 - max(square, 0.0) / spread)
