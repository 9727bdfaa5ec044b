"""Values for the parameters of a statement: `$name`, `:name`, `?` and `$1`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from sqlglot import exp

from calitree.apps.select.grammar import refused
from calitree.errors import StatementError, did_you_mean

Parameters = Mapping[str, Any] | Sequence[Any]


def bind_parameters(statement: exp.Query, given: Parameters) -> exp.Query:
    """The statement with values in place of its parameters. They are nodes of the tree, and never text.

    Raises:
        StatementError: A parameter has no value, a value no parameter, or is of a type that SQL has not.
    """
    by_name = dict(given) if isinstance(given, Mapping) else {}
    in_order = [] if isinstance(given, Mapping) else list(given)
    used: set[str | int] = set()

    def bound(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Parameter | exp.Placeholder):
            return node
        name = node.name
        if name.isdigit():
            at = int(name) - 1
            if not 0 <= at < len(in_order):
                raise refused("parameters", f"Parameter {at + 1} has no value.", node)
            used.add(at)
            return literal_of(in_order[at], f"Parameter {at + 1}")
        if name not in by_name:
            hint = did_you_mean(name, by_name)
            raise refused("parameters", f"Parameter {name!r} has no value.{hint}", node)
        used.add(name)
        return literal_of(by_name[name], f"Parameter {name!r}")

    result = statement.copy().transform(bound)
    unused = [name for name in by_name if name not in used]
    unused += [str(at + 1) for at in range(len(in_order)) if at not in used]
    if unused:
        raise StatementError(f"The statement has no parameter {unused[0]!r}.", "parameters")
    assert isinstance(result, exp.Query)
    return result


def literal_of(value: Any, what: str) -> exp.Expr:
    """A value as a node."""
    if hasattr(value, "item") and not isinstance(value, date):
        value = value.item()  # of NumPy, or of an array of one
    for kind, node in _NODES.items():
        if isinstance(value, kind):
            return node(value)
    if isinstance(value, list | tuple | set | frozenset):
        return exp.Tuple(expressions=[literal_of(one, what) for one in value])
    raise StatementError(
        f"{what} is of the type {type(value).__name__}, which SQL has no value for.", "parameters"
    )


def _float(value: float) -> exp.Expr:
    if math.isfinite(value):
        return exp.cast(_signed(repr(abs(value)), value < 0), "DOUBLE")
    return exp.cast(exp.Literal.string(str(value)), "DOUBLE")


def _decimal(value: Decimal) -> exp.Expr:
    if not value.is_finite():
        return _float(float(value))
    return _signed(f"{abs(value):f}", value < 0)


def _timestamp(value: datetime) -> exp.Expr:
    dtype = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    return exp.cast(exp.Literal.string(value.isoformat(" ")), dtype)


_NODES: dict[type, Callable[[Any], exp.Expr]] = {
    type(None): lambda _: exp.Null(),
    bool: lambda value: exp.true() if value else exp.false(),
    str: exp.Literal.string,
    int: lambda value: _signed(str(abs(value)), value < 0),
    float: _float,
    Decimal: _decimal,
    datetime: _timestamp,
    date: lambda value: exp.cast(exp.Literal.string(value.isoformat()), "DATE"),
    time: lambda value: exp.cast(exp.Literal.string(value.isoformat()), "TIME"),
}
"""By type; the first that fits: a bool is an int too, and a datetime a date."""


def _signed(text: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(text)
    return exp.Neg(this=number) if negative else number
