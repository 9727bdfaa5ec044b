"""Splitting choices across relations: disjoint pieces of the joined rows.

`sum(CASE WHEN a.p THEN b.y ELSE 0 END)` is the sum of b.y over the rows where a.p is true, and of 0 over
the others. In each piece nothing is chosen any more, and each of its conditions is of one relation. So is
`FILTER (WHERE a.p OR b.q)` split: into the rows where a.p is true, and those where it is not and b.q is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.query.monomials import mixed
from calitree.sql.nodes import display, marked, not_null, owners, paren
from calitree.types import Kind

MAX_PIECES = 64
"""Of one aggregate."""

Conditions = list[exp.Expr]
"""That all are true."""


class RowPiece(NamedTuple):
    """The arguments of an aggregate as they are where all filters are true."""

    arguments: tuple[exp.Expr, ...]
    filters: tuple[exp.Expr, ...]


def pieces_of(arguments: Sequence[exp.Expr], filters: Sequence[exp.Expr]) -> list[RowPiece]:
    """Disjoint pieces of the rows where all filters are true; one if nothing is to be split."""
    pieces = [RowPiece(tuple(arguments), ())]
    for condition in filters:
        pieces = [
            RowPiece(given, (*before, *conditions))
            for given, before in pieces
            for conditions in _where_true(condition)
        ]
    split: list[RowPiece] = []
    while pieces:
        piece = pieces.pop(0)
        choice = next(filter(None, map(_choice, piece.arguments)), None)
        if choice is None:
            split.append(piece)
        else:
            pieces[:0] = _alternatives(piece, choice)
        if len(pieces) + len(split) > MAX_PIECES:
            raise ExpressionError(
                f"{display(arguments[0])} is split into more than {MAX_PIECES} cases by relation; "
                "use fewer branches"
            )
    return split


def _choice(node: exp.Expr) -> exp.Expr | None:
    """A part that chooses between values of several relations, the outermost."""
    if owners(node) != frozenset():
        return None
    if isinstance(node, exp.Case | exp.Coalesce):
        return node
    return next(filter(None, map(_choice, node.iter_expressions())), None)


def _alternatives(piece: RowPiece, choice: exp.Expr) -> list[RowPiece]:
    """The pieces of a piece, in each of which one value is chosen."""
    pieces, before = [], [list(piece.filters)]
    for condition, value in _branches(choice):
        at = before if condition is None else _both(before, _where_true(condition))
        arguments = tuple(_with(argument, choice, value) for argument in piece.arguments)
        pieces += [RowPiece(arguments, tuple(filters)) for filters in at]
        if condition is not None:
            before = _both(before, _where_not_true(condition))
    return pieces


def _branches(choice: exp.Expr) -> list[tuple[exp.Expr | None, exp.Expr]]:
    """The conditions of a choice in their order, each with the value it leads to; None for the last."""
    if isinstance(choice, exp.Case):
        branches: list[tuple[exp.Expr | None, exp.Expr]] = [
            (branch.this, branch.args["true"]) for branch in choice.args["ifs"]
        ]
        default = choice.args.get("default") or marked(exp.Null(), Kind.NULL)
        return [*branches, (None, default)]
    *values, last = (choice.this, *choice.expressions)
    return [*((not_null(value), value) for value in values), (None, last)]


def _with(node: exp.Expr, choice: exp.Expr, value: exp.Expr) -> exp.Expr:
    def swap(part: exp.Expr) -> exp.Expr:
        return paren(value.copy()) if part == choice else part

    return node.copy().transform(swap)


def _where_true(condition: exp.Expr) -> list[Conditions]:
    """Disjoint conjunctions, one of which holds where the condition is true."""
    if isinstance(condition, exp.Paren):
        return _where_true(condition.this)
    if owners(condition) != frozenset():
        return [[condition]]
    if isinstance(condition, exp.And):
        return _both(_where_true(condition.left), _where_true(condition.right))
    if isinstance(condition, exp.Or):
        first, second = condition.left, condition.right
        return _where_true(first) + _both(_where_not_true(first), _where_true(second))
    return _where_true(_negated(condition))


def _where_not_true(condition: exp.Expr) -> list[Conditions]:
    """Disjoint conjunctions, one of which holds where the condition is false or NULL."""
    if isinstance(condition, exp.Paren):
        return _where_not_true(condition.this)
    if owners(condition) != frozenset():
        is_true = exp.Is(this=paren(condition.copy()), expression=exp.true())
        return [[marked(exp.Not(this=exp.Paren(this=is_true)), Kind.BOOLEAN)]]
    if isinstance(condition, exp.And):
        first, second = condition.left, condition.right
        return _where_not_true(first) + _both(_where_true(first), _where_not_true(second))
    if isinstance(condition, exp.Or):
        return _both(_where_not_true(condition.left), _where_not_true(condition.right))
    return _where_not_true(_negated(condition))


def _negated(condition: exp.Expr) -> exp.Expr:
    """NOT of AND, OR or NOT, written without the outer NOT."""
    inner: exp.Expr = condition.this if isinstance(condition, exp.Not) else condition
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(condition, exp.Not):
        if isinstance(inner, exp.Not):
            innermost: exp.Expr = inner.this
            return innermost
        if isinstance(inner, exp.And | exp.Or):
            other = exp.Or if isinstance(inner, exp.And) else exp.And
            left, right = (_not(side) for side in (inner.left, inner.right))
            return marked(other(this=left, expression=right), Kind.BOOLEAN)
    raise mixed(condition)


def _not(condition: exp.Expr) -> exp.Expr:
    return marked(exp.Not(this=paren(condition.copy())), Kind.BOOLEAN)


def _both(first: Sequence[Conditions], second: Sequence[Conditions]) -> list[Conditions]:
    product = [[*a, *b] for a in first for b in second]
    if len(product) > MAX_PIECES:
        raise ExpressionError(f"a condition has more than {MAX_PIECES} cases by relation")
    return product
