"""One of several values: CASE, COALESCE and the like."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import kind_of
from calitree.types import Kind


def case(analysis: Analysis, node: exp.Expr) -> Pair:
    """CASE; one with a subject compares it in every branch."""
    conditions, values = [], []
    subject = node.args.get("this")
    for branch in node.args["ifs"]:
        condition = branch.this
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition.copy())
        conditions.append(analysis.operand(condition, Kind.BOOLEAN, "WHEN"))
        values.append(analysis.normal(branch.args["true"]))
    default = node.args.get("default")
    values.append(analysis.normal(default if default is not None else exp.Null()))
    (*chosen, other), kind = analysis.of_one_kind(values)
    branches = [
        exp.If(this=condition, true=value)
        for condition, value in zip(conditions, chosen, strict=True)
    ]
    return exp.Case(ifs=branches, default=other), kind


def if_(analysis: Analysis, node: exp.Expr) -> Pair:
    """IF as a CASE of one branch."""
    branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
    default = node.args.get("false")
    return case(analysis, exp.Case(ifs=[branch], default=default.copy() if default else None))


def several(analysis: Analysis, node: exp.Expr) -> Pair:
    """COALESCE, GREATEST, LEAST: one kind for all arguments."""
    first = node.this
    arguments = [first, *node.expressions] if first is not None else list(node.expressions)
    nodes, kind = analysis.of_one_kind([analysis.normal(argument) for argument in arguments])
    result = type(node)(this=nodes[0], expressions=nodes[1:])
    if not isinstance(node, exp.Coalesce):
        result.set("ignore_nulls", True)
    return result, kind


def nullif(analysis: Analysis, node: exp.Expr) -> Pair:
    """NULLIF, of the kind of its first argument."""
    left, right = analysis.normal(node.this), analysis.normal(node.expression)
    a, b = analysis.alike(left, right)
    if kind_of(a) is left[1]:
        return exp.Nullif(this=a, expression=b), left[1]
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    return case(analysis, exp.Case(ifs=[exp.If(this=equal, true=exp.Null())], default=node.this))
