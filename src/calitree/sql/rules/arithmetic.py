"""Arithmetic, and functions of numbers."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.limits import MAX_DECIMALS
from calitree.sql.nodes import double, integer_of, name_of, nullif_zero, paren, wide, wider
from calitree.types import Kind


def arithmetic(analysis: Analysis, node: exp.Binary) -> Pair:
    """+, - and *, and %, which is NULL where the divisor is zero."""
    left, right = (analysis.number(side, name_of(node)) for side in (node.left, node.right))
    guard = nullif_zero if isinstance(node, exp.Mod) else paren
    result = type(node)(this=paren(wide(*left)), expression=guard(wide(*right)))
    return result, wider(left[1], right[1])


def division(analysis: Analysis, node: exp.Binary) -> Pair:
    """/, of doubles."""
    left, right = (analysis.operand(side, Kind.FLOAT, "/") for side in (node.left, node.right))
    return exp.Div(this=paren(left), expression=nullif_zero(right)), Kind.FLOAT


def negation(analysis: Analysis, node: exp.Expr) -> Pair:
    """- of one number."""
    operand, kind = analysis.number(node.this, "-")
    return exp.Neg(this=paren(wide(operand, kind))), kind


def absolute(analysis: Analysis, node: exp.Expr) -> Pair:
    """ABS."""
    operand, kind = analysis.number(node.this, "ABS")
    return exp.Abs(this=wide(operand, kind)), kind


def rounding(analysis: Analysis, node: exp.Expr) -> Pair:
    """FLOOR, CEIL and ROUND; only the last may have a number of decimals.

    Decimals stay decimals. So do integers that are rounded, which changes nothing.
    """
    name = name_of(node)
    operand, kind = analysis.number(node.this, name)
    if kind is not Kind.DECIMAL:
        operand = double(operand, kind)
    result = type(node)(this=operand)
    if node.args.get("to"):
        raise analysis.fail(f"{name} takes no TO")
    decimals = node.args.get("decimals")
    if decimals is not None:
        if not isinstance(node, exp.Round):
            raise analysis.fail(f"{name} takes one argument")
        if not (isinstance(decimals, exp.Literal) and decimals.is_int):
            raise analysis.fail(f"{name} takes a whole number of decimals")
        if len(decimals.name) > 3 or int(decimals.name) > MAX_DECIMALS:
            raise analysis.fail(f"{name} keeps at most {MAX_DECIMALS} decimals")
        result.set("decimals", decimals.copy())
    if kind is Kind.INTEGER and isinstance(node, exp.Round):
        return analysis.number(node.this, name)
    return result, Kind.DECIMAL if kind is Kind.DECIMAL else Kind.FLOAT


def decimals_of(node: exp.Expr) -> int:
    """The number of decimals that ROUND keeps."""
    return integer_of(node, "decimals") or 0
