"""Manifests: what a saved tree consists of, in numbered files of JSON.

    DIR/manifests/000000000001.json
    DIR/messages/<hash of the key>-<unique>.parquet
    DIR/relations/<name>-<unique>.parquet

A manifest names all files of one tree, and no file is ever written twice. So saving is to write what
is new, and then to create the next manifest, all at once: before that the tree is the one before, and
after it the new one. Who reads an older manifest is not disturbed. If two save at the same time both
trees are there, under two numbers, and the greater one is what is opened.
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

from calitree.directory import Directory, SavedError
from calitree.message import Shelved
from calitree.saved_tables import SavedColumn, SavedFile, SavedMessage, SavedRelation, Source
from calitree.storage import shown
from calitree.store import Restore
from calitree.types import Kind

FORMAT = 1
MANIFESTS, MESSAGES, RELATIONS = "manifests", "messages", "relations"

Json = dict[str, Any]


@dataclass(frozen=True)
class Manifest:
    """One saved tree. Paths of its own files are full paths here, and below the directory in JSON.

    `tree` has what is neither a relation nor a message: joins, attributes, bags, measures, the pivot.
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
        copied = [file.path for r in self.relations for file in _copies(r)]
        paths = [*copied, *(each.table.path for each in self.messages if each.table.columns)]
        return {name_below(path) for path in paths}


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


class Saves:
    """Where a tree was last saved, or opened from, and which of its tables are in which files."""

    def __init__(self, last: Version | None = None) -> None:
        self.last = last
        self.entries = WeakKeyDictionary[object, SavedRelation | Shelved]()


def numbers(directory: Directory) -> list[int]:
    """The manifests that are there."""
    found = (re.fullmatch(r"(\d{12})\.json", name) for name in directory.names(MANIFESTS))
    return sorted(int(match[1]) for match in found if match)


def commit(directory: Directory, manifest: Manifest) -> int:
    """Make this the newest tree of the directory, and tell its number."""
    body = _body(manifest)
    body["created"] = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"format": FORMAT, "checksum": _checksum(body), **body}
    text = json.dumps(content, ensure_ascii=False, indent=1).encode()
    directory.make(MANIFESTS)
    while True:
        number = max(numbers(directory), default=0) + 1
        if directory.create(_manifest(number), text):
            return number


def read(directory: Directory, number: int | None = None) -> Manifest:
    """The newest manifest, or that of a number."""
    there = numbers(directory)
    if not there:
        if not directory.exists():
            raise SavedError(f"There is no directory {directory}.")
        raise SavedError(f"{directory} is no saved tree: it has no manifest. See WideTable.save.")
    if number is None:
        number = there[-1]
    elif number not in there:
        listed = ", ".join(map(str, there[-10:]))
        raise SavedError(f"{directory} has no version {number}; there are: {listed}.")
    where = f"{directory}/{_manifest(number)}"
    try:
        content = json.loads(directory.read(_manifest(number)))
        found = content.pop("format")
        if found != FORMAT:
            raise SavedError(
                f"{where} has format {found}, and this calitree reads format {FORMAT}. It was saved "
                f"by calitree {content.get('calitree')}: use that version, or save the tree again."
            )
        if content.pop("checksum") != _checksum(content):
            raise ValueError("its checksum is wrong")
        return _manifest_of(directory, content, number)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        others = ", ".join(str(each) for each in there if each != number)
        hint = f" Other versions are there: {others}." if others else ""
        raise SavedError(f"{where} is damaged ({type(error).__name__}: {error}).{hint}") from error


def _manifest(number: int) -> str:
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
    }
    return SavedRelation(**{**found, **changed})


def _message(directory: Directory, found: Mapping[str, Any]) -> Shelved:
    table = dict(found["table"])
    columns = tuple(
        SavedColumn(**{**each, "kind": Kind(each["kind"])}) for each in table["columns"]
    )
    path = directory.below(table["path"])
    return Shelved(
        **{**found, "table": SavedMessage(**{**table, "path": path, "columns": columns})}
    )


def _copies(relation: SavedRelation) -> tuple[SavedFile, ...]:
    return relation.source.files if relation.source.place == "copied" else ()


def name_below(path: str) -> str:
    """The name of a file of ours below the directory: our own names need no escaping in a URL."""
    return "/".join(path.split("?")[0].split("/")[-2:])
