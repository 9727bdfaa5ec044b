"""Saving a tree: write what is not in the directory yet, then commit a manifest that names it all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from os import PathLike
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from calitree.custom import CustomMeasure
from calitree.directory import Directory, SavedError
from calitree.manifest import (
    MESSAGES,
    RELATIONS,
    Json,
    Manifest,
    Saves,
    Version,
    commit,
    name_below,
)
from calitree.message import Message, Shelved
from calitree.query import MeasureLike
from calitree.saved_tables import (
    MissingRelationError,
    SavedFile,
    SavedMessage,
    SavedRelation,
    Saver,
    Source,
    text_of_schema,
    write_parquet,
)
from calitree.schema import Relation
from calitree.storage import reason, shown
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from calitree.calibrated import WideTable


def save(wide: WideTable, path: str | PathLike[str], copy_below: int) -> int:
    """Save a tree; the number of its version in the directory."""
    from calitree import __version__

    tree = _tree(wide)
    directory = Directory(path)
    saving = Saving(wide, directory, copy_below)
    with saving.all_or_nothing():
        relations = tuple(saving.relation(each) for each in wide.schema.relations.values())
        messages = tuple(saving.messages())
        directory.sync(*saving.written)
        number = commit(directory, Manifest(relations, messages, tree, __version__))
    saving.saves.last = Version(directory.path, number)
    wide.saved = saving.saves
    return number


class Saving:
    """One tree on its way into a directory. `written` are the files that are new there."""

    def __init__(self, wide: WideTable, directory: Directory, copy_below: int) -> None:
        if not isinstance(wide.engine, Saver):
            raise SavedError(
                f"Trees of the {wide.engine.name} engine cannot be saved; calibrate with another."
            )
        self.wide, self.directory, self.copy_below = wide, directory, copy_below
        self.engine, self.saver = wide.engine, wide.engine
        here = wide.saved.last is not None and wide.saved.last.directory == directory.path
        self.saves = wide.saved if here else Saves()
        directory.make(MESSAGES, RELATIONS)
        self.there = {
            f"{below}/{name}" for below in (MESSAGES, RELATIONS) for name in directory.names(below)
        }
        self.written: list[str] = []

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what was written, if that fails. Who is killed leaves it to `tidy`."""
        try:
            yield
        except BaseException as error:
            for name in self.written:
                with suppress(Exception):
                    self.directory.remove(name)
            if isinstance(error, OSError):  # a full disk, say
                raise self.directory.refused(error) from error
            raise

    def _new(self, below: str, name: str) -> str:
        self.written.append(f"{below}/{name}-{uuid4().hex[:12]}.parquet")
        return self.written[-1]

    def _is_here(self, path: str) -> bool:
        """Whether a file is in the directory; others may have tidied it away."""
        name = name_below(path)
        return name in self.there and self.directory.below(name) == path

    # -- relations -------------------------------------------------------------------------------

    def relation(self, relation: Relation) -> SavedRelation:
        known = self.saves.entries.get(relation.table)
        if isinstance(known, SavedRelation):
            copied = known.source.files if known.source.place == "copied" else ()
            if all(self._is_here(file.path) for file in copied):
                return replace(known, name=relation.name, version=relation.version)
        made = self._described(relation)
        self.saves.entries[relation.table] = made
        return made

    def _described(self, relation: Relation) -> SavedRelation:
        table, name = relation.table, relation.name
        origin = self.saver.origin(table)
        described = SavedRelation(
            name,
            relation.version,
            text_of_schema(origin.schema),
            dict(table.kinds),
            table.rows,
            table.null_free,
            origin.nbytes,
            Source("nowhere") if origin.source is None else origin.source,
        )
        source = origin.source
        if source is None or source.place == "copied":
            return self._copied(described, relation)
        size = sum(file.size for file in source.files) if source.files else origin.nbytes
        if size <= self.copy_below:
            # Where the rows are out of reach, it is noted where they should be.
            with suppress(MissingRelationError):
                return self._copied(described, relation)
        return described

    def _copied(self, described: SavedRelation, relation: Relation) -> SavedRelation:
        import pyarrow as pa

        found = _typed(self.engine.arrow(relation.table), described)
        name = self._new(RELATIONS, re.sub(r"[^A-Za-z0-9_-]", "_", relation.name)[:60])
        path = self.directory.below(name)
        try:
            write_parquet(found, path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SavedError(
                f"{relation.name} cannot be written as Parquet: {reason(error)}. Leave out or cast "
                "that column before it is added."
            ) from error
        source = Source("copied", (SavedFile(path, 0, ()),))
        schema = text_of_schema(found.schema)
        return replace(described, schema=schema, nbytes=found.nbytes, source=source)

    # -- messages --------------------------------------------------------------------------------

    def messages(self) -> Iterator[Shelved]:
        for message, may_go in self.wide._store.messages:
            yield self._message(message, pinned=not may_go)
        for shelved in self.wide._store.shelved:
            yield self._again(shelved)

    def _message(self, message: Message, pinned: bool) -> Shelved:
        if message.shelved is not None:
            return self._again(message.shelved)
        known = self.saves.entries.get(message)
        if not (isinstance(known, Shelved) and self._has(known.table)):
            key = message.key
            path = self.directory.below(self._new(MESSAGES, key.digest))
            table = self.saver.write(message.table, path)
            known = Shelved(key.digest, key.text, message.column_texts, pinned, table)
            self.saves.entries[message] = known
        return known

    def _again(self, shelved: Shelved) -> Shelved:
        """One that was restored; copied if it is in another directory."""
        if self._has(shelved.table):
            return shelved
        name = self._new(MESSAGES, shelved.digest)
        try:
            self.directory.copy(shelved.table.path, name)
        except FileNotFoundError:
            raise SavedError(
                f"A message of this tree is not in {shown(shelved.table.path)} any more. Open the "
                "tree again."
            ) from None
        return replace(shelved, table=replace(shelved.table, path=self.directory.below(name)))

    def _has(self, table: SavedMessage) -> bool:
        return not table.columns or self._is_here(table.path)


def _typed(table: pa.Table, described: SavedRelation) -> pa.Table:
    """Integers of 64 bits without a sign, which are decimals to Spark, as what they are."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if described.kinds[field.name] is Kind.INTEGER and pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.uint64()))
    return table.replace_schema_metadata(None)


def _tree(wide: WideTable) -> Json:
    """All of the tree but its relations and messages."""
    schema, asked = wide.schema, wide.pivot
    return {
        "engine": wide.engine.name,
        "joins": [[join.left, join.right, join.pairs] for join in schema.joins],
        "attributes": [
            [each.name, each.columns, each.kind.value] for each in schema.attributes.values()
        ],
        "bags": [[bag.name, sorted(bag.attributes), bag.relations] for bag in wide.tree.bags],
        "edges": wide.tree.edges,
        "measures": {name: _measure(name, given) for name, given in wide.measures.items()},
        "group_by": list(asked.group_by),
        "where": asked.where,
        "centers": [[*key, value] for key, value in wide._centers.items()],
        "memory_limit": wide._store.memory_limit,
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
