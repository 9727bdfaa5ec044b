"""Numbering integers densely: the loops that codes, separator ids and groups come from.

Numbers begin at 1; 0 stands for NULL. Where the integers lie in a small range, a table over the
range holds their numbers (three passes that threads can share: mark what occurs, number it, look
up). Else a hash table does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calitree.engines.local.vm import parallel
from calitree.grouping import row_keys
from calitree.interrupts import run
from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]

MAX_TABLE_SPAN = 1 << 16
"""A table over so many integers is worth it for any number of keys."""

ALL_VALID = np.empty(0, np.uint8)


def is_small(span: int, length: int) -> bool:
    """Whether a table over the range is worth it for so many integers."""
    return span <= max(MAX_TABLE_SPAN, 4 * length)


class Piece(NamedTuple):
    """Some keys, where their numbers go, and which keys are not NULL.

    `valid` has a byte for each key, or is empty: then none is NULL.
    """

    keys: Array
    out: Array
    valid: Array = ALL_VALID


def pieces(keys: Array, out: Array, threads: int) -> list[Piece]:
    """One array, split for the threads."""
    return [Piece(keys[a:b], out[a:b]) for a, b in parallel.short_ranges(len(keys), threads)]


def number(given: Sequence[Piece], known: Array, low: int, span: int, threads: int) -> Array:
    """Number all keys, which lie in `span` integers from `low`.

    `known[i]` has number i + 1; returns the new keys, sorted, which continue that numbering.
    """
    table = np.zeros(span, np.int32)
    table[known - low] = np.arange(1, len(known) + 1, dtype=np.int32)
    seen = np.zeros(span, np.uint8)
    parallel.map(lambda p: _mark(p.keys, p.valid, low, seen), given, threads)
    fresh = np.flatnonzero((table == 0) & (seen != 0))
    table[fresh] = np.arange(len(known) + 1, len(known) + 1 + len(fresh), dtype=np.int32)
    parallel.map(lambda p: _look_up(p.keys, p.valid, low, table, p.out), given, threads)
    new_keys: Array = fresh + low
    return new_keys


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


class _Slots(NamedTuple):
    """An open-addressing hash table: a slot is empty where its number is 0."""

    keys: Array
    numbers: Array


class _Table:
    """A hash table from keys to numbers, at most half full."""

    def __init__(self, known: Array) -> None:
        self.known, self.fresh, self.count = known, np.empty(1024, np.int64), 0
        self._build(1 << max(10, (2 * len(known) + 2).bit_length()))

    def _build(self, size: int) -> None:
        self.slots = _Slots(np.zeros(size, np.int64), np.zeros(size, np.int32))
        everything = np.concatenate([self.known, self.fresh[: self.count]])
        everything, slots = everything.astype(np.int64, copy=False), self.slots
        run(lambda: _fill(everything, slots), len(everything))

    def insert(self, piece: Piece, done: int) -> int:
        """Go on from key `done`; how far it came before a table had to grow."""
        known = len(self.known)
        done, count = _insert(piece, self.slots, self.fresh[self.count :], done, known + self.count)
        self.count = count - known
        if self.count == len(self.fresh):
            self.fresh = np.concatenate([self.fresh, np.empty_like(self.fresh)])
        if 2 * count >= len(self.slots.keys):
            self._build(4 * len(self.slots.keys))
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
def _fill(known: Array, slots: _Slots) -> None:  # pragma: no cover (compiled)
    mask = len(slots.keys) - 1
    for i in range(len(known)):
        at = _slot(known[i], mask)
        while slots.numbers[at]:
            at = (at + np.uint64(1)) & np.uint64(mask)
        slots.keys[at] = known[i]
        slots.numbers[at] = i + 1


@compiled
def _insert(
    piece: Piece, slots: _Slots, fresh: Array, done: int, count: int
) -> tuple[int, int]:  # pragma: no cover (compiled)
    """Number keys from `done` on until all are done, or until a table is full.

    New keys are appended to `fresh`. Returns how many keys are done, and how many have a number.
    """
    mask, before = len(slots.keys) - 1, count
    for i in range(done, len(piece.keys)):
        if len(piece.valid) and not piece.valid[i]:
            piece.out[i] = 0
            continue
        key = np.int64(piece.keys[i])
        at = _slot(key, mask)
        while slots.numbers[at] and slots.keys[at] != key:
            at = (at + np.uint64(1)) & np.uint64(mask)
        if not slots.numbers[at]:
            if count - before == len(fresh) or 2 * count >= len(slots.keys):
                return i, count
            fresh[count - before] = key
            count += 1
            slots.keys[at] = key
            slots.numbers[at] = count
        piece.out[i] = slots.numbers[at]
    return len(piece.keys), count
