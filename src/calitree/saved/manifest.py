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
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import RLock
from weakref import WeakKeyDictionary

from calitree.calibration.message import Shelved
from calitree.errors import SavedError
from calitree.saved.codec import Json, Manifest, decoded, encoded
from calitree.saved.directory import Directory
from calitree.storage.filesystem import shown
from calitree.storage.table_format import SavedRelation

FORMAT = 3
READS = (1, 2, 3)
"""In format 1 relations did not change, and up to format 2 none was added to a tree with messages."""
MANIFESTS, MESSAGES, RELATIONS = "manifests", "messages", "relations"


@dataclass(frozen=True)
class Version:
    """A saved tree by where it is."""

    directory: str
    number: int

    def __str__(self) -> str:
        return f"version {self.number} of {shown(self.directory)}"


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

    def __init__(self, last: Version | None = None, place: Place | None = None) -> None:
        self.last = last
        self.lock = RLock()
        """Held by who saves or reloads, not by who updates or asks."""
        self._places: dict[str, Place] = {}
        if last is not None and place is not None:
            self._places[last.directory] = place

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
    body = encoded(manifest)
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
        return decoded(directory, content, number)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        others = ", ".join(str(each) for each in there if each != number)
        hint = f" Other versions are there: {others}." if others else ""
        raise SavedError(f"{where} is damaged ({type(error).__name__}: {error}).{hint}") from error


def file_of(number: int) -> str:
    """The name of a manifest below the directory."""
    return f"{MANIFESTS}/{number:012d}.json"


def _checksum(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
