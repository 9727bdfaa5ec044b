"""Sums over a join of which linear models are made: the moments of its columns, and never a row.

Numbers are centred before they are squared: what is summed is Σ(x-c)(y-d), with c and d near the means,
so that nothing large cancels afterwards. A column with levels stands for one column of 0 and 1 a
level, and those of two columns meet in a sparse block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.errors import QueryError, did_you_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gram:
    """The moments of a target and features over the rows of a join.

    `numbers` are the columns that are numbers, the target among them: `sums` has Σ(x-c) of each around
    its centre, `products` Σ(x-c)(y-d) of each two. `levels` has the values of each other column;
    `counts` how many rows have each, `sums_by` the sums of the numbers over these rows, and `pairs` how
    many rows have each two levels of two columns.

    Those of one call have the same centres and levels, so they can be added and subtracted: the sum of
    all folds less one is what to train on.
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
    """How each of its sums was found: what was reused, and what was computed."""

    def __add__(self, other: Gram) -> Gram:
        return self._combined(other, 1)

    def __sub__(self, other: Gram) -> Gram:
        return self._combined(other, -1)

    def _combined(self, other: Gram, sign: int) -> Gram:
        alike = ("target", "features", "numbers", "centres", "levels")
        if any(getattr(self, each) != getattr(other, each) for each in alike):
            raise QueryError(
                "These moments are of other columns, centres or levels; ask for both in one call "
                "(grams_of)."
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
        """The moments of some of the features, and perhaps with another number as the target.

        They are of the same rows: those where nothing that was asked for at first is NULL.
        """
        target = self.target if target is None else target
        for name in (target, *features):
            if name not in self.positions and name not in self.levels:
                known = (*self.numbers, *self.levels)
                raise QueryError(f"These moments have no {name!r}.{did_you_mean(name, known)}")
        if target in self.levels:
            raise QueryError(f"{target} has levels; a target is a number.")
        numbers = tuple(each for each in self.numbers if each == target or each in features)
        at = [self.positions[each] for each in numbers]
        chosen = [each for each in self.levels if each in features]
        return replace(
            self,
            target=target,
            features=tuple(features),
            numbers=numbers,
            centres={each: self.centres[each] for each in numbers},
            sums=self.sums[at],
            products=self.products[at][:, at],
            levels={each: self.levels[each] for each in chosen},
            counts={each: self.counts[each] for each in chosen},
            sums_by={each: self.sums_by[each][:, at] for each in chosen},
            pairs={pair: m for pair, m in self.pairs.items() if set(pair) <= set(chosen)},
        )

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each number stands in `sums` and `products`."""
        return {name: i for i, name in enumerate(self.numbers)}

    @cached_property
    def means(self) -> Array:
        """The mean of each number."""
        import numpy as np

        return np.array([self.centres[each] for each in self.numbers]) + self.sums / self.rows

    @cached_property
    def spread(self) -> Array:
        """Σ(x-x̄)(y-ȳ) of each two numbers. That of a number which is always the same is zero: what is
        left of it is rounding.
        """
        import numpy as np

        spread = self.products - np.outer(self.sums, self.sums) / self.rows
        constant = np.diag(spread) <= 1e-14 * np.diag(self.products)
        spread[constant, :] = 0.0
        spread[:, constant] = 0.0
        return spread
