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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime

from calitree.calibration.message import Shelved
from calitree.errors import SavedError
from calitree.saved.directory import Directory, name_below, own_name
from calitree.saved.tree_record import SavedTree
from calitree.storage.filesystem import reason
from calitree.storage.json_codec import (
    MAX_BYTES,
    Json,
    MalformedError,
    decode,
    encode,
    parse,
)
from calitree.storage.table_format import SavedRelation, SavedRows

FORMAT = 7
"""What is new in formats: 2 changes of relations, 3 relations added to a tree with messages, 4 the files of
a stream by their directory (`read_files`, `read_segments`), before each a key of `streams`, 5 digests of files
(`digest`, `digests`, `segment_digests`), the manifest's own `number`, and seals, 6 outer joins, 7 as-of
joins. All are read.
"""
MANIFESTS = "manifests"

_RETIRED = ("centers",)
"""What older formats have, and nobody needs."""


@dataclass(frozen=True)
class Manifest:
    """One saved tree. Paths of its own files are full paths here, and below the directory in JSON."""

    relations: tuple[SavedRelation, ...]
    messages: tuple[Shelved, ...]
    tree: SavedTree
    calitree: str
    created: str = ""
    number: int = 0

    @property
    def files(self) -> set[str]:
        """The names of its own files, below the directory."""
        paths = [path for relation in self.relations for path in relation.own_files]
        paths += [message.table.path for message in self.messages if message.table.columns]
        segments = self.tree.read_segments.values()
        return {name_below(path) for path in paths}.union(*segments)


# -- files ----------------------------------------------------------------------------------------


def file_of(number: int) -> str:
    """The name of a manifest below the directory."""
    return f"{MANIFESTS}/{number:012d}.json"


def numbers(directory: Directory) -> list[int]:
    """The numbers of the manifests in a directory, in order."""
    return _numbered(directory, "json")


def _numbered(directory: Directory, ending: str) -> list[int]:
    pattern = re.compile(rf"([0-9]{{12}})\.{ending}")
    matches = map(pattern.fullmatch, directory.names(MANIFESTS))
    return sorted(int(match[1]) for match in matches if match)


def newest(directory: Directory) -> int:
    """The number of the newest manifest; 0 if there is none."""
    return max(numbers(directory), default=0)


def dropped_name(number: int) -> str:
    """What the manifest of a version is called once it was dropped."""
    return f"{MANIFESTS}/{number:012d}.dropped"


def dropped_numbers(directory: Directory) -> list[int]:
    """The numbers of the versions that were dropped, and whose files may still be there."""
    return _numbered(directory, "dropped")


def drop(directory: Directory, number: int) -> None:
    """Drop a version: nobody can open it any more."""
    directory.move(file_of(number), dropped_name(number))


def dropped_files(directory: Directory, number: int) -> set[str]:
    """The names of the files of a version that was dropped; none if it is damaged."""
    with suppress(SavedError):
        text = directory.read(dropped_name(number))
        return set() if text is None else _parsed(directory, text, number, ()).files
    return set()


def commit(directory: Directory, manifest: Manifest, number: int) -> bool:
    """Make this the newest tree of the directory, under this number; False if that is taken."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    body = encoded(manifest) | {"created": created, "number": number}
    content = {"format": FORMAT, "checksum": checksum(body), **body}
    text = json.dumps(content, ensure_ascii=False, indent=1).encode()
    if len(text) > MAX_BYTES:
        raise SavedError(
            f"The manifest of this tree would have {len(text):,} bytes, and at most {MAX_BYTES:,} are "
            "read again. Save it with fewer messages: lower its memory_limit."
        )
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
        content = parse(text)
        if not isinstance(content, dict):
            raise MalformedError("it is no object")
        format_number = content.pop("format", None)
        if format_number not in range(1, FORMAT + 1):
            raise SavedError(
                f"{directory}/{file_of(number)} has format {format_number!r:.20}, and this calitree "
                f"reads formats 1 to {FORMAT}. It was saved by calitree "
                f"{content.get('calitree')!s:.20}: use that version, or save the tree again."
            )
        given = content.pop("checksum", None)
        if given != checksum(content):
            raise MalformedError("its checksum is wrong")
        own = content.pop("number", number)
        if own != number:
            raise MalformedError(f"it is the manifest of version {own!r:.20}")
        content.setdefault("lineage", given)
        return decoded(directory, content, number)
    except (ValueError, RecursionError) as error:
        others = ", ".join(str(other) for other in available[-10:] if other != number)
        hint = f" Other versions are there: {others}." if others else ""
        raise SavedError(
            f"{directory}/{file_of(number)} is damaged: {reason(error)}.{hint}"
        ) from error


def checksum(body: Json) -> str:
    """A digest of a manifest's content, by which it is known to be undamaged."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# -- JSON -----------------------------------------------------------------------------------------


def encoded(manifest: Manifest) -> Json:
    """A manifest as JSON."""
    relations = [_placed(relation, name_below) for relation in manifest.relations]
    messages = [_message_at(message, name_below) for message in manifest.messages]
    return {
        "calitree": manifest.calitree,
        **encode(manifest.tree),
        "relations": encode(relations),
        "messages": encode(messages),
    }


@dataclass(frozen=True)
class _Parts:
    """What a manifest has beside its tree."""

    calitree: str
    created: str
    relations: tuple[SavedRelation, ...]
    messages: tuple[Shelved, ...]


def decoded(directory: Directory, content: Json, number: int) -> Manifest:
    """The manifest that `encoded` has written; what is left of the content is its tree."""

    def below(name: str) -> str:
        return directory.below(own_name(name))

    for part in _RETIRED:
        content.pop(part, None)
    own = [part.name for part in fields(_Parts)]
    body = decode(_Parts, {part: content.pop(part) for part in own if part in content})
    return Manifest(
        relations=tuple(_placed(relation, below) for relation in body.relations),
        messages=tuple(_message_at(message, below) for message in body.messages),
        calitree=body.calitree,
        created=body.created,
        number=number,
        tree=decode(SavedTree, content),
    )


Placing = Callable[[str], str]
"""From the name of a file of our own below the directory to its path, or back."""


def _placed(relation: SavedRelation, at: Placing) -> SavedRelation:
    source = relation.source
    if source.place == "copied":
        files = tuple(replace(file, path=at(file.path)) for file in source.files)
        source = replace(source, files=files)
    changes = tuple(
        replace(change, came=_rows_at(change.came, at), went=_rows_at(change.went, at))
        for change in relation.changes
    )
    return replace(relation, source=source, changes=changes)


def _rows_at(rows: SavedRows | None, at: Placing) -> SavedRows | None:
    return rows and replace(rows, path=at(rows.path))


def _message_at(message: Shelved, at: Placing) -> Shelved:
    return replace(message, table=replace(message.table, path=at(message.table.path)))
