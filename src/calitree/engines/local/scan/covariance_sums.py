"""Sums of a `covariance` that a scan takes: of deviations from the first value of each group.

The first value of a group is mostly within some standard deviations of its mean, and then the sums around
it lose a few bits. Where it is not (one outlier, and it comes first), the scan is repeated around the means
that it has given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Factor, Lifted
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.annotation.covariances import (
    MAX_EXACT_DOUBLE,
    corrected,
    merged,
    split,
    squares_of,
    values_of,
)
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.vm.products import bound_of, multiplied
from calitree.engines.local.vm.program import Accumulator, Program, Register

Array = np.ndarray[Any, Any]

MAX_SQUARED_SHIFT = 1e4
"""How many times the variance of a group the square of its centre's distance from its mean may be."""


def covariance_element(
    program: Program, factor: Factor, values: Sequence[Value]
) -> list[Register | None]:
    """A factor of the table itself, a register for each component; None for those that are 1 or 0."""
    if not isinstance(factor, Lifted):
        return [program.load(value.data) for value in values]
    masks = [program.load(value.valid, 1) for value in values if value.valid is not None]
    means: list[Register | None] = []
    for value in values:
        if value.is_wide or (value.is_integer and value.bound >= MAX_EXACT_DOUBLE):
            means += [program.load(np.asarray(part)) for part in split(value)]
        else:
            mean = program.load(value.data, bound_of(value))
            means += [program.real(mean, value.scale), None]
    pairs = len(values) * (len(values) + 1) // 2
    return [reduce(program.multiply, masks) if masks else None, *means, *[None] * pairs]


def covariance_product(
    program: Program, semiring: Semiring, factors: Sequence[Sequence[Register | None]]
) -> Sequence[Register | None]:
    """⊗ of elements."""
    if len(factors) == 1:
        return factors[0]

    def whole(element: Sequence[Register | None]) -> list[Register]:
        return [
            program.constant(at == 0) if part is None else part for at, part in enumerate(element)
        ]

    return reduce(partial(multiplied, program, semiring), map(whole, factors))


class _Accumulators(NamedTuple):
    """Where a covariance is summed: the number of rows, centres, deviations, and products of these."""

    rows: Accumulator
    centres: list[Accumulator]
    deviations: list[Accumulator]
    products: list[Accumulator]


class CovarianceSums:
    """⊕ of an element, as often as `weight` says, by group. `results` are there after the run."""

    def __init__(
        self,
        program: Program,
        element: Sequence[Register | None],
        weight: Register | None,
        groups: tuple[int | None, int],
        centres: Array | None,
    ) -> None:
        self.values = values_of(len(element))
        index, size = groups
        n, last = element[0], 1 + 2 * self.values
        present = [program.real(register) for register in (n, weight) if register is not None]
        rows = reduce(program.multiply, present) if present else None
        mask = rows if rows is not None else program.constant(1)

        def total(register: Register) -> Accumulator:
            return program.sum(register, index, size)[0]

        deviations, around = [], []
        for i, (mean, low) in enumerate(zip(element[1:last:2], element[2:last:2], strict=True)):
            assert mean is not None
            given = None if centres is None else centres[i]
            apart, centre = program.centre(program.real(mean), mask, index, size, given)
            if low is not None:
                apart = program.keep(program.add(apart, program.real(low)), mask)
            deviations.append(apart)
            around.append(centre)
        weighted = [d if rows is None else program.multiply(rows, d) for d in deviations]
        products = []
        for at, (u, v) in enumerate(combinations_with_replacement(range(self.values), 2), last):
            product, own = program.multiply(weighted[u], deviations[v]), element[at]
            if own is not None:
                own = program.real(own)
                own = own if weight is None else program.multiply(own, weight)
                product = program.add(product, program.keep(own, mask))
            products.append(total(product))
        self._accumulators = _Accumulators(
            total(program.real(mask)), around, list(map(total, weighted)), products
        )

    @cached_property
    def _by_thread(self) -> list[tuple[Array, Array]]:
        """What each thread has summed, as `corrected` takes it."""
        rows, centres, deviations, products = self._accumulators
        parts = []
        for thread, n in enumerate(rows.copies):
            means = [np.where(n == 0, 0.0, centre.copies[thread]) for centre in centres]
            sums = [n, *(x for mean in means for x in (mean, np.zeros(len(n))))]
            sums += [product.copies[thread] for product in products]
            parts.append((np.stack(sums), np.stack([d.copies[thread] for d in deviations])))
        return parts

    @cached_property
    def _matrix(self) -> Array:
        with np.errstate(all="ignore"):
            matrices = [corrected(sums, 0.0, rests) for sums, rests in self._by_thread]
        return reduce(merged, matrices)

    @property
    def means(self) -> Array:
        """The mean of each value in each group, rounded; NaN in groups of no rows."""
        means = self._matrix[1 : 1 + 2 * self.values : 2]
        return np.where(self._matrix[0] == 0, np.nan, means)

    @property
    def is_poor(self) -> bool:
        """Whether some centre was so far from the mean that digits are lost."""
        squares = self._matrix[squares_of(len(self._matrix))]
        with np.errstate(all="ignore"):
            shifts = [rests**2 / sums[0] for sums, rests in self._by_thread]
            return any(bool((shift > MAX_SQUARED_SHIFT * squares).any()) for shift in shifts)

    @property
    def results(self) -> list[Callable[[], Value]]:
        """The components, to be read after the run."""
        components = 1 + 2 * self.values + self.values * (self.values + 1) // 2
        return [partial(self._component, at) for at in range(components)]

    def _component(self, at: int) -> Value:
        return Value(self._matrix[at])
