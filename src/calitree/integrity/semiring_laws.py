"""The laws of a semiring as equations between elements.

Elements of a semiring that is data are computed as the reference engine computes them: integers have no
bounds and decimals are exact, so that only doubles are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from calitree.engines.api.python_semiring import PythonSemiring
from calitree.engines.api.semiring import Semiring


class Algebra(Protocol):
    """How a semiring computes with two elements."""

    zero: Any
    one: Any

    def plus(self, x: Any, y: Any) -> Any:
        """⊕."""

    def times(self, x: Any, y: Any) -> Any:
        """⊗."""

    def minus(self, x: Any, y: Any) -> Any:
        """⊖."""

    def shown(self, x: Any) -> Any:
        """An element as a user knows it."""


class DataAlgebra:
    """Tuples of components, as the reference engine computes with them.

    Of a `covariance`, an element without rows is zero, whatever its means are.
    """

    def __init__(self, semiring: Semiring) -> None:
        self.semiring, self.zero, self.one = semiring, semiring.zero, semiring.one

    def plus(self, x: Any, y: Any) -> Any:
        """⊕."""
        from calitree.engines.reference.algebra import sum_of

        return self._element(sum_of(self.semiring, x, y))

    def times(self, x: Any, y: Any) -> Any:
        """⊗; a component that it makes NULL counts as zero, as everywhere."""
        from calitree.engines.reference.algebra import product_of

        return self._element(product_of(self.semiring, x, y))

    def minus(self, x: Any, y: Any) -> Any:
        """⊖."""
        from calitree.engines.reference.algebra import opposite_of

        return self.plus(x, opposite_of(self.semiring, y))

    def _element(self, values: Sequence[Any]) -> tuple[Any, ...]:
        if self.semiring.values and not values[0]:
            return self.zero
        both = zip(values, self.zero, strict=True)
        return tuple(zero if value is None else value for value, zero in both)

    def shown(self, x: Any) -> Any:
        """The only component, or all."""
        return x[0] if len(self.semiring.components) == 1 else x


class PythonAlgebra:
    """Python values."""

    def __init__(self, semiring: PythonSemiring) -> None:
        (self.zero,), (self.one,) = semiring.zero, semiring.one
        self.plus, self.times = semiring.plus_of, semiring.times_of

    def minus(self, x: Any, y: Any) -> Any:
        """There is none."""
        raise NotImplementedError

    def shown(self, x: Any) -> Any:
        """The element."""
        return x

    def unchanged(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Two elements after ⊕ and ⊗ of them, and before."""
        before = deepcopy((x, y))
        after = deepcopy((x, y))
        self.plus(*after)
        self.times(*after)
        return after, before


@dataclass(frozen=True)
class Law:
    """Two sides that must be equal, of the first so many elements of a triple."""

    name: str
    equation: str
    sides: Callable[..., tuple[Any, Any]]
    elements: int
    is_of_pairs: bool = False
    """Whether its sides are two elements each."""


def algebra_of(semiring: Semiring) -> Algebra:
    """How a semiring computes."""
    if isinstance(semiring, PythonSemiring):
        return PythonAlgebra(semiring)
    return DataAlgebra(semiring)


def laws_of(semiring: Semiring, a: Algebra) -> list[Law]:
    """The laws that a semiring must satisfy."""
    plus, times, zero, one = a.plus, a.times, a.zero, a.one
    laws = []
    if isinstance(a, PythonAlgebra):
        laws.append(
            Law("arguments are not changed", "x, y after = x, y before", a.unchanged, 2, True)
        )
    laws += [
        Law("⊕ is commutative", "x ⊕ y = y ⊕ x", lambda x, y: (plus(x, y), plus(y, x)), 2),
        Law(
            "⊕ is associative",
            "(x ⊕ y) ⊕ z = x ⊕ (y ⊕ z)",
            lambda x, y, z: (plus(plus(x, y), z), plus(x, plus(y, z))),
            3,
        ),
        Law("zero is neutral", "x ⊕ 0 = x", lambda x: (plus(x, zero), x), 1),
        Law("⊗ is commutative", "x ⊗ y = y ⊗ x", lambda x, y: (times(x, y), times(y, x)), 2),
        Law(
            "⊗ is associative",
            "(x ⊗ y) ⊗ z = x ⊗ (y ⊗ z)",
            lambda x, y, z: (times(times(x, y), z), times(x, times(y, z))),
            3,
        ),
        Law("one is neutral", "x ⊗ 1 = x", lambda x: (times(x, one), x), 1),
        Law("zero annihilates", "x ⊗ 0 = 0", lambda x: (times(x, zero), zero), 1),
        Law(
            "⊗ distributes over ⊕",
            "x ⊗ (y ⊕ z) = x ⊗ y ⊕ x ⊗ z",
            lambda x, y, z: (times(x, plus(y, z)), plus(times(x, y), times(x, z))),
            3,
        ),
    ]
    if semiring.minus:
        laws.append(
            Law("⊖ undoes ⊕", "(x ⊕ y) ⊖ y = x", lambda x, y: (a.minus(plus(x, y), y), x), 2)
        )
    if semiring.idempotent:
        laws.append(Law("⊕ is idempotent", "x ⊕ x = x", lambda x: (plus(x, x), x), 1))
    return laws
