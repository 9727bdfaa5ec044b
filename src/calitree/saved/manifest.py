"""Manifests: what a saved tree consists of, in numbered files of JSON.

    DIR/manifests/000000000001.json
    DIR/messages/<hash of the key>-<unique>.parquet
    DIR/relations/<name>-<unique>.parquet

A manifest names all files of one tree, and no file is ever written twice. So saving is to write what
is new, and then to create the next manifest, all at once: before that the tree is the one before, and
after it the new one. Who reads an older manifest is not disturbed. A number can be taken only once:
who finds that it is looks at what the other one has changed before taking the next (`rebase`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from calitree.calibration.message import Shelved
from calitree.calibration.store import Restore
from calitree.errors import SavedError
from calitree.saved.directory import Directory
from calitree.storage.filesystem import shown
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

FORMAT = 3
READS = (1, 2, 3)
"""In format 1 relations did not change, and up to format 2 none was added to a tree with messages."""
MANIFESTS, MESSAGES, RELATIONS = "manifests", "messages", "relations"

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


@dataclass(frozen=True)
class Version:
    """A saved tree by where it is."""

    directory: str
    number: int

    def __str__(self) -> str:
        return f"version {self.number} of {shown(self.directory)}"


class Opened(NamedTuple):
    """What a tree that is opened knows already."""

    messages: Sequence[Shelved]
    restore: Restore
    centers: Mapping[tuple[str, str], float]
    version: Version
    bound: Mapping[object, str] | None
    streams: Mapping[str, int]


class Place:
    """A directory that a tree was saved to, or opened from.

    `manifest` is the version there that the tree has; `entries` tell which of its tables are in
    which files.
    """

    def __init__(self) -> None:
        self.manifest: Manifest | None = None
        self.entries = WeakKeyDictionary[object, SavedRelation | Shelved]()


class Saves:
    """Where a tree was saved, or opened from: the last time, and all the places."""

    def __init__(self, last: Version | None = None) -> None:
        self.last = last
        self._places: dict[str, Place] = {}

    def add(self, directory: str, place: Place) -> None:
        self._places[directory] = place

    def place(self, directory: str) -> Place:
        return self._places.setdefault(directory, Place())


def numbers(directory: Directory) -> list[int]:
    """The manifests that are there."""
    found = (re.fullmatch(r"(\d{12})\.json", name) for name in directory.names(MANIFESTS))
    return sorted(int(match[1]) for match in found if match)


def newest(directory: Directory) -> int:
    """The number of the newest manifest; 0 if there is none."""
    return max(numbers(directory), default=0)


def commit(directory: Directory, manifest: Manifest, number: int) -> bool:
    """Make this the newest tree of the directory, under this number; False if that is taken."""
    body = _body(manifest)
    body["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"format": FORMAT, "checksum": _checksum(body), **body}
    text = json.dumps(content, ensure_ascii=False, indent=1).encode()
    directory.make(MANIFESTS)
    return directory.create(file_of(number), text)


def read(directory: Directory, number: int | None = None) -> Manifest:
    """The newest manifest, or that of a number."""
    while True:
        there = numbers(directory)
        chosen = _chosen(directory, there, number)
        content = directory.read(file_of(chosen))
        if content is not None:  # else it was vacuumed away just now
            return _parsed(directory, content, chosen, there)


def _chosen(directory: Directory, there: Sequence[int], number: int | None) -> int:
    if not there:
        if not directory.exists():
            raise SavedError(f"There is no directory {directory}.")
        raise SavedError(f"{directory} is no saved tree: it has no manifest. See WideTable.save.")
    if number is None:
        return there[-1]
    if number not in there:
        listed = ", ".join(map(str, there[-10:]))
        raise SavedError(f"{directory} has no version {number}; there are: {listed}.")
    return number


def _parsed(directory: Directory, text: bytes, number: int, there: Sequence[int]) -> Manifest:
    where = f"{directory}/{file_of(number)}"
    try:
        content = json.loads(text)
        found = content.pop("format")
        if found not in READS:
            raise SavedError(
                f"{where} has format {found}, and this calitree reads formats 1 to {FORMAT}. It was "
                f"saved by calitree {content.get('calitree')}: use that version, or save the tree "
                "again."
            )
        checksum = content.pop("checksum")
        if checksum != _checksum(content):
            raise ValueError("its checksum is wrong")
        content.setdefault("lineage", checksum)
        return _manifest_of(directory, content, number)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        others = ", ".join(str(each) for each in there if each != number)
        hint = f" Other versions are there: {others}." if others else ""
        raise SavedError(f"{where} is damaged ({type(error).__name__}: {error}).{hint}") from error


def file_of(number: int) -> str:
    """The name of a manifest below the directory."""
    return f"{MANIFESTS}/{number:012d}.json"


def _checksum(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# -- as JSON --------------------------------------------------------------------------------------


def _body(manifest: Manifest) -> Json:
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


def _manifest_of(directory: Directory, content: Json, number: int) -> Manifest:
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
