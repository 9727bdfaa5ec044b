"""Joins as they are asked for, made part of a graph, and all of them as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from calitree.errors import SchemaError, TreeError
from calitree.jointree.decompose import NO_RELATION
from calitree.jointree.derived import key_text, of_one_kind, with_key
from calitree.jointree.joins.as_of import matches_sql
from calitree.jointree.joins.attributes import check_classes, graph_schema
from calitree.jointree.joins.checks import On, checked_join, join_pairs, joint_kind
from calitree.jointree.joins.conditions import condition_text, with_condition
from calitree.jointree.joins.from_clause import HOWS, from_clause
from calitree.jointree.joins.join import JOIN_SYMBOLS, Join
from calitree.jointree.schema import Relation, find_relation
from calitree.sql.quoting import name_text, quote
from calitree.types import Kind


class JoinRequest(NamedTuple):
    """What `JoinGraph.add_join` is given."""

    left: str
    right: str
    on: On | None
    how: str
    condition: str | None
    nulls: str


NULLS = ("unequal", "equal")
"""Whether NULL meets NULL in a join."""

_STAND_INS = {
    Kind.BOOLEAN: "false",
    Kind.INTEGER: "0",
    Kind.DECIMAL: "0",
    Kind.FLOAT: "0",
    Kind.STRING: "''",
    Kind.DATE: "date '1970-01-01'",
    Kind.TIMESTAMP: "timestamp '1970-01-01 00:00:00'",
}
"""By kind: any value, which stands for NULL where NULL is told from it by a column of its own."""


def declared_join(
    relations: Mapping[str, Relation], joins: Sequence[Join], asked: JoinRequest
) -> tuple[dict[str, Relation], Join]:
    """The relations, with the columns that expressions in `on` make, and the join, if there can be one."""
    left, right, on, how, condition, nulls = asked
    if how not in HOWS:
        raise SchemaError(f"how is one of {', '.join(HOWS)}; got {how!r}.")
    if nulls not in NULLS:
        raise SchemaError(f"nulls is one of {', '.join(NULLS)}; got {nulls!r}.")
    a, b = find_relation(left, relations), find_relation(right, relations)
    if a.name == b.name:
        raise SchemaError(
            f"{left} cannot join itself; add its table a second time under another name."
        )
    pairs: list[tuple[str, str]] = []
    for x, y in [] if on is None and condition is not None else join_pairs(left, right, on):
        (a, x), (b, y) = with_key(a, x), with_key(b, y)
        if nulls == "equal" and x not in a.table.null_free and y not in b.table.null_free:
            a, b = _keyed_by_null(a, b, (x, y), pairs)
        else:
            pairs.append((x, y))
    join = Join(a.name, b.name, tuple(pairs), how)
    if condition is not None:
        join = with_condition(a, b, join, condition)
    a, b, join = of_one_kind(a, b, join)
    changed = {**relations, a.name: a, b.name: b}
    check_classes(graph_schema(changed, (*joins, checked_join(a, b, join))), join)
    return changed, join


def _keyed_by_null(
    a: Relation, b: Relation, pair: tuple[str, str], pairs: list[tuple[str, str]]
) -> tuple[Relation, Relation]:
    """The relations with two more columns each, by which NULL equals NULL, as two more pairs.

    They tell whether the column is NULL, and have its value, or any other where it is.
    """
    x, y = pair
    checked_join(a, b, Join(a.name, b.name, (pair,)))
    kind = joint_kind({a.columns[x], b.columns[y]})
    if kind not in _STAND_INS:
        raise SchemaError(
            f"nulls='equal' is not supported for {a.name}.{x}, which is {kind.phrase}."
        )
    for text in ("{} is null", f"coalesce({{}}, {_STAND_INS[kind]})"):
        (a, ours), (b, theirs) = (
            with_key(relation, text.format(quote(name))) for relation, name in ((a, x), (b, y))
        )
        pairs.append((ours, theirs))
    return a, b


def clause_text(relations: Mapping[str, Relation], joins: Sequence[Join]) -> str:
    """The joins as SQL, in the order of their declaration."""
    if not relations:
        raise TreeError(NO_RELATION)

    def table(name: str) -> str:
        as_of = relations[name].as_of
        text = name_text(name)
        return text if as_of is None else f"({matches_sql(as_of, table, column)}) AS {text}"

    def column(name: str, key: str) -> str:
        return key_text(relations[name], key)

    clause = from_clause(relations, joins)
    return clause.sql(table, column, lambda join: condition_text(relations, join))


def declarations(relations: Mapping[str, Relation], joins: Sequence[Join]) -> Iterator[str]:
    """The relations and the joins, each in a line; an as-of join as it was declared."""
    timed = {name: r.as_of for name, r in relations.items() if r.as_of is not None}
    for name, relation in relations.items():
        if name not in timed:
            yield f"{name}({', '.join(relation.columns)})"
    for join in joins:
        if join.right in timed:
            yield f"{join.left} {JOIN_SYMBOLS[join.how]} {timed[join.right]}"
        elif join.left not in timed:
            yield str(join)
