"""Saving a tree: write what is not in the directory yet, then commit a manifest that names it all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from calitree.calibration.message import Message, MessageKey, Shelved
from calitree.engines.api.protocol import Persistent
from calitree.errors import SavedError
from calitree.query.binder import MeasureLike
from calitree.query.custom import CustomMeasure
from calitree.saved.directory import Directory
from calitree.saved.manifest import (
    MESSAGES,
    RELATIONS,
    Json,
    Manifest,
    Saves,
    Version,
    commit,
    file_of,
    name_below,
    newest,
    numbers,
    read,
)
from calitree.saved.rebase import stale, take_over
from calitree.saved.relation_writer import Files, SavingRelations
from calitree.storage.filesystem import shown
from calitree.storage.table_format import SavedMessage

if TYPE_CHECKING:
    from calitree.wide_table import WideTable

IDS = 64
"""So many versions back it is known on which ones a version stands."""


def save(wide: WideTable, path: str | PathLike[str] | None, copy_below: int) -> int:
    """Save a tree; the number of its version in the directory."""
    if path is None:
        if wide.saved.last is None:
            raise SavedError("This tree was neither saved nor opened: say where, save(path).")
        path = wide.saved.last.directory
    with wide._lock:
        saving = Saving(wide, Directory(path), copy_below)
        with saving.all_or_nothing():
            return saving.commit()


class Saving:
    """One tree on its way into a directory."""

    def __init__(self, wide: WideTable, directory: Directory, copy_below: int) -> None:
        if not isinstance(wide.engine, Persistent):
            raise SavedError(
                f"Trees of the {wide.engine.name} engine cannot be saved; calibrate with another."
            )
        self.wide, self.directory, self.copy_below = wide, directory, copy_below
        self.saver = wide.engine
        if wide._is_past:  # it does not come from where the tree is by now
            wide.saved = Saves()
        self.place = wide.saved.place(directory.path)
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
            number = take_over(self.wide, self.directory, self.place) + 1
            self.files.look()
            manifest = self._manifest()
            self.directory.sync(*self.files.written)
            if commit(self.directory, manifest, number) and self._stands(manifest, number):
                self.files.written.clear()
                self.place.manifest = replace(manifest, number=number)
                self.wide.saved.last = Version(self.directory.path, number)
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

    def _manifest(self) -> Manifest:
        from calitree import __version__

        wide, known = self.wide, self.place.manifest
        lineage, ids = (known.lineage, known.ids) if known is not None else (uuid4().hex, ())
        tree = _tree(wide) | {"lineage": lineage, "ids": [*ids[1 - IDS :], uuid4().hex]}
        saving = SavingRelations(
            wide.engine, self.files, self.place, self.copy_below, self._needed()
        )
        relations = tuple(map(saving.saved, wide.schema.relations.values()))
        messages = tuple(self.messages({each.name: each.versions for each in relations}))
        return Manifest(relations, messages, tree, __version__)

    def _needed(self) -> dict[str, set[int]]:
        """For each relation, the versions that pinned messages still have."""
        found: dict[str, set[int]] = {name: set() for name in self.wide.schema.relations}
        store = self.wide._core.store
        pinned: list[MessageKey | Shelved] = [message.key for message in store.pinned]
        pinned += [each for each in store.shelved if each.pinned]
        for each in pinned:
            for name, version in stale(self.wide.tree, each, self.wide._now.versions).items():
                found[name].add(version)
        return found

    def messages(self, known: Mapping[str, Sequence[int]]) -> Iterator[Shelved]:
        """Those that are up to date, and the pinned ones that can be brought up to date."""

        def serves(key: MessageKey | Shelved, pinned: bool) -> bool:
            behind = stale(self.wide.tree, key, self.wide._now.versions)
            return not behind or (pinned and all(v in known[name] for name, v in behind.items()))

        store = self.wide._core.store
        for message, may_go in store.messages:
            if serves(message.key, not may_go):
                found = self._message(message, not may_go)
                if found is not None:
                    yield found
        for shelved in store.shelved:
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


def _tree(wide: WideTable) -> Json:
    """All of the tree but its relations and messages."""
    schema, asked = wide.schema, wide.pivot
    return {
        "engine": wide.engine.name,
        "joins": [[join.left, join.right, join.pairs] for join in schema.joins],
        "attributes": [
            [each.name, each.columns, each.kind.value] for each in schema.attributes.values()
        ],
        "bags": [
            [bag.name, sorted(bag.attributes), bag.relations, sorted(bag.extra)]
            for bag in wide.tree.bags
        ],
        "added": [name for name in schema.relations if name in wide.tree.added],
        "edges": wide.tree.edges,
        "measures": {name: _measure(name, given) for name, given in wide.measures.items()},
        "group_by": list(asked.group_by),
        "where": asked.where,
        "further": [
            [list(each.group_by), each.where]
            for each in wide._core.further
            if each.measures is None  # a cube's have the tree's own
        ],
        "centers": [[*key, value] for key, value in dict(wide._core.centers).items()],
        "bound": wide._core.bound,
        "streams": dict(wide._core.streams),
        "memory_limit": wide._core.store.memory_limit,
        "maintenance": wide.maintenance,
    }


def _measure(name: str, given: MeasureLike) -> Any:
    if isinstance(given, str):
        return given
    if isinstance(given, CustomMeasure):
        return asdict(given)
    raise SavedError(
        f"Measure {name!r} cannot be saved: it is a {type(given).__name__}. Give it as SQL text, or "
        "with calitree.aggregate."
    )
