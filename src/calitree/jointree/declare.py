"""Joins as they are asked for, made part of a graph, and all of them as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from calitree.errors import SchemaError
from calitree.jointree.attributes import check_classes, graph_schema
from calitree.jointree.conditions import condition_text, with_condition
from calitree.jointree.derived import key_text, of_one_kind, with_key
from calitree.jointree.from_clause import HOWS, from_clause
from calitree.jointree.join import Join
from calitree.jointree.joins import On, checked_join, join_pairs
from calitree.jointree.schema import Relation, find_relation
from calitree.sql.quoting import name_text


class JoinRequest(NamedTuple):
    """What `JoinGraph.add_join` is given."""

    left: str
    right: str
    on: On | None
    how: str
    condition: str | None


def declared_join(
    relations: Mapping[str, Relation], joins: Sequence[Join], asked: JoinRequest
) -> tuple[dict[str, Relation], Join]:
    """The relations, with the columns that expressions in `on` make, and the join, if there can be one."""
    left, right, on, how, condition = asked
    if how not in HOWS:
        raise SchemaError(f"how is one of {', '.join(HOWS)}; got {how!r}.")
    a, b = find_relation(left, relations), find_relation(right, relations)
    if a.name == b.name:
        raise SchemaError(
            f"{left} cannot join itself; add its table a second time under another name."
        )
    pairs = []
    for x, y in [] if on is None and condition is not None else join_pairs(left, right, on):
        (a, x), (b, y) = with_key(a, x), with_key(b, y)
        pairs.append((x, y))
    join = Join(a.name, b.name, tuple(pairs), how)
    if condition is not None:
        join = with_condition(a, b, join, condition)
    a, b, join = of_one_kind(a, b, join)
    changed = {**relations, a.name: a, b.name: b}
    check_classes(graph_schema(changed, (*joins, checked_join(a, b, join))), join)
    return changed, join


def clause_text(relations: Mapping[str, Relation], joins: Sequence[Join]) -> str:
    """The joins as SQL, in the order of their declaration."""
    return from_clause(relations, joins).sql(
        name_text,
        lambda name, key: key_text(relations[name], key),
        lambda join: condition_text(relations, join),
    )
