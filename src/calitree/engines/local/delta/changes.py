"""Adding results of one output to each other, and subtracting them: a message after an update.

One of the results is large and the others are small, and this is done for every update. So their
rows are found in the large one by its look-up table, which is handed on to the sum; beyond that it
costs a copy of the values. Keys are only copied if a group has come or gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Output
from calitree.engines.local.delta.sums import combined, one_row
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.encoding.spaces import padded_size
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.tables.encoded import Key
from calitree.engines.local.tables.tables import EncodedMessage

Array = np.ndarray[Any, Any]


def add(
    output: Output,
    plus: Sequence[EncodedMessage],
    minus: Sequence[EncodedMessage],
    rows: str | None,
) -> EncodedMessage | None:
    """The sum of results, less those of `minus`; None if too many digits would be lost."""
    more = [table for table in plus if table.rows]
    less = [table for table in minus if table.rows]
    if not less and len(more) < 2:
        return more[0] if more else (*plus, *minus)[0]
    if not output.keep:
        return _total(output, more, less, rows)
    if not more:
        return _Sum(output, _without_rows(less[0]), [], less).message(rows)
    at = max(range(len(more)), key=lambda i: more[i].rows)
    return _Sum(output, more[at], more[:at] + more[at + 1 :], less).message(rows)


def apart(table: EncodedMessage, keys: EncodedMessage) -> EncodedMessage:
    """The rows that do not agree with any of `keys` on its attributes."""
    if not keys.rows or not table.rows:
        return table
    agreeing: Array = np.arange(table.rows)
    ours, theirs = [], []
    for name in keys.attributes:
        here, there = _codes(table, name), _codes(keys, name)
        wanted = np.zeros(table.book.dictionary(name).size, bool)
        wanted[there] = True
        agreeing = agreeing[wanted[here[agreeing]]]
        ours.append(here)
        theirs.append(there)
    if len(keys.attributes) > 1 and len(agreeing):
        sizes = [table.book.dictionary(name).size for name in keys.attributes]
        both = [np.append(a[agreeing], b) for a, b in zip(ours, theirs, strict=True)]
        groups, codes = number_rows(both, sizes, len(both[0]))
        wanted = np.zeros(len(codes[0]), bool)
        wanted[groups[len(agreeing) :]] = True
        agreeing = agreeing[wanted[groups[: len(agreeing)]]]
    return table.take(np.delete(np.arange(table.rows), agreeing)) if len(agreeing) else table


def _codes(table: EncodedMessage, name: str) -> Codes:
    return table.codes(name, {name: name})


def _without_rows(table: EncodedMessage) -> EncodedMessage:
    return table.take(np.empty(0, np.intp))


def _total(
    output: Output, more: Sequence[EncodedMessage], less: Sequence[EncodedMessage], rows: str | None
) -> EncodedMessage | None:
    """Results of one row, without a key."""
    values: dict[str, Value | None] = {}
    for column in output.columns:
        for part, way in zip(column.parts, column.semiring.plus, strict=True):
            ours = [table.annotations[part] for table in more]
            theirs = [table.annotations[part] for table in less]
            values[part] = one_row(way, ours, theirs)
    first = (*more, *less)[0]
    if rows is not None:
        count = values[rows]
        if count is not None and not count.data[0]:
            return _without_rows(first)
    found = {name: value for name, value in values.items() if value is not None}
    if len(found) < len(values):
        return None
    return EncodedMessage(first.book, {}, found, 1, first.kinds)


@dataclass(frozen=True)
class _Holes:
    """Rows that go: the last ones move into their places, and the rest is cut off."""

    gone: Array
    before: int

    @property
    def after(self) -> int:
        return self.before - len(self.gone)

    @cached_property
    def filled(self) -> Array:
        """The places that are filled with others."""
        return self.gone[self.gone < self.after]

    @cached_property
    def moving(self) -> Array:
        """The rows that fill them."""
        stays = np.ones(len(self.gone), bool)
        stays[self.gone[self.gone >= self.after] - self.after] = False
        return self.after + np.flatnonzero(stays)

    def without(self, data: Array) -> Array:
        """An array of nobody else's, without these rows."""
        data[self.filled] = data[self.moving]
        return data[: self.after]


