"""Derived columns: expressions over the columns of one relation, declared as columns of it.

A definition is written over stored columns only: other derived columns in its text are replaced by their
own definitions, which are known before it. So no definition can depend on itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from calitree.errors import ExpressionError, SchemaError, did_you_mean, shortened
from calitree.jointree.joins.join import Join
from calitree.jointree.schema import Relation, find_column, find_name
from calitree.sql.analysis import Resolved
from calitree.sql.limits import flaw_of_name
from calitree.sql.nodes import owners
from calitree.sql.parser import Expression, parse, parse_node
from calitree.sql.quoting import column_text, quote
from calitree.sql.substitution import substituted
from calitree.types import Kind


def with_column(relation: Relation, name: object, text: str) -> Relation:
    """The relation with one more column, if it can have it."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"A column needs a name, got {name!r}.")
    flaw = flaw_of_name(name)
    if flaw:
        raise SchemaError(f"{shortened(name)} is no name for a column: {flaw}.")
    taken = [*relation.columns, *relation.table.unsupported]
    clash = [column for column in taken if column.lower() == name.lower()]
    if clash:
        raise SchemaError(f"{relation.name} has a column {clash[0]!r} already; take another name.")
    definition = defined(relation.name, relation.table.kinds, relation.derived, text, name)
    return replace(relation, derived={**relation.derived, name: definition})


def defined(
    relation: str,
    kinds: Mapping[str, Kind],
    derived: Mapping[str, Expression],
    text: str,
    name: str = "",
) -> Expression:
    """An expression over the stored and derived columns of a relation, over those stored only."""

    def resolve(table: str | None, written: str) -> Resolved:
        if table is not None and find_name(table, (relation,)) is None:
            raise SchemaError(
                f"{table}.{written} is no column of {relation}: a derived column is computed from one "
                "relation. An expression over several can be grouped by, filtered and summed as it is."
            )
        column = find_name(written, (*kinds, *derived))
        if column is not None:
            kind = kinds[column] if column in kinds else derived[column].kind
            return Resolved(column, (relation,), kind)
        if name and written.lower() == name.lower():
            raise SchemaError(f"{relation}.{name} would be defined by itself.")
        hint = did_you_mean(written, (*kinds, *derived))
        raise SchemaError(f"{relation} has no column {written!r}.{hint}")

    given = parse(text, resolve)
    if given.kind in (Kind.NULL, Kind.OTHER) or owners(given.node) is None:
        raise ExpressionError(f"{shortened(text)} is the same in every row; it makes no column.")
    return substituted(given, derived)


def with_key(relation: Relation, text: str) -> tuple[Relation, str]:
    """The relation, and which of its columns a text of `on=` is; an expression becomes one."""
    column = find_name(text, relation.columns)
    if column is not None:
        return relation, column
    try:
        node = parse_node(text)
    except ExpressionError:
        node = None
    if node is None or isinstance(node, exp.Column | exp.Star):
        name = node.name if isinstance(node, exp.Column) and not node.table else text
        return relation, find_column(name, relation)
    definition = defined(relation.name, relation.table.kinds, relation.derived, text)
    for name, known in relation.derived.items():
        if known == definition:
            return relation, name
    name = definition.sql
    while name in relation.columns:  # A column may be called so.
        name += "'"
    return replace(relation, derived={**relation.derived, name: definition}), name


def key_text(relation: Relation, column: str) -> str:
    """A column that is joined on in SQL; one that is derived as its definition."""
    definition = relation.derived.get(column)
    if definition is None:
        return column_text(relation.name, column)

    def qualified(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        return parse_node(column_text(relation.name, node.name))

    node = definition.node.copy().transform(qualified)
    return node.sql() if isinstance(node, exp.Func) else f"({node.sql()})"


def of_one_kind(left: Relation, right: Relation, join: Join) -> tuple[Relation, Relation, Join]:
    """A join in which dates meet timestamps, as they do in SQL: a date is its midnight."""
    sides, pairs = [left, right], []
    for pair in join.pairs:
        names = list(pair)
        kinds = [side.columns[name] for side, name in zip(sides, names, strict=True)]
        if set(kinds) == {Kind.DATE, Kind.TIMESTAMP}:
            at = kinds.index(Kind.DATE)
            sides[at], names[at] = with_key(sides[at], f"CAST({quote(names[at])} AS TIMESTAMP)")
        pairs.append((names[0], names[1]))
    return sides[0], sides[1], replace(join, pairs=tuple(pairs))
