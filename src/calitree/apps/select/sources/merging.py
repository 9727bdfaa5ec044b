"""Queries in FROM that only choose and rename columns, made part of the SELECT around them.

`SELECT y, sum(v) FROM (SELECT year(day) AS y, price * qty AS v FROM wide WHERE …) GROUP BY y` groups rows of
the join. The rows of the query in FROM are never listed: its columns are what they stand for.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.sql.parser import conjuncts

OTHER_ROWS = ("group", "having", "distinct", "limit", "offset", "qualify", "with_", "order")
"""Clauses that make other rows of rows, or sort them."""


def lists_rows(query: exp.Expr) -> bool:
    """Whether a query only chooses columns of the rows of its tables."""
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in OTHER_ROWS):
        return False
    if query.args.get("from_") is None:
        return False
    return not any(
        isinstance(part, exp.AggFunc | exp.Window | exp.Star | exp.Values)
        for item in query.expressions
        for part in own_parts(item)
    )


def with_merged(select: exp.Select) -> exp.Select:
    """The SELECT over the tables of the query in its FROM, if that only lists rows of them."""
    if any(_is_all_columns(item) for item in select.expressions):
        return select  # the columns of that query, which are not those of its tables
    begin = select.args.get("from_")
    while (
        begin is not None and isinstance(begin.this, exp.Subquery) and not select.args.get("joins")
    ):
        inner = begin.this.this
        if not lists_rows(inner) or begin.this.args.get("joins"):
            break
        _merge(select, inner, begin.this)
        begin = select.args["from_"]
    return select


def _is_all_columns(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and item.is_star)


def _merge(select: exp.Select, inner: exp.Select, source: exp.Subquery) -> None:
    """Put the tables and conditions of a query in FROM in its place, and its columns where they are named."""
    for item in list(select.expressions):
        if isinstance(item, exp.Column):
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))
    meanings, alias = _meanings(inner, source), source.alias.lower()
    aliases = {item.alias.lower() for item in select.expressions if item.alias}
    for part in list(own_parts(select)):
        if isinstance(part, exp.Column):
            name, table = part.name.lower(), part.table.lower()
            if name in meanings and table in ("", alias):
                if not (name in aliases and part.find_ancestor(exp.Order)):
                    part.replace(meanings[name].copy())
            elif table or name not in aliases | {"all"}:
                raise refused("columns", f"The query in FROM has no column {part.name!r}.", part)
    _take_over(select, inner)


def _take_over(select: exp.Select, inner: exp.Select) -> None:
    """Let a SELECT be about the tables of another, under the conditions of both."""
    for clause in ("from_", "joins"):
        select.set(clause, inner.args.get(clause))
    wheres = [query.args["where"].this for query in (inner, select) if query.args.get("where")]
    if wheres:
        conditions = [node.copy() for where in wheres for node in conjuncts(where)]
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))


def _meanings(inner: exp.Select, source: exp.Subquery) -> dict[str, exp.Expr]:
    """What the columns of a query in FROM stand for, by their names in small letters."""
    alias = source.args.get("alias")
    given = [name.name for name in alias.columns] if alias is not None else []
    names = given + [item.alias_or_name for item in inner.expressions[len(given) :]]
    meanings = {}
    for name, item in zip(names, inner.expressions, strict=True):
        node = item.unalias()
        plain = isinstance(node, exp.Column | exp.Literal | exp.Func)
        meanings[name.lower()] = node if plain else exp.paren(node.copy())
    return meanings
