"""Relations sorted for a worst-case optimal join: what may follow a prefix stands side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.local.vm.compiled import compiled

Codes = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Level:
    """One attribute of a trie. Entry i is `values[i]` after some prefix; what may follow it is in
    the next level (after the last: in the rows) from `starts[i]` to `starts[i + 1]`.
    """

    values: Codes
    starts: Codes
    widest: int
    """How many entries a prefix has at most."""
    largest: int
    """The largest value."""

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Of the values and of the starts; NumPy takes its time to tell."""
        return self.values.ctypes.data, self.starts.ctypes.data


@dataclass(frozen=True)
class Trie:
    """A relation's rows without NULL, sorted by its attributes in some order: what may follow a
    prefix stands side by side, in order.
    """

    levels: tuple[Level, ...]
    rows: Codes

    @property
    def unique(self) -> bool:
        """Whether no two rows are the same."""
        return len(self.levels[-1].values) == len(self.rows)

    @cached_property
    def address(self) -> int:
        """Of the rows."""
        return self.rows.ctypes.data


class Tries:
    """A relation's codes and the tries made of them so far; who keeps it sorts only once."""

    def __init__(self, codes: Mapping[str, Codes], rows: int | None = None) -> None:
        # Writable, though nobody writes: numba would compile all again for arrays that are not.
        self.codes = {name: np.require(each, np.int32, ["C", "W"]) for name, each in codes.items()}
        self.rows = max(map(len, self.codes.values())) if rows is None else rows
        self._distinct: dict[str, int] = {}
        self._made: dict[tuple[str, ...], Trie] = {}

    def distinct(self, attribute: str) -> int:
        """How many values the attribute has."""
        if attribute not in self._distinct:
            codes = self.codes[attribute]
            largest = int(codes.max(initial=0))
            if is_dense(largest, len(codes)):
                self._distinct[attribute] = _distinct(codes, largest)
            else:
                self._distinct[attribute] = int(np.count_nonzero(np.unique(codes)))
        return self._distinct[attribute]

    def trie(self, attributes: tuple[str, ...]) -> Trie:
        """The rows sorted by these attributes, of which there is at least one."""
        if attributes not in self._made:
            self._made[attributes] = trie([self.codes[each] for each in attributes])
        return self._made[attributes]


def trie(columns: Sequence[Codes]) -> Trie:
    """Sort rows by these columns, of which there is at least one."""
    there = columns[0] != 0
    for codes in columns[1:]:
        there &= codes != 0
    rows = np.flatnonzero(there).astype(np.int32)
    for codes in reversed(columns):
        largest = int(codes.max(initial=0))
        if is_dense(largest, len(rows)):
            rows = _sorted_by(codes, rows, largest)
        else:
            rows = rows[np.argsort(codes[rows], kind="stable")]
    opens = np.arange(len(rows)) == 0
    values, starts = zip(*(_level(codes, rows, opens) for codes in columns), strict=True)
    ends = np.append(np.flatnonzero(opens), len(rows)).astype(np.int32)
    levels = (
        Level(each, after, int(np.diff(before).max(initial=0)), int(each.max(initial=0)))
        for each, before, after in zip(values, starts, (*starts[1:], ends), strict=True)
    )
    return Trie(tuple(levels), rows)


def is_dense(largest: int, count: int) -> bool:
    """Whether a place for every possible code is not much more memory than so many codes are."""
    return largest <= 16 * count + (1 << 16)


@compiled
def _distinct(codes: Codes, largest: int) -> int:
    seen = np.zeros(largest + 1, np.bool_)
    seen[0] = True
    count = 0
    for code in codes:
        count += not seen[code]
        seen[code] = True
    return count


@compiled
def _sorted_by(codes: Codes, rows: Codes, largest: int) -> Codes:
    """The rows by their codes, and those of one code in the order they were in."""
    ends = np.zeros(largest + 2, np.int32)
    for row in rows:
        ends[codes[row] + 1] += 1
    for code in range(largest + 1):
        ends[code + 1] += ends[code]
    found = np.empty_like(rows)
    for row in rows:
        code = codes[row]
        found[ends[code]] = row
        ends[code] += 1
    return found


@compiled
def _level(codes: Codes, rows: Codes, opens: Any) -> tuple[Codes, Codes]:
    """The distinct codes after each prefix, and where among them each prefix begins.

    `opens` are the rows where a prefix begins, and afterwards those where one does that is longer
    by this code.
    """
    values = np.empty(len(rows), np.int32)
    starts = np.empty(opens.sum() + 1, np.int32)
    parent = count = 0
    before = np.int32(0)
    for i in range(len(rows)):
        code = codes[rows[i]]
        if opens[i]:
            starts[parent] = count
            parent += 1
        if opens[i] or code != before:
            opens[i] = True
            values[count] = code
            count += 1
        before = code
    starts[parent] = count
    return values[:count].copy(), starts
