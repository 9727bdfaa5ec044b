"""EXISTS (SELECT … WHERE its row = this row): a join in which each row of the tables outside counts once.

The tables inside are joined like those outside, and measures are at the grain of the latter.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from calitree.apps.select.grammar import own_parts, refused
from calitree.apps.select.sources.merging import OTHER_ROWS
from calitree.apps.select.sources.tables import tables_of
from calitree.jointree.schema import Schema, find_name
from calitree.sql.parser import conjuncts


def with_semi_joins(select: exp.Select, schema: Schema, others: Collection[str]) -> int:
    """Let a SELECT join the tables of each EXISTS in its WHERE that depends on its rows.

    Returns how many tables it had before, if there is one; else 0.
    """
    where = select.args.get("where")
    if where is None or where.find(exp.Exists) is None:
        return 0
    before, tables, conditions = len(tables_of(select)), list[exp.Expr](), list[exp.Expr]()
    for node in conjuncts(where.this):
        inner = node.this if isinstance(node, exp.Exists) else None
        if isinstance(inner, exp.Select) and _depends(inner, schema, others):
            tables += tables_of(inner)
            conditions += _conditions(inner)
        else:
            conditions.append(node)
    if not tables:
        return 0
    joins = [exp.Join(this=table.copy()) for table in tables]
    select.set("joins", [*(select.args.get("joins") or []), *joins])
    select.set("where", exp.Where(this=exp.and_(*(node.copy() for node in conditions))))
    return before


def _conditions(query: exp.Select) -> list[exp.Expr]:
    """All that a query in EXISTS asks of its rows, those of its joins included."""
    joins = query.args.get("joins") or []
    if any(query.args.get(clause) for clause in OTHER_ROWS) or any(join.side for join in joins):
        raise refused("queries", "This EXISTS depends on the row, and is not a plain join.", query)
    given = [query.args.get("where"), *(join.args.get("on") for join in joins)]
    nodes = [node.this if isinstance(node, exp.Where) else node for node in given if node]
    return [part for node in nodes for part in conjuncts(node)]


def _depends(query: exp.Select, schema: Schema, others: Collection[str]) -> bool:
    """Whether a query names columns that its own tables do not have."""
    tables = tables_of(query)
    if not all(isinstance(table, exp.Table) for table in tables):
        return False
    if any(table.name.lower() in others for table in tables):
        return False
    names = {table.alias_or_name.lower() for table in tables}
    relations = (find_name(table.name, schema.relations) for table in tables)
    columns = {c.lower() for r in relations if r is not None for c in schema.relations[r].columns}
    return any(
        part.table.lower() not in names if part.table else part.name.lower() not in columns
        for part in own_parts(query)
        if isinstance(part, exp.Column)
    )
