"""Manifests: what a saved tree consists of, in numbered files of JSON.

    DIR/manifests/000000000001.json
    DIR/messages/<hash of the key>-<unique>.parquet
    DIR/relations/<name>-<unique>.parquet
    DIR/relations/read-files-<unique>.json      names of files that streams have read

A manifest names all files of one tree, and no file is ever written twice. So saving is to write what
is new, and then to create the next manifest, all at once: before that the tree is the one before, and
after it the new one. Readers of an older manifest are not disturbed. A number can be taken only once:
a writer that finds it taken looks at what the other one has changed before taking the next (`rebase`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from calitree.calibration.message import Shelved
from calitree.errors import SavedError
from calitree.saved.directory import Directory, name_below
from calitree.storage.digest import FileDigest
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

FORMAT = 5
"""What is new in formats: 2 changes of relations, 3 relations added to a tree with messages, 4 the files of
a stream by their directory (`read_files`, `read_segments`), before each a key of `streams`, 5 digests of files
(`digest`, `digests`, `segment_digests`) and the manifest's own `number`. All are read.
"""
MANIFESTS = "manifests"


@dataclass(frozen=True)
class Manifest:
    """One saved tree. Paths of its own files are full paths here, and below the directory in JSON."""

    relations: tuple[SavedRelation, ...]
    messages: tuple[Shelved, ...]
    tree: Json
    """What is neither a relation nor a message: joins, attributes, bags, measures, the pivot."""
    calitree: str
    created: str = ""
    number: int = 0

    @property
    def files(self) -> set[str]:
        """The names of its own files, below the directory."""
        paths = [path for relation in self.relations for path in relation.own_files]
        paths += [message.table.path for message in self.messages if message.table.columns]
        segments = self.tree.get("read_segments", {}).values()
        return {name_below(path) for path in paths}.union(*segments)

    @property
    def lineage(self) -> str:
        """An id that all versions of one tree have in common."""
        return str(self.tree["lineage"])

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the last versions that it goes on from, and its own at the end."""
        return tuple(self.tree.get("ids", ()))


# -- files ----------------------------------------------------------------------------------------


def file_of(number: int) -> str:
    """The name of a manifest below the directory."""
    return f"{MANIFESTS}/{number:012d}.json"


def numbers(directory: Directory) -> list[int]:
    """The numbers of the manifests in a directory, in order."""
    matches = (re.fullmatch(r"(\d{12})\.json", name) for name in directory.names(MANIFESTS))
    return sorted(int(match[1]) for match in matches if match)


def newest(directory: Directory) -> int:
    """The number of the newest manifest; 0 if there is none."""
    return max(numbers(directory), default=0)


def commit(directory: Directory, manifest: Manifest, number: int) -> bool:
    """Make this the newest tree of the directory, under this number; False if that is taken."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    body = encoded(manifest) | {"created": created, "number": number}
    content = {"format": FORMAT, "checksum": checksum(body), **body}
    text = json.dumps(content, ensure_ascii=False, indent=1).encode()
    directory.make(MANIFESTS)
    return directory.create(file_of(number), text)


def read(directory: Directory, number: int | None = None) -> Manifest:
    """The newest manifest, or that of a number."""
    while True:
        available = numbers(directory)
        chosen = _chosen(directory, available, number)
        text = directory.read(file_of(chosen))
        if text is not None:  # else it was vacuumed away just now
            return _parsed(directory, text, chosen, available)


def _chosen(directory: Directory, available: Sequence[int], number: int | None) -> int:
    if not available:
        if not directory.exists():
            raise SavedError(f"There is no directory {directory}.")
        raise SavedError(f"{directory} is no saved tree: it has no manifest. See WideTable.save.")
    if number is None:
        return available[-1]
    if number not in available:
        listed = ", ".join(map(str, available[-10:]))
        raise SavedError(f"{directory} has no version {number}; there are: {listed}.")
    return number


def _parsed(directory: Directory, text: bytes, number: int, available: Sequence[int]) -> Manifest:
    try:
        content = json.loads(text)
        format_number = content.pop("format")
        if format_number not in range(1, FORMAT + 1):
            raise SavedError(
                f"{directory}/{file_of(number)} has format {format_number}, and this calitree reads "
                f"formats 1 to {FORMAT}. It was saved by calitree {content.get('calitree')}: use that "
                "version, or save the tree again."
            )
        given = content.pop("checksum")
        if given != checksum(content):
            raise ValueError("its checksum is wrong")
        own = content.pop("number", number)
        if own != number:
            raise ValueError(f"it is the manifest of version {own}")
        content.setdefault("lineage", given)
        return decoded(directory, content, number)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        others = ", ".join(str(other) for other in available if other != number)
        hint = f" Other versions are there: {others}." if others else ""
        raise SavedError(
            f"{directory}/{file_of(number)} is damaged ({type(error).__name__}: {error}).{hint}"
        ) from error


def checksum(body: Json) -> str:
    """A digest of a manifest's content, by which it is known to be undamaged."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# -- JSON -----------------------------------------------------------------------------------------


