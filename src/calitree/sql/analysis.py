"""One pass over one parsed expression: names are resolved, kinds found, and rules write it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.nodes import cast, column, display, wider
from calitree.types import Kind


class Resolved(NamedTuple):
    """What a column name stands for: its attribute, the relations it may be read from, its kind."""

    attribute: str
    owners: tuple[str, ...]
    kind: Kind


Resolver = Callable[[str | None, str], Resolved]
"""Given the table (or None) and the name of a column as written, tell what it is."""

Pair = tuple[exp.Expr, Kind]
"""An expression as it was written out, and its kind."""

Rule = tuple[tuple[type[exp.Expr], ...], Callable[["Analysis", Any], Pair]]
"""For some classes of nodes, the function that types one of them and writes it out."""

_AS_WIDE_AS_ITS_COLUMNS = (
    exp.Column,
    exp.Case,
    exp.Coalesce,
    exp.Greatest,
    exp.Least,
    exp.Nullif,
)

_UNDERSTOOD = frozenset(
    [
        "this",
        "expression",
        "expressions",
        "ifs",
        "default",
        "true",
        "false",
        "low",
        "high",
        "decimals",
        "start",
        "length",
        "unit",
        "to",
        "typed",
        "safe",
        "big_int",
        "ignore_nulls",
        "_type",
        "negate",
        "query",
        "unnest",
    ]
)


class Analysis:
    """One bottom-up pass over one parsed expression: resolve, type, normalise."""

    def __init__(self, resolve: Resolver, whole: exp.Expr, rules: Sequence[Rule]) -> None:
        self.resolve, self.whole, self.rules = resolve, whole, rules

    def fail(self, reason: str) -> ExpressionError:
        return ExpressionError(f"In {self.whole.sql()!r}: {reason}.")

    def normal(self, node: exp.Expr) -> Pair:
        try:
            result, kind = self._normal(node)
        except ExpressionError as error:
            text = str(error)
            raise error if text.endswith((".", "?")) else self.fail(text) from None
        result.meta["kind"] = kind
        return result, kind

    def number(self, node: exp.Expr, what: str) -> Pair:
        result, kind = self.normal(node)
        if not (kind.is_number or kind is Kind.NULL):
            raise self.fail(f"{what} needs a number, but {node.sql()} is {kind.phrase}")
        return result, kind

    def string(self, node: exp.Expr, what: str) -> exp.Expr:
        result, kind = self.normal(node)
        if kind not in (Kind.STRING, Kind.NULL):
            raise self.fail(f"{what} needs text, but {node.sql()} is {kind.phrase}")
        return result

    def boolean(self, node: exp.Expr, what: str) -> exp.Expr:
        result, kind = self.normal(node)
        if kind not in (Kind.BOOLEAN, Kind.NULL):
            raise self.fail(f"{what} needs a condition, but {node.sql()} is {kind.phrase}")
        return result

    def wide(self, node: exp.Expr, kind: Kind) -> exp.Expr:
        """An operand of 64-bit arithmetic; only a column, or a choice among some, can be narrower."""
        if kind is Kind.INTEGER and isinstance(node, _AS_WIDE_AS_ITS_COLUMNS):
            return cast(node, kind)
        return node

    def double(self, pair: Pair) -> exp.Expr:
        return pair[0] if pair[1] is Kind.FLOAT else cast(pair[0], Kind.FLOAT)

    def alike(self, left: Pair, right: Pair) -> tuple[exp.Expr, exp.Expr]:
        """Two sides of a comparison, brought to one kind."""
        (a, ka), (b, kb) = left, right
        if ka.is_temporal and isinstance(b, exp.Literal) and b.is_string:
            b, kb = self.moment(b, ka), ka
        elif kb.is_temporal and isinstance(a, exp.Literal) and a.is_string:
            a, ka = self.moment(a, kb), kb
        if ka.is_temporal and kb.is_temporal and ka is not kb:
            kind = wider(ka, kb)
            a, b = (a if ka is kind else cast(a, kind)), (b if kb is kind else cast(b, kind))
            return a, b
        if not ka.meets(kb):
            raise self.fail(
                f"cannot compare {display(a)} ({ka.phrase}) with {display(b)} ({kb.phrase})"
            )
        return a, b

    def moment(self, literal: exp.Literal, kind: Kind) -> exp.Expr:
        """A quoted date or timestamp; what is none is told now, not when rows are read."""
        try:
            datetime.fromisoformat(literal.name.strip())
        except ValueError:
            raise self.fail(
                f"'{literal.name}' is not {kind.phrase}; write 2024-01-31 or 2024-01-31 12:30:00"
            ) from None
        return cast(literal, kind)

    def of_one_kind(self, pairs: list[Pair]) -> tuple[list[exp.Expr], Kind]:
        """Values that one column may hold. Engines agree on mixed numbers, but not on mixed times."""
        kind = reduce(wider, (each for _, each in pairs), Kind.NULL)
        mixed = {each for _, each in pairs if each.is_temporal} - {kind}
        return [cast(node, kind) if each in mixed else node for node, each in pairs], kind

    def _normal(self, node: exp.Expr) -> Pair:
        if isinstance(node, exp.Paren):
            return self.normal(node.this)
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise self.fail("* stands for no single column")
            if node.args.get("db") is not None:
                raise self.fail(f"write {node.sql()} as relation.column")
            found = self.resolve(node.table or None, node.name)
            written = f"{node.table}.{node.name}" if node.table else node.name
            return column(found.attribute, found.owners, written), found.kind
        if isinstance(node, exp.Literal):
            if node.is_string:
                return node.copy(), Kind.STRING
            text = node.name.lower()
            if "e" in text:
                return node.copy(), Kind.FLOAT
            return node.copy(), Kind.DECIMAL if "." in text else Kind.INTEGER
        if isinstance(node, exp.Boolean):
            return node.copy(), Kind.BOOLEAN
        if isinstance(node, exp.Null):
            return node.copy(), Kind.NULL
        for classes, rule in self.rules:
            if isinstance(node, classes):
                self.refuse_unknown_options(node)
                return rule(self, node)
        if isinstance(node, exp.AggFunc):
            raise self.fail(f"{node.sql()} is an aggregate; aggregates belong in measures")
        if isinstance(node, exp.Anonymous):
            raise self.fail(f"there is no function {node.name}")
        raise self.fail(f"{node.sql()} is not supported here")

    def refuse_unknown_options(self, node: exp.Expr) -> None:
        """A modifier we would not carry over (ESCAPE, SYMMETRIC, …) must never be dropped silently."""
        for option, value in node.args.items():
            if value not in (None, False, []) and option not in _UNDERSTOOD:
                raise self.fail(f"{option.upper()} in {node.sql()} is not supported")
