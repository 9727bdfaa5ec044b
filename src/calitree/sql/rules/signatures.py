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


def call(*kinds: Kind, result: Kind, optional: int = 0) -> Rule:
    """The rule of a function by name, with arguments of these kinds; so many of the last may be missing."""

    def rule(analysis: Analysis, node: exp.Expr) -> Pair:
        name, given = node.name.upper(), node.expressions
        check_count(analysis, node, len(kinds) - optional, len(kinds))
        operands = [
            analysis.operand(argument, kind, name)
            for argument, kind in zip(given, kinds, strict=False)
        ]
        return exp.Anonymous(this=name, expressions=operands), result

    return rule


def check_count(analysis: Analysis, node: exp.Expr, least: int, most: int) -> None:
    """Refuse a call with too few or too many arguments."""
    if not least <= len(node.expressions) <= most:
        needed = str(least) if least == most else f"{least} to {most}"
        raise analysis.fail(
            f"{node.name.upper()} takes {needed} arguments, not {len(node.expressions)}"
        )
