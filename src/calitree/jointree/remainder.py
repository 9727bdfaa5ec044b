"""What is left of a graph and of its tree when relations are left out of the join (R̄).

Joined are the relations that stay, by the joins declared between them, as SQL would. Columns that were equal
only through a relation left out are not equal any more: with `a.t = b.t` and `b.t = c.t` declared, and b left
out, `a.t` and `c.t` are two attributes. Their graph has the same bags and edges as before, so that all
messages from where nothing of this is seen can be reused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from calitree.errors import QueryError
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.checks import classes_of_pairs, joint_kind
from calitree.jointree.joins.from_clause import (
    JoinClause,
    are_outer_joins,
    equal_pairs,
    from_clause,
)
from calitree.jointree.joins.join import ColumnName, Join, OuterJoin, Pair
from calitree.jointree.schema import Attribute, Schema


def remaining_schema(schema: Schema, relations: Collection[str]) -> Schema:
    """The graph, in which only the joins between these relations make columns equal.

    It is the same graph if all columns of these relations that were equal still are. Of an attribute that
    falls apart, the first part that some of the relations have keeps the name.
    """
    if len(relations) == len(schema.relations):
        return schema
    among = frozenset(relations)
    clause, added = remaining_joins(schema, among)
    equal = [*equal_pairs(clause), *(pair for join in added for pair in join.compared)]
    outer = _remaining_outer(schema, among, clause)
    parts = _parts(schema, equal)
    attributes: dict[str, Attribute] = dict(schema.attributes)
    for name, apart in parts.items():
        staying = [part for part in apart if part[0][0] in relations]
        if len(staying) > 1:
            first, *others = staying + [part for part in apart if part not in staying]
            attributes[name] = _attribute(schema, name, first)
            for part in others:
                other = _name(schema, name, part[0])
                attributes[other] = _attribute(schema, other, part)
    if len(attributes) == len(schema.attributes) and outer == schema.outer:
        return schema
    return replace(schema, attributes=attributes, outer=outer)


def remaining_joins(schema: Schema, among: frozenset[str]) -> tuple[JoinClause, list[Join]]:
    """The joins declared between some relations; those of relations that were added later by themselves."""
    joins = schema.declared_joins(among)
    names = (r.name for r in schema.relations.values() if r.name in among and not r.added)
    first = from_clause(names, (join for join in joins if join in schema.first_joins))
    return first, [join for join in joins if join not in schema.first_joins]


def _parts(schema: Schema, equal: Iterable[Pair]) -> dict[str, list[tuple[ColumnName, ...]]]:
    """For each attribute of several columns, those that are still equal."""
    shared = [a for a in schema.attributes.values() if len(a.columns) > 1 and not a.match]
    columns = (column for attribute in shared for column in attribute.columns)
    parts: dict[str, list[tuple[ColumnName, ...]]] = {}
    for part in classes_of_pairs(columns, equal):
        parts.setdefault(schema.attribute_of[part[0]], []).append(part)
    return parts


def _remaining_outer(
    schema: Schema, among: frozenset[str], clause: JoinClause
) -> tuple[OuterJoin, ...]:
    """The outer joins of which both sides stay. They must be those that SQL makes of the joins that stay."""
    if not schema.has_outer:
        return ()
    staying = tuple(
        replace(join, optional=join.optional & among)
        for join in schema.outer
        if join.preserved <= among and join.linked <= among
    )
    if not are_outer_joins(clause, staying):
        raise QueryError(
            "With the relations left out, other joins of those that stay would be outer joins: an inner "
            "join behind them, or a join that closes a cycle, is gone. Declare a graph without them."
        )
    return staying


def full_joins(schema: Schema, relations: Collection[str]) -> list[OuterJoin]:
    """The full joins that keep rows of their optional side without a partner, where these are joined.

    In such a row everything else is NULL, and a relation that was added to something else drops it.
    """
    added = {name for name in relations if schema.relations[name].added}
    joins = [j for j in schema.declared_joins(relations) if not added.isdisjoint((j.left, j.right))]
    required = {name for join in joins for name in (join.left, join.right)} - added
    return [j for j in schema.outer if j.is_full and required <= _optional_side(schema, j)]


def _optional_side(schema: Schema, join: OuterJoin) -> set[str]:
    """All relations that an outer join connects with the core."""
    side = set(join.optional)
    for other in schema.outer:  # Those nearest to the core come first.
        if other.preserved <= side:
            side |= other.optional
    return side


def _name(schema: Schema, whole: str, column: ColumnName) -> str:
    """The name of a part: its first column, if that names no other attribute.

    Relations that are added to two trees may have the same name there, so it alone is not enough for them.
    """
    name = ".".join(column)
    if name in schema.attributes or schema.relations[column[0]].added:
        name = f"{whole}#{name}"
    while name in schema.attributes:  # A column may be called so.
        name += "'"
    return name


def _attribute(schema: Schema, name: str, columns: tuple[ColumnName, ...]) -> Attribute:
    kinds = {schema.relations[relation].columns[column] for relation, column in columns}
    return Attribute(name, columns, joint_kind(kinds))


def remaining_tree(tree: Hypertree, schema: Schema) -> Hypertree:
    """The tree for what is left of its graph: the same bags and edges.

    Attributes that the same relations have as before are in the same bags. Any other is in the bags of its
    relations and in those between them, so that the bags that have it are connected.
    """
    relations = schema.attributes_of
    if relations == tree.relations:
        return tree
    before, after = _owners(tree.relations), _owners(relations)
    changed = {name for name, owners in after.items() if before.get(name) != owners}
    spans = {name: _span(tree, {tree.home(r) for r in after[name]}) for name in changed}
    bags = []
    for bag in tree.bags:
        own = {name for name, span in spans.items() if bag.name in span}
        bags.append(replace(bag, attributes=(bag.attributes - changed) | own))
    return replace(tree, bags=tuple(bags), relations=relations, whole=tree)


def with_columns(tree: Hypertree, columns: Iterable[tuple[str, str, object]]) -> Hypertree:
    """The tree in which relations have more columns: the relation and the name of each come first."""
    bags, relations = {bag.name: bag for bag in tree.bags}, dict(tree.relations)
    for relation, column, *_ in columns:
        home, added = bags[tree.home(relation)], {f"{relation}.{column}"}
        bags[home.name] = replace(home, attributes=home.attributes | added)
        relations[relation] |= added
    return replace(tree, bags=tuple(bags.values()), relations=relations) if columns else tree


def _owners(relations: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The relations of each attribute."""
    owners: dict[str, set[str]] = {}
    for relation, attributes in relations.items():
        for attribute in attributes:
            owners.setdefault(attribute, set()).add(relation)
    return {attribute: frozenset(names) for attribute, names in owners.items()}


