"""Relations that change: a table, the one it was before, and the rows that came and went.

An update costs next to nothing. Its rows stay as they came until somebody needs them; then those of all
updates since are loaded together. Parts of like size are merged as they grow in number, so that a relation
never has more than a few, and once they are many rows they are merged with the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import randbits
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, budget_of, on_spark, updatable
from calitree.engines.api.signed import Signed, summands
from calitree.jointree.schema import Relation
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.memory.history import History
from calitree.process.locks import Rank, SharedLock
from calitree.types import Kind

Rows: TypeAlias = Any
"""Rows in this process as they were given (an Arrow table), or where an engine has them."""

MERGE_RATIO = 4
"""Once one row in so many has come or gone, all parts of a relation are merged into one table."""

PART_RATIO = 8
"""Rows that came or went are in parts, each of which has more than so many times those of the next."""

CHANGE_BYTES, SMALL_PART_BYTES = 18_000, 4_000
"""A revision with its change and a part of so many bytes, beside the rows that came and went."""


def new_revision() -> int:
    """A revision that nobody else has, here or in another process."""
    return randbits(62) + 1


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that come to a relation, and rows that go from it."""

    inserted: tuple[Rows, ...] = ()
    deleted: tuple[Rows, ...] = ()

    @property
    def came(self) -> int:
        """How many rows come."""
        return sum(map(count, self.inserted))

    @property
    def went(self) -> int:
        """How many rows go."""
        return sum(map(count, self.deleted))

    def null_free(self, columns: frozenset[str]) -> frozenset[str]:
        """Which of these columns have no NULL among the rows that come."""
        for rows in self.inserted:
            if is_arrow(rows):
                columns = frozenset(c for c in columns if not rows.column(c).null_count)
            else:
                columns &= rows.null_free
        return columns

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        every = self.inserted + self.deleted
        return CHANGE_BYTES + sum(
            int(rows.nbytes) if is_arrow(rows) else 8 * count(rows) for rows in every
        )

    def __bool__(self) -> bool:
        return bool(self.inserted or self.deleted)

    @property
    def is_loaded(self) -> bool:
        """Whether the engine has these rows already."""
        return not any(map(is_arrow, self.inserted + self.deleted))

    def __neg__(self) -> Change:
        """What undoes it."""
        return Change(self.deleted, self.inserted)


def is_arrow(rows: Any) -> bool:
    """Whether rows are an Arrow table, and not an engine's."""
    return hasattr(rows, "num_rows")


def count(rows: Rows) -> int:
    """How many rows there are."""
    return int(rows.num_rows if is_arrow(rows) else rows.rows)


