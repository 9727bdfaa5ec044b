"""Adding a relation to a tree that has its messages already (paper §4.2, and its appendix on
augmentation).

The relation gets a bag of its own beside one that has its join keys. All messages that there are stay
right: they are those of the join without it, and a key says with R⁺ that a message has it behind. Asked
at the new bag, the tree needs a single message more.

Keys that no bag has together are brought together first: the bags between them are extended, up to the
one where they meet. What such a bag sends then is what it would send to a query that groups by the keys,
and has the same key in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from calitree.engines.api.protocol import Engine
from calitree.errors import SchemaError, did_you_mean
from calitree.jointree.hypertree import Bag, Hypertree
from calitree.jointree.joins import On, checked_join, checked_name, joint_kind
from calitree.jointree.schema import Attribute, Join, Relation, Schema, find_name


@dataclass(frozen=True, eq=False)
class Joinable:
    """A relation that is loaded and could be added."""

    relation: Relation
    keys: Mapping[str, str]
    """The attributes that it joins on, and its columns for them."""
    prefix: str
    """What its own attributes begin with."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it does not join on, as `relation.column`."""
        name, keys = self.relation.name, self.keys.values()
        return tuple(f"{name}.{column}" for column in self.relation.columns if column not in keys)


def joinable(
    schema: Schema, engine: Engine, table: Any, on: On | None = None, name: str | None = None
) -> Joinable:
    """A table that `WideTable.augment` is given, loaded and checked; one that is so already, as it is."""
    if isinstance(table, Joinable):
        return table
    chosen = checked_name(_name(table, schema) if name is None else name, schema.relations)
    relation = Relation(chosen, engine.load(chosen, table), added=True)
    keys = _common(schema, relation) if on is None else _keys(schema, relation, on)
    _checked_joins(schema, relation, keys)
    return Joinable(relation, keys, _prefix(engine, chosen))


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
    keys = frozenset(schema.column(each).attribute for each in columns)
    return with_leaf(tree, schema, Bag(f"[{', '.join(sorted(keys))}]", keys), keys)


def _name(table: Any, schema: Schema) -> str:
    """A name for a table that was given none: that of its file."""
    name = Path(table).stem if isinstance(table, str | Path) else ""
    name = name if name.isidentifier() else "added"
    taken = {each.lower() for each in schema.relations}
    numbered = (f"{name}{i}" for i in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each.lower() not in taken)


def _common(schema: Schema, relation: Relation) -> dict[str, str]:
    """The columns whose names are those of columns that relations here join on."""
    keys: dict[str, str] = {}
    for column in relation.columns:
        named = {
            attribute.name
            for attribute in schema.attributes.values()
            if len(attribute.columns) > 1
            and any(theirs.lower() == column.lower() for _, theirs in attribute.columns)
        }
        if len(named) == 1:
            keys.setdefault(named.pop(), column)
    if not keys:
        raise SchemaError(
            f"{relation.name} has no column that is named as one which relations here join on. Say "
            "which columns join: on='column', a list, or {ours: theirs}."
        )
    return keys


def _keys(schema: Schema, relation: Relation, on: On) -> dict[str, str]:
    """The attributes that the relation joins on, and its columns for them."""
    pairs: list[tuple[str, str]]
    if isinstance(on, Mapping):
        pairs = [(str(left), str(right)) for left, right in on.items()]
    elif isinstance(on, str):
        pairs = [(on, on.rpartition(".")[2])]
    elif isinstance(on, Iterable):
        pairs = [(str(each), str(each).rpartition(".")[2]) for each in on]
    else:
        raise SchemaError(f"on is a column, a list of columns or {{ours: theirs}}; got {on!r}.")
    if not pairs:
        raise SchemaError(f"The join with {relation.name} names no column.")
    keys: dict[str, str] = {}
    for left, right in pairs:
        column = find_name(right, relation.columns)
        if column is None:
            hint = did_you_mean(right, relation.columns)
            raise SchemaError(f"{relation.name} has no column {right!r}.{hint}")
        attribute = schema.column(left).attribute
        if attribute in keys or column in keys.values():
            raise SchemaError(
                f"{left} = {relation.name}.{right} is one too many: a column joins with one other."
            )
        keys[attribute] = column
    return keys


