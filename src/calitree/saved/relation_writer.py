"""Relations on their way into the directory of a saved tree: what is not there yet is written.

Of a relation that was updated that is what came and went since the last version that is there. When the
changes are many they are put together, and when they are much of the relation, it is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from calitree.calibration.versions import MERGE_RATIO, Change, Rows, Updated, is_arrow, new_version
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Persistent
from calitree.errors import MissingRelationError, SavedError
from calitree.jointree.schema import Relation
from calitree.saved.codec import name_below
from calitree.saved.directory import Directory
from calitree.saved.manifest import MESSAGES, RELATIONS, Place
from calitree.storage.filesystem import reason
from calitree.storage.table_format import (
    Origin,
    SavedChange,
    SavedFile,
    SavedRelation,
    SavedRows,
    Source,
    schema_of_text,
    text_of_schema,
    write_parquet,
)
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

CHANGES = 64
"""When a relation has more changes, they are put together."""


class Files:
    """The files of a directory: those that are `there`, and those that were `written` just now."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.there: set[str] = set()
        self.written: list[str] = []

    def look(self) -> set[str]:
        """See what is there by now."""
        names = self.directory.names
        self.there = {f"{below}/{name}" for below in (MESSAGES, RELATIONS) for name in names(below)}
        return self.there

    def new(self, below: str, name: str) -> str:
        """The path of a new file."""
        self.written.append(f"{below}/{name}-{uuid4().hex[:12]}.parquet")
        self.there.add(self.written[-1])
        return self.directory.below(self.written[-1])

    def has(self, path: str) -> bool:
        """Whether a file is in the directory; others may have vacuumed it away."""
        return self.owns(path) and name_below(path) in self.there

    def owns(self, path: str) -> bool:
        """Whether it would be in this directory."""
        return self.directory.below(name_below(path)) == path


