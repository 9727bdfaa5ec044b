"""The attributes of a join graph: what its joins make of the columns of its relations.

Inner joins make columns equal: they are one attribute. An outer join does not, as one of the columns may be
NULL for want of a partner. Each column stays an attribute of its own, and beside them there is a *match*: an
attribute that both sides have, and by which partners are found. Outer joins on the same column of the
preserved side share it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from calitree.errors import SchemaError
from calitree.jointree.joins.checks import classes_of_pairs, joint_kind
from calitree.jointree.joins.from_clause import equal_pairs, from_clause, outer_joins
from calitree.jointree.joins.join import ColumnName, Join, OuterJoin
from calitree.jointree.schema import Attribute, Relation, Schema
from calitree.types import Kind


def graph_schema(relations: Mapping[str, Relation], joins: Iterable[Join]) -> Schema:
    """The graph of these relations and joins."""
    declared = tuple(joins)
    clause = from_clause(relations, declared)
    columns = [(r.name, column) for r in relations.values() for column in r.columns]
    attributes = {}
    for joined in classes_of_pairs(columns, equal_pairs(clause)):
        name = ".".join(joined[0])
        attributes[name] = Attribute(name, joined, _kind(relations, joined))
    outer, compared = _with_keys(outer_joins(clause), attributes)
    for name, matched in compared.items():
        attributes[name] = Attribute(name, tuple(matched), _kind(relations, matched), match=True)
    return Schema(relations, declared, attributes, outer)


def keyed_joins(
    joins: Iterable[Join], attributes: Mapping[str, Attribute]
) -> tuple[OuterJoin, ...]:
    """The outer joins among the joins of a graph whose attributes are known, with their keys."""
    declared = tuple(joins)
    relations = dict.fromkeys(name for join in declared for name in (join.left, join.right))
    plain = {name: a for name, a in attributes.items() if not a.match}
    return _with_keys(outer_joins(from_clause(relations, declared)), plain)[0]


def check_classes(schema: Schema, latest: Join) -> None:
    """An error if the joins make two columns of one relation equal."""
    for attribute in schema.attributes.values():
        seen: dict[str, str] = {}
        for relation, column in attribute.columns:
            if relation in seen and not attribute.match:
                raise SchemaError(
                    f"{latest} would make {relation}.{seen[relation]} and {relation}.{column} equal. "
                    f"If that is not meant, add {latest.left} or {latest.right} a second time under "
                    "another name and join that."
                )
            seen[relation] = column


def _with_keys(
    outer: Iterable[OuterJoin], taken: Collection[str]
) -> tuple[tuple[OuterJoin, ...], dict[str, list[ColumnName]]]:
    """The outer joins with their keys, and the columns of each attribute in these."""
    compared: dict[str, list[ColumnName]] = {}
    keyed = []
    for join in outer:
        key: list[str] = []
        for ours, theirs in join.pairs:
            name = f"{'.'.join(ours)}?"
            while name in taken or name in key:  # A column may be called so, or be compared twice.
                name += "?"
            key.append(name)
            compared.setdefault(name, [ours]).append(theirs)
        keyed.append(replace(join, key=tuple(key)))
    return tuple(keyed), compared


def _kind(relations: Mapping[str, Relation], columns: Iterable[ColumnName]) -> Kind:
    return joint_kind({relations[relation].columns[column] for relation, column in columns})
