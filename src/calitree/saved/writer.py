"""Saving a tree: write what is not in the directory yet, then commit a manifest that names it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from typing import NamedTuple
from uuid import uuid4

from calitree.calibration.branch import Branch
from calitree.calibration.message import Message, MessageKey, Shelved
from calitree.calibration.planning.staleness import stale_relations
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.protocol import Persistent
from calitree.errors import SavedError
from calitree.saved.codec import Manifest, name_below
from calitree.saved.directory import Directory
from calitree.saved.manifest import (
    MESSAGES,
    RELATIONS,
    Saves,
    Version,
    commit,
    file_of,
    newest,
    numbers,
    read,
)
from calitree.saved.rebase import take_over
from calitree.saved.relation_writer import Files, SavingRelations
from calitree.saved.tree_codec import encoded_tree
from calitree.storage.filesystem import shown
from calitree.storage.table_format import SavedMessage
from calitree.version import __version__

COPY_BELOW = 64 << 20
"""Bytes of a relation that is copied to the directory."""

IDS = 64
"""So many versions back it is known on which ones a version stands."""


def save(
    branch: Branch, saves: Saves, path: str | PathLike[str] | None, copy_below: int = COPY_BELOW
) -> int:
    """Save a tree; the number of its version in the directory. It can be asked and updated meanwhile."""
    if path is None:
        if saves.last is None:
            raise SavedError("This tree was neither saved nor opened: say where, save(path).")
        path = saves.last.directory
    with saves.lock:
        saving = Saving(branch, saves, Directory(path), copy_below)
        with saving.all_or_nothing():
            return saving.commit()


class Saved(NamedTuple):
    """What of a tree is saved, all of the same time."""

    snapshot: Snapshot
    streams: dict[str, int]
    messages: list[tuple[Message, bool]]
    shelved: list[Shelved]

    @classmethod
    def now(cls, branch: Branch) -> Saved:
        with branch.lock:
            state, store = branch.state, branch.state.store
            return cls(branch.head, dict(state.streams), store.messages, store.shelved)


class Saving:
    """One tree on its way into a directory."""

    def __init__(self, branch: Branch, saves: Saves, directory: Directory, copy_below: int) -> None:
        engine = branch.state.engine
        if not isinstance(engine, Persistent):
            raise SavedError(
                f"Trees of the {engine.name} engine cannot be saved; calibrate with another."
            )
        self.branch, self.saves, self.directory = branch, saves, directory
        self.engine, self.saver, self.copy_below = branch.state.engine, engine, copy_below
        self.place = saves.place(directory.path)
        self.files = Files(directory)
        self.began = newest(directory)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what was written, if that fails. Who is killed leaves it to `vacuum`."""
        try:
            yield
        except BaseException as error:
            with suppress(Exception):
                self._take_back()
            if isinstance(error, OSError):  # a full disk, say
                raise self.directory.refused(error) from error
            raise

    def _take_back(self) -> None:
        """It may have been interrupted when all was done: what a manifest names stays."""
        later = [each for each in numbers(self.directory) if each > self.began]
        named = [read(self.directory, each).files for each in later]
        for name in set(self.files.written).difference(*named):
            self.directory.remove(name)

    def commit(self) -> int:
        """Write what is new, on top of what others have saved meanwhile, and name it all."""
        self.directory.make(MESSAGES, RELATIONS)
        while True:
            number = take_over(self.branch, self.saves, self.directory) + 1
            self.files.look()
            manifest = self._manifest(Saved.now(self.branch))
            self.directory.sync(*self.files.written)
            if commit(self.directory, manifest, number) and self._stands(manifest, number):
                self.files.written.clear()
                self.place.manifest = replace(manifest, number=number)
                self.saves.last = Version(self.directory.path, number)
                if manifest.files <= self.files.look():
                    return number
                # Some of it was vacuumed away before it was named.

    def _stands(self, manifest: Manifest, number: int) -> bool:
        """Whether all that was committed later stands on this. Not if others had taken the number
        before, and gone on, and their version of this number was vacuumed away meanwhile.
        """
        if newest(self.directory) == number or manifest.ids[-1] in read(self.directory).ids:
            return True
        self.directory.remove(file_of(number))
        return False

    def _manifest(self, saved: Saved) -> Manifest:
        known, snapshot = self.place.manifest, saved.snapshot
        lineage, ids = (known.lineage, known.ids) if known is not None else (uuid4().hex, ())
        origin = {"lineage": lineage, "ids": [*ids[1 - IDS :], uuid4().hex]}
        tree = encoded_tree(snapshot, saved.streams) | origin
        saving = SavingRelations(
            self.engine, self.files, self.place, self.copy_below, _needed(saved)
        )
        relations = tuple(map(saving.saved, snapshot.schema.relations.values()))
        versions = {each.name: each.versions for each in relations}
        return Manifest(relations, tuple(self._messages(saved, versions)), tree, __version__)

    def _messages(self, saved: Saved, known: Mapping[str, Sequence[int]]) -> Iterator[Shelved]:
        """Those that are up to date, and the pinned ones that can be brought up to date."""
        tree, versions = saved.snapshot.state.tree, saved.snapshot.versions

        def serves(key: MessageKey | Shelved, pinned: bool) -> bool:
            since = stale_relations(tree, key, versions)
            return not since or (pinned and all(v in known[name] for name, v in since.items()))

        for message, may_go in saved.messages:
            if serves(message.key, not may_go):
                found = self._message(message, not may_go)
                if found is not None:
                    yield found
        for shelved in saved.shelved:
            if serves(shelved, shelved.pinned):
                found = self._again(shelved)
                if found is not None:
                    yield found

    def _message(self, message: Message, pinned: bool) -> Shelved | None:
        if message.shelved is not None:
            again = self._again(message.shelved)
            return again and replace(again, pinned=pinned)
        known = self.place.entries.get(message)
        if not (isinstance(known, Shelved) and self._has(known.table)):
            key = message.key
            table = self.saver.write(message.table, self.files.new(MESSAGES, key.digest))
            known = Shelved(key.digest, key.text, message.column_texts, pinned, table)
            self.place.entries[message] = known
        return replace(known, pinned=pinned)

    def _again(self, shelved: Shelved) -> Shelved | None:
        """One that was restored; copied if it is in another directory."""
        if self._has(shelved.table):
            return shelved
        if self.files.owns(shelved.table.path):
            return None  # vacuumed away; it can be computed anew
        path = self.files.new(MESSAGES, shelved.digest)
        try:
            self.directory.copy(shelved.table.path, name_below(path))
        except FileNotFoundError:
            raise SavedError(
                f"A message of this tree is not in {shown(shelved.table.path)} any more. Open the "
                "tree again."
            ) from None
        return replace(shelved, table=replace(shelved.table, path=path))

    def _has(self, table: SavedMessage) -> bool:
        return not table.columns or self.files.has(table.path)


def _needed(saved: Saved) -> dict[str, set[int]]:
    """For each relation, the versions that pinned messages still have."""
    snapshot = saved.snapshot
    found: dict[str, set[int]] = {name: set() for name in snapshot.schema.relations}
    pinned: list[MessageKey | Shelved] = [m.key for m, may_go in saved.messages if not may_go]
    pinned += [each for each in saved.shelved if each.pinned]
    for each in pinned:
        for name, version in stale_relations(snapshot.state.tree, each, snapshot.versions).items():
            found[name].add(version)
    return found
