"""Id spaces: one dense id for each combination of codes of some attributes.

The id of a row's join attributes is its *separator id*: a message is then an array over ids, and a
join is a look-up. Ids begin at 1. A row with a NULL among the attributes has id 0, where no message
ever has anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from calitree.engines.local.encoding.dictionary import Codes, Dictionary, Lock
from calitree.engines.local.encoding.lookup import Lookup
from calitree.engines.local.encoding.numbering import Piece, is_small, number_any
from calitree.engines.local.vm import parallel
from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]


NO_TABLE: tuple[tuple[int, int], Array] = (0, 0), np.empty(0, np.int32)
"""What is known of a table of pairs that is not there: its sizes, and itself."""


def padded_size(size: int) -> int:
    """The length of an array over the ids of a space, such that it serves while the space grows."""
    return size + size // 8 + 64


class Space(Protocol):
    """The ids of some attributes. It only grows: a combination keeps its id."""

    attributes: tuple[str, ...]

    @property
    def size(self) -> int:
        """One more than the largest id."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory, beside dictionaries."""

    def ids(self, columns: Sequence[Codes]) -> Codes:
        """The id of every row of codes; new combinations get a new one."""

    def find(self, columns: Sequence[Codes]) -> Codes:
        """The same, with 0 for combinations that are new."""

    def codes(self, attribute: str) -> Codes:
        """An attribute's code in each id."""


class EmptySpace:
    """No attribute: every row has the same id."""

    attributes: tuple[str, ...] = ()
    size = 2
    nbytes = 0

    def ids(self, columns: Sequence[Codes]) -> Codes:
        """Never called: there are no codes."""
        raise AssertionError("there is nothing to number")

    find = ids

    def codes(self, attribute: str) -> Codes:
        """There are none."""
        raise KeyError(attribute)


class SingleSpace:
    """One attribute: its codes are the ids."""

    nbytes = 0

    def __init__(self, attribute: str, dictionary: Dictionary) -> None:
        self.attributes: tuple[str, ...] = (attribute,)
        self.dictionary = dictionary

    @property
    def size(self) -> int:
        """One more than the largest code."""
        return self.dictionary.size

    def ids(self, columns: Sequence[Codes]) -> Codes:
        """The codes themselves."""
        return columns[0]

    find = ids

    def codes(self, attribute: str) -> Codes:
        """The ids themselves."""
        return np.arange(self.size, dtype=np.int32)