class Updated(Signed):
    """A relation after a change to what it was `before`, when its revision was `old`.

    Its parts are loaded when they are first needed, under its lock, which is held while the engine loads
    and merges tables. The lock of no other `Updated` is taken meanwhile.
    """

    def __init__(
        self, engine: Engine, name: str, before: Table, change: Change, *, old: int, revision: int
    ) -> None:
        super().__init__(())
        self.engine, self.name, self.revision = engine, name, revision
        self.before: Table | None = before
        self.old, self.change = old, change
        self._kinds, self._unsupported = before.kinds, before.unsupported
        self._rows = before.rows + change.came - change.went
        self._null_free = change.null_free(before.null_free)
        self._parts: Signed | None = None
        self._lock = SharedLock(Rank.REVISION)
        self.length: int = before.length + 1 if isinstance(before, Updated) else 1
        """How many changes it is away from the relation as first loaded."""
        known: History | None = before.history if isinstance(before, Updated) else None
        self.history: History = known or History(budget_of(engine))
        _UPDATED[id(engine), revision] = self
        self._counted = [self.history.count(self.length, change.nbytes)]
        if self.history.is_time_to_forget(self.length):
            self._forget()

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names, in order, and their kinds; no part is loaded."""
        return self._kinds

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Columns that cannot be used; no part is loaded."""
        return self._unsupported

    @property
    def rows(self) -> int:
        """How many rows it has; no part is loaded."""
        return self._rows

    @property
    def null_free(self) -> frozenset[str]:
        """Columns known to hold no NULL; no part is loaded."""
        return self._null_free

    @property
    def plus(self) -> tuple[Table, ...]:
        """The relation as it was last merged, and rows that came since."""
        return self._signed.plus

    @property
    def minus(self) -> tuple[Table, ...]:
        """Rows that went since."""
        return self._signed.minus

    def back(self) -> Iterator[Updated]:
        """The relation itself, what it was before, and so on, as far as that is remembered."""
        table: Table | None = self
        while isinstance(table, Updated):
            yield table
            table = table.before

    def _forget(self) -> None:
        """Drop the revisions of long ago, which would stay in memory for ever."""
        for table in self.back():
            if table.length <= self.history.forgettable:
                table._signed  # noqa: B018 - so that it can do without the one before
                table.before = None
                return

    @property
    def _signed(self) -> Signed:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = self._realised()
        return self._parts

    def _realised(self) -> Signed:
        """The parts of the last table before that has them, and all changes since."""
        changes: list[Change] = []
        table: Table | None = self
        while isinstance(table, Updated):
            before = table.before  # read first: another thread drops it once there are parts
            if table._parts is not None:
                break
            changes.append(table.change)
            table = before
        assert table is not None
        first = (table._parts if isinstance(table, Updated) else None) or Signed((table,))
        latest = loaded(self.engine, self.name, changes[::-1])
        base, came, went = first.plus[0], first.plus[1:] + latest.plus, first.minus + latest.minus
        touched = sum(part.rows for part in (*came, *went))
        if touched * MERGE_RATIO > base.rows and is_in_process(self.engine, (base, *came, *went)):
            parts = Signed((updatable(self.engine).settle((base, *came), went),))
        else:
            parts = Signed((base, *_merged(self.engine, came)), _merged(self.engine, went))
        known = {id(part) for part in (*first.plus, *first.minus)}
        new = [part for part in (*parts.plus, *parts.minus) if id(part) not in known]
        nbytes = sum(part.nbytes for part in new)
        if nbytes > SMALL_PART_BYTES:
            self._counted.append(self.history.count(self.length, nbytes))
        return parts


def updated(engine: Engine, old: Relation, change: Change) -> Relation:
    """A relation after a change, at a revision that nobody else has."""
    revision = new_revision()
    table = Updated(engine, old.name, old.table, change, old=old.revision, revision=revision)
    return replace(old, table=table, revision=revision)


_UPDATED: WeakValueDictionary[tuple[int, int], Updated] = WeakValueDictionary()
"""Every revision that is in use on some branch, by the `id` of its engine, which it keeps alive.

A saved tree may be open twice, and tables of one engine mean nothing to another.
"""


class ForgottenRevision(Exception):  # noqa: N818 - nobody outside sees it
    """What has changed since a revision was known when a plan was made, and is not any more."""


class Changes:
    """What turns one revision of a relation into another: earlier, later, or on another branch."""

    def __init__(self, engine: Engine, budget: Budget) -> None:
        self.engine = engine
        self._paths = BudgetedCache[object, tuple[Change, ...]](
            budget, "history", lambda path: 8 * len(path), limit=1_000
        )
        self._loaded = BudgetedCache[object, Signed](budget, "history", _loaded_bytes, limit=64)

    def touched(self, then: int, now: Relation) -> int | None:
        """How many rows come and go; None if that is not known."""
        path = self._path(then, now)
        return sum(change.came + change.went for change in path) if path else None

    def since(self, then: int, now: Relation) -> Signed:
        """The rows that come and go; `ForgottenRevision` if that is not known."""
        path = self._path(then, now)
        if not path:
            raise ForgottenRevision
        if len(path) == 1 and path[0].is_loaded:
            return Signed(path[0].inserted, path[0].deleted)
        return self._loaded.of(
            (now.name, then, now.revision), lambda: loaded(self.engine, now.name, path)
        )

    def table_then(self, then: int, now: Relation) -> Table:
        """The rows at the other revision: as they are remembered, else without what has changed since."""
        known = _UPDATED.get((id(self.engine), then)) or own_table_at(then, now)
        if known is not None:
            return known
        change, (plus, minus) = self.since(then, now), summands(now.table)
        return Signed((*plus, *change.minus), (*minus, *change.plus))

    def _path(self, then: int, now: Relation) -> tuple[Change, ...]:
        """The changes, one after the other; none if it is not known what they are."""
        table = now.table
        if isinstance(table, Updated) and table.old == then:  # nearly always
            return (table.change,)
        return self._paths.of((now.name, then, now.revision), lambda: _path(self.engine, then, now))


