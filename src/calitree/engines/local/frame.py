"""The join in progress: for each input, which of its rows stands in each joined row.

Joins and groups work on codes. The keys of several attributes are combined into one integer by
mixed radix over the dictionaries' sizes, or renumbered densely where that would not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from calitree.engines.local.dictionary import Codes

Array = np.ndarray[Any, Any]


def combine(columns: Sequence[Codes], sizes: Sequence[int]) -> tuple[Array, int]:
    """One key a row from several columns of codes, and the size of the key space. NULL (-1) has a
    place of its own.

    Equal rows have equal keys, for any two calls with the same sizes, unless the space is too large
    for 64 bits.
    """
    space = prod(size + 1 for size in sizes)
    assert space < 2**62
    keys: Array = np.zeros(len(columns[0]), np.int64)
    for codes, size in zip(columns, sizes, strict=True):
        keys = keys * (size + 1) + (codes.astype(np.int64) + 1)
    return keys, space


def fits(sizes: Iterable[int]) -> bool:
    return prod(size + 1 for size in sizes) < 2**62


def group(columns: Sequence[Codes], sizes: Sequence[int], length: int) -> tuple[Array, list[Codes]]:
    """Number the distinct rows: the group of each row, and each group's codes."""
    if not columns:
        return np.zeros(length, np.int64), []
    if not fits(sizes):
        first, rest = columns[0], columns[1:]
        inner, inner_codes = group(rest, sizes[1:], length)
        count = len(inner_codes[0])
        groups, (outer, numbers) = group([first, inner.astype(np.int32)], [sizes[0], count], length)
        return groups, [outer, *(codes[numbers] for codes in inner_codes)]
    keys, space = combine(columns, sizes)
    if space <= 4 * length + 1024:
        seen = np.zeros(space, bool)
        seen[keys] = True
        distinct = np.flatnonzero(seen)
        numbers = np.cumsum(seen) - 1
        groups = numbers[keys]
    else:
        distinct, groups = np.unique(keys, return_inverse=True)
    codes: list[Codes] = []
    for size in reversed(sizes):
        distinct, code = np.divmod(distinct, size + 1)
        codes.append((code - 1).astype(np.int32))
    return groups, codes[::-1]


class Frame:
    """Joined rows as positions into the inputs. `rows[i]` is None while input i stands as it is."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.length = 1
        self.rows: dict[int, Array | None] = {}
        self.codes: dict[str, Codes] = {}

    def keep(self, chosen: Array) -> None:
        """Keep these joined rows: positions, or a mask."""
        self.rows = {
            i: (np.flatnonzero(chosen) if chosen.dtype == bool else chosen)
            if at is None
            else at[chosen]
            for i, at in self.rows.items()
        }
        self.codes = {name: codes[chosen] for name, codes in self.codes.items()}
        self.length = int(chosen.sum()) if chosen.dtype == bool else len(chosen)

    def join(self, index: int, codes: Mapping[str, Codes], length: int) -> None:
        """Join one more input on the attributes it shares with those before; NULL matches nothing."""
        if not self.rows:
            self.rows[index], self.length, self.codes = None, length, dict(codes)
            return
        shared = [name for name in codes if name in self.codes]
        ours: Array | None
        if not shared:
            ours = np.repeat(np.arange(self.length), length)
            theirs = np.tile(np.arange(length), self.length)
        else:
            left, right, space = self._keys(shared, codes)
            counts = np.bincount(right[right >= 0], minlength=space)
            if counts.max(initial=0) <= 1:
                ours, theirs = _only_matches(left, right, space)
            else:
                ours, theirs = _all_matches(left, right, counts)
        if ours is not None:
            self.keep(ours)
        self.rows[index] = theirs
        self.codes |= {n: c[theirs] for n, c in codes.items() if n not in self.codes}

    def _keys(self, shared: list[str], codes: Mapping[str, Codes]) -> tuple[Array, Array, int]:
        """Join keys of both sides in one dense space, -1 where an attribute is NULL."""
        if len(shared) == 1:
            return self.codes[shared[0]], codes[shared[0]], self.sizes[shared[0]]
        both = [np.concatenate([self.codes[name], codes[name]]) for name in shared]
        keys, distinct = group(both, [self.sizes[name] for name in shared], len(both[0]))
        null = np.logical_or.reduce([column < 0 for column in both])
        keys = np.where(null, -1, keys)
        return keys[: self.length], keys[self.length :], len(distinct[0])


def _only_matches(left: Array, right: Array, space: int) -> tuple[Array | None, Array]:
    """Where each key of the right side is there once: a look-up. None if every row has its match."""
    places = np.full(space + 1, -1)  # one more, where NULL (-1) finds nothing
    there = np.flatnonzero(right >= 0)
    places[right[there]] = there
    found = places[left]
    matched = found >= 0
    if matched.all():
        return None, found
    ours = np.flatnonzero(matched)
    return ours, found[ours]


def _all_matches(left: Array, right: Array, counts: Array) -> tuple[Array, Array]:
    """Positions of all matching pairs: on the left side, and on the right."""
    here, there = np.flatnonzero(left >= 0), np.flatnonzero(right >= 0)
    keys = left[here]
    order = there[np.argsort(right[there], kind="stable")]
    starts = np.cumsum(counts) - counts
    each = counts[keys]
    offsets = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
    return np.repeat(here, each), order[np.repeat(starts[keys], each) + offsets]
