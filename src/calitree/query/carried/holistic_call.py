"""The call of an aggregate whose arguments are carried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.query.carried.fold import Fold, Option
from calitree.sql.nodes import sql_text
from calitree.sql.parser import Expression
from calitree.sql.parsing.literal_lists import with_values
from calitree.types import Kind


class HolisticCall(NamedTuple):
    """A call as it was parsed: its arguments, whether they are distinct, and how they are ordered."""

    name: str
    arguments: list[exp.Expr]
    distinct: bool
    descending: bool
    scalar: Callable[[exp.Expr], Expression]

    def kind(self, at: int = 0) -> Kind:
        """The kind of an argument, of which there must be one."""
        if len(self.arguments) <= at:
            raise ExpressionError(f"{self.name} takes {at + 1} argument{'s' if at else ''}")
        return self.scalar(self.arguments[at]).kind

    def fold(self, function: str, carried: int = 1, options: tuple[Option, ...] = ()) -> Fold:
        """A fold of the first arguments."""
        for at in range(carried):
            self.kind(at)
        texts = tuple(map(text_of, self.arguments[:carried]))
        return Fold(function, texts, distinct=self.distinct, options=options)


class Holistic(NamedTuple):
    """A fold, and the kind of what it gives."""

    fold: Fold
    kind: Kind


Rule = Callable[[HolisticCall], Holistic]


def text_of(node: exp.Expr) -> str:
    """A parsed node as text that is parsed to the same again."""
    return sql_text(with_values(node))


def class_of(call: exp.Expr) -> str:
    """The key of a call in the tables of aggregates."""
    if isinstance(call, exp.AnonymousAggFunc):
        return str(call.this)
    return type(call).__name__


def parsed_call(
    call: exp.Expr, name: str, scalar: Callable[[exp.Expr], Expression]
) -> HolisticCall:
    """The arguments of a call, without DISTINCT and ORDER BY."""
    given: Sequence[exp.Expr] = (
        call.expressions
        if isinstance(call, exp.AnonymousAggFunc)
        else list(call.iter_expressions())
    )
    arguments, distinct, descending = list(given), False, False
    if arguments and isinstance(arguments[0], exp.Order):
        descending = _descending(arguments[0], name)
        arguments[0] = arguments[0].this
    if arguments and isinstance(arguments[0], exp.Distinct):
        distinct = True
        arguments[:1] = arguments[0].expressions
    return HolisticCall(name.upper(), arguments, distinct, descending, scalar)


def _descending(order: exp.Order, name: str) -> bool:
    """The order of the listed values, which is by themselves."""
    listed = order.this.expressions if isinstance(order.this, exp.Distinct) else [order.this]
    keys = order.expressions
    if len(keys) != 1 or len(listed) != 1 or keys[0].this != listed[0]:
        raise ExpressionError(f"{name.upper()} can be ordered by its own values only")
    if name not in ("list", "string_agg"):
        raise ExpressionError(f"{name.upper()} takes no ORDER BY")
    return bool(keys[0].args.get("desc"))
