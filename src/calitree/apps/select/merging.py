"""Queries in FROM that only choose and rename columns, made part of the SELECT around them.

`SELECT y, sum(v) FROM (SELECT year(day) AS y, price * qty AS v FROM wide WHERE …) GROUP BY y` groups rows of
the join. The rows of the query in FROM are never listed: its columns are what they stand for.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.sql.parser import conjuncts

MADE = ("group", "having", "distinct", "limit", "offset", "qualify", "with_", "order")
"""Clauses that make other rows of rows, or sort them."""


def lists_rows(query: exp.Expr) -> bool:
    """Whether a query only chooses columns of the rows of its tables."""
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in MADE):
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


def _merge(select: exp.Select, inner: exp.Select, source: exp.Subquery) -> None:
    names = source.args["alias"].columns if source.args.get("alias") is not None else []
    titles = [name.name for name in names] + [
        item.alias_or_name for item in inner.expressions[len(names) :]
    ]
    meanings = {
        title.lower(): item.unalias() for title, item in zip(titles, inner.expressions, strict=True)
    }
    alias = source.alias.lower()
    for item in list(select.expressions):
        if isinstance(item, exp.Column):
            item.replace(exp.alias_(item.copy(), item.name, quoted=True))
    aliases = {item.alias.lower() for item in select.expressions if item.alias}
    for part in list(own_parts(select)):
        if not isinstance(part, exp.Column):
            continue
        meaning = meanings.get(part.name.lower())
        if meaning is None or (part.table and part.table.lower() != alias):
            if part.table or part.name.lower() not in aliases | {"all"}:
                raise refused("columns", f"The query in FROM has no column {part.name!r}.", part)
            continue
        is_alias = part.name.lower() in aliases and part.find_ancestor(exp.Order) is not None
        if not is_alias:
            plain = isinstance(meaning, exp.Column | exp.Literal | exp.Func)
            part.replace(meaning.copy() if plain else exp.paren(meaning.copy()))
    for clause in ("from_", "joins"):
        select.set(clause, inner.args.get(clause))
    wheres = [query.args["where"].this for query in (inner, select) if query.args.get("where")]
    if wheres:
        conditions = [node.copy() for where in wheres for node in conjuncts(where)]
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
