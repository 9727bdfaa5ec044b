"""Numbering integers densely: the loops behind codes, separator ids and groups.

Numbers begin at 1; 0 stands for NULL. Where the integers lie in a small range, a table over the
range holds their numbers (three passes that threads can share: mark what is there, number it, look
up). Else a hash table does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calitree.engines.local.vm import parallel
from calitree.engines.local.vm.compiled import compiled
from calitree.grouping import row_keys

Array = np.ndarray[Any, Any]

SMALL_RANGE = 1 << 16
NONE = np.empty(0, np.uint8)


def is_small(span: int, length: int) -> bool:
    """Whether a table over the range is worth it for so many integers."""
    return span <= max(SMALL_RANGE, 4 * length)


class Piece(NamedTuple):
    """Some keys, which of them are not NULL (a byte each; nothing: all), and where numbers go."""

    keys: Array
    out: Array
    valid: Array = NONE


def pieces(keys: Array, out: Array, threads: int) -> list[Piece]:
    """One array, cut for the threads."""
    return [Piece(keys[a:b], out[a:b]) for a, b in parallel.ranges(len(keys), threads)]


def number(given: Sequence[Piece], known: Array, low: int, span: int, threads: int) -> Array:
    """Number all keys, which lie in `span` integers from `low`. `known[i]` has number i + 1;
    returns the new keys, sorted, which continue that numbering.
    """
    table = np.zeros(span, np.int32)
    table[known - low] = np.arange(1, len(known) + 1, dtype=np.int32)
    seen = np.zeros(span, np.uint8)
    parallel.map(lambda p: _mark(p.keys, p.valid, low, seen), given, threads)
    fresh = np.flatnonzero((table == 0) & (seen != 0))
    table[fresh] = np.arange(len(known) + 1, len(known) + 1 + len(fresh), dtype=np.int32)
    parallel.map(lambda p: _look_up(p.keys, p.valid, low, table, p.out), given, threads)
    found: Array = fresh + low
    return found


def number_any(given: Sequence[Piece], known: Array) -> Array:
    """The same for keys that may be anywhere; new ones in order of appearance."""
    table = _Table(known)
    for piece in given:
        done = 0
        while done < len(piece.keys):
            done = table.insert(piece, done)
    return table.fresh[: table.count]


def number_rows(
    columns: Sequence[Array], sizes: Sequence[int], length: int
) -> tuple[Array, list[Array]]:
    """Number the distinct rows of some columns of codes from 0. NULL is a value here like any other.

    Args:
        columns: The codes of each column, 0 for NULL.
        sizes: For each column, a number that all its codes are less than.
        length: How many rows there are.

    Returns:
        The number of each row, and for each column the code that belongs to each number.
    """
    if not columns:
        return np.zeros(length, np.int32), []
    keys, span = row_keys(columns, sizes)
    numbers, none = np.empty(length, np.int32), np.empty(0, np.int64)
    given = pieces(keys, numbers, 1)
    if is_small(span, length):
        distinct = number(given, none, 0, span, 1)
    else:
        distinct = number_any(given, none)
    numbers -= 1
    row = np.empty(len(distinct), np.int32)
    row[numbers] = np.arange(length, dtype=np.int32)
    return numbers, [codes[row].astype(np.int32, copy=False) for codes in columns]


class _Table:
    """A hash table from keys to numbers, at most half full."""

    def __init__(self, known: Array) -> None:
        self.known, self.fresh, self.count = known, np.empty(1024, np.int64), 0
        self._build(1 << max(10, (2 * len(known) + 2).bit_length()))

    def _build(self, size: int) -> None:
        self.slots, self.numbers = np.zeros(size, np.int64), np.zeros(size, np.int32)
        everything = np.concatenate([self.known, self.fresh[: self.count]])
        _fill(everything.astype(np.int64, copy=False), self.slots, self.numbers)

    def insert(self, piece: Piece, done: int) -> int:
        """Go on from key `done`; how far it came before a table had to grow."""
        tables = (self.slots, self.numbers, piece.out, self.fresh)
        done, self.count = _insert(
            piece.keys, piece.valid, *tables, done, self.count, len(self.known)
        )
        if self.count == len(self.fresh):
            self.fresh = np.concatenate([self.fresh, np.empty_like(self.fresh)])
        if 2 * (len(self.known) + self.count) >= len(self.slots):
            self._build(4 * len(self.slots))
        return done


@compiled
def _mark(keys: Array, valid: Array, low: int, seen: Array) -> None:  # pragma: no cover (compiled)
    if len(valid):
        for i in range(len(keys)):
            if valid[i]:
                seen[np.uint64(keys[i] - low)] = 1
    else:
        for i in range(len(keys)):
            seen[np.uint64(keys[i] - low)] = 1


@compiled
def _look_up(
    keys: Array, valid: Array, low: int, table: Array, out: Array
) -> None:  # pragma: no cover (compiled)
    if len(valid):
        for i in range(len(keys)):
            out[i] = table[np.uint64(keys[i] - low)] if valid[i] else 0
    else:
        for i in range(len(keys)):
            out[i] = table[np.uint64(keys[i] - low)]


@compiled
def _slot(key: Any, mask: int) -> Any:  # pragma: no cover (compiled)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.uint64(mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask)


@compiled
def _fill(known: Array, slots: Array, numbers: Array) -> None:  # pragma: no cover (compiled)
    mask = len(slots) - 1
    for i in range(len(known)):
        at = _slot(known[i], mask)
        while numbers[at]:
            at = (at + np.uint64(1)) & np.uint64(mask)
        slots[at] = known[i]
        numbers[at] = i + 1


@compiled
def _insert(
    keys: Array,
    valid: Array,
    slots: Array,
    numbers: Array,
    out: Array,
    fresh: Array,
    done: int,
    count: int,
    known: int,
) -> tuple[int, int]:  # pragma: no cover (compiled)
    """Until all are done, or one of the two tables is full."""
    mask = len(slots) - 1
    for i in range(done, len(keys)):
        if len(valid) and not valid[i]:
            out[i] = 0
            continue
        key = np.int64(keys[i])
        at = _slot(key, mask)
        while numbers[at] and slots[at] != key:
            at = (at + np.uint64(1)) & np.uint64(mask)
        if not numbers[at]:
            if count == len(fresh) or 2 * (known + count) >= len(slots):
                return i, count
            fresh[count] = key
            count += 1
            slots[at] = key
            numbers[at] = known + count
        out[i] = numbers[at]
    return len(keys), count
