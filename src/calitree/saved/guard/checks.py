"""What the parts of a manifest say of each other: no relation, column, bag or edge is named that is not there.

Decoding has seen that every field has its type (`calitree.storage.json_codec`). Nothing here reads a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

from calitree.calibration.message import Shelved
from calitree.engines.api.contraction import Table
from calitree.errors import CalitreeError, SavedError
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.attributes import keyed_joins
from calitree.jointree.joins.checks import checked_name, classes_of_pairs, joint_kind
from calitree.jointree.joins.conditions import with_condition
from calitree.jointree.joins.from_clause import equal_pairs, from_clause
from calitree.jointree.joins.join import ColumnName, Join
from calitree.jointree.schema import Attribute, Relation
from calitree.saved.guard.trust import outside_path
from calitree.saved.manifest import Manifest
from calitree.saved.tree_codec import derived_columns, hypertree
from calitree.saved.tree_record import SavedTree
from calitree.storage.arrow_types import schema_of_text
from calitree.storage.filesystem import reason
from calitree.storage.json_codec import MalformedError
from calitree.storage.table_format import SavedRelation, Source
from calitree.types import Kind


def check(manifest: Manifest, place: str) -> None:
    """A `SavedError` if a manifest contradicts itself."""
    try:
        names: list[str] = []
        for relation in manifest.relations:
            names.append(checked_name(relation.name, names))
            _check_relation(relation)
        tree = manifest.tree
        columns = _columns(tree, manifest.relations)
        attributes_of = _attributes_of(tree, columns)
        _check_conditions(tree, manifest.relations)
        bags = hypertree(tree, attributes_of)
        for name in (*tree.added, *tree.read_files, *tree.read_segments):
            if name not in attributes_of:
                raise MalformedError(f"there is no relation {name!r}")
        unknown = set((tree.bound or {}).values()) - {bag.name for bag in bags.bags}
        if unknown:
            raise MalformedError(f"there is no bag {unknown.pop()!r}")
        components: dict[str, tuple[str, ...]] = {}
        for message in manifest.messages:
            _check_message(message, bags, components)
    except (MalformedError, CalitreeError, RecursionError) as error:
        raise damaged(manifest.number, place, error) from error


def damaged(number: int, place: str, error: Exception) -> SavedError:
    """The error for a version that cannot be opened."""
    return SavedError(f"Version {number} of {place} is damaged: {reason(error)}.")


def _check_unique(what: str, names: Iterable[str]) -> None:
    name, times = max(Counter(names).items(), key=lambda item: item[1], default=("", 0))
    if times > 1:
        raise MalformedError(f"there are two {what}s {name!r}")


# -- relations ------------------------------------------------------------------------------------

_FILES = {"copied": (1, 1), "files": (1, None), "table": (0, 0), "nowhere": (0, 0)}
"""How many files a relation has at a place, at least and at most."""


def _check_relation(relation: SavedRelation) -> None:
    from calitree.storage.column_types import plain_type

    name, schema = relation.name, schema_of_text(relation.schema)
    if set(schema.names) != set(relation.kinds) or not relation.kinds:
        raise MalformedError(f"{name!r} has other columns than its schema")
    for field in schema:
        if plain_type(field.type) is None:
            raise MalformedError(f"{name}.{field.name} is {field.type!s:.40}, which is never saved")
    if not relation.null_free <= relation.kinds.keys():
        raise MalformedError(f"{name!r} has no NULL in columns that it does not have")
    revisions = relation.revisions
    if [change.old for change in relation.changes] != list(revisions[:-1]):
        raise MalformedError(f"the changes of {name!r} do not follow each other")
    if relation.current_rows < 0:
        raise MalformedError(f"more rows went from {name!r} than it had")
    _check_source(name, relation.source)


def _check_source(name: str, source: Source) -> None:
    least, most = _FILES[source.place]
    count = len(source.files)
    if count < least or (most is not None and count > most):
        raise MalformedError(f"{name!r} is {source.place}, with {count} files")
    if source.place == "table" and not source.table:
        raise MalformedError(f"the table of {name!r} has no name")
    if source.place == "files":
        for file in source.files:
            try:
                outside_path(file.path)
            except ValueError as error:
                raise MalformedError(f"a file of {name!r} {error}") from None


# -- the tree -------------------------------------------------------------------------------------


def _columns(tree: SavedTree, relations: Iterable[SavedRelation]) -> dict[ColumnName, Kind]:
    """All columns of relations, and their kinds; those that are derived come last."""
    kinds = {relation.name: relation.kinds for relation in relations}
    columns = {(name, column): kind for name in kinds for column, kind in kinds[name].items()}
    for name, derived in derived_columns(tree, kinds).items():
        columns |= {(name, column): definition.kind for column, definition in derived.items()}
    return columns


def _attributes_of(
    tree: SavedTree, columns: Mapping[ColumnName, Kind]
) -> dict[str, frozenset[str]]:
    """The attributes of each relation, if they are those that the joins make."""
    _check_unique("attribute", (name for name, *_ in tree.attributes))
    if len(tree.hows) not in (0, len(tree.joins)):
        raise MalformedError("its joins are not all told to be inner or outer")
    plain = {frozenset(joined) for name, joined, _ in tree.attributes if name not in tree.matches}
    if plain != _joined(tree, columns):
        raise MalformedError("its attributes are not those that its joins make")
    _check_matches(tree)
    attributes: dict[str, set[str]] = {relation: set() for relation, _ in columns}
    for name, joined, kind in tree.attributes:
        common = joint_kind({columns[column] for column in joined})
        apart = common is Kind.OTHER and len(joined) > 1  # values that are never equal
        if len(set(joined)) < len(joined) or kind is not common or apart:
            raise MalformedError(f"attribute {name!r} is not what its columns make")
        for relation, _ in joined:
            attributes[relation].add(name)
    return {relation: frozenset(names) for relation, names in attributes.items()}


def _joined(tree: SavedTree, columns: Mapping[ColumnName, Kind]) -> set[frozenset[ColumnName]]:
    """The classes of columns that the joins make equal."""
    joins = tree.declared_joins
    ends = [end for j in joins for a, b in j.pairs for end in ((j.left, a), (j.right, b))]
    for relation, column in ends:
        if (relation, column) not in columns:
            raise MalformedError(f"a join names {relation}.{column}, which is not there")
    first = tree.first_joins
    clause = from_clause(dict.fromkeys(relation for relation, _ in columns), first)
    added = (join for join in joins if join not in first)
    equal = [*equal_pairs(clause), *(pair for join in added for pair in join.compared)]
    return {frozenset(joined) for joined in classes_of_pairs(columns, equal)}


def _check_matches(tree: SavedTree) -> None:
    """The attributes of outer joins must be those that the joins make."""
    own = {name: (joined, kind) for name, joined, kind in tree.attributes}
    attributes = {
        name: Attribute(name, joined, kind, name in tree.matches)
        for name, (joined, kind) in own.items()
    }
    keys: dict[str, list[ColumnName]] = {}
    for join in keyed_joins(tree.first_joins, attributes):
        for name, (ours, theirs) in zip(join.key, join.pairs, strict=True):
            keys.setdefault(name, [ours]).append(theirs)
    if {name: tuple(columns) for name, columns in keys.items()} != {
        name: own[name][0] for name in tree.matches if name in own
    } or len(keys) != len(tree.matches):
        raise MalformedError("its attributes are not those that its outer joins make")


def _check_conditions(tree: SavedTree, relations: Iterable[SavedRelation]) -> None:
    """Conditions of joins are over columns that are there, and leave no equality for the joins to make."""
    tables = {r.name: Relation(r.name, cast(Table, r)) for r in relations}
    joins = [Join(*parts) for parts in tree.joins]
    _check_unique("condition", (str(number) for number, _ in tree.conditions))
    for number, condition in tree.conditions:
        if number >= len(joins):
            raise MalformedError(f"a condition is of join {number}, which is not there")
        join = joins[number]
        if (
            with_condition(tables[join.left], tables[join.right], join, condition).pairs
            != join.pairs
        ):
            raise MalformedError(f"the condition of join {number} makes other columns equal")


def _check_message(
    message: Shelved, tree: Hypertree, components: dict[str, tuple[str, ...]]
) -> None:
    try:
        message.check(components)
        if message.edge not in tree.directed:
            raise MalformedError("is of no edge of the tree")
        message.check_attributes(tree.implied(*message.edge) & _supplied(message, tree))
        for relation in message.revisions:
            if relation not in tree.relations:
                raise MalformedError(f"is of a relation {relation!r} that is not there")
    except ValueError as error:
        raise MalformedError(f"the message {message.digest[:40]!r} {reason(error)}") from None


def _supplied(message: Shelved, tree: Hypertree) -> frozenset[str]:
    """The attributes that the relations on its source's side have; those of an empty bag are not among them."""
    bags = tree.subtree(*message.edge)
    return frozenset().union(*(tree.relations[r] for r in tree.relations if tree.home(r) in bags))
