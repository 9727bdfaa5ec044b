"""Relations that change: a table, the one it was before, and the rows that came and went.

An update costs next to nothing. Its rows stay as they came until somebody needs them; then those of all
updates since are loaded together. Parts of like size are put together as they grow in number, so that a
relation never has more than a few, and once they are many rows they become one table with the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import randbits
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from calitree.cache import LRUCache
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, on_spark, updatable
from calitree.engines.api.signed import Signed
from calitree.jointree.schema import Relation
from calitree.types import Kind

Rows: TypeAlias = Any
"""Rows in this process as they were given (an Arrow table), or where an engine has them."""

MANY = 4
"""Once one row in so many has come or gone, all is put together in one table."""

REMEMBERED = 2_048
"""How many updates back a relation can at least tell what has changed since."""


def new_version() -> int:
    """A version that nobody else has, here or in another process."""
    return randbits(62) + 1


@dataclass(frozen=True, eq=False)
class Change:
    """Rows that come to a relation, and rows that go from it."""

    inserted: tuple[Rows, ...] = ()
    deleted: tuple[Rows, ...] = ()

    @property
    def came(self) -> int:
        return sum(map(count, self.inserted))

    @property
    def went(self) -> int:
        return sum(map(count, self.deleted))

    def null_free(self, columns: frozenset[str]) -> frozenset[str]:
        """Which of these columns have no NULL among the rows that come."""
        for rows in self.inserted:
            if is_arrow(rows):
                columns = frozenset(c for c in columns if not rows.column(c).null_count)
            else:
                columns &= rows.null_free
        return columns

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
    return hasattr(rows, "num_rows")


def count(rows: Rows) -> int:
    return int(rows.num_rows if is_arrow(rows) else rows.rows)


class Updated(Signed):
    """A relation after a change to what it was `before`, when its version was `old`."""

    def __init__(
        self, engine: Engine, name: str, before: Table, old: int, change: Change, version: int
    ) -> None:
        super().__init__(())
        self.engine, self.name, self.version = engine, name, version
        self.before: Table | None = before
        self.old, self.change = old, change
        self._kinds = before.kinds
        self._rows = before.rows + change.came - change.went
        self._null_free = change.null_free(before.null_free)
        self._parts: Signed | None = None
        self._lock = RLock()
        self.length: int = before.length + 1 if isinstance(before, Updated) else 1
        _KNOWN[id(engine), version] = self
        if self.length % REMEMBERED == 0:
            self._forget()

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self._kinds

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def null_free(self) -> frozenset[str]:
        return self._null_free

    @property
    def nbytes(self) -> int:
        return self._signed.nbytes

    @property
    def plus(self) -> tuple[Table, ...]:
        return self._signed.plus

    @property
    def minus(self) -> tuple[Table, ...]:
        return self._signed.minus

    def settled(self, engine: Engine) -> Table:
        return self._signed.settled(engine)

    def back(self) -> Iterator[Updated]:
        """This, what it was before, and so on, as far as that is remembered."""
        here: Table | None = self
        while isinstance(here, Updated):
            yield here
            here = here.before

    def _forget(self) -> None:
        """What was long before would keep all of it in memory."""
        for each in self.back():
            if each.length <= self.length - REMEMBERED:
                each._signed  # noqa: B018 - so that it can do without what was before
                each.before = None
                return

    @property
    def _signed(self) -> Signed:
        if self._parts is None:
            with self._lock:
                if self._parts is None:
                    self._parts = self._realised()
        return self._parts

    def _realised(self) -> Signed:
        """The parts of the last one before that has them, and all changes since."""
        changes: list[Change] = []
        here: Table | None = self
        while isinstance(here, Updated) and here._parts is None:
            changes.append(here.change)
            here = here.before
        assert here is not None
        first = here._parts if isinstance(here, Updated) else Signed((here,))
        assert first is not None
        latest = loaded(self.engine, self.name, changes[::-1])
        base, came, went = first.plus[0], first.plus[1:] + latest.plus, first.minus + latest.minus
        touched = sum(each.rows for each in (*came, *went))
        if touched * MANY > base.rows and _is_here(self.engine, (base, *came, *went)):
            return Signed((updatable(self.engine).settle((base, *came), went),))
        return Signed((base, *_few(self.engine, came)), _few(self.engine, went))


def updated(engine: Engine, old: Relation, change: Change) -> Relation:
    """A relation after a change, at a version that nobody else has."""
    version = new_version()
    table = Updated(engine, old.name, old.table, old.version, change, version)
    return replace(old, table=table, version=version)


_KNOWN: WeakValueDictionary[tuple[int, int], Updated] = WeakValueDictionary()
"""Every version that is still in use, wherever it is. A saved tree may be open twice, and tables of
one engine mean nothing to another.
"""


class Changes:
    """What turns one version of a relation into another, earlier or later or supposed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._paths = LRUCache[tuple[Change, ...]](1_000)
        self._loaded = LRUCache[Signed](64)

    def touched(self, then: int, now: Relation) -> int | None:
        """How many rows come and go; None if that is not known."""
        path = self._path(then, now)
        return sum(each.came + each.went for each in path) if path else None

    def since(self, then: int, now: Relation) -> Signed:
        """The rows that come and go."""
        last = _last_change(then, now)
        if last is not None and last.is_loaded:
            return Signed(last.inserted, last.deleted)
        return self._loaded.of(
            (now.name, then, now.version),
            lambda: loaded(self.engine, now.name, self._path(then, now)),
        )

    def _path(self, then: int, now: Relation) -> tuple[Change, ...]:
        """The changes, one after the other; none if it is not known what they are."""
        last = _last_change(then, now)
        if last is not None:
            return (last,)
        return self._paths.of((now.name, then, now.version), lambda: _path(self.engine, then, now))


