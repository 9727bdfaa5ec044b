"""Adding results of one output to each other, and subtracting them: a message after an update.

One of the results is large and the others are small, and this is done for every update. So their
rows are looked up in the large one, and its look-up table is handed on to the sum; beyond that it
costs a copy of the values. Keys are only copied if a group has come or gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Column, Output
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.delta.covariance_changes import changed
from calitree.engines.local.delta.padding import padded
from calitree.engines.local.delta.sums import Addition, one_row
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.encoding.spaces import padded_size
from calitree.engines.local.tables.encoded import Key
from calitree.engines.local.tables.tables import EncodedMessage

Array = np.ndarray[Any, Any]


def add(
    output: Output,
    plus: Sequence[EncodedMessage],
    minus: Sequence[EncodedMessage],
    rows: str | None,
) -> EncodedMessage | None:
    """The sum of results, less those of `minus`; None if too many digits would be lost.

    `rows` is the column that counts joined rows, if there is one: without any, a group goes.
    """
    plus = padded(output, plus)
    more = [table for table in plus if table.rows]
    less = [table for table in minus if table.rows]
    if not less and len(more) < 2:
        return more[0] if more else (*plus, *minus)[0]
    if not output.keep:
        return _total(output, more, less, rows)
    if not more:
        return _MessageSum(output, _without_rows(less[0]), [], less).message(rows)
    at = max(range(len(more)), key=lambda i: more[i].rows)
    return _MessageSum(output, more[at], more[:at] + more[at + 1 :], less).message(rows)


def apart(table: EncodedMessage, keys: EncodedMessage) -> EncodedMessage:
    """An anti-join: the rows that do not agree with any of `keys` on its attributes."""
    if not keys.rows or not table.rows:
        return table
    agreeing: Array = np.arange(table.rows)
    ours, theirs = ([_codes(t, name) for name in keys.attributes] for t in (table, keys))
    sizes = [table.book.dictionary(name).size for name in keys.attributes]
    for left, right, size in zip(ours, theirs, sizes, strict=True):
        agreeing = agreeing[_is_in(left[agreeing], right, size)]
    if len(keys.attributes) > 1 and len(agreeing):
        both = [np.append(a[agreeing], b) for a, b in zip(ours, theirs, strict=True)]
        groups, codes = number_rows(both, sizes, len(both[0]))
        left, right = groups[: len(agreeing)], groups[len(agreeing) :]
        agreeing = agreeing[_is_in(left, right, len(codes[0]))]
    return table.take(np.delete(np.arange(table.rows), agreeing)) if len(agreeing) else table


def _is_in(codes: Codes, wanted: Codes, size: int) -> Array:
    """Which of these codes, all less than `size`, are among others."""
    there = np.zeros(size, bool)
    there[wanted] = True
    return there[codes]


def _codes(table: EncodedMessage, name: str) -> Codes:
    return table.codes(name, {name: name})


def _without_rows(table: EncodedMessage) -> EncodedMessage:
    return table.take(np.empty(0, np.intp))


def _total(
    output: Output, more: Sequence[EncodedMessage], less: Sequence[EncodedMessage], rows: str | None
) -> EncodedMessage | None:
    """Results of one row, without a key."""
    values: dict[str, Value] = {}
    lost = False
    for column in output.columns:
        for part, value in zip(column.parts, _column_total(column, more, less), strict=True):
            if value is None:
                lost = True
            else:
                values[part] = value
    first = (*more, *less)[0]
    count = None if rows is None else values.get(rows)
    if count is not None and not count.signs[0]:
        return _without_rows(first)
    return None if lost else EncodedMessage(first.book, {}, values, 1, first.kinds)


def _column_total(
    column: Column, more: Sequence[EncodedMessage], less: Sequence[EncodedMessage]
) -> Sequence[Value | None]:
    """The components of one column of one row; None where digits are lost."""
    if not column.semiring.values:
        return [
            one_row(way, [t.annotations[part] for t in more], [t.annotations[part] for t in less])
            for part, way in zip(column.parts, column.semiring.plus, strict=True)
        ]
    row = np.zeros(1, np.intp)
    zero = [Value(np.zeros(1)) for _ in column.parts]
    placed = [[(t.components(column), row) for t in tables] for tables in (more, less)]
    return changed(zero, placed[0], placed[1], 1, None) or [None for _ in column.parts]


@dataclass(frozen=True)
class _Removal:
    """Rows that are removed: the last ones move into their places, and the rest is cut off."""

    removed: Array
    before: int

    @property
    def after(self) -> int:
        return self.before - len(self.removed)

    @cached_property
    def filled(self) -> Array:
        """The places that are filled with others."""
        return self.removed[self.removed < self.after]

    @cached_property
    def moving(self) -> Array:
        """The rows that fill them."""
        return np.setdiff1d(np.arange(self.after, self.before), self.removed, assume_unique=True)

    def apply(self, data: Array) -> Array:
        """An array of nobody else's, without these rows."""
        data[self.filled] = data[self.moving]
        return data[: self.after]