def _path(engine: Engine, then: int, now: Relation) -> tuple[Change, ...]:
    """The changes since a revision of its own, or those back to the common one and on from there."""
    ours = _changes_back_to({then}, now.table)
    if ours:
        return ours[1]
    revisions = {now.revision, *(table.old for table in _back(now.table))}
    theirs = _changes_back_to(revisions, _UPDATED.get((id(engine), then)))
    if theirs is None:
        return ()
    fork, changes = theirs
    undone = tuple(-change for change in reversed(changes))
    if fork == now.revision:
        return undone
    again = _changes_back_to({fork}, now.table)
    assert again is not None
    return undone + again[1]


def _changes_back_to(
    revisions: Collection[int], table: Table | None
) -> tuple[int, tuple[Change, ...]] | None:
    """The nearest of these revisions that a table had before, and the changes since."""
    changes: list[Change] = []
    for updated in _back(table):
        changes.append(updated.change)
        if updated.old in revisions:
            return updated.old, tuple(reversed(changes))
    return None


def _back(table: Table | None) -> Iterator[Updated]:
    return table.back() if isinstance(table, Updated) else iter(())


def own_table_at(revision: int, relation: Relation) -> Table | None:
    """The rows that a relation had at a revision, if that is its own or one before it."""
    if relation.revision == revision:
        return relation.table
    return next((table.before for table in _back(relation.table) if table.old == revision), None)


def loaded(engine: Engine, name: str, changes: Sequence[Change]) -> Signed:
    """Some changes, one after the other, as tables of the engine."""
    inserted = [rows for change in changes for rows in change.inserted]
    deleted = [rows for change in changes for rows in change.deleted]
    return Signed(_tables(engine, name, inserted), _tables(engine, name, deleted))


def _loaded_bytes(rows: Signed) -> int:
    return CHANGE_BYTES + rows.nbytes


def _tables(engine: Engine, name: str, rows: Sequence[Rows]) -> tuple[Table, ...]:
    given = [batch for batch in rows if is_arrow(batch)]
    tables = [batch for batch in rows if not is_arrow(batch)]
    if given:
        import pyarrow as pa

        batch = pa.concat_tables(given).combine_chunks() if len(given) > 1 else given[0]
        tables.append(engine.load(name, batch))
    if len(tables) > 1 and is_in_process(engine, tables):
        return (updatable(engine).settle(tables, ()),)
    return tuple(tables)


def _merged(engine: Engine, parts: Sequence[Table]) -> tuple[Table, ...]:
    """The same rows in tables of which each has more than `PART_RATIO` times those of the next."""
    merged: list[Table] = []
    for part in parts:
        merged.append(part)
        while len(merged) > 1 and merged[-1].rows * PART_RATIO >= merged[-2].rows:
            last = merged.pop()
            merged.append(updatable(engine).settle((merged.pop(), last), ()))
    return tuple(merged)


def is_in_process(engine: Engine, tables: Sequence[Table]) -> bool:
    """Whether these are in this process, where merging them is cheap."""
    spark = on_spark(engine)
    return spark is None or not spark.is_on_spark(tables)
