"""Random elements of a semiring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from calitree.engines.api.python_semiring import PythonSemiring
from calitree.engines.api.semiring import Semiring
from calitree.errors import ExpressionError, cut

Values = Sequence[Any] | Callable[[Random], Any]
"""Elements, or a function that draws one."""

SPECIAL = 0.15
"""How often zero, one, or a NULL component is drawn."""


def pool_of(semiring: Semiring, values: Values | None) -> list[Any] | None:
    """The elements that are given, with zero and one; None if they are drawn by a function or at random."""
    if values is None:
        if isinstance(semiring, PythonSemiring):
            raise ExpressionError(
                f"Semiring {semiring.name!r} is in Python, so its elements may be anything: give some of them "
                "as values=, or a function of a random.Random that draws one."
            )
        return None
    if callable(values):
        return None
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ExpressionError(
            f"values is a list of elements, or a function that draws one; got {cut(repr(values))}."
        )
    pool = [_special(semiring, semiring.zero), _special(semiring, semiring.one)]
    return pool + [_element(semiring, value) for value in values]


def drawn(
    semiring: Semiring, values: Values | None, pool: Sequence[Any] | None, random: Random
) -> Any:
    """A random element."""
    if pool is not None:
        return random.choice(pool)
    if random.random() < SPECIAL:
        return _special(semiring, random.choice((semiring.zero, semiring.one)))
    if callable(values):
        return _element(semiring, values(random))
    if semiring.values:
        return _covariance(semiring, random)
    ends = zip(semiring.plus, semiring.zero, semiring.one, strict=True)
    return tuple(_component(plus, (zero, one), random) for plus, zero, one in ends)


def _special(semiring: Semiring, element: tuple[Any, ...]) -> Any:
    return element[0] if isinstance(semiring, PythonSemiring) else element


def _element(semiring: Semiring, value: Any) -> Any:
    """An element as it was given."""
    if isinstance(semiring, PythonSemiring):
        return value
    size = len(semiring.components)
    if size == 1 and not isinstance(value, list | tuple):
        return (value,)
    if not isinstance(value, list | tuple) or len(value) != size:
        listed = ", ".join(semiring.components)
        raise ExpressionError(
            f"An element of semiring {semiring.name!r} is ({listed}); got {cut(repr(value))}."
        )
    return tuple(value)


def _component(plus: str, ends: tuple[Any, Any], random: Random) -> Any:
    """A number or truth value, and NULL where that is the zero."""
    if ends[0] is None and random.random() < SPECIAL:
        return None
    if plus == "any" or any(isinstance(end, bool) for end in ends):
        return random.random() < 0.5
    return random.randint(-9, 9) if random.random() < 0.7 else random.uniform(-9, 9)


def _covariance(semiring: Semiring, random: Random) -> tuple[Any, ...]:
    """A few rows: other numbers than those of rows are no elements."""
    from calitree.engines.reference.algebra import sum_of
    from calitree.engines.reference.covariances import element

    total: Sequence[Any] = semiring.zero
    for _ in range(random.randint(1, 3)):
        row = [random.randint(-9, 9) for _ in range(semiring.values)]
        total = sum_of(semiring, total, element(semiring, row))
    return tuple(total)