def encoded(manifest: Manifest) -> Json:
    """A manifest as JSON."""
    return {
        "calitree": manifest.calitree,
        **manifest.tree,
        "relations": [_encoded_relation(relation) for relation in manifest.relations],
        "messages": [_encoded_message(message) for message in manifest.messages],
    }


def _encoded_relation(relation: SavedRelation) -> Json:
    body = asdict(relation)
    body["kinds"] = {name: kind.value for name, kind in relation.kinds.items()}
    body["null_free"] = sorted(relation.null_free)
    if not relation.unsupported:
        del body["unsupported"]
    for file in body["source"]["files"]:
        file["stamp"] = list(file["stamp"])
        if relation.source.place == "copied":
            file["path"] = name_below(file["path"])
    for part in (body, *body["changes"]):
        part["version"] = part.pop("revision")  # as files have named it from the beginning
    for change in body["changes"]:
        for rows in filter(None, (change["came"], change["went"])):
            rows["path"] = name_below(rows["path"])
            rows["null_free"] = sorted(rows["null_free"])
    return body


def _encoded_message(message: Shelved) -> Json:
    body = asdict(message)
    body["table"]["path"] = name_below(message.table.path)
    for column, saved in zip(body["table"]["columns"], message.table.columns, strict=True):
        column["kind"] = saved.kind.value
    return body


def decoded(directory: Directory, content: Json, number: int) -> Manifest:
    """The manifest that `encoded` has written; what is left of the content is its tree."""
    return Manifest(
        relations=tuple(_relation(directory, body) for body in content.pop("relations")),
        messages=tuple(_message(directory, body) for body in content.pop("messages")),
        calitree=content.pop("calitree"),
        created=content.pop("created"),
        number=number,
        tree=content,
    )


def _relation(directory: Directory, body: Json) -> SavedRelation:
    source, files = body["source"], []
    for part in (body, *body.get("changes", ())):
        part["revision"] = part.pop("version")
    for file in source["files"]:
        path = file["path"] if source["place"] == "files" else directory.below(file["path"])
        digest = _digest(file.get("digest"))
        files.append(SavedFile(path, file["size"], tuple(file["stamp"]), digest))
    parsed = {
        "kinds": {name: Kind(value) for name, value in body["kinds"].items()},
        "null_free": frozenset(body["null_free"]),
        "source": Source(**{**source, "files": tuple(files)}),
        "changes": tuple(
            SavedChange(
                **change | {side: _rows(directory, change[side]) for side in ("came", "went")}
            )
            for change in body.get("changes", ())
        ),
    }
    return SavedRelation(**{**body, **parsed})


def _rows(directory: Directory, body: Mapping[str, Any] | None) -> SavedRows | None:
    if body is None:
        return None
    path, null_free = directory.below(body["path"]), frozenset(body["null_free"])
    digest = _digest(body.get("digest"))
    return SavedRows(**{**body, "path": path, "null_free": null_free, "digest": digest})


def _message(directory: Directory, body: Json) -> Shelved:
    table = body["table"]
    columns = (
        SavedColumn(**{**column, "kind": Kind(column["kind"])}) for column in table["columns"]
    )
    path = directory.below(table["path"])
    digests = {name: FileDigest(**digest) for name, digest in table.get("digests", {}).items()}
    saved = SavedMessage(**{**table, "path": path, "columns": tuple(columns), "digests": digests})
    return Shelved(**{**body, "table": saved})


def _digest(body: Json | None) -> FileDigest | None:
    return None if body is None else FileDigest(**body)