class SavingRelations:
    """The relations of a tree. `needed` are, for each, versions from which a message can still be
    brought up to date: changes before and after one of them are kept apart.
    """

    def __init__(
        self,
        engine: Engine,
        files: Files,
        place: Place,
        copy_below: int,
        needed: Mapping[str, Collection[int]],
    ) -> None:
        self.engine, self.saver = engine, cast(Persistent, engine)
        self.files, self.place = files, place
        self.copy_below, self.needed = copy_below, needed

    def saved(self, relation: Relation) -> SavedRelation:
        """A relation, with all that is new of it written."""
        table = relation.table
        made = self._known(table)
        if made is None and isinstance(table, Updated):
            made = self._updated(relation.name, table)
        elif made is None:
            made = self._described(relation.name, table, relation.version)
        self.place.entries[table] = made
        return replace(made, name=relation.name)

    def _known(self, table: Table) -> SavedRelation | None:
        """A relation as it is in the directory already."""
        known = self.place.entries.get(table)
        if isinstance(known, SavedRelation) and all(map(self.files.has, known.own_files)):
            return known
        return None

    # -- those that were updated -----------------------------------------------------------------

    def _updated(self, name: str, table: Updated) -> SavedRelation:
        """What is there already, and the changes since."""
        new: list[Updated] = []
        for each in table.back():
            known = self._known(each)
            if known is not None:
                groups = _split(new[::-1], self.needed[name])
                rows = sum(change.touched for change in known.changes) + touched(new)
                much = known.source.place == "copied" and rows * MERGE_RATIO > known.rows
                if much or len(known.changes) + len(groups) > CHANGES:
                    break
                return self._with(known, groups)
            new.append(each)
        return self._anew(name, table)

    def _anew(self, name: str, table: Updated) -> SavedRelation:
        """With as few changes as can be: one, and one more for each version that is needed.

        If they are much of the relation, it is written as it is after the first of them.
        """
        steps = [*table.back()][::-1]
        base, needed = steps[0].before, self.needed[name]
        if base is None:
            return self._parts(name, table)
        origin = self.saver.origin(base)
        if touched(steps) * MERGE_RATIO > base.rows and self._is_to_copy(origin):
            # What is needed from longer ago is computed anew as fast.
            first, *rest = _split(steps, _lately(steps, base.rows) & set(needed))
            then = first[-1]
            described = self._description(name, origin, then, then.version)
            return self._with(self._copied(described, then.settled(self.engine)), rest)
        return self._with(self._base(name, base, steps[0].old), _split(steps, needed))

    def _parts(self, name: str, table: Updated) -> SavedRelation:
        """The parts that it has now, where it is not known any more how they came about."""
        base, change = table.plus[0], Change(table.plus[1:], table.minus)
        if not change:
            return replace(self._base(name, base, table.version), version=table.version)
        made = self._base(name, base, new_version())
        changed = self._change(made, made.version, table.version, [change])
        return replace(made, changes=(changed,))

    def _base(self, name: str, table: Table, version: int) -> SavedRelation:
        made = self._known(table) or self._described(name, table, version)
        self.place.entries[table] = made
        return made

    def _with(self, made: SavedRelation, groups: Sequence[Sequence[Updated]]) -> SavedRelation:
        changes = [
            self._change(made, group[0].old, group[-1].version, [each.change for each in group])
            for group in groups
        ]
        return replace(made, changes=(*made.changes, *changes))

    def _change(
        self, made: SavedRelation, old: int, version: int, changes: Sequence[Change]
    ) -> SavedChange:
        null_free = frozenset(made.kinds)
        for change in changes:
            null_free = change.null_free(null_free)
        came = self._rows(made, [rows for each in changes for rows in each.inserted], null_free)
        went = self._rows(made, [rows for each in changes for rows in each.deleted], frozenset())
        return SavedChange(old, version, came, went)

    def _rows(
        self, made: SavedRelation, rows: Sequence[Rows], null_free: frozenset[str]
    ) -> SavedRows | None:
        import pyarrow as pa

        if not rows:
            return None
        schema = schema_of_text(made.schema)
        found = [each if is_arrow(each) else self.engine.arrow(each) for each in rows]
        typed = [_typed(each, made).select(schema.names).cast(schema) for each in found]
        table = pa.concat_tables(typed)
        return SavedRows(self._write(made.name, table), table.num_rows, table.nbytes, null_free)

    # -- as they were added ----------------------------------------------------------------------

    def _described(self, name: str, table: Table, version: int) -> SavedRelation:
        origin = self.saver.origin(table)
        described = self._description(name, origin, table, version)
        if origin.source is None or origin.source.place == "copied":
            return self._copied(described, table)
        if self._is_to_copy(origin):
            # Where the rows are out of reach, it is noted where they should be.
            with suppress(MissingRelationError):
                return self._copied(described, table)
        return described

    def _description(self, name: str, origin: Origin, table: Table, version: int) -> SavedRelation:
        return SavedRelation(
            name,
            version,
            text_of_schema(origin.schema),
            dict(table.kinds),
            table.rows,
            table.null_free,
            origin.nbytes,
            Source("nowhere") if origin.source is None else origin.source,
        )

    def _is_to_copy(self, origin: Origin) -> bool:
        source = origin.source
        if source is None or source.place == "copied":
            return True
        size = sum(file.size for file in source.files) if source.files else origin.nbytes
        return size <= self.copy_below

    def _copied(self, described: SavedRelation, table: Table) -> SavedRelation:
        found = _typed(self.engine.arrow(table), described)
        path = self._write(described.name, found)
        source = Source("copied", (SavedFile(path, 0, ()),))
        schema = text_of_schema(found.schema)
        return replace(described, schema=schema, nbytes=found.nbytes, source=source)

    def _write(self, relation: str, rows: pa.Table) -> str:
        import pyarrow as pa

        path = self.files.new(RELATIONS, re.sub(r"[^A-Za-z0-9_-]", "_", relation)[:60])
        try:
            write_parquet(rows, path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SavedError(
                f"{relation} cannot be written as Parquet: {reason(error)}. Leave out or cast "
                "that column before it is added."
            ) from error
        return path


def touched(steps: Iterable[Updated]) -> int:
    """How many rows came or went in these updates."""
    return sum(each.change.came + each.change.went for each in steps)


def _split(steps: Sequence[Updated], at: Collection[int]) -> list[list[Updated]]:
    """Updates in groups, a new one at each of these versions."""
    found: list[list[Updated]] = []
    for step in steps:
        if not found or step.old in at:
            found.append([])
        found[-1].append(step)
    return found


def _lately(steps: Sequence[Updated], rows: int) -> set[int]:
    """The versions since which no more than some of so many rows have changed."""
    found, total = set(), 0
    for step in reversed(steps):
        total += touched([step])
        if total * MERGE_RATIO > rows:
            break
        found.add(step.old)
    return found


def _typed(table: pa.Table, described: SavedRelation) -> pa.Table:
    """Integers of 64 bits without a sign, which are decimals to Spark, as what they are."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if described.kinds[field.name] is Kind.INTEGER and pa.types.is_decimal(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.uint64()))
    return table.replace_schema_metadata(None)
