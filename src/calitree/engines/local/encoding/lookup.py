"""Finding a few keys among many that are numbered: what updates do all the time.

The loops of `numbering` pass over all known keys, which costs little beside the many that they
number. To find a few, the known ones are kept sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calitree.interrupts import run

Array = np.ndarray[Any, Any]

MIN_KNOWN_KEYS = 1 << 10
"""With fewer known keys numbering is as quick."""

MIN_KNOWN_PER_WANTED = 16
"""With fewer known keys for each that is looked for numbering is as quick."""

MIN_CALLS = 3
"""Sorting is worth it when keys were looked for more often than this."""

MAX_UNSORTED_PART = 8
"""When one key in so many has come since they were sorted, all are sorted again."""


class Lookup:
    """From keys to numbers, which begin at 1. Keys are only added. Its owner holds a lock."""

    def __init__(self) -> None:
        self._calls = 0
        self._old = self._new = (np.empty(0, np.int64), np.empty(0, np.int32))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(int(array.nbytes) for array in (*self._old, *self._new))

    def is_for(self, wanted: int, known: int) -> bool:
        """Whether so few keys among so many have been looked for often enough."""
        if known < MIN_KNOWN_KEYS or wanted * MIN_KNOWN_PER_WANTED > known:
            return False
        self._calls += 1
        return self._calls > MIN_CALLS

    def find(self, keys: Array, known: Callable[[int], Array], count: int) -> Array:
        """The number of each key, 0 if it has none. `known` gives the keys from one on."""
        sorted_before = len(self._old[0])
        if sorted_before + len(self._new[0]) != count:
            if (count - sorted_before) * MAX_UNSORTED_PART > count:
                self._old, self._new = _sorted(known(0), 0), _sorted(np.empty(0, np.int64), 0)
            else:
                self._new = _sorted(known(sorted_before), sorted_before)
        numbers = _find(keys, *self._old)
        if len(self._new[0]):
            numbers += _find(keys, *self._new)
        return numbers


def _sorted(keys: Array, start: int) -> tuple[Array, Array]:
    order = run(lambda: np.argsort(keys, kind="stable"), len(keys))
    return keys[order], (order + (start + 1)).astype(np.int32)


def _find(keys: Array, known: Array, numbers: Array) -> Array:
    if not len(known):
        return np.zeros(len(keys), np.int32)
    at = known.searchsorted(keys)
    np.minimum(at, len(known) - 1, out=at)
    hits: Array = numbers[at] * (known[at] == keys)
    return hits