def _last_change(then: int, now: Relation) -> Change | None:
    """What has changed, if that was one change: nearly always."""
    table = now.table
    return table.change if isinstance(table, Updated) and table.old == then else None


def _path(engine: Engine, then: int, now: Relation) -> tuple[Change, ...]:
    ours = _changes_back_to({then}, now.table)
    if ours:
        return ours[1]
    before = {now.version, *(each.old for each in _back(now.table))}
    theirs = _changes_back_to(before, _KNOWN.get((id(engine), then)))
    if theirs is None:
        return ()
    fork, undone = theirs
    back = tuple(-each for each in reversed(undone))
    if fork == now.version:
        return back
    again = _changes_back_to({fork}, now.table)
    assert again is not None
    return back + again[1]


def _changes_back_to(
    versions: Collection[int], table: Table | None
) -> tuple[int, tuple[Change, ...]] | None:
    """The nearest of these versions that a table had before, and the changes since."""
    found: list[Change] = []
    for each in _back(table):
        found.append(each.change)
        if each.old in versions:
            return each.old, tuple(reversed(found))
    return None


def _back(table: Table | None) -> Iterator[Updated]:
    return table.back() if isinstance(table, Updated) else iter(())


def table_at(engine: Engine, version: int, now: Relation) -> Table | None:
    """The rows of a relation at another version, if they are known."""
    known = _KNOWN.get((id(engine), version))
    if known is not None:
        return known
    return next((each.before for each in _back(now.table) if each.old == version), None)


def loaded(engine: Engine, name: str, changes: Sequence[Change]) -> Signed:
    """Some changes, one after the other, as tables of the engine."""
    inserted = [rows for change in changes for rows in change.inserted]
    deleted = [rows for change in changes for rows in change.deleted]
    return Signed(_tables(engine, name, inserted), _tables(engine, name, deleted))


def _tables(engine: Engine, name: str, rows: Sequence[Rows]) -> tuple[Table, ...]:
    given = [each for each in rows if is_arrow(each)]
    tables = [each for each in rows if not is_arrow(each)]
    if given:
        import pyarrow as pa

        together = pa.concat_tables(given).combine_chunks() if len(given) > 1 else given[0]
        tables.append(engine.load(name, together))
    return tuple(tables)


def _few(engine: Engine, parts: Sequence[Table]) -> tuple[Table, ...]:
    """The same rows in tables of which each has more than twice those of the next."""
    found: list[Table] = []
    for part in parts:
        found.append(part)
        while len(found) > 1 and found[-1].rows * 2 >= found[-2].rows:
            last = found.pop()
            found.append(updatable(engine).settle((found.pop(), last), ()))
    return tuple(found)


def _is_here(engine: Engine, tables: Sequence[Table]) -> bool:
    """Whether these are in this process, where putting them together is cheap."""
    spark = on_spark(engine)
    return spark is None or not spark.is_on_spark(tables)
