"""Sums of products that may pass 64 bits, over the rows of a scan.

The vector machine has registers of 64 bits. What they cannot hold is computed here in 128, block by
block: numbers are gathered, multiplied and added to the sums of their groups by compiled loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from calitree.engines.local.annotation import by_group, wide
from calitree.engines.local.annotation.values import DIGITS, Value, of_wide
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.vm import parallel
from calitree.interrupts import check

Array = np.ndarray[Any, Any]
Rows: TypeAlias = Array | slice

BLOCK_ROWS = 1 << 14
"""Rows whose products stay near the processor."""


@dataclass(frozen=True, eq=False)
class WideSum:
    """Σ of a product of integers by group.

    Attributes:
        factors: Numbers on every row, or by id, with the id of every row.
        groups: The groups of some rows, given these and how many there are.
        count: How many groups there are.
        rows: The rows to visit: all of so many, or those of these numbers.
        positive: Whether all factors are counts.
    """

    factors: Sequence[tuple[Value, Codes | None]]
    groups: Callable[[Rows, int], Array]
    count: int
    rows: int | Array
    positive: bool = False

    @property
    def length(self) -> int:
        """How many rows are visited."""
        return self.rows if isinstance(self.rows, int) else len(self.rows)

    def total(self, threads: int) -> Value:
        """The sums; doubles if one does not fit 128 bits."""
        if threads * self.count > self.length:  # more to clear and merge than to add
            threads = 1
        parts = parallel.map(self._sums, parallel.ranges(self.length, threads), threads)
        sums = [part for part in parts if part is not None]
        if len(sums) == len(parts):
            for other in sums[1:]:
                sums[0].merge(other)
            total = sums[0].total()
            if total is not None:
                values = [value for value, _ in self.factors]
                scale = sum(value.scale for value in values)
                exact = all(value.exact for value in values) and scale <= DIGITS
                return of_wide(total, scale=scale, exact=exact, positive=self.positive)
        return self._doubles()

    def _sums(self, bounds: tuple[int, int]) -> wide.WideSums | None:
        """Those of some of the rows; None if a product does not fit 128 bits."""
        sums = wide.WideSums(self.count)
        start, stop = bounds
        for first in range(start, stop, BLOCK_ROWS):
            check()
            rows = self._block(first, min(first + BLOCK_ROWS, stop))
            numbers = (_at(value.data, ids, rows) for value, ids in self.factors)
            product = wide.widened(next(numbers)).copy()
            for factor in numbers:
                wide.multiply_by(product, factor)
            if not sums.add(self.groups(rows, len(product)), product):
                return None
        return sums

    def _block(self, start: int, stop: int) -> Rows:
        return slice(start, stop) if isinstance(self.rows, int) else self.rows[start:stop]

    def _doubles(self) -> Value:
        rows = self._block(0, self.length)
        numbers = (_at(value.as_float().data, ids, rows) for value, ids in self.factors)
        product = Value(reduce(np.multiply, numbers), exact=False)
        return by_group.total(product, self.groups(rows, self.length), self.count)


def _at(data: Array, ids: Codes | None, rows: Rows) -> Array:
    """Numbers in some rows."""
    numbers: Array = data[rows] if ids is None else data[ids[rows]]
    return numbers
