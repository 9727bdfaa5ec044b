"""Expressions in the place of columns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from calitree.sql.limits import on_deep_stack
from calitree.sql.nodes import column, marked, paren
from calitree.sql.parser import Expression, expression_of
from calitree.types import Kind


@on_deep_stack
def substituted(expression: Expression, definitions: Mapping[str, Expression]) -> Expression:
    """The expression with these definitions in the place of columns; it reads as it was written.

    >>> price = reference("price", (), Kind.INTEGER)
    >>> substituted(price, {"price": reference("sales.price", (), Kind.INTEGER)}).sql
    '"sales.price"'
    """
    if definitions.keys().isdisjoint(expression.attributes):
        return expression

    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in definitions:
            return paren(definitions[node.name].node.copy())
        return node

    return expression_of(expression.node.copy().transform(swap), expression.text)


def reference(name: str, owners: tuple[str, ...], kind: Kind, written: str = "") -> Expression:
    """A column by itself."""
    return expression_of(marked(column(name, owners, written), kind))
