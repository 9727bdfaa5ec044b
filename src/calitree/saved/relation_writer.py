"""Writing relations to the directory of a saved tree: those rows that are not there yet.

Of a relation that was updated these are the changes since the last revision that is there. When they are
many they are merged into one, and when they are a large part of the relation, it is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from calitree.calibration.revisions import (
    MERGE_RATIO,
    Change,
    Rows,
    Updated,
    is_arrow,
    new_revision,
)
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Persistent
from calitree.errors import MissingRelationError, SavedError
from calitree.jointree.schema import Relation
from calitree.saved.directory import RELATIONS, DataFiles
from calitree.saved.guard.trust import sealed
from calitree.saved.location import SavedLocation
from calitree.storage.arrow_types import schema_of_text, text_of_schema
from calitree.storage.filesystem import reason
from calitree.storage.table_format import (
    Origin,
    SavedChange,
    SavedFile,
    SavedRelation,
    SavedRows,
    Source,
    write_parquet,
)
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

MAX_CHANGES = 64
"""The changes of a relation that are kept apart; when there are more, they are merged."""


class RelationWriter:
    """Writes the relations of a tree.

    `needed` has, for each relation, revisions from which a message can still be brought up to date:
    changes before and after one of them are kept apart. The rows of `views` are nowhere else, and are always
    copied.
    """

    def __init__(
        self,
        engine: Engine,
        files: DataFiles,
        location: SavedLocation,
        *,
        copy_below: int,
        needed: Mapping[str, Collection[int]],
        views: Collection[str] = (),
    ) -> None:
        self.engine, self.files, self.entries = engine, files, location.entries
        self.copy_below, self.needed, self.views = copy_below, needed, views

    def write(self, relation: Relation) -> SavedRelation:
        """Write what is not there of a relation, and describe where all of it is."""
        name, table = relation.name, relation.table
        saved = self._known(table)
        if saved is None and isinstance(table, Updated):
            saved = self._updated(name, table)
        elif saved is None:
            saved = self._described(name, table, relation.revision)
        self.entries[table] = saved
        return replace(saved, name=name)

    def _known(self, table: Table) -> SavedRelation | None:
        """A table as it is in the directory already."""
        known = self.entries.get(table)
        if isinstance(known, SavedRelation) and all(map(self.files.has, known.own_files)):
            return known
        return None

    # -- relations that were updated -------------------------------------------------------------

    def _updated(self, name: str, table: Updated) -> SavedRelation:
        """The last revision that is there already, and the changes since."""
        new: list[Updated] = []
        for step in table.back():
            known = self._known(step)
            if known is not None:
                groups = _split(new[::-1], self.needed[name])
                rows = sum(change.touched for change in known.changes) + _touched(new)
                is_rewritten = known.source.place == "copied" and rows * MERGE_RATIO > known.rows
                if is_rewritten or len(known.changes) + len(groups) > MAX_CHANGES:
                    break
                return self._with_changes(known, groups)
            new.append(step)
        return self._anew(name, table)

    def _anew(self, name: str, table: Updated) -> SavedRelation:
        """With as few changes as possible: one, and one more for each revision that is needed.

        If they are a large part of the relation, it is written as it is after the first of them.
        """
        steps = [*table.back()][::-1]
        base, needed = steps[0].before, self.needed[name]
        if base is None:
            return self._parts(name, table)
        if _touched(steps) * MERGE_RATIO > base.rows and self._is_copied(self._origin(base)):
            # Messages that are older than the recent revisions are computed anew as fast.
            first, *rest = _split(steps, _recent_revisions(steps, base.rows) & set(needed))
            return self._with_changes(self._copied(name, first[-1], first[-1].revision), rest)
        return self._with_changes(self._base(name, base, steps[0].old), _split(steps, needed))

    def _parts(self, name: str, table: Updated) -> SavedRelation:
        """The parts that it has now, where the updates they came from are not remembered."""
        base, change = table.plus[0], Change(table.plus[1:], table.minus)
        if not change:
            return replace(self._base(name, base, table.revision), revision=table.revision)
        saved = self._base(name, base, new_revision())
        changes = (self._change(saved, saved.revision, table.revision, [change]),)
        return replace(saved, changes=changes)

    def _base(self, name: str, table: Table, revision: int) -> SavedRelation:
        saved = self._known(table) or self._described(name, table, revision)
        self.entries[table] = saved
        return saved

    def _with_changes(
        self, saved: SavedRelation, groups: Sequence[Sequence[Updated]]
    ) -> SavedRelation:
        changes = [
            self._change(saved, steps[0].old, steps[-1].revision, [step.change for step in steps])
            for steps in groups
        ]
        return replace(saved, changes=(*saved.changes, *changes))

    def _change(
        self, saved: SavedRelation, old: int, revision: int, changes: Sequence[Change]
    ) -> SavedChange:
        null_free = frozenset(saved.kinds)
        for change in changes:
            null_free = change.null_free(null_free)
        inserted = [rows for change in changes for rows in change.inserted]
        deleted = [rows for change in changes for rows in change.deleted]
        came = self._rows(saved, inserted, null_free)
        return SavedChange(old, revision, came, self._rows(saved, deleted, frozenset()))

    def _rows(
        self, saved: SavedRelation, parts: Sequence[Rows], null_free: frozenset[str]
    ) -> SavedRows | None:
        import pyarrow as pa

        if not parts:
            return None
        schema = schema_of_text(saved.schema)
        tables = [part if is_arrow(part) else self.engine.arrow(part) for part in parts]
        typed = [_typed(table, saved.kinds).select(schema.names).cast(schema) for table in tables]
        rows = pa.concat_tables(typed)
        file = self._write(saved.name, rows)
        return SavedRows(file.path, rows.num_rows, rows.nbytes, null_free, file.digest)

    # -- relations as they were added ------------------------------------------------------------

    def _origin(self, table: Table) -> Origin:
        return cast(Persistent, self.engine).origin(table)

    def _described(self, name: str, table: Table, revision: int) -> SavedRelation:
        """A copy of its rows, or where they are."""
        origin = self._origin(table)
        if origin.source is None or origin.source.place == "copied" or name in self.views:
            return self._copied(name, table, revision)
        if self._is_copied(origin):
            # Where the rows cannot be read, it is noted where they should be.
            with suppress(MissingRelationError):
                return self._copied(name, table, revision)
        return _saved_relation(name, table, revision, origin)

    def _is_copied(self, origin: Origin) -> bool:
        source = origin.source
        if source is None or source.place == "copied":
            return True
        size = sum(file.size for file in source.files) if source.files else origin.nbytes
        return size <= self.copy_below

    def _copied(self, name: str, table: Table, revision: int) -> SavedRelation:
        whole = table.settled(self.engine) if isinstance(table, Updated) else table
        rows = _typed(self.engine.arrow(whole), table.kinds)
        source = Source("copied", (self._write(name, rows),))
        return _saved_relation(name, table, revision, Origin(rows.schema, rows.nbytes, source))

    def _write(self, relation: str, rows: pa.Table) -> SavedFile:
        import pyarrow as pa

        path = self.files.new(RELATIONS, re.sub(r"[^A-Za-z0-9_-]", "_", relation)[:60])
        try:
            return SavedFile(path, 0, (), write_parquet(rows, path))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SavedError(
                f"{relation} cannot be written as Parquet: {reason(error)}. Leave out or cast "
                "that column before it is added."
            ) from error


def _saved_relation(name: str, table: Table, revision: int, origin: Origin) -> SavedRelation:
    return SavedRelation(
        name=name,
        revision=revision,
        schema=text_of_schema(origin.schema),
        kinds=dict(table.kinds),
        rows=table.rows,
        null_free=table.null_free,
        nbytes=origin.nbytes,
        source=Source("nowhere") if origin.source is None else sealed(origin.source),
        unsupported=dict(table.unsupported),
    )


def _touched(steps: Iterable[Updated]) -> int:
    """How many rows came or went in these updates."""
    return sum(step.change.came + step.change.went for step in steps)


def _split(steps: Sequence[Updated], at: Collection[int]) -> list[list[Updated]]:
    """Updates in groups, a new one at each of these revisions."""
    groups: list[list[Updated]] = []
    for step in steps:
        if not groups or step.old in at:
            groups.append([])
        groups[-1].append(step)
    return groups


def _recent_revisions(steps: Sequence[Updated], rows: int) -> set[int]:
    """The revisions since which only a small part of so many rows has changed."""
    revisions, total = set(), 0
    for step in reversed(steps):
        total += _touched([step])
        if total * MERGE_RATIO > rows:
            break
        revisions.add(step.old)
    return revisions


def _typed(table: pa.Table, kinds: Mapping[str, Kind]) -> pa.Table:
    """Unsigned integers of 64 bits, which are decimals to Spark, as what they are."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if kinds[field.name] is Kind.INTEGER and pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.uint64()))
    return table.replace_schema_metadata(None)