class _MessageSum:
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
        self.rows = [places[column].astype(np.intp) - 1 for column in ids]
        self.fresh: dict[str, Codes] = {}
        """The codes of keys that the large one does not have."""
        self.count = large.rows
        missing = [np.flatnonzero(rows < 0) for rows in self.rows]
        if any(map(len, missing)):
            self._append(missing, ids)

    def _append(self, missing: Sequence[Array], ids: Sequence[Codes]) -> None:
        """Give a row to every key that has none yet."""
        lacking = [at for at, rows in enumerate(missing) if len(rows)]
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
        left = None if counts is None else counts.signs
        values: dict[str, Any] = {}
        for column in self.output.columns:
            if column.semiring.values:
                sums: Sequence[Value | None] | None = self._covariance(column, left)
            elif column.name == rows:
                sums = [counts]
            else:
                ways = zip(column.parts, column.semiring.plus, strict=True)
                sums = [self._value(part, way, left) for part, way in ways]
            if sums is None or None in sums:
                return None
            values |= zip(column.parts, sums, strict=True)
        removal = self._removal(left)
        if removal is not None:
            values = {name: _without(value, removal) for name, value in values.items()}
        return self._keyed(values, removal)

    def _value(self, part: str, way: str, left: Array | None) -> Value | None:
        values = [table.annotations[part] for table in self.small]
        placed = list(zip(values, self.rows, strict=True))
        plus, minus = placed[: self.added], placed[self.added :]
        return Addition(self.large.annotations[part], plus, minus, self.count, left).combined(way)

    def _covariance(self, column: Column, left: Array | None) -> Sequence[Value] | None:
        parts = [table.components(column) for table in self.small]
        placed = list(zip(parts, self.rows, strict=True))
        plus, minus = placed[: self.added], placed[self.added :]
        return changed(self.large.components(column), plus, minus, self.count, left)

    def _removal(self, left: Array | None) -> _Removal | None:
        """The groups that were subtracted to nothing."""
        if left is None:
            return None
        gone = [rows[left[rows] == 0] for rows in self.rows[self.added :]]
        if not any(map(len, gone)):
            return None
        return _Removal(np.unique(np.concatenate(gone)), self.count)

    def _keyed(self, values: Mapping[str, Value], removal: _Removal | None) -> EncodedMessage:
        """The message of these values. What is known of the large one's keys serves it too."""
        large = self.large
        codes = {a: _codes(large, a) for a in self.output.keep}
        if not self.fresh and removal is None:
            message = EncodedMessage(self.book, codes, values, self.count, large.kinds)
            message.inherit(large)
            return message
        changed = {a: self._changed(c, self.fresh.get(a), removal) for a, c in codes.items()}
        rows = self.count if removal is None else removal.after
        message = EncodedMessage(self.book, changed, values, rows, large.kinds)
        known_ids, known_places = large.known
        ids = {
            key: self._changed(column, self._fresh_ids(key), removal)
            for key, column in known_ids.items()
        }
        places = {key: self._places(key, known, removal) for key, known in known_places.items()}
        message.remember(ids, {key: known for key, known in places.items() if known is not None})
        return message

    def _changed(self, before: Codes, fresh: Codes | None, removal: _Removal | None) -> Codes:
        after = before.copy() if fresh is None else np.concatenate([before, fresh])
        return after if removal is None else removal.apply(after)

    def _fresh_ids(self, key: Key) -> Codes | None:
        """The ids of the keys that the large one does not have, if there are any."""
        if not self.fresh:
            return None
        return self.book.space(tuple(a for a, _ in key)).ids([self.fresh[a] for a, _ in key])

    def _places(self, key: Key, places: Array, removal: _Removal | None) -> Array | None:
        """A look-up table of the large one, for the sum.

        None if a row has come whose id is there already, which may be if it has fewer attributes than
        the key.
        """
        space = self.book.space(tuple(a for a, _ in key))
        every = self.large.ids(space, self.names)
        after, fresh = places.copy(), self._fresh_ids(key)
        if fresh is not None:
            if len(after) < space.size:
                after = np.append(after, np.zeros(padded_size(space.size) - len(after), np.uint32))
            ids = fresh[fresh > 0]
            if after[ids].any() or len(np.unique(ids)) < len(ids):
                return None
            after[fresh] = np.arange(self.large.rows + 1, self.count + 1)
            every = np.concatenate([every, fresh])
        if removal is not None:
            after[every[removal.removed]] = 0
            after[every[removal.moving]] = removal.filled + 1
        after[0] = 0
        return after


def _without(value: Value, removal: _Removal) -> Value:
    valid, peak = (None if x is None else removal.apply(x) for x in (value.valid, value.peak))
    return value.with_data(removal.apply(value.data), valid, peak)