class PairSpace:
    """Several attributes: the ids of all but the last, paired with the codes of the last."""

    def __init__(self, left: Space, right: SingleSpace, lock: Lock) -> None:
        self.attributes = (*left.attributes, *right.attributes)
        self.left, self.right, self.threads = left, right, right.dictionary.threads
        self._lock = lock
        self.pairs = np.zeros((2, 1), np.int32)
        self._known = NO_TABLE
        self._lookup = Lookup()

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return int(self.pairs.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, beside those of the spaces that it pairs."""
        return int(self.pairs.nbytes + self._known[1].nbytes) + self._lookup.nbytes

    def ids(self, columns: Sequence[Codes]) -> Codes:
        """The id of every row of codes; new combinations get a new one."""
        with self._lock:
            return self._ids(self.left.ids(columns[:-1]), columns[-1])

    def _ids(self, left: Codes, right: Codes) -> Codes:
        if self._lookup.is_for(len(right), self.size):
            return self._by_lookup(left, right)
        out = np.empty(len(right), np.int32)
        span = self.left.size * self.right.size
        if is_small(span, len(right)):
            self._by_table(left, right, out)
        else:
            self._by_hash(left, right, out)
        return out

    def find(self, columns: Sequence[Codes]) -> Codes:
        """The same, with 0 for combinations that are new."""
        with self._lock:
            return self._look_up(_packed(self.left.find(columns[:-1]), columns[-1]))

    def _look_up(self, keys: Array) -> Codes:
        """The id of each pair, packed; 0 for those that are new."""
        ids: Codes = self._lookup.find(keys, self._keys, self.size - 1)
        return ids

    def _keys(self, start: int) -> Array:
        """The pair of each id, packed, from the pair at `start`."""
        return _packed(*self.pairs[:, 1 + start :])

    def _by_lookup(self, left: Codes, right: Codes) -> Codes:
        keys = _packed(left, right)
        out = self._look_up(keys)
        fresh = np.flatnonzero((out == 0) & (left != 0) & (right != 0))
        if len(fresh):
            added, numbers = np.unique(keys[fresh], return_inverse=True)
            out[fresh] = self.size + numbers
            pairs = _unpacked(added)
            known, self._known = self._known, NO_TABLE  # if interrupted here, it is made anew
            sizes, table = known
            if sizes == (self.left.size, self.right.size):
                ids = np.arange(self.size, self.size + len(added), dtype=np.int32)
                table[pairs[0] * sizes[1] + pairs[1]] = ids
            self._add(pairs)
            self._known = known
        return out

    def _table(self) -> Array:
        """The id of every possible pair; kept for the next call."""
        sizes = (self.left.size, self.right.size)
        if self._known[0] != sizes:
            table = np.zeros(sizes[0] * sizes[1], np.int32)
            place = self.pairs[0].astype(np.int64) * sizes[1] + self.pairs[1]
            table[place] = np.arange(self.size, dtype=np.int32)
            self._known = sizes, table
        return self._known[1]

    def _by_table(self, left: Codes, right: Codes, out: Codes) -> None:
        width, table = self.right.size, self._table()
        parts = [slice(*bounds) for bounds in parallel.short_ranges(len(out), self.threads)]
        seen = np.zeros(len(table), np.uint8)
        parallel.map(lambda p: _mark(left[p], right[p], width, seen), parts, self.threads)
        seen[:width] = seen[::width] = 0  # NULL on either side
        fresh = np.flatnonzero((table == 0) & (seen != 0))
        known, self._known = self._known, NO_TABLE  # if interrupted here, it is made anew
        table[fresh] = np.arange(self.size, self.size + len(fresh), dtype=np.int32)
        self._add(np.divmod(fresh, width))
        self._known = known
        parallel.map(
            lambda p: _gather_ids(left[p], right[p], width, table, out[p]), parts, self.threads
        )

    def _by_hash(self, left: Codes, right: Codes, out: Codes) -> None:
        self._known = NO_TABLE
        valid = ((left != 0) & (right != 0)).view(np.uint8)
        keys, ranges = _packed(left, right), parallel.short_ranges(len(out), 1)
        pieces = [Piece(keys[a:b], out[a:b], valid[a:b]) for a, b in ranges]
        fresh = number_any(pieces, self._keys(0))
        self._add(_unpacked(fresh))

    def _add(self, fresh: tuple[Array, Array]) -> None:
        if len(fresh[0]):
            added = np.stack([part.astype(np.int32) for part in fresh])
            self.pairs = np.concatenate([self.pairs, added], axis=1)

    def codes(self, attribute: str) -> Codes:
        """An attribute's code in each id."""
        left, right = self.pairs
        if attribute in self.right.attributes:
            return right
        if len(self.left.attributes) == 1:
            return left
        codes: Codes = self.left.codes(attribute)[left]
        return codes


def _packed(left: Codes, right: Codes) -> Array:
    """A pair of codes as one number."""
    keys: Array = left.astype(np.int64) << 32 | right
    return keys


def _unpacked(keys: Array) -> tuple[Array, Array]:
    return keys >> 32, keys & 0xFFFFFFFF


@compiled
def _mark(
    left: Array, right: Array, width: int, seen: Array
) -> None:  # pragma: no cover (compiled)
    for i in range(len(left)):
        seen[np.uint64(left[i]) * np.uint64(width) + np.uint64(right[i])] = 1


@compiled
def _gather_ids(
    left: Array, right: Array, width: int, table: Array, out: Array
) -> None:  # pragma: no cover (compiled)
    for i in range(len(left)):
        out[i] = table[np.uint64(left[i]) * np.uint64(width) + np.uint64(right[i])]


@compiled
def place(ids: Array, places: Array) -> bool:  # pragma: no cover (compiled)
    """Write one more than the row of each id to `places`; False if two rows have the same id."""
    for i in range(len(ids)):
        at = np.uint64(ids[i])
        if at:
            if places[at]:
                return False
            places[at] = i + 1
    return True


@compiled
def order_by_id(ids: Array, starts: Array, order: Array) -> None:  # pragma: no cover (compiled)
    """Row numbers sorted by id (counting sort); `starts`, where the rows of each id begin, is used up."""
    for i in range(len(ids)):
        at = np.uint64(ids[i])
        order[starts[at]] = i
        starts[at] += 1


class RowIndex:
    """The rows of each id, so that only rows that can match are visited."""

    def __init__(self, ids: Codes, size: int) -> None:
        counts = np.bincount(ids, minlength=size)
        self.starts: Array = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.order = np.empty(len(ids), np.uint32)
        order_by_id(ids, self.starts[:-1].copy(), self.order)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.starts.nbytes + self.order.nbytes)

    def count(self, wanted: Array) -> int:
        """How many rows have one of these ids."""
        known = wanted[wanted < len(self.starts) - 1]
        return int((self.starts[known + 1] - self.starts[known]).sum())

    def rows(self, wanted: Array) -> Array:
        """The rows that have one of these ids."""
        known = wanted[wanted < len(self.starts) - 1]
        if len(known) == 1:
            return self.order[self.starts[known[0]] : self.starts[known[0] + 1]]
        out = np.empty(self.count(known), np.uint32)
        _copy_ranges(self.order, self.starts, known, out)
        return out

    def pairs(self, ids: Codes) -> tuple[Array, Array]:
        """All pairs of one of these ids and a row that has it: positions among the ids, and rows.

        0 is in no pair.
        """
        known = np.where(ids < len(self.starts) - 1, ids, 0)
        first = self.starts[known]
        counts = (self.starts[known + 1] - first) * (known > 0)
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self.order[np.repeat(first, counts) + offsets].astype(np.intp)
        return np.repeat(np.arange(len(ids)), counts), rows


@compiled
def _copy_ranges(
    order: Array, starts: Array, wanted: Array, out: Array
) -> None:  # pragma: no cover (compiled)
    at = 0
    for i in range(len(wanted)):
        for j in range(starts[wanted[i]], starts[wanted[i] + 1]):
            out[at] = order[j]
            at += 1
