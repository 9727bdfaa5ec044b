"""Joins by a condition: what they keep of all pairs of rows, as predicates over attributes.

Equalities of columns among the conjuncts are joins on columns like any other. The rest is a σ that every
query has which joins both relations; it stands where the attributes of both first meet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from calitree.errors import ExpressionError, SchemaError
from calitree.jointree.joins.join import ColumnName, Join
from calitree.jointree.schema import Relation, Schema, find_column, find_relation
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, conjuncts, parse_node, parse_predicate
from calitree.sql.quoting import column_text


def with_condition(left: Relation, right: Relation, join: Join, condition: str) -> Join:
    """The join with a condition too; its equalities of columns become pairs.

    Raises:
        SchemaError: The condition names other relations, or only one of the two.
        ExpressionError: It is no condition.
    """
    both = {left.name: left, right.name: right}
    if join.how != "inner":
        raise SchemaError(
            f"how={join.how!r} with a condition is not supported: {left.name} and {right.name} can be "
            "joined by a condition only if that join is inner."
        )
    try:
        equal = [_pair(node, both, left.name) for node in conjuncts(parse_node(condition))]
    except ExpressionError as error:
        raise ExpressionError(
            f"In the condition of {left.name} and {right.name}: {error}"
        ) from None
    pairs = dict.fromkeys((*join.pairs, *(pair for pair in equal if pair is not None)))
    predicates = parse_predicate(condition, lambda table, name: _resolved(table, name, both))
    named = {owner for p in predicates for c in p.node.find_all(exp.Column) for owner in _owner(c)}
    if named != both.keys():
        raise SchemaError(
            f"The condition {condition!r} does not compare {left.name} with {right.name}. Name columns of "
            "both; all rows of the one meet all of the other in a graph that is not connected, with "
            "calibrate(..., cross_join=True)."
        )
    is_needed = any(pair is None for pair in equal)
    return replace(join, pairs=tuple(pairs), condition=condition if is_needed else "")


def _owner(node: exp.Column) -> tuple[str]:
    relation, _, _ = node.name.partition(".")
    return (relation,)


def _column(table: str | None, name: str, both: dict[str, Relation]) -> ColumnName:
    """The column that a name in a condition stands for."""
    if table:
        relation = find_relation(table, both)
        return relation.name, find_column(name, relation)
    owners = [r for r in both.values() if name.lower() in map(str.lower, r.columns)]
    if len(owners) > 1:
        options = " or ".join(f"{r.name}.{name}" for r in owners)
        raise SchemaError(f"{name!r} is ambiguous: it may be {options}. Write one of these.")
    relation = owners[0] if owners else next(iter(both.values()))
    return relation.name, find_column(name, relation)


def _table(node: exp.Expr) -> str | None:
    """The relation that a column is written with."""
    table = node.args.get("table")
    return None if table is None else str(table.name)


def _resolved(table: str | None, name: str, both: dict[str, Relation]) -> Resolved:
    relation, column = _column(table, name, both)
    return Resolved(f"{relation}.{column}", (relation,), both[relation].columns[column])


def _pair(node: exp.Expr, both: dict[str, Relation], left: str) -> tuple[str, str] | None:
    """The two columns that a conjunct makes equal, the left relation's first; None if it does not."""
    if not isinstance(node, exp.EQ):
        return None
    sides = [side.unnest() for side in (node.left, node.right)]
    if not all(isinstance(side, exp.Column) and not side.args.get("db") for side in sides):
        return None
    (r, x), (s, y) = (_column(_table(side), side.name, both) for side in sides)
    if r == s:
        return None
    return (x, y) if r == left else (y, x)


def join_conditions(schema: Schema, relations: Collection[str]) -> tuple[Expression, ...]:
    """The conditions of the joins declared between these relations, over the schema's attributes."""
    among = frozenset(relations)
    predicates: dict[Expression, None] = {}
    for join in schema.joins:
        if join.condition and among.issuperset((join.left, join.right)):
            predicates |= dict.fromkeys(_parsed(schema, join))
    return tuple(predicates)


def _parsed(schema: Schema, join: Join) -> list[Expression]:
    """Without equalities that the join's columns have anyway."""
    among = (join.left, join.right)
    both = {name: schema.relations[name] for name in among}

    def resolve(table: str | None, name: str) -> Resolved:
        return schema.resolve(*_column(table, name, both), among)

    return [p for p in parse_predicate(join.condition, resolve) if not _is_trivial(p.node)]


def _is_trivial(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.EQ) and isinstance(node.left, exp.Column) and node.left == node.right
    )


def condition_text(relations: Mapping[str, Relation], join: Join) -> str:
    """A join's condition in SQL, over columns with their relations."""
    return _located(relations, join, lambda relation, name: parse_node(column_text(relation, name)))


def located_condition(schema: Schema, join: Join, aliases: dict[str, str], dialect: str) -> str:
    """A join's condition in SQL, where its relations have these aliases."""

    def column(relation: str, name: str) -> exp.Expr:
        return exp.column(name, aliases[relation], quoted=True)

    return _located(schema.relations, join, column, dialect)


def _located(
    relations: Mapping[str, Relation],
    join: Join,
    column: Callable[[str, str], exp.Expr],
    dialect: str | None = None,
) -> str:
    """A condition in SQL, given how columns are written; those that are derived as their definitions."""
    both = {name: relations[name] for name in (join.left, join.right)}

    def locate(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        relation, name = _column(_table(node), node.name, both)
        definition = both[relation].derived.get(name)
        if definition is None:
            return column(relation, name)
        return exp.Paren(
            this=definition.node.copy().transform(
                lambda part: column(relation, part.name) if isinstance(part, exp.Column) else part
            )
        )

    return parse_node(join.condition).transform(locate).sql(dialect)
