"""Finding a few keys among many that are numbered: what updates do all the time.

The loops of `numbering` pass over all keys that are known, which is nothing beside the many that
they number. For a few, the known ones are kept sorted instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MANY_KNOWN = 1 << 10
"""With fewer keys, or fewer than `TIMES` as many as are looked for, numbering is as quick."""

TIMES = 16

OFTEN = 3
"""Sorting is not worth it for what is asked so many times."""

MERGED = 8
"""Keys that came since they were sorted may be one in so many; then all are sorted again."""


class Lookup:
    """From keys to numbers, which begin at 1. Keys only grow in number."""

    def __init__(self) -> None:
        self._asked = 0
        self._old = self._new = (np.empty(0, np.int64), np.empty(0, np.int32))

    def is_for(self, wanted: int, known: int) -> bool:
        """Whether so few keys among so many have been looked for often enough."""
        if known < MANY_KNOWN or wanted * TIMES > known:
            return False
        self._asked += 1
        return self._asked > OFTEN

    def find(self, keys: Array, known: Callable[[int], Array], count: int) -> Array:
        """The number of each key, 0 if it has none. `known` gives the keys from one on."""
        sorted_before = len(self._old[0])
        if sorted_before + len(self._new[0]) != count:
            if (count - sorted_before) * MERGED > count:
                self._old, self._new = _sorted(known(0), 0), _sorted(np.empty(0, np.int64), 0)
            else:
                self._new = _sorted(known(sorted_before), sorted_before)
        found = _find(keys, *self._old)
        if len(self._new[0]):
            found += _find(keys, *self._new)
        return found


def _sorted(keys: Array, start: int) -> tuple[Array, Array]:
    order = np.argsort(keys, kind="stable")
    return keys[order], (order + (start + 1)).astype(np.int32)


def _find(keys: Array, known: Array, numbers: Array) -> Array:
    if not len(known):
        return np.zeros(len(keys), np.int32)
    at = known.searchsorted(keys)
    np.minimum(at, len(known) - 1, out=at)
    found: Array = numbers[at] * (known[at] == keys)
    return found
