"""The tables that a FROM clause lists and joins."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp


def tables_of(select: exp.Select) -> list[exp.Expr]:
    """All that FROM lists and joins, those in parentheses included."""
    begin = select.args.get("from_")
    if begin is None:
        return []
    joins = select.args.get("joins") or []
    return [
        table for node in (begin.this, *(join.this for join in joins)) for table in _operands(node)
    ]


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    inner = node.this if isinstance(node, exp.Subquery) else node
    if isinstance(inner, exp.Table):
        yield inner
        for join in inner.args.get("joins") or []:
            yield from _operands(join.this)
    else:
        yield node
