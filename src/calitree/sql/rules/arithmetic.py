"""Arithmetic, and functions of numbers."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import nullif_zero, paren, wider
from calitree.types import Kind


def arithmetic(analysis: Analysis, node: exp.Binary) -> Pair:
    sign = {"Add": "+", "Sub": "-", "Mul": "*"}[type(node).__name__]
    left, right = analysis.number(node.left, sign), analysis.number(node.right, sign)
    result = type(node)(this=paren(analysis.wide(*left)), expression=paren(analysis.wide(*right)))
    return result, wider(left[1], right[1])


def negation(analysis: Analysis, node: exp.Expr) -> Pair:
    inner, kind = analysis.number(node.this, "-")
    return exp.Neg(this=paren(analysis.wide(inner, kind))), kind


def division(analysis: Analysis, node: exp.Binary) -> Pair:
    left, right = analysis.number(node.left, "/"), analysis.number(node.right, "/")
    return exp.Div(
        this=paren(analysis.double(left)), expression=nullif_zero(analysis.double(right))
    ), Kind.FLOAT


def modulo(analysis: Analysis, node: exp.Binary) -> Pair:
    left, right = analysis.number(node.left, "%"), analysis.number(node.right, "%")
    return exp.Mod(
        this=paren(analysis.wide(*left)), expression=nullif_zero(analysis.wide(*right))
    ), wider(left[1], right[1])


def absolute(analysis: Analysis, node: exp.Expr) -> Pair:
    inner, kind = analysis.number(node.this, "ABS")
    return exp.Abs(this=analysis.wide(inner, kind)), kind


def rounding(analysis: Analysis, node: exp.Expr) -> Pair:
    name = type(node).__name__.upper()
    inner = analysis.double(analysis.number(node.this, name))
    result = type(node)(this=inner)
    if node.args.get("to"):
        raise analysis.fail(f"{name} takes no TO")
    decimals = node.args.get("decimals")
    if decimals is not None:
        if not isinstance(node, exp.Round):
            raise analysis.fail(f"{name} takes one argument")
        if not (isinstance(decimals, exp.Literal) and decimals.is_int):
            raise analysis.fail(f"{name} takes a whole number of decimals")
        result.set("decimals", decimals.copy())
    return result, Kind.FLOAT


def floating(analysis: Analysis, node: exp.Expr) -> Pair:
    name = type(node).__name__.upper()
    return type(node)(this=analysis.double(analysis.number(node.this, name))), Kind.FLOAT


def power(analysis: Analysis, node: exp.Expr) -> Pair:
    base, exponent = (
        analysis.double(analysis.number(n, "POWER")) for n in (node.this, node.expression)
    )
    return exp.Pow(this=base, expression=exponent), Kind.FLOAT
