"""Saving a tree: write what is not in the directory yet, then commit a manifest that names it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from typing import NamedTuple, cast
from uuid import uuid4

from calitree.calibration.branch import Branch
from calitree.calibration.message import Message, Shelved
from calitree.calibration.planning.staleness import stale_relations
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.elements import ElementTable
from calitree.engines.api.protocol import Persistent
from calitree.errors import SavedError
from calitree.interrupts import run, uninterrupted
from calitree.saved.directory import MESSAGES, RELATIONS, DataFiles, Directory, name_below
from calitree.saved.location import Saves, Version
from calitree.saved.manifest import Manifest, commit, file_of, newest, numbers, read
from calitree.saved.read_files import with_logs
from calitree.saved.rebase import take_over
from calitree.saved.relation_writer import RelationWriter
from calitree.saved.tree_codec import encoded_tree
from calitree.storage.file_log import FileLog
from calitree.storage.table_format import SavedMessage
from calitree.version import __version__

COPY_BELOW = 64 << 20
"""Bytes of a relation up to which it is copied to the directory."""

MAX_IDS = 64
"""The versions that a manifest names of those it goes on from."""


def save(
    branch: Branch, saves: Saves, path: str | PathLike[str] | None, copy_below: int = COPY_BELOW
) -> int:
    """Save a tree; the number of its version in the directory. It can be asked and updated meanwhile."""
    engine = branch.state.engine
    if not isinstance(engine, Persistent):
        raise SavedError(
            f"Trees of the {engine.name} engine cannot be saved; calibrate with another."
        )
    with saves.lock:
        if path is None:
            if saves.last is None:
                raise SavedError("This tree was neither saved nor opened: say where, save(path).")
            path = saves.last.directory
        saving = Saving(branch, saves, Directory(path), copy_below)
        with saving.all_or_nothing():
            return saving.commit()


class SaveCandidate(NamedTuple):
    """A message that may be saved: one at hand, or one of a saved tree that was not needed yet."""

    message: Message | Shelved
    pinned: bool
    stale: Mapping[str, int]
    """The relations that have changed since, with the revisions that the message has."""

    def is_useful(self, revisions: Mapping[str, Sequence[int]]) -> bool:
        """Whether it is up to date, or pinned and can be brought up to date from saved revisions."""
        return not self.stale or (
            self.pinned and all(v in revisions[name] for name, v in self.stale.items())
        )


class Content(NamedTuple):
    """What of a tree is saved, all of the same time."""

    snapshot: Snapshot
    streams: dict[str, int]
    read_files: dict[str, FileLog]
    messages: list[tuple[Message | Shelved, bool]]
    """Each with whether it is pinned."""

    @classmethod
    def of(cls, branch: Branch) -> Content:
        """What a branch has now."""
        with branch.lock:
            state, store = branch.state, branch.state.store
            messages: list[tuple[Message | Shelved, bool]] = [
                (message, not may_go)
                for message, may_go in store.messages
                if not isinstance(message.table, ElementTable)  # Python values are computed anew
            ]
            messages += [(shelved, shelved.pinned) for shelved in store.shelved]
            return cls(branch.head, dict(state.streams), dict(state.read_files), messages)

    def candidates(self) -> list[SaveCandidate]:
        """The messages, compared with the revisions of the relations."""
        tree, revisions = self.snapshot.state.tree, self.snapshot.revisions
        return [
            SaveCandidate(
                m,
                pinned,
                stale_relations(tree, m.key if isinstance(m, Message) else m, revisions),
            )
            for m, pinned in self.messages
        ]


class Saving:
    """One tree on its way into a directory."""

    def __init__(self, branch: Branch, saves: Saves, directory: Directory, copy_below: int) -> None:
        self.branch, self.saves, self.directory = branch, saves, directory
        self.engine, self.copy_below = branch.state.engine, copy_below
        self.location = saves.location(directory.path)
        self.newest_before = newest(directory)
        directory.make(MESSAGES, RELATIONS)
        self.files = DataFiles(directory)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Delete what was written, if saving fails. A process that is killed leaves it to `vacuum`."""
        try:
            yield
        except BaseException as error:
            with suppress(Exception), uninterrupted():
                self._delete_written()
            if isinstance(error, OSError):  # a full disk, say
                raise self.directory.refused(error) from error
            raise

    def _delete_written(self) -> None:
        """It may have been interrupted after the commit: files that a manifest names stay."""
        new = [number for number in numbers(self.directory) if number > self.newest_before]
        named = [read(self.directory, number).files for number in new]
        for name in set(self.files.written).difference(*named):
            self.directory.remove(name)

    def commit(self) -> int:
        """Write what is new, on top of what others have saved meanwhile, and name it all."""
        while True:
            number = take_over(self.branch, self.saves, self.directory) + 1
            self.files.list()
            manifest = self._manifest(Content.of(self.branch))
            run(lambda: self.directory.sync(*self.files.written))
            if commit(self.directory, manifest, number) and self._is_continued(manifest, number):
                self.files.written.clear()
                self.location.manifest = replace(manifest, number=number)
                self.saves.last = Version(self.directory.path, number)
                if manifest.files <= self.files.list():
                    return number
                # Some of it was vacuumed away before it was named.

    def _is_continued(self, manifest: Manifest, number: int) -> bool:
        """Whether all that was committed after this goes on from it.

        Not if others had taken the number before, and gone on, and their version of this number was
        vacuumed away meanwhile.
        """
        if (
            newest(self.directory) == number
            or manifest.tree.ids[-1] in read(self.directory).tree.ids
        ):
            return True
        self.directory.remove(file_of(number))
        return False

    def _manifest(self, content: Content) -> Manifest:
        candidates, relations = content.candidates(), content.snapshot.schema.relations
        pinned = [candidate for candidate in candidates if candidate.pinned]
        known = self.location.manifest
        lineage, ids = (uuid4().hex, ()) if known is None else (known.tree.lineage, known.tree.ids)
        tree = replace(
            encoded_tree(content.snapshot),
            streams=content.streams,
            lineage=lineage,
            ids=(*ids[1 - MAX_IDS :], uuid4().hex),
        )
        tree = with_logs(tree, content.read_files, self.files, self.location)
        writer = RelationWriter(
            self.engine,
            self.files,
            self.location,
            copy_below=self.copy_below,
            needed={
                name: {one.stale[name] for one in pinned if name in one.stale} for name in relations
            },
            views=tree.as_of,
        )
        saved = tuple(writer.write(relation) for relation in relations.values())
        revisions = {relation.name: relation.revisions for relation in saved}
        messages = [self._message(one) for one in candidates if one.is_useful(revisions)]
        return Manifest(saved, tuple(filter(None, messages)), tree, __version__)

    def _message(self, candidate: SaveCandidate) -> Shelved | None:
        """A message in a file of the directory; None if its file was vacuumed away."""
        message, pinned = candidate.message, candidate.pinned
        shelved = message if isinstance(message, Shelved) else message.shelved
        if shelved is None:
            assert isinstance(message, Message)
            return replace(self._written(message, pinned), pinned=pinned)
        here = self._copied(shelved)
        return here and replace(here, pinned=pinned)

    def _written(self, message: Message, pinned: bool) -> Shelved:
        known = self.location.entries.get(message)
        if isinstance(known, Shelved) and self._has(known.table):
            return known
        key = message.key
        path = self.files.new(MESSAGES, key.digest)
        table = cast(Persistent, self.engine).write(message.table, path)
        entry = Shelved(key.digest, key.text, message.column_texts, pinned, table)
        self.location.entries[message] = entry
        return entry

    def _copied(self, shelved: Shelved) -> Shelved | None:
        """A message that is in a file; copied if that is in another directory."""
        if self._has(shelved.table):
            return shelved
        if self.files.owns(shelved.table.path):
            return None  # vacuumed away; it can be computed anew
        shelved.table.check()
        path = self.files.new(MESSAGES, shelved.digest)
        self.directory.copy(shelved.table.path, name_below(path))
        return replace(shelved, table=replace(shelved.table, path=path))

    def _has(self, table: SavedMessage) -> bool:
        return not table.columns or self.files.has(table.path)
