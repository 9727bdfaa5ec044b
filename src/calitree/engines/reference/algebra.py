"""⊕, ⊗ and ⊖ of two elements of any semiring that is data: one value a component."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from calitree.engines.api.semiring import Semiring
from calitree.engines.reference.covariances import merged
from calitree.engines.reference.rowwise import arithmetic, evaluate_row, less


def _skipping_null(choose: Any) -> Any:
    def plus(a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return choose(a, b)

    return plus


_PLUS: dict[str, Any] = {
    "sum": partial(arithmetic("add", operator.add), exp.Add()),
    "min": _skipping_null(lambda a, b: b if less(b, a) else a),
    "max": _skipping_null(lambda a, b: b if less(a, b) else a),
    "any": lambda a, b: a or b,
}


def sum_of(semiring: Semiring, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """⊕ of two elements."""
    if semiring.values:
        return merged(semiring, left, right)
    ways = zip(semiring.plus, left, right, strict=True)
    return [_PLUS[plus](a, b) for plus, a, b in ways]


def opposite_of(semiring: Semiring, element: Sequence[Any]) -> list[Any]:
    """The element whose ⊕ takes another one away; means stay where they are."""
    return [
        value if plus in ("mean", "low") else -value
        for plus, value in zip(semiring.plus, element, strict=True)
    ]


def product_of(semiring: Semiring, left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
    """⊗ of two elements."""
    sides = {f"l_{n}": v for n, v in zip(semiring.components, left, strict=True)}
    sides |= {f"r_{n}": v for n, v in zip(semiring.components, right, strict=True)}
    return [evaluate_row(node, sides) for node in semiring.times_nodes]
