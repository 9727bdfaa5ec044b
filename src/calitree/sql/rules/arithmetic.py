"""Arithmetic, and functions of numbers."""

from __future__ import annotations

import math

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.limits import MAX_DECIMALS
from calitree.sql.nodes import double, integer_of, name_of, nullif_zero, number, paren, wide, wider
from calitree.sql.rules import intervals
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind


def addition(analysis: Analysis, node: exp.Binary) -> Pair:
    """+ and -: of numbers, and of dates and times with intervals, days and each other."""
    result = intervals.moved(analysis, node)
    if result is not None:
        return result
    left, right = analysis.normal(node.left), analysis.normal(node.right)
    result = intervals.between(node, left, right)
    if result is not None:
        return result
    for side, (_, kind) in ((node.left, left), (node.right, right)):
        analysis.check(side, kind, Kind.FLOAT, name_of(node))
    operands = (paren(wide(*left)), paren(wide(*right)))
    return type(node)(this=operands[0], expression=operands[1]), wider(left[1], right[1])


def multiplication(analysis: Analysis, node: exp.Binary) -> Pair:
    """* and %, which is NULL where the divisor is zero; and an interval some times."""
    if isinstance(node, exp.Mul) and intervals.interval_of(node) is not None:
        return intervals.constant_interval(analysis, node)
    left, right = (analysis.number(side, name_of(node)) for side in (node.left, node.right))
    guard = nullif_zero if isinstance(node, exp.Mod) else paren
    result = type(node)(this=paren(wide(*left)), expression=guard(wide(*right)))
    return result, wider(left[1], right[1])


def division(analysis: Analysis, node: exp.Binary) -> Pair:
    """/, of doubles."""
    left, right = (analysis.operand(side, Kind.FLOAT, "/") for side in (node.left, node.right))
    return exp.Div(this=paren(left), expression=nullif_zero(right)), Kind.FLOAT


def negation(analysis: Analysis, node: exp.Expr) -> Pair:
    """- of one number, or of an interval."""
    if intervals.interval_of(node) is not None:
        return intervals.constant_interval(analysis, node)
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


def truncation(analysis: Analysis, node: exp.Expr) -> Pair:
    """TRUNC: of the kind of its argument."""
    check_count(analysis, node, 1, 1)
    operand, kind = analysis.number(node.expressions[0], "TRUNC")
    if kind in (Kind.INTEGER, Kind.NULL):
        return operand, kind
    return exp.Anonymous(this="TRUNC", expressions=[operand]), kind


def whole_division(analysis: Analysis, node: exp.Binary) -> Pair:
    """//, of integers, towards zero; NULL where the divisor is zero."""
    left, right = (analysis.operand(side, Kind.INTEGER, "//") for side in (node.left, node.right))
    left, right = (wide(side, Kind.INTEGER) for side in (left, right))
    return exp.IntDiv(this=paren(left), expression=nullif_zero(right)), Kind.INTEGER


def logarithm(analysis: Analysis, node: exp.Expr) -> Pair:
    """LOG(x), which is LOG10(x), and LOG(base, x)."""
    check_count(analysis, node, 1, 2)
    if len(node.expressions) == 1:
        return analysis.normal(
            exp.Anonymous(this="LOG10", expressions=[node.expressions[0].copy()])
        )
    base, value = (exp.Ln(this=argument.copy()) for argument in node.expressions)
    return analysis.normal(exp.Div(this=value, expression=base))


def pi(analysis: Analysis, node: exp.Expr) -> Pair:
    """PI()."""
    check_count(analysis, node, 0, 0)
    return number(math.pi), Kind.FLOAT


def decimals_of(node: exp.Expr) -> int:
    """The number of decimals that ROUND keeps."""
    return integer_of(node, "decimals") or 0
