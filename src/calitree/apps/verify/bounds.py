"""Between which values an approximate answer may be: plain SQL of the exact ones, moved by what is promised."""

from __future__ import annotations

from itertools import product
from typing import Any

from sqlglot import exp

from calitree.errors import EngineError
from calitree.query.carried.approximate import (
    APPROXIMATE,
    COUNT_DISTINCT,
    STANDARD_ERROR,
    VALUE_ERROR,
)
from calitree.sql.nodes import binary, cast, kind_of, marked, number, paren
from calitree.types import Kind

STANDARD_ERRORS = 5
"""That an estimate may be away from the number of values: more are seen once in two million."""
COLLISIONS = 2
"""Values by which an estimate may be wrong besides: of a few values, two may be in the same cell."""
MAX_APPROXIMATE = 4
"""Aggregates in a measure, whose errors may add up or not."""


def with_bounds(plain: exp.Expr) -> exp.Expr:
    """A measure in plain SQL; if aggregates in it are approximate, the list of what it is if these are off.

    It is the exact value, and that where each aggregate is as small or as large as it may be.
    """
    approximate = {
        node.sql(): node for node in plain.find_all(exp.Expr) if APPROXIMATE in node.meta
    }
    if not approximate:
        return plain
    if len(approximate) > MAX_APPROXIMATE:
        raise EngineError(
            f"A measure with {len(approximate)} approximate aggregates is not verified, but one with "
            f"{MAX_APPROXIMATE}; ask for them by themselves."
        )
    moved = [plain.copy()]
    for signs in product((-1, 1), repeat=len(approximate)):
        by_text = {
            text: _moved(node, sign)
            for (text, node), sign in zip(approximate.items(), signs, strict=True)
        }
        moved.append(plain.copy().transform(_swapped, by_text))
    return exp.Array(expressions=moved)


def _swapped(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    return values[node.sql()].copy() if APPROXIMATE in node.meta else node


def _moved(node: exp.Expr, sign: int) -> exp.Expr:
    """An exact value as small, or as large, as an approximate one may be."""
    is_count = node.meta[APPROXIMATE] == COUNT_DISTINCT
    value = cast(node.copy(), Kind.FLOAT)
    value.this.meta.pop(APPROXIMATE)  # so that it is not swapped once more
    part = STANDARD_ERRORS * STANDARD_ERROR if is_count else VALUE_ERROR * (1 + 1e-9)
    size = marked(exp.Abs(this=value.copy()), Kind.FLOAT)
    error = binary(exp.Mul, number(part), size)
    if is_count:
        error = binary(exp.Add, number(float(COLLISIONS)), error)
    result = binary(exp.Add if sign > 0 else exp.Sub, value, error)
    if kind_of(node) is Kind.FLOAT:
        return paren(result)
    whole = exp.Ceil(this=result) if sign > 0 else exp.Floor(this=result)
    return cast(marked(whole, Kind.FLOAT), Kind.INTEGER)


def within(value: Any, bounds: list[Any]) -> bool:
    """Whether a value may be that of an approximate measure, given the list of what that may be."""
    if value is None or None in bounds:
        return value in bounds
    known = [bound for bound in bounds if bound == bound]
    if value != value:
        return len(known) < len(bounds)
    return bool(known) and min(known) <= value <= max(known)
