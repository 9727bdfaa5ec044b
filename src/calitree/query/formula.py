"""Formulas over aggregates: any scalar expression, with aggregates in the place of columns.

`round(avg(x), 1)` is typed by the same rules as `round(price, 1)`. Of every aggregate there is its value as
a formula over what the tree sums up, and itself as plain SQL; a formula over some is made of both alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.analysis import Resolved
from calitree.sql.nodes import kind_of, paren, quoted_sql, sql_text
from calitree.sql.parser import typed
from calitree.sql.rules.conversions import is_widened

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg)
"""Exact up to 38 digits between aggregates, which may be wider than 64 bits."""


Rule = TypeVar("Rule")


class AggregateFunction(NamedTuple, Generic[Rule]):
    """An aggregate that formulas may have: a row of one of the tables that define them."""

    usage: str
    """How it is written, as in `quantile_cont(x, q)`."""
    about: str
    """What it gives, in one line."""
    rule: Rule
    """What a call of it means."""

    @property
    def name(self) -> str:
        """Its name, as users write it."""
        return self.usage.partition("(")[0]


class Formula(NamedTuple):
    """A formula as it is computed from sums, and as plain SQL."""

    final: exp.Expr
    plain: exp.Expr


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is the call of an aggregate, perhaps with FILTER."""
    return isinstance(node, exp.Filter | exp.AggFunc)


def scalar_formula(node: exp.Expr, formula: Callable[[exp.Expr], Formula]) -> Formula:
    """A function of aggregates, given how aggregates and arithmetic over them are compiled."""
    parts: dict[str, Formula] = {}

    def placed(part: exp.Expr) -> exp.Expr:
        """A column that is called as the aggregate is written."""
        if isinstance(part, exp.Column):
            raise outside(part)
        if part is root or not (is_aggregate(part) or isinstance(part, ARITHMETIC)):
            return part
        if not part.find(exp.AggFunc):
            return part
        text = sql_text(part)
        parts[text] = formula(part)
        return exp.Column(this=exp.Identifier(this=text, quoted=False))

    root = node.copy()
    shown = root.transform(placed, copy=False)

    def resolve(table: str | None, name: str) -> Resolved:
        return Resolved(name, (), kind_of(parts[name].final))

    canonical = typed(shown, resolve).node
    return Formula(
        *(_filled(canonical, {text: part[at] for text, part in parts.items()}) for at in (0, 1))
    )


def _filled(node: exp.Expr, values: dict[str, exp.Expr]) -> exp.Expr:
    """A formula with values for its columns. These are of 64 bits or more already."""

    def swap(part: exp.Expr) -> exp.Expr:
        named = part.this if isinstance(part, exp.Cast) and is_widened(part) else part
        if isinstance(named, exp.Column) and named.name in values:
            return paren(values[named.name].copy())
        return part

    return node.copy().transform(swap)


def outside(node: exp.Column) -> ExpressionError:
    """What is wrong with a column that no aggregate has as its argument."""
    text = quoted_sql(node)
    return ExpressionError(
        f"{text} stands outside of an aggregate; write sum({text}) or group by it"
    )
