"""Saved trees: opening, looking at and vacuuming the directories that `WideTable.save` makes.

    wide.save("tree")                       # calibrated on a cluster
    wide = ct.open("tree", engine="local")  # answers on a laptop without Spark
    print(ct.saved.status("tree"))
    ct.saved.vacuum("tree")                 # files of older versions, and of writers that were killed

Only the newest manifest is read when a tree is opened. A message or a relation is read when a query
first needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from calitree.engines.api.protocol import Persistent
from calitree.engines.api.semiring import Semiring
from calitree.engines.registry import engine_of
from calitree.errors import SavedError
from calitree.join_graph import JoinGraph
from calitree.jointree.hypertree import Bag, Hypertree
from calitree.jointree.schema import Attribute, Join, Schema
from calitree.query.binder import MeasureLike
from calitree.query.custom import CustomMeasure
from calitree.saved.directory import Directory
from calitree.saved.manifest import (
    MANIFESTS,
    MESSAGES,
    RELATIONS,
    Opened,
    Place,
    Version,
    file_of,
    numbers,
    read,
)
from calitree.saved.rebase import add_further, restored
from calitree.storage.table_format import SavedRelation
from calitree.types import Kind
from calitree.wide_table import WideTable

Path = str | PathLike[str]

GRACE = 60.0
"""Minutes for which a file is left alone that no version names yet."""


def open_tree(path: Path, engine: Any = None, version: int | None = None) -> WideTable:
    """Open a tree that `WideTable.save` has saved: the newest, or an older `version`.

    `engine` is what `JoinGraph` takes, whatever engine the tree was saved from. What a query needs
    beyond the saved messages is read from the relations, if they are still where they were.
    """
    directory = Directory(path)
    manifest = read(directory, version)
    chosen = JoinGraph().engine if engine is None else engine_of(engine)
    if not isinstance(chosen, Persistent):
        raise SavedError(f"The {chosen.name} engine cannot open saved trees; choose another.")
    tree = manifest.tree
    place = Place()
    relations = {each.name: restored(chosen, each, place) for each in manifest.relations}
    for name in tree.get("added", ()):
        relations[name] = replace(relations[name], added=True)
    attributes = {
        name: Attribute(name, tuple(map(tuple, columns)), Kind(kind))
        for name, columns, kind in tree["attributes"]
    }
    joins = tuple(Join(a, b, tuple(map(tuple, pairs))) for a, b, pairs in tree["joins"])
    schema = Schema(relations, joins, attributes)
    wide = WideTable(
        schema,
        chosen,
        _hypertree(schema, tree),
        measures={name: _measure(given) for name, given in tree["measures"].items()},
        group_by=tree["group_by"],
        where=tree["where"],
        memory_limit=tree["memory_limit"],
        maintenance=tree.get("maintenance", "lazy"),
        opened=Opened(
            manifest.messages,
            chosen.restore,
            {(relation, sql): value for relation, sql, value in tree["centers"]},
            Version(directory.path, manifest.number),
            tree.get("bound"),
            tree.get("streams", {}),
        ),
    )
    add_further(wide._core, tree)
    place.manifest = manifest
    wide.saved.add(directory.path, place)
    return wide


def _hypertree(schema: Schema, tree: Mapping[str, Any]) -> Hypertree:
    bags = tuple(
        Bag(name, frozenset(attributes), tuple(relations), frozenset(*extra))
        for name, attributes, relations, *extra in tree["bags"]
    )
    columns = {name: frozenset(each) for name, each in schema.columns_of.items()}
    edges, added = tuple(map(tuple, tree["edges"])), frozenset(tree.get("added", ()))
    return Hypertree(bags, edges, columns, schema.rows, added)


def _measure(given: Any) -> MeasureLike:
    if isinstance(given, str):
        return given
    parts: dict[str, Any] = {
        name: tuple(each) if isinstance(each, list) else each
        for name, each in given["semiring"].items()
    }
    return CustomMeasure(Semiring(**parts), given["lifts"], given["final"])


def vacuum(path: Path, keep: int = 1, grace: float = GRACE) -> list[str]:
    """Delete all versions but the newest `keep`, and the files that only they name.

    Files that no version names, as writers leave which were killed, are deleted once they are `grace`
    minutes old: until then a writer at work may be about to name them. So with `grace=0` nobody
    should be saving meanwhile. Whoever has an older version open loses what is not read yet. Returns
    what was deleted.
    """
    if keep < 1:
        raise SavedError(f"keep is at least 1, the newest version; got {keep}.")
    if grace < 0:
        raise SavedError(f"grace is a number of minutes; got {grace}.")
    directory = Directory(path)
    there = {f"{d}/{name}" for d in (MESSAGES, RELATIONS) for name in directory.names(d)}
    begun = {f"{MANIFESTS}/{name}" for name in directory.names(MANIFESTS) if name[0] == "."}
    every = numbers(directory)
    if not every:
        read(directory)  # which says why not
    named = set().union(*(read(directory, number).files for number in every[-keep:]))
    dropped: set[str] = set()
    for number in every[:-keep]:
        with suppress(SavedError):  # damaged, or vacuumed away by somebody else
            dropped |= read(directory, number).files
    # Manifests first: there must never be one that names a file which is gone.
    old = [file_of(number) for number in every[:-keep]]
    unnamed = sorted((there | begun) - named)
    gone = [
        name for name in unnamed if name in dropped or not grace or directory.age(name) > grace * 60
    ]
    for name in (*old, *gone):
        directory.remove(name)
    return [*old, *gone]


@dataclass(frozen=True)
class RelationStatus:
    """A relation of a saved tree: where its rows are, and why they cannot be read if they cannot."""

    name: str
    rows: int
    where: str
    problem: str | None
    changes: int = 0
    """How many rows have come and gone since it was written as one."""


@dataclass(frozen=True)
class Status:
    """What is in the directory of a saved tree; `print` tells."""

    path: str
    version: int
    versions: tuple[int, ...]
    created: str
    calitree: str
    engine: str
    measures: Mapping[str, str]
    relations: tuple[RelationStatus, ...]
    messages: int
    nbytes: int

    def __str__(self) -> str:
        older = f", one of {len(self.versions)}" if len(self.versions) > 1 else ""
        lines = [
            f"{self.path}: version {self.version}{older}, saved {self.created} from the "
            f"{self.engine} engine by calitree {self.calitree}",
            f"{self.messages} messages, {self.nbytes:,} bytes in memory",
            *(f"measure  {name} = {text}" for name, text in self.measures.items()),
        ]
        for each in self.relations:
            problem = f"; missing: {each.problem}" if each.problem else ""
            updates = f", {each.changes:,} rows of changes beside" if each.changes else ""
            lines.append(
                f"relation {each.name}, {each.rows:,} rows, {each.where}{updates}{problem}"
            )
        return "\n".join(lines)


def status(path: Path, version: int | None = None) -> Status:
    """What a directory holds, and whether the relations are where they were."""
    directory = Directory(path)
    manifest = read(directory, version)
    measures = {
        name: given if isinstance(given, str) else f"{given['semiring']['name']} of its own"
        for name, given in manifest.tree["measures"].items()
    }
    return Status(
        str(directory),
        manifest.number,
        tuple(numbers(directory)),
        manifest.created,
        manifest.calitree,
        manifest.tree["engine"],
        measures,
        tuple(map(_relation_status, manifest.relations)),
        len(manifest.messages),
        sum(each.table.nbytes for each in manifest.messages),
    )


def _relation_status(relation: SavedRelation) -> RelationStatus:
    source, problem = relation.source, None
    if source.place == "copied":
        where = "copied"
    elif source.place == "files":
        count = len(source.files)
        where = f"in {source.files[0].path}" if count == 1 else f"in {count} files"
    elif source.place == "table":
        where = f"in Spark's table {source.table}"
    else:
        where, problem = "not saved", source.reason
    if problem is None:
        parts = [relation.part(rows) for each in relation.changes for rows in each.parts]
        files = [file for each in (relation, *parts) for file in each.source.files]
        problem = next((each.problem for each in files if each.problem), None)
    changes = sum(each.touched for each in relation.changes)
    return RelationStatus(relation.name, relation.current_rows, where, problem, changes)
