"""Semirings whose elements are any Python values, and ⊕ and ⊗ Python functions.

No engine computes with them. What an engine does for a contraction in one is to join and to count;
`elements` multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calitree.engines.api.semiring import Semiring
from calitree.errors import ExpressionError, cut

Operation = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class PythonSemiring(Semiring):
    """A commutative semiring of Python values. It equals itself alone, as functions do.

    To tables it is a semiring of one component.

    Attributes:
        addition: ⊕ of two elements.
        multiplication: ⊗ of two elements.
        is_idempotent: Whether x ⊕ x = x.

    Example:
        >>> from calitree import python_semiring
        >>> python_semiring("least", min, lambda a, b: a + b, zero=float("inf"), one=0).name
        'least'
    """

    addition: Operation
    multiplication: Operation
    is_idempotent: bool

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ExpressionError(f"A semiring needs a name; got {self.name!r}.")
        for sign, operation in (("plus", self.addition), ("times", self.multiplication)):
            if not callable(operation):
                raise self._error(
                    f"{sign} is a function of two elements; got {cut(repr(operation))}."
                )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def idempotent(self) -> bool:
        """Whether x ⊕ x = x; then it does not matter how often an element is added."""
        return self.is_idempotent

    @property
    def is_counted(self) -> bool:
        """Whether a relation without a lift has a number of rows for its element."""
        return not self.is_idempotent

    def plus_of(self, left: Any, right: Any) -> Any:
        """⊕ of two elements.

        Args:
            left: An element.
            right: Another.

        Returns:
            Their sum.

        Raises:
            ExpressionError: If the function raises an error.

        Example:
            >>> from calitree import python_semiring
            >>> least = python_semiring("least", min, lambda a, b: a + b, zero=float("inf"), one=0)
            >>> least.plus_of(3, 4)
            3
        """
        return self._called("plus", self.addition, left, right)

    def times_of(self, left: Any, right: Any) -> Any:
        """⊗ of two elements.

        Args:
            left: An element.
            right: Another.

        Returns:
            Their product.

        Raises:
            ExpressionError: If the function raises an error.

        Example:
            >>> from calitree import python_semiring
            >>> least = python_semiring("least", min, lambda a, b: a + b, zero=float("inf"), one=0)
            >>> least.times_of(3, 4)
            7
        """
        return self._called("times", self.multiplication, left, right)

    def several(self, element: Any, count: int) -> Any:
        """An element added so many times.

        Args:
            element: The element.
            count: How often, at least once.

        Returns:
            Their sum, by doubling; the element itself if the semiring is idempotent.

        Example:
            >>> from calitree import python_semiring
            >>> sums = python_semiring("sums", lambda a, b: a + b, lambda a, b: a * b, zero=0, one=1)
            >>> sums.several(3, 1000)
            3000
        """
        if self.is_idempotent:
            return element
        total, power = None, element
        has_total = False
        while count:  # by doubling: ⊕ is associative
            if count & 1:
                total = self.plus_of(total, power) if has_total else power
                has_total = True
            count >>= 1
            if count:
                power = self.plus_of(power, power)
        return total

    def _called(self, sign: str, operation: Operation, left: Any, right: Any) -> Any:
        try:
            return operation(left, right)
        except Exception as error:
            given = f"{cut(repr(left))}, {cut(repr(right))}"
            raise self._error(f"{sign}({given}) raised {type(error).__name__}: {error}") from error


def python_semiring(
    name: str, plus: Operation, times: Operation, *, zero: Any, one: Any, idempotent: bool = False
) -> PythonSemiring:
    """A semiring whose elements are any Python values: for what SQL cannot add or multiply.

    It must satisfy the laws that `check_semiring` tries, and neither function may change its arguments.
    Messages are multiplied in any order, so ⊗ must be commutative too. Contractions in it run in this
    process, a call of Python a row; without Spark, and they cannot be saved.

    Args:
        name: What plans and errors call it.
        plus: ⊕, a function of two elements.
        times: ⊗, a function of two elements.
        zero: The neutral element of ⊕, which ⊗ turns everything into: what no row adds up to.
        one: The neutral element of ⊗: what a relation without a lift contributes.
        idempotent: Whether x ⊕ x = x, as for the least of several. Then rows need not be counted.

    Returns:
        The semiring, for `aggregate`.

    Raises:
        ExpressionError: If `plus` or `times` is no function, or the name is none.

    Example:
        >>> from calitree import aggregate, python_semiring
        >>> names = python_semiring(
        ...     "names", lambda a, b: a | b, lambda a, b: {x + y for x in a for y in b},
        ...     zero=frozenset(), one=frozenset({""}), idempotent=True,
        ... )
        >>> lifts = {"stores": lambda city: {city}, "sales": lambda price: {f" {price}"}}
        >>> labels = aggregate(names, lifts, final=sorted)
        >>> wide.query(measures={"labels": labels}).rows()
        [{'labels': ['Cuenca 5', 'Quito 10', 'Quito 20']}]
    """
    return PythonSemiring(
        name,
        components=("element",),
        plus=("python",),
        times=(),
        zero=(zero,),
        one=(one,),
        addition=plus,
        multiplication=times,
        is_idempotent=bool(idempotent),
    )
