"""Adding a relation to a tree that has its messages already (paper §4.2, and its appendix on augmentation).

The relation gets a bag of its own beside one that has its join keys. All messages that there are stay right:
they are those of the join without it, and a key says with R⁺ that a message joins it. Asked at the new bag,
the tree needs a single message more.

Keys that no bag has together are brought together first: the bags between them are extended, up to one that
then has all of them. What such a bag sends is what it would send to a query that groups by the keys, and has
the same key in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from calitree.engines.api.protocol import Engine
from calitree.errors import SchemaError
from calitree.jointree.bag import Bag
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.checks import On, checked_join, checked_name, joint_kind
from calitree.jointree.joins.join import Join
from calitree.jointree.schema import Attribute, Relation, Schema, find_column
from calitree.process.locks import BriefLock
from calitree.sql.analysis import Resolved

Pair = tuple[Resolved, str]
"""What a column of the tree stands for, and the column of an added relation that joins it."""


@dataclass(frozen=True, eq=False)
class Joinable:
    """A relation that is loaded and checked, and can be added to a tree.

    Attributes:
        relation: Its name and its table.
        keys: The attributes that it joins on, and its columns for them.
        prefix: What the names of its own attributes begin with.
        joins: Its joins with the relations whose columns these were named by.

    Example:
        >>> from calitree.jointree.augment import joinable
        >>> sizes = {"id": [1, 2], "size": [90, 40]}
        >>> joinable(wide.schema, wide.engine, sizes, on={"stores.id": "id"}, name="sizes").columns
        ('sizes.size',)
    """

    relation: Relation
    keys: Mapping[str, str]
    prefix: str
    joins: tuple[Join, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it does not join on, as `relation.column`."""
        name, keys = self.relation.name, self.keys.values()
        return tuple(f"{name}.{column}" for column in self.relation.columns if column not in keys)


def joinable(
    schema: Schema, engine: Engine, table: Any, on: On | None = None, name: str | None = None
) -> Joinable:
    """A table that `WideTable.augment` is given, loaded and checked; a `Joinable` is returned as it is."""
    if isinstance(table, Joinable):
        return table
    chosen = checked_name(_name(table, schema) if name is None else name, schema.relations)
    relation = Relation(chosen, engine.load(chosen, table), added=True)
    pairs = _common(schema, relation) if on is None else _given(schema, relation, on)
    joins = _checked_joins(schema, relation, pairs)
    keys = {theirs.attribute: column for theirs, column in pairs}
    return Joinable(relation, keys, _prefix(engine, chosen), joins)


def augmented(schema: Schema, tree: Hypertree, added: Joinable) -> tuple[Schema, Hypertree]:
    """The graph and the tree with one more relation."""
    name = added.relation.name
    schema = with_relation(schema, added)
    columns = frozenset(schema.columns_of[name])
    leaf = Bag(name, columns, (name,))
    return schema, with_leaf(tree, schema, leaf, frozenset(added.keys))


def keyed(schema: Schema, tree: Hypertree, columns: Sequence[str]) -> Hypertree:
    """The tree with an empty bag for some columns."""
    if isinstance(columns, str) or not columns:
        raise SchemaError(f"Keys are a list of columns; got {columns!r}.")
    keys = frozenset(schema.column(column).attribute for column in columns)
    return with_leaf(tree, schema, Bag(f"[{', '.join(sorted(keys))}]", keys), keys)


def _name(table: Any, schema: Schema) -> str:
    """A name for a table that was given none: that of its file."""
    name = Path(table).stem if isinstance(table, str | Path) else ""
    name = name if name.isidentifier() else "added"
    taken = {relation.lower() for relation in schema.relations}
    numbered = (f"{name}{i}" for i in range(2, len(taken) + 3))
    return next(option for option in (name, *numbered) if option.lower() not in taken)


def _common(schema: Schema, relation: Relation) -> list[Pair]:
    """The columns whose names are those of columns that relations here join on."""
    pairs: dict[str, Pair] = {}
    shared = [a for a in schema.attributes.values() if len(a.columns) > 1 and not a.match]
    for column in relation.columns:
        named = {
            attribute: owners
            for attribute in shared
            if (
                owners := [r for r, theirs in attribute.columns if theirs.lower() == column.lower()]
            )
        }
        if len(named) == 1:
            ((attribute, owners),) = named.items()
            theirs = Resolved(attribute.name, tuple(owners), attribute.kind)
            pairs.setdefault(attribute.name, (theirs, column))
    if not pairs:
        raise SchemaError(
            f"{relation.name} has no column that is named as one which relations here join on. Say "
            "which columns join: on='column', a list, or {ours: theirs}."
        )
    return list(pairs.values())