_USED: WeakKeyDictionary[Engine, dict[str, int]] = WeakKeyDictionary()
"""For each engine, how often a name was given to a relation that was added."""


def _prefix(engine: Engine, name: str) -> str:
    """What the attributes of a relation begin with. An engine must not take those of two tables for
    one, which have the same name in two trees.
    """
    used = _USED.setdefault(engine, {})
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}#{used[name]}"


def _checked_joins(schema: Schema, relation: Relation, keys: Mapping[str, str]) -> list[Join]:
    """The joins with those that have the keys."""
    pairs: dict[str, list[tuple[str, str]]] = {}
    for name, column in keys.items():
        (owner, theirs), *_ = schema.attributes[name].columns
        pairs.setdefault(owner, []).append((theirs, column))
    return [
        checked_join(schema.relations[owner], relation, Join(owner, relation.name, tuple(each)))
        for owner, each in pairs.items()
    ]


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
    joins = _checked_joins(schema, relation, keys)
    return Schema(relations, (*schema.joins, *joins), attributes)


def with_leaf(tree: Hypertree, schema: Schema, leaf: Bag, keys: frozenset[str]) -> Hypertree:
    """The tree with one more bag, beside the empty one that was made for the keys, or else the smallest
    that has all of them. No bag but those that must be is changed.
    """
    host, paths = min(
        ((bag.name, _paths(tree, bag.name, keys)) for bag in tree.bags),
        key=lambda each: (
            bool(tree.bag(each[0]).relations) or tree.bag(each[0]).attributes != keys,
            *_size(tree, schema, each[1]),
            _rows(tree, schema, each[0]),
            len(tree.bag(each[0]).attributes),
            each[0],
        ),
    )
    bags = []
    for bag in tree.bags:
        extra = paths.get(bag.name, frozenset())
        bags.append(
            replace(bag, attributes=bag.attributes | extra, extra=bag.extra | extra)
            if extra
            else bag
        )
    names = {bag.name for bag in tree.bags}
    while leaf.name in names:
        leaf = replace(leaf, name=f"{leaf.name}'")
    columns = {name: frozenset(each) for name, each in schema.columns_of.items()}
    added = frozenset(name for name, each in schema.relations.items() if each.added)
    edges = (*tree.edges, (host, leaf.name))
    return Hypertree((*bags, leaf), edges, columns, schema.rows, added)


def _paths(tree: Hypertree, host: str, keys: frozenset[str]) -> dict[str, frozenset[str]]:
    """For each bag between the host and where the keys are, those that it lacks."""
    lacking: dict[str, frozenset[str]] = {}
    for key in keys:
        here, holders = host, tree.holders((key,))
        while here not in holders:
            lacking[here] = lacking.get(here, frozenset()) | {key}
            here = next(n for n in tree.neighbours(here) if tree.subtree(n, here) & holders)
    return lacking


def _size(tree: Hypertree, schema: Schema, paths: Mapping[str, frozenset[str]]) -> tuple[int, int]:
    """How many rows the bags have that must be extended, and how many these are."""
    return sum(_rows(tree, schema, bag) for bag in paths), len(paths)


def _rows(tree: Hypertree, schema: Schema, bag: str) -> int:
    """About how many rows a bag has; an empty one, as many as its attributes may have values together."""
    here = tree.bag(bag)
    if here.relations:
        return max(schema.rows(r) for r in here.relations)
    owners = (schema.attributes[a].relations for a in here.attributes)
    return prod(min(map(schema.rows, each)) for each in owners)
