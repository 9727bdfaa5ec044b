"""One bottom-up pass over a parsed expression: names are resolved, kinds inferred, nodes rewritten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from sqlglot import exp

from calitree.errors import ExpressionError, cut, did_you_mean, shortened
from calitree.sql.constants import EXAMPLES, constant
from calitree.sql.limits import MAX_NODES
from calitree.sql.nodes import (
    cast,
    check_literal,
    column,
    display,
    double,
    key_of,
    literal_kind,
    quoted_sql,
    sql_text,
    wider,
)
from calitree.types import Kind


class Resolved(NamedTuple):
    """What a column name stands for: its attribute, the relations it may be read from, its kind."""

    attribute: str
    owners: tuple[str, ...]
    kind: Kind


Resolver = Callable[[str | None, str], Resolved]
"""Resolves a column, given its table (or None) and its name as written."""

Pair = tuple[exp.Expr, Kind]
"""An expression in canonical form, and its kind."""

Rule = Callable[["Analysis", Any], Pair]
"""Types a parsed node and gives its canonical form."""


Rules = Mapping[type[exp.Expr] | str, Rule]
"""By the class of the node, or by the name of the function (`calitree.sql.nodes.key_of`)."""

_PHRASES = {
    Kind.FLOAT: "a number",
    Kind.INTEGER: "a whole number",
    Kind.STRING: "text",
    Kind.BOOLEAN: "a condition",
}

_KNOWN_OPTIONS = frozenset(
    (  # noqa: SIM905 - a list would have one line an option
        "this expression expressions ifs default true false low high decimals start length unit to"
        " typed safe big_int ignore_nulls _type negate query unnest min_value max_value num_buckets"
        " substr position"
    ).split()
)


class Analysis:
    """The pass over one expression, by the rules for the classes of its nodes."""

    def __init__(self, resolve: Resolver, whole: exp.Expr, rules: Rules) -> None:
        self.resolve, self.whole, self.rules = resolve, whole, rules
        self.nodes = 0

    def fail(self, reason: str) -> ExpressionError:
        """The error to raise for a reason."""
        return ExpressionError(f"In {shortened(sql_text(self.whole))}: {reason}.")

    def normal(self, node: exp.Expr) -> Pair:
        """The canonical form of a parsed node, which remembers its kind."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.fail(f"written out, it has more than {MAX_NODES:,} operators and operands")
        while isinstance(node, exp.Paren) and not node.meta.get("plus"):
            node = node.this
        try:
            result, kind = self._normal(node)
        except ExpressionError as error:
            text = str(error)
            raise error if text.endswith((".", "?")) else self.fail(text) from None
        result.meta["kind"] = kind
        return result, kind

    def number(self, node: exp.Expr | None, name: str) -> Pair:
        """An operand that must be a number; `name` is the function's or operator's."""
        if node is None:
            raise self.fail(f"{name} needs a number")
        result, kind = self.normal(node)
        self.check(node, kind, Kind.FLOAT, name)
        return result, kind

    def operand(self, node: exp.Expr, kind: Kind, name: str) -> exp.Expr:
        """An operand of a fixed kind: text, a condition, or any number as a double."""
        if kind is Kind.FLOAT:
            return double(*self.number(node, name))
        result, actual = self.normal(node)
        self.check(node, actual, kind, name)
        return result

    def check(self, node: exp.Expr, kind: Kind, needed: Kind, name: str) -> None:
        """Refuse an operand that is not of the kind that is needed; FLOAT is any number."""
        suits = kind.is_number if needed is Kind.FLOAT else kind is needed
        if not (suits or kind is Kind.NULL):
            raise self.fail(
                f"{name} needs {_PHRASES[needed]}, but {quoted_sql(node)} is {kind.phrase}"
            )

    def alike(self, left: Pair, right: Pair) -> list[exp.Expr]:
        """Two sides of a comparison, brought to one kind."""
        (a, ka), (b, kb) = left, right
        if isinstance(b, exp.Literal) and b.is_string:
            b, kb = self._read(b, ka)
        elif isinstance(a, exp.Literal) and a.is_string:
            a, ka = self._read(a, kb)
        if ka.is_temporal and kb.is_temporal:
            return self.of_one_kind([(a, ka), (b, kb)])[0]
        if not ka.meets(kb):
            raise self.fail(
                f"cannot compare {cut(display(a))} ({ka.phrase}) with {cut(display(b))} ({kb.phrase})"
            )
        return [a, b]

    def _read(self, literal: exp.Literal, kind: Kind) -> Pair:
        """Quoted text as a constant of the kind that it is compared with."""
        if kind.is_temporal:
            return self._temporal(literal, kind), kind
        if kind in EXAMPLES:
            return self.constant(literal.name, kind), kind
        return literal, Kind.STRING

    def constant(self, text: str, kind: Kind) -> exp.Expr:
        """A constant time, duration or bytes."""
        try:
            return constant(text, kind)
        except ValueError:
            raise self.fail(f"{shortened(text)} is not {kind.phrase}; {EXAMPLES[kind]}") from None

    def _temporal(self, literal: exp.Literal, kind: Kind) -> exp.Expr:
        """A quoted date or timestamp. Other text is an error now, not when rows are read."""
        try:
            datetime.fromisoformat(literal.name.strip())
        except ValueError:
            raise self.fail(
                f"{shortened(literal.name)} is not {kind.phrase}; write 2024-01-31 or 2024-01-31 12:30:00"
            ) from None
        return cast(literal, kind)

    def of_one_kind(self, pairs: list[Pair]) -> tuple[list[exp.Expr], Kind]:
        """Values that one column may hold. Engines agree on mixed numbers, but not on mixed times."""
        common = reduce(wider, (kind for _, kind in pairs), Kind.NULL)
        return [
            cast(node, common) if kind.is_temporal and kind is not common else node
            for node, kind in pairs
        ], common

    def _normal(self, node: exp.Expr) -> Pair:
        if isinstance(node, exp.Paren):
            return self.number(node.this, "+")
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
            check_literal(node)
            return type(node)(**node.args), literal_kind(node)  # without the place in the text
        rule = self.rules.get(key_of(node))
        if rule is not None:
            self._refuse_unknown_options(node)
            return rule(self, node)
        if isinstance(node, exp.AggFunc):
            raise self.fail(f"{quoted_sql(node)} is an aggregate; aggregates belong in measures")
        if isinstance(node, exp.Anonymous):
            names = [n.lower() for n in self.rules if isinstance(n, str) and n[0] != "$"]
            raise ExpressionError(
                f"In {shortened(sql_text(self.whole))}: there is no function {node.name}."
                f"{did_you_mean(node.name.lower(), names)} `calitree functions` lists all."
            )
        raise self.fail(f"{quoted_sql(node)} is not supported here")

    def _column(self, node: exp.Column) -> Pair:
        if isinstance(node.this, exp.Star):
            raise self.fail("* stands for no single column")
        if node.args.get("db") is not None:
            raise self.fail(f"write {quoted_sql(node)} as relation.column")
        attribute, owners, kind = self.resolve(node.table or None, node.name)
        written = f"{node.table}.{node.name}" if node.table else node.name
        return column(attribute, owners, written), kind

    def _refuse_unknown_options(self, node: exp.Expr) -> None:
        """A modifier that the rules do not know (ESCAPE, SYMMETRIC, …) must not be ignored."""
        for option, value in node.args.items():
            if value not in (None, False, []) and option not in _KNOWN_OPTIONS:
                raise self.fail(f"{option.upper()} in {quoted_sql(node)} is not supported")
