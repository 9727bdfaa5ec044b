"""Relations sorted as tries, for a worst-case optimal join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.interrupts import run
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.process.compiled import compiled

Codes = np.ndarray[Any, np.dtype[np.int32]]


MAX_ORDERS = 8
"""Tries of one relation that are kept, each sorted by other attributes."""


@dataclass(frozen=True)
class Level:
    """One attribute of a trie.

    Entry i is `values[i]` after some prefix. What may follow it is in the next level (after the
    last: in the rows) from `starts[i]` to `starts[i + 1]`.
    """

    values: Codes
    starts: Codes
    max_fanout: int
    """How many entries a prefix has at most."""
    largest: int
    """The largest value."""

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """The addresses of the values and of the starts; NumPy takes its time to tell."""
        return self.values.ctypes.data, self.starts.ctypes.data


@dataclass(frozen=True)
class Trie:
    """A relation's rows without NULL, sorted by its attributes in some order.

    The values that may follow a prefix are contiguous, in order.
    """

    levels: tuple[Level, ...]
    rows: Codes

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        levels = sum(level.values.nbytes + level.starts.nbytes for level in self.levels)
        return int(levels + self.rows.nbytes)

    @property
    def unique(self) -> bool:
        """Whether no two rows are the same."""
        return len(self.levels[-1].values) == len(self.rows)

    @cached_property
    def address(self) -> int:
        """The address of the rows."""
        return self.rows.ctypes.data


class Tries:
    """A relation's codes, and tries of them in several orders, each sorted once and kept."""

    def __init__(
        self, codes: Mapping[str, Codes], rows: int | None = None, budget: Budget | None = None
    ) -> None:
        # Writable, though nobody writes: numba would compile all again for arrays that are not.
        self.codes = {name: np.require(c, np.int32, ["C", "W"]) for name, c in codes.items()}
        self.rows = max(map(len, self.codes.values())) if rows is None else rows
        self._tries = BudgetedCache[tuple[str, ...], Trie](
            budget or Budget(), "look-ups", attrgetter("nbytes"), limit=MAX_ORDERS
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the codes; each trie counts for itself."""
        return sum(int(codes.nbytes) for codes in self.codes.values())

    @cached_property
    def cardinalities(self) -> dict[str, int]:
        """How many values each attribute has."""
        counts = lambda: {name: _cardinality(codes) for name, codes in self.codes.items()}  # noqa: E731
        return run(counts, self.rows)

    def trie(self, attributes: tuple[str, ...]) -> Trie:
        """The rows sorted by these attributes, of which there is at least one."""
        columns = [self.codes[a] for a in attributes]
        return self._tries.of(attributes, lambda: run(lambda: trie(columns), self.rows))


def trie(columns: Sequence[Codes]) -> Trie:
    """Sort rows by these columns, of which there is at least one."""
    rows = np.flatnonzero(np.logical_and.reduce(columns)).astype(np.int32)
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
        Level(entries, after, int(np.diff(before).max(initial=0)), int(entries.max(initial=0)))
        for entries, before, after in zip(values, starts, (*starts[1:], ends), strict=True)
    )
    return Trie(tuple(levels), rows)


def is_dense(largest: int, count: int) -> bool:
    """Whether an array over all possible codes is not much larger than one of so many codes."""
    return largest <= 16 * count + (1 << 16)


def _cardinality(codes: Codes) -> int:
    largest = int(codes.max(initial=0))
    if is_dense(largest, len(codes)):
        return _count_distinct(codes, largest)
    return int(np.count_nonzero(np.unique(codes)))


@compiled
def _count_distinct(codes: Codes, largest: int) -> int:
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
    result = np.empty_like(rows)
    for row in rows:
        code = codes[row]
        result[ends[code]] = row
        ends[code] += 1
    return result


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
