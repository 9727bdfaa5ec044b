"""Manifests as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calitree.calibration.message import Shelved
from calitree.saved.directory import Directory
from calitree.storage.table_format import (
    SavedChange,
    SavedColumn,
    SavedFile,
    SavedMessage,
    SavedRelation,
    SavedRows,
    Source,
)
from calitree.types import Kind

Json = dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """One saved tree. Paths of its own files are full paths here, and below the directory in JSON.

    `tree` has what is neither a relation nor a message: joins, attributes, bags, measures, the pivot,
    and where it comes from: `lineage` is the same for all versions of one tree, and `ids` are those of
    the last versions that it stands on, its own at the end.
    """

    relations: tuple[SavedRelation, ...]
    messages: tuple[Shelved, ...]
    tree: Json
    calitree: str
    created: str = ""
    number: int = 0

    @property
    def files(self) -> set[str]:
        """The names of its own files, below the directory."""
        paths = [path for each in self.relations for path in each.own_files]
        paths += [each.table.path for each in self.messages if each.table.columns]
        return {name_below(path) for path in paths}

    @property
    def lineage(self) -> str:
        return str(self.tree["lineage"])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.tree.get("ids", ()))


def encoded(manifest: Manifest) -> Json:
    relations, messages = [], []
    for relation in manifest.relations:
        each = asdict(relation)
        each["kinds"] = {name: kind.value for name, kind in relation.kinds.items()}
        each["null_free"] = sorted(relation.null_free)
        for file in each["source"]["files"]:
            file["stamp"] = list(file["stamp"])
            if relation.source.place == "copied":
                file["path"] = name_below(file["path"])
        for change in each["changes"]:
            for rows in filter(None, (change["came"], change["went"])):
                rows["path"] = name_below(rows["path"])
                rows["null_free"] = sorted(rows["null_free"])
        relations.append(each)
    for message in manifest.messages:
        each = asdict(message)
        each["table"]["path"] = name_below(message.table.path)
        for column, saved in zip(each["table"]["columns"], message.table.columns, strict=True):
            column["kind"] = saved.kind.value
        messages.append(each)
    return {
        "calitree": manifest.calitree,
        **manifest.tree,
        "relations": relations,
        "messages": messages,
    }


def decoded(directory: Directory, content: Json, number: int) -> Manifest:
    calitree, created = content.pop("calitree"), content.pop("created")
    relations = tuple(_relation(directory, each) for each in content.pop("relations"))
    messages = tuple(_message(directory, each) for each in content.pop("messages"))
    return Manifest(relations, messages, content, calitree, created, number)


def _relation(directory: Directory, found: Mapping[str, Any]) -> SavedRelation:
    source = dict(found["source"])
    files = []
    for each in source["files"]:
        path = each["path"] if source["place"] == "files" else directory.below(each["path"])
        files.append(SavedFile(path, each["size"], tuple(each["stamp"])))
    changed = {
        "kinds": {name: Kind(value) for name, value in found["kinds"].items()},
        "null_free": frozenset(found["null_free"]),
        "source": Source(**{**source, "files": tuple(files)}),
        "changes": tuple(_change(directory, each) for each in found.get("changes", ())),
    }
    return SavedRelation(**{**found, **changed})


def _change(directory: Directory, found: Mapping[str, Any]) -> SavedChange:
    came, went = (_rows(directory, found[name]) for name in ("came", "went"))
    return SavedChange(found["old"], found["version"], came, went)


def _rows(directory: Directory, found: Mapping[str, Any] | None) -> SavedRows | None:
    if found is None:
        return None
    path, null_free = directory.below(found["path"]), frozenset(found["null_free"])
    return SavedRows(path, found["rows"], found["nbytes"], null_free)


def _message(directory: Directory, found: Mapping[str, Any]) -> Shelved:
    table = dict(found["table"])
    columns = tuple(
        SavedColumn(**{**each, "kind": Kind(each["kind"])}) for each in table["columns"]
    )
    path = directory.below(table["path"])
    return Shelved(
        **{**found, "table": SavedMessage(**{**table, "path": path, "columns": columns})}
    )


def name_below(path: str) -> str:
    """The name of a file of ours below the directory: our own names need no escaping in a URL."""
    return "/".join(path.split("?")[0].split("/")[-2:])