def _span(tree: Hypertree, homes: Collection[str]) -> frozenset[str]:
    """The smallest connected set of bags that has all of these."""
    return frozenset(
        bag.name
        for bag in tree.bags
        if bag.name in homes
        or sum(not tree.subtree(n, bag.name).isdisjoint(homes) for n in tree.neighbours(bag.name))
        > 1
    )


def connecting_relations(schema: Schema, relations: Collection[str]) -> list[str]:
    """Relations that would connect these, by shortest chains of joins; none if there is no chain."""
    near: dict[str, set[str]] = {name: set() for name in schema.relations}
    for join in schema.joins:
        near[join.left].add(join.right)
        near[join.right].add(join.left)
    added: list[str] = []
    while len(parts := schema.components([*relations, *added])) > 1:
        goal = {name for part in parts[1:] for name in part}
        chain = _shortest_chain(near, parts[0], goal)
        if not chain:
            return []
        added += chain
    return [name for name in schema.relations if name in added]


def _shortest_chain(
    near: Mapping[str, set[str]], start: Collection[str], goal: Collection[str]
) -> tuple[str, ...]:
    """The names between a start and a goal; none if the goal cannot be reached."""
    seen, chains = set(start), {name: tuple[str, ...]() for name in start}
    while chains:
        longer: dict[str, tuple[str, ...]] = {}
        for name, chain in chains.items():
            for other in sorted(near[name] - seen):
                if other in goal:
                    return chain
                seen.add(other)
                longer[other] = (*chain, other)
        chains = longer
    return ()