def _given(schema: Schema, relation: Relation, on: On) -> list[Pair]:
    """The columns that the relation is to join on."""
    pairs: list[tuple[str, str]]
    if isinstance(on, Mapping):
        pairs = [(str(left), str(right)) for left, right in on.items()]
    elif isinstance(on, str):
        pairs = [(on, on.rpartition(".")[2])]
    elif isinstance(on, Iterable):
        pairs = [(str(column), str(column).rpartition(".")[2]) for column in on]
    else:
        raise SchemaError(f"on is a column, a list of columns or {{ours: theirs}}; got {on!r}.")
    if not pairs:
        raise SchemaError(f"The join with {relation.name} names no column.")
    keys: dict[str, Pair] = {}
    for left, right in pairs:
        column, theirs = find_column(right, relation), schema.column(left)
        if theirs.attribute in keys or any(column == other for _, other in keys.values()):
            raise SchemaError(
                f"{left} = {relation.name}.{right} is one too many: a column joins with one other."
            )
        keys[theirs.attribute] = theirs, column
    return list(keys.values())


_USES: WeakKeyDictionary[Engine, Counter[str]] = WeakKeyDictionary()
"""For each engine, how often a name was given to a relation that was added. Guarded by `_USES_LOCK`."""

_USES_LOCK = BriefLock()


def _prefix(engine: Engine, name: str) -> str:
    """What the names of a relation's attributes begin with.

    Two tables may have the same name in two trees; their engine must not take their attributes for the same.
    """
    with _USES_LOCK:
        uses = _USES.setdefault(engine, Counter())
        uses[name] += 1
        return name if uses[name] == 1 else f"{name}#{uses[name]}"


def _checked_joins(schema: Schema, relation: Relation, pairs: Iterable[Pair]) -> tuple[Join, ...]:
    """The joins with all relations that a pair of columns names: a bare name may be of several."""
    joined: dict[str, list[tuple[str, str]]] = {}
    for theirs, column in pairs:
        for owner in theirs.owners:
            own = schema.columns_of[owner][theirs.attribute]
            joined.setdefault(owner, []).append((own, column))
    return tuple(
        checked_join(schema.relations[owner], relation, Join(owner, relation.name, tuple(columns)))
        for owner, columns in joined.items()
    )


def with_relation(schema: Schema, added: Joinable) -> Schema:
    """The graph with one more relation."""
    relation, keys, attributes = added.relation, added.keys, dict(schema.attributes)
    for name, column in keys.items():
        columns = (*schema.attributes[name].columns, (relation.name, column))
        kinds = {schema.attributes[name].kind, relation.columns[column]}
        attributes[name] = Attribute(name, columns, joint_kind(kinds))
    for column, kind in relation.columns.items():
        if column not in keys.values():
            name = f"{added.prefix}.{column}"
            attributes[name] = Attribute(name, ((relation.name, column),), kind)
    relations = {**schema.relations, relation.name: relation}
    return Schema(relations, (*schema.joins, *added.joins), attributes, schema.outer)


def with_leaf(tree: Hypertree, schema: Schema, leaf: Bag, keys: frozenset[str]) -> Hypertree:
    """The tree with one more bag, beside an empty one that has just the keys, or else the cheapest.

    That is the one for which the fewest rows must be extended. Other bags stay as they are.
    """

    def preference(bag: Bag) -> tuple[object, ...]:
        extended = _lacking(tree, bag.name, keys)
        return (
            bool(bag.relations) or bag.attributes != keys,
            sum(_rows(tree, schema, name) for name in extended),
            len(extended),
            _rows(tree, schema, bag.name),
            len(bag.attributes),
            bag.name,
        )

    host = min(tree.bags, key=preference).name
    lacking = _lacking(tree, host, keys)
    bags = []
    for bag in tree.bags:
        extra = lacking.get(bag.name, frozenset())
        bags.append(replace(bag, attributes=bag.attributes | extra, extra=bag.extra | extra))
    names = {bag.name for bag in tree.bags}
    while leaf.name in names:
        leaf = replace(leaf, name=f"{leaf.name}'")
    return Hypertree(
        (*bags, leaf),
        (*tree.edges, (host, leaf.name)),
        schema.attributes_of,
        schema.rows,
        frozenset(name for name, relation in schema.relations.items() if relation.added),
    )


def _lacking(tree: Hypertree, host: str, keys: frozenset[str]) -> dict[str, frozenset[str]]:
    """For each bag between the host and the bags that have the keys, those that it lacks."""
    lacking: dict[str, frozenset[str]] = {}
    for key in keys:
        bag, holders = host, tree.holders((key,))
        while bag not in holders:
            lacking[bag] = lacking.get(bag, frozenset()) | {key}
            bag = next(n for n in tree.neighbours(bag) if tree.subtree(n, bag) & holders)
    return lacking


def _rows(tree: Hypertree, schema: Schema, name: str) -> int:
    """About how many rows a bag has; an empty one, as many as its attributes may have values together."""
    bag = tree.bag(name)
    if bag.relations:
        return max(map(schema.rows, bag.relations))
    owners = (schema.attributes[a].relations for a in bag.attributes)
    return prod(min(map(schema.rows, relations)) for relations in owners)
