"""Rules for what takes operands of fixed kinds."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair, Rule
from calitree.sql.nodes import name_of, paren
from calitree.types import Kind


def function(*kinds: Kind, result: Kind) -> Rule:
    """The rule of a function whose one or two operands are of these kinds."""
    keys = ("this", "expression")[: len(kinds)]

    def rule(analysis: Analysis, node: exp.Expr) -> Pair:
        return type(node)(
            **{
                key: analysis.operand(node.args[key], kind, name_of(node))
                for key, kind in zip(keys, kinds, strict=True)
            }
        ), result

    return rule


def operator(*kinds: Kind, result: Kind) -> Rule:
    """The same for an operator: operands that are operators themselves are put in parentheses."""
    plain = function(*kinds, result=result)

    def rule(analysis: Analysis, node: exp.Expr) -> Pair:
        canonical, kind = plain(analysis, node)
        for key, operand in canonical.args.items():
            canonical.set(key, paren(operand))
        return canonical, kind

    return rule
