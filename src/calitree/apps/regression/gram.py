"""The sums over a join from which linear models are fitted, without any row of it.

Numbers are centred before they are squared: what is summed is Σ(x-c)(y-d), with c and d near the means,
so that nothing large cancels afterwards. What is kept are *central* moments: how many rows, the means, and
Σ(x-x̄)(y-ȳ). Those of two sets of rows give those of their union, whatever their centres were, and nothing is
subtracted for it. A column with levels stands for an indicator column (0 or 1) for each level; the products
of the indicators of two columns are a sparse block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.errors import QueryError, did_you_mean

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram matrix of a target and features over the rows of a join, around their means.

    `numbers` are the columns that are numbers, the target among them: the mean of each is its centre
    plus its `offsets`, two numbers that together have more digits than one; `spread` has Σ(x-x̄)(y-ȳ) of
    each two, and is exactly zero for a number that does not vary. `levels` has the values of each other
    column; `counts` how many rows have each, `sums_by` Σ(x-x̄) of the numbers over these rows, and `pairs`
    how many rows have each two levels of two columns.

    Those of one `GramQuery.grams` have the same levels, so they can be added: the sum of all folds but one
    is what to train on.
    """

    target: str
    features: tuple[str, ...]
    numbers: tuple[str, ...]
    centres: Mapping[str, float]
    rows: float
    offsets: Array
    spread: Array
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    counts: Mapping[str, Array] = field(default_factory=dict)
    sums_by: Mapping[str, Array] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], csr_array] = field(default_factory=dict)
    plans: tuple[Plan, ...] = ()
    """How each of its queries was answered: what was reused, and what was computed."""

    def __add__(self, other: Gram) -> Gram:
        shared = ("target", "features", "numbers", "levels")
        if any(getattr(self, name) != getattr(other, name) for name in shared):
            raise QueryError(
                "These sums are of other columns or levels; ask for both in one call "
                "(GramQuery.grams)."
            )
        rows = self.rows + other.rows
        between = self._centres - other._centres + (self.offsets - other.offsets)
        ours, theirs = between * (other.rows / rows), -between * (self.rows / rows)
        product = np.outer(between, between) * (self.rows * other.rows / rows)
        return replace(
            self,
            rows=rows,
            offsets=self.offsets - ours,
            spread=self.spread + other.spread + product,
            counts={k: v + other.counts[k] for k, v in self.counts.items()},
            sums_by={k: self._shifted(k, ours) + other._shifted(k, theirs) for k in self.sums_by},
            pairs={k: v + other.pairs[k] for k, v in self.pairs.items()},
            plans=(),
        )

    def _shifted(self, name: str, by: Array) -> Array:
        """The sums over the rows of each level, of numbers that are larger by so much."""
        sums: Array = self.sums_by[name] + np.outer(self.counts[name], by)
        return sums

    def select(self, features: Sequence[str], target: str | None = None) -> Gram:
        """The sums of some of the features, and perhaps with another number as the target.

        They are of the same rows: those where none of the columns of this one is NULL.
        """
        target = self.target if target is None else target
        for name in (target, *features):
            if name not in self.positions and name not in self.levels:
                known = (*self.numbers, *self.levels)
                raise QueryError(f"These sums have no {name!r}.{did_you_mean(name, known)}")
        if target in self.levels:
            raise QueryError(f"{target} has levels; a target is a number.")
        numbers = tuple(name for name in self.numbers if name == target or name in features)
        at = [self.positions[name] for name in numbers]
        chosen = [name for name in self.levels if name in features]
        return replace(
            self,
            target=target,
            features=tuple(features),
            numbers=numbers,
            centres={name: self.centres[name] for name in numbers},
            offsets=self.offsets[at],
            spread=self.spread[at][:, at],
            levels={name: self.levels[name] for name in chosen},
            counts={name: self.counts[name] for name in chosen},
            sums_by={name: self.sums_by[name][:, at] for name in chosen},
            pairs={pair: m for pair, m in self.pairs.items() if set(pair) <= set(chosen)},
        )

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each number in `offsets` and `spread`."""
        return {name: i for i, name in enumerate(self.numbers)}

    @cached_property
    def _centres(self) -> Array:
        return np.array([self.centres[name] for name in self.numbers])

    @property
    def means(self) -> Array:
        """The mean of each number."""
        means: Array = self._centres + self.offsets
        return means


def all_but_one(grams: Sequence[Gram]) -> list[Gram]:
    """For each of at least two the sum of all the others, added up from both ends."""
    before = list(accumulate(grams[:-1], add))
    after = list(accumulate(grams[:0:-1], add))[::-1]
    between = [first + last for first, last in zip(before[:-1], after[1:], strict=True)]
    return [after[0], *between, before[-1]]
