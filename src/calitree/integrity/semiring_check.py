"""The laws of a semiring, tried on elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from calitree.engines.api.semiring import Semiring
from calitree.errors import CalitreeError, ExpressionError, cut
from calitree.integrity.semiring_laws import Algebra, Law, algebra_of, laws_of
from calitree.integrity.semiring_samples import Values, drawn, pool_of

TOLERANCE = 1e-9
"""The relative error of doubles that is taken for rounding."""


@dataclass(frozen=True)
class Counterexample:
    """Elements for which a law does not hold.

    Attributes:
        law: What the law says.
        equation: The law as an equation of x, y and z.
        values: The elements x, y and z, as many as the equation has; one value for one component.
        left: The left side of the equation, for these.
        right: The right side.

    Example:
        >>> from calitree import Counterexample
        >>> print(Counterexample("⊕ is idempotent", "x ⊕ x = x", (2,), 4, 2))
        ⊕ is idempotent: x ⊕ x = x is 4 = 2 for x = 2
    """

    law: str
    equation: str
    values: tuple[Any, ...]
    left: Any
    right: Any

    def __str__(self) -> str:
        given = ", ".join(f"{n} = {cut(repr(v))}" for n, v in zip("xyz", self.values, strict=False))
        sides = f"{cut(repr(self.left))} = {cut(repr(self.right))}"
        return f"{self.law}: {self.equation} is {sides} for {given}"


@dataclass(frozen=True)
class SemiringCheck:
    """The outcome of `check_semiring`; it is true if no law was seen to fail.

    Attributes:
        name: The semiring's.
        laws: The laws that were tried.
        samples: On how many triples of elements.
        counterexamples: For each law that fails, the shortest of those that were seen.

    Example:
        >>> from calitree import check_semiring, semiring
        >>> print(check_semiring(semiring.MIN))
        min: 9 laws hold on 200 samples
    """

    name: str
    laws: tuple[str, ...]
    samples: int
    counterexamples: tuple[Counterexample, ...]

    @property
    def ok(self) -> bool:
        """Whether no law was seen to fail."""
        return not self.counterexamples

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        count, failed = len(self.laws), len(self.counterexamples)
        if not failed:
            return f"{self.name}: {count} laws hold on {self.samples:,} samples"
        first = f"{self.name}: {failed} of {count} laws fail on {self.samples:,} samples"
        return "\n".join([first, *(f"  {one}" for one in self.counterexamples)])

    def __repr__(self) -> str:
        return str(self)


def check_semiring(
    semiring: Semiring, values: Values | None = None, *, samples: int = 200, seed: int = 0
) -> SemiringCheck:
    """Try the laws that a semiring must satisfy, on random elements.

    A law that holds on these may still fail on others.

    ⊕ and ⊗ must be commutative and associative, as rows are added and messages multiplied in any order.
    Zero and one must be neutral, zero must annihilate, and ⊗ distribute over ⊕: a message is summed before it
    is joined. If the semiring says so, ⊖ must undo ⊕, and ⊕ be idempotent. Functions of Python
    must not change their arguments. Doubles may differ by rounding.

    Args:
        semiring: The semiring.
        values: Elements to try, or a function of a `random.Random` that returns one. An element is a tuple
            of its components, or the value of the only one. If they are not given, they are numbers, truth
            values and NULL, as zero and one are; of a Python semiring they must be given.
        samples: How many triples of elements to try; all, if there are not more.
        seed: Of the random numbers.

    Returns:
        The laws that were tried, and counterexamples of those that fail.

    Raises:
        ExpressionError: An argument is none of these, or a function of a Python semiring raised an error.

    Example:
        >>> from calitree import Semiring, check_semiring
        >>> wrong = Semiring("wrong", ("v",), ("sum",), ("l_v + r_v",), zero=(0,), one=(0,))
        >>> check = check_semiring(wrong)
        >>> check.ok, [one.law for one in check.counterexamples]
        (False, ['zero annihilates', '⊗ distributes over ⊕'])
        >>> print(check.counterexamples[0])
        zero annihilates: x ⊗ 0 = 0 is 1 = 0 for x = 1
    """
    if not isinstance(semiring, Semiring):
        raise ExpressionError(f"check_semiring needs a Semiring; got {type(semiring).__name__}.")
    if not isinstance(samples, int) or samples < 1:
        raise ExpressionError(f"samples is a number of at least 1; got {samples!r}.")
    algebra, random = algebra_of(semiring), Random(seed)
    laws = laws_of(semiring, algebra)
    triples = list(_triples(semiring, values, samples, random))
    tried, counterexamples = [], []
    for law in laws:
        tried.append(law.name)
        counterexample = _first(law, algebra, triples)
        if counterexample is not None:
            counterexamples.append(counterexample)
            if law.is_of_pairs:
                break  # the elements would be others after each call
    return SemiringCheck(semiring.name, tuple(tried), len(triples), tuple(counterexamples))


Triple = tuple[Any, Any, Any]


def _triples(
    semiring: Semiring, values: Values | None, samples: int, random: Random
) -> Iterator[Triple]:
    pool = pool_of(semiring, values)
    if pool is not None and len(pool) ** 3 <= samples:
        yield from product(pool, repeat=3)
        return
    for _ in range(samples):
        x, y, z = (drawn(semiring, values, pool, random) for _ in range(3))
        yield x, y, z


def _first(law: Law, algebra: Algebra, triples: Sequence[Triple]) -> Counterexample | None:
    """The shortest counterexample of a law, if there is one."""
    shortest: Counterexample | None = None
    for triple in triples:
        values = triple[: law.elements]
        try:
            left, right = law.sides(*values)
        except CalitreeError:
            raise
        except Exception as error:
            given = ", ".join(cut(repr(algebra.shown(value))) for value in values)
            raise ExpressionError(
                f"{law.equation} cannot be computed for {given}: {type(error).__name__}: {error}"
            ) from error
        if not _same(left, right, _scale((values, left, right))):
            shown = tuple(map(algebra.shown, values))
            if not law.is_of_pairs:
                left, right = algebra.shown(left), algebra.shown(right)
            one = Counterexample(law.name, law.equation, shown, left, right)
            if shortest is None or _length(one) < _length(shortest):
                shortest = one
    return shortest


def _length(one: Counterexample) -> tuple[int, str]:
    text = repr(one.values)
    return len(text), text


def _same(left: Any, right: Any, scale: float) -> bool:
    """Whether two elements are equal; doubles in them up to rounding, on this scale."""
    if isinstance(left, float) or isinstance(right, float):
        try:
            a, b = float(left), float(right)
        except (TypeError, ValueError, OverflowError):
            return False
        both_nan = a != a and b != b
        return both_nan or a == b or abs(a - b) <= TOLERANCE * max(scale, abs(a), abs(b))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_same(a, b, scale) for a, b in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k], scale) for k in left)
    try:
        return bool(left == right)
    except Exception as error:
        raise ExpressionError(
            f"Elements {cut(repr(left))} and {cut(repr(right))} cannot be compared by ==: {error}"
        ) from error


def _scale(value: Any) -> float:
    """The largest finite number in a value, and at least 1: what digits may be rounded of.

    Sums of products of three elements are compared, so it is raised to the third power.
    """
    return max(1.0, _largest(value)) ** 3


def _largest(value: Any) -> float:
    if isinstance(value, float):
        return abs(value) if math.isfinite(value) else 0.0
    if isinstance(value, list | tuple):
        return max(map(_largest, value), default=0.0)
    if isinstance(value, dict):
        return max(map(_largest, value.values()), default=0.0)
    return 0.0