class _Sum:
    """Where the rows of the small results go in the large one, and the sum."""

    def __init__(
        self,
        output: Output,
        large: EncodedMessage,
        plus: Sequence[EncodedMessage],
        minus: Sequence[EncodedMessage],
    ) -> None:
        self.output, self.large = output, large
        self.small, self.added = (*plus, *minus), len(plus)
        self.book = large.book
        self.names = {name: name for name in output.keep}
        self.space = self.book.space(tuple(sorted(output.keep)))
        ids = [table.ids(self.space, self.names) for table in self.small]
        places = large.places(self.space, self.names, None)
        assert places is not None, "a result has one row a key"
        self.rows = [places[each].astype(np.intp) - 1 for each in ids]
        self.fresh: dict[str, Codes] = {}
        """The codes of keys that the large one does not have."""
        self.count = large.rows
        missing = [np.flatnonzero(each < 0) for each in self.rows]
        if any(map(len, missing)):
            self._append(missing, ids)

    def _append(self, missing: Sequence[Array], ids: Sequence[Codes]) -> None:
        """Give a row to every key that has none yet."""
        lacking = [at for at, each in enumerate(missing) if len(each)]
        has_null = any(not ids[at][missing[at]].all() for at in lacking)
        if len(lacking) == 1 and not has_null:
            (at,) = lacking
            self.fresh = {a: _codes(self.small[at], a)[missing[at]] for a in self.output.keep}
            self.count += len(missing[at])
            self.rows[at][missing[at]] = np.arange(self.large.rows, self.count)
            return
        known = np.empty(0, np.intp)
        if has_null:  # keys with a NULL have no id, so no look-up finds them
            known = np.flatnonzero(self.large.ids(self.space, self.names) == 0)
        columns = []
        for a in self.output.keep:
            parts = [_codes(self.small[at], a)[missing[at]] for at in lacking]
            columns.append(np.concatenate([_codes(self.large, a)[known], *parts]))
        sizes = [self.book.dictionary(a).size for a in self.output.keep]
        groups, codes = number_rows(columns, sizes, len(columns[0]))
        rows = np.full(len(codes[0]), -1, np.intp)
        rows[groups[: len(known)]] = known
        new = np.flatnonzero(rows < 0)
        self.count += len(new)
        rows[new] = np.arange(self.large.rows, self.count)
        if len(new):
            self.fresh = {a: c[new] for a, c in zip(self.output.keep, codes, strict=True)}
        start = len(known)
        for at in lacking:
            stop = start + len(missing[at])
            self.rows[at][missing[at]] = rows[groups[start:stop]]
            start = stop

    def message(self, rows: str | None) -> EncodedMessage | None:
        """The sum, without the groups that have no rows left."""
        counts = None if rows is None else self._value(rows, "sum", None)
        left = None if counts is None else counts.data
        values = {}
        for column in self.output.columns:
            for part, way in zip(column.parts, column.semiring.plus, strict=True):
                value = counts if part == rows else self._value(part, way, left)
                if value is None:
                    return None
                values[part] = value
        holes = self._holes(left)
        if holes is not None:
            values = {name: _cut(value, holes) for name, value in values.items()}
        return self._keyed(values, holes)

    def _value(self, part: str, way: str, left: Array | None) -> Value | None:
        values = [table.annotations[part] for table in self.small]
        return combined(
            way,
            self.large.annotations[part],
            list(zip(values, self.rows, strict=True))[: self.added],
            list(zip(values, self.rows, strict=True))[self.added :],
            self.count,
            left,
        )

    def _holes(self, left: Array | None) -> _Holes | None:
        """The groups that were subtracted to nothing."""
        if left is None:
            return None
        touched = self.rows[self.added :]
        gone = [each[left[each] == 0] for each in touched]
        if not any(map(len, gone)):
            return None
        return _Holes(np.unique(np.concatenate(gone)), self.count)

    def _keyed(self, values: Mapping[str, Value], holes: _Holes | None) -> EncodedMessage:
        """The message of these values. What is known of the large one's keys serves it too."""
        large = self.large
        codes = {a: _codes(large, a) for a in self.output.keep}
        if not self.fresh and holes is None:
            found = EncodedMessage(self.book, codes, values, self.count, large.kinds)
            found.inherit(large)
            return found
        changed = {a: self._changed(c, self.fresh.get(a), holes) for a, c in codes.items()}
        rows = self.count if holes is None else holes.after
        found = EncodedMessage(self.book, changed, values, rows, large.kinds)
        ids, places = large.known
        after = {key: self._ids_after(key, each, holes) for key, each in ids.items()}
        there = {key: self._places_after(key, each, holes) for key, each in places.items()}
        found.remember(after, {key: each for key, each in there.items() if each is not None})
        return found

    def _changed(self, before: Codes, fresh: Codes | None, holes: _Holes | None) -> Codes:
        after = before.copy() if fresh is None else np.concatenate([before, fresh])
        return after if holes is None else holes.without(after)

    def _fresh_ids(self, key: Key) -> Codes:
        codes = [self.fresh[a] for a, _ in key]
        return self.book.space(tuple(a for a, _ in key)).ids(codes)

    def _ids_after(self, key: Key, before: Codes, holes: _Holes | None) -> Codes:
        return self._changed(before, self._fresh_ids(key) if self.fresh else None, holes)

    def _places_after(self, key: Key, places: Array, holes: _Holes | None) -> Array | None:
        """A look-up table of the large one, for the sum. None if a row has come whose id is there
        already, which may be if it has fewer attributes than the key.
        """
        space = self.book.space(tuple(a for a, _ in key))
        every = self.large.ids(space, self.names)
        after = places.copy()
        if self.fresh:
            fresh = self._fresh_ids(key)
            if len(after) < space.size:
                after = np.append(after, np.zeros(padded_size(space.size) - len(after), np.uint32))
            ids = fresh[fresh > 0]
            if after[ids].any() or len(set(ids.tolist())) < len(ids):
                return None
            after[fresh] = np.arange(self.large.rows + 1, self.count + 1)
            every = np.concatenate([every, fresh])
        if holes is not None:
            after[every[holes.gone]] = 0
            after[every[holes.moving]] = holes.filled + 1
        after[0] = 0
        return after


def _cut(value: Value, holes: _Holes) -> Value:
    valid = None if value.valid is None else holes.without(value.valid)
    return value.with_data(holes.without(value.data), valid)
