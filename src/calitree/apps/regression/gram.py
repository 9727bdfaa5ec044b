"""The sums over a join from which linear models are fitted, without any row of it.

Numbers are centred before they are squared: what is summed is Σ(x-c)(y-d), with c and d near the means,
so that nothing large cancels afterwards. A column with levels stands for an indicator column (0 or 1) for
each level; the products of the indicators of two columns are a sparse block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """The Gram matrix of a target and features over the rows of a join, around centres.

    `numbers` are the columns that are numbers, the target among them: `sums` has Σ(x-c) of each around
    its centre, `products` Σ(x-c)(y-d) of each two. `levels` has the values of each other column;
    `counts` how many rows have each, `sums_by` the sums of the numbers over these rows, and `pairs` how
    many rows have each two levels of two columns.

    Those of one `GramQuery.grams` have the same centres and levels, so they can be added and subtracted:
    the sum of all folds less one is what to train on.
    """

    target: str
    features: tuple[str, ...]
    numbers: tuple[str, ...]
    centres: Mapping[str, float]
    rows: float
    sums: Array
    products: Array
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    counts: Mapping[str, Array] = field(default_factory=dict)
    sums_by: Mapping[str, Array] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], csr_array] = field(default_factory=dict)
    plans: tuple[Plan, ...] = ()
    """How each of its queries was answered: what was reused, and what was computed."""

    def __add__(self, other: Gram) -> Gram:
        return self._combined(other, 1)

    def __sub__(self, other: Gram) -> Gram:
        return self._combined(other, -1)

    def _combined(self, other: Gram, sign: int) -> Gram:
        shared = ("target", "features", "numbers", "centres", "levels")
        if any(getattr(self, name) != getattr(other, name) for name in shared):
            raise QueryError(
                "These sums are of other columns, centres or levels; ask for both in one call "
                "(GramQuery.grams)."
            )
        return replace(
            self,
            rows=self.rows + sign * other.rows,
            sums=self.sums + sign * other.sums,
            products=self.products + sign * other.products,
            counts={k: v + sign * other.counts[k] for k, v in self.counts.items()},
            sums_by={k: v + sign * other.sums_by[k] for k, v in self.sums_by.items()},
            pairs={k: v + sign * other.pairs[k] for k, v in self.pairs.items()},
            plans=(),
        )

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
            sums=self.sums[at],
            products=self.products[at][:, at],
            levels={name: self.levels[name] for name in chosen},
            counts={name: self.counts[name] for name in chosen},
            sums_by={name: self.sums_by[name][:, at] for name in chosen},
            pairs={pair: m for pair, m in self.pairs.items() if set(pair) <= set(chosen)},
        )

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each number in `sums` and `products`."""
        return {name: i for i, name in enumerate(self.numbers)}

    @cached_property
    def means(self) -> Array:
        """The mean of each number."""
        return np.array([self.centres[name] for name in self.numbers]) + self.sums / self.rows

    @cached_property
    def spread(self) -> Array:
        """Σ(x-x̄)(y-ȳ) of each two numbers.

        That of a number which is always the same is set to zero: what remains of it is rounding.
        """
        spread = self.products - np.outer(self.sums, self.sums) / self.rows
        constant = np.diag(spread) <= 1e-14 * np.diag(self.products)
        spread[constant, :] = 0.0
        spread[:, constant] = 0.0
        return spread
