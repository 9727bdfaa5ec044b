"""Where the rows of a table meet messages.

A row meets a message through an *axis*: the ids of a separator. Messages on the same axis, or on a
part of it, are multiplied over its ids first, so that a row meets only their product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from calitree.engines.api.contraction import Factor
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.tables.legs import Leg
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
Axis: TypeAlias = tuple[str, ...]
Masks: TypeAlias = Mapping[int, tuple[Expression, ...]]
"""The messages that are multiplied in, with the predicates on their rows."""

Pressed: TypeAlias = tuple[tuple[int, Factor | None, tuple[Expression, ...]], ...]
"""Factors of some messages (None where one is only to be met), with the predicates on their rows."""


class Axes:
    """A table, and the messages around it with their separators."""

    def __init__(self, book: Codebook, leg: Leg, around: Mapping[int, tuple[Leg, Axis]]) -> None:
        self.book, self.leg, self.around = book, leg, around
        sets = sorted({separator for _, separator in around.values() if separator})
        self.axes = [s for s in sets if not any(set(s) < set(other) for other in sets)]
        self._met: dict[tuple[int, tuple[Expression, ...]], Array] = {}
        self._own: dict[tuple[Factor, Semiring], list[Value]] = {}
        self.products: dict[Pressed, Value] = {}
        """What arrives on an axis, multiplied: sums that share it share what is made of it too."""

    def ids(self, axis: Axis) -> Codes:
        """The id of every row on an axis."""
        return self.leg.ids(self.book.space(axis))

    def axis(self, at: int) -> Axis:
        """The axis on which a message is met."""
        separator = set(self.around[at][1])
        return next(axis for axis in self.axes if separator <= set(axis))

    def own(self, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor of the table itself, on every row."""
        key = (factor, semiring)
        if key not in self._own:
            self._own[key] = self.leg.factor(factor, semiring)
        return self._own[key]

    def meets(self, at: int, masks: Sequence[Expression]) -> Array:
        """One more than the row of a message in each id of its axis; 0 where it has none."""
        key = (at, tuple(masks))
        if key not in self._met:
            self._met[key] = self._meets(at, masks)
        return self._met[key]

    def _meets(self, at: int, masks: Sequence[Expression]) -> Array:
        leg, separator = self.around[at]
        space, axis = self.book.space(separator), self.axis(at)
        if axis == separator:
            fold = None
        else:
            whole = self.book.space(axis)
            with self.book.lock:
                fold = space.ids([whole.codes(a) for a in separator])
        places = leg.places(space, masks)
        assert places is not None
        return places if fold is None else places[fold]
