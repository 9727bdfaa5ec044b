"""What is true, false or NULL."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import kind_of, paren
from calitree.types import Kind


def comparison(analysis: Analysis, node: exp.Binary) -> Pair:
    a, b = analysis.alike(analysis.normal(node.left), analysis.normal(node.right))
    return type(node)(this=paren(a), expression=paren(b)), Kind.BOOLEAN


def connective(analysis: Analysis, node: exp.Binary) -> Pair:
    word = type(node).__name__.upper()
    sides = [analysis.boolean(side, word) for side in (node.left, node.right)]
    return type(node)(this=paren(sides[0]), expression=paren(sides[1])), Kind.BOOLEAN


def negated(analysis: Analysis, node: exp.Expr) -> Pair:
    return exp.Not(this=paren(analysis.boolean(node.this, "NOT"))), Kind.BOOLEAN


def is_(analysis: Analysis, node: exp.Expr) -> Pair:
    inner, kind = analysis.normal(node.this)
    if isinstance(node.expression, exp.Boolean) and kind not in (Kind.BOOLEAN, Kind.NULL):
        raise analysis.fail(f"IS {node.expression.sql()} needs a condition")
    if not isinstance(node.expression, exp.Boolean | exp.Null):
        raise analysis.fail(f"{node.sql()} is not supported here")
    return exp.Is(this=paren(inner), expression=node.expression.copy()), Kind.BOOLEAN


def in_(analysis: Analysis, node: exp.Expr) -> Pair:
    if node.args.get("query") or node.args.get("unnest"):
        raise analysis.fail("IN takes a list of values here, not a query")
    this = analysis.normal(node.this)
    if not node.expressions:
        raise analysis.fail("IN needs at least one value")
    values = [analysis.normal(each) for each in node.expressions]
    for value in values:  # a date, or quoted text, among timestamps becomes one
        needle = analysis.alike(this, value)[0]
        this = needle, kind_of(needle)
    items: dict[str, exp.Expr] = {}
    for value in values:
        item = analysis.alike(this, value)[1]
        items[item.sql()] = item
    ordered = [items[key] for key in sorted(items)]
    return exp.In(this=paren(this[0]), expressions=ordered), Kind.BOOLEAN


def between(analysis: Analysis, node: exp.Expr) -> Pair:
    ge = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    le = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return connective(analysis, exp.And(this=ge, expression=le))


def like(analysis: Analysis, node: exp.Expr) -> Pair:
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise analysis.fail("LIKE takes a quoted pattern")
    result = type(node)(this=analysis.string(node.this, "LIKE"), expression=pattern.copy())
    return exp.Not(this=paren(result)) if node.args.get("negate") else result, Kind.BOOLEAN
