"""One pass over a table, on which any number of sums are taken.

A row meets a message through an *axis*: the ids of a separator. Messages on the same axis, or on a
part of it, are multiplied over its ids first, so that a row meets only their product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calitree.engines.api.contraction import Factor
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.scan.summed import Axis, Masks, Pressed, Summed
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.vm.program import Program
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

FEW = 4
"""An index of rows is used where it leaves at most one row in so many."""


class Scan:
    """The pass: its table, the messages around it with their separators, and a filter of its rows."""

    def __init__(
        self,
        book: Codebook,
        leg: Leg,
        around: Mapping[int, tuple[Leg, Axis]],
        where: Sequence[Expression],
    ) -> None:
        self.book, self.leg, self.around, self.where = book, leg, around, tuple(where)
        sets = sorted({separator for _, separator in around.values() if separator})
        self.axes = [s for s in sets if not any(set(s) < set(other) for other in sets)]
        self._sums: list[Summed] = []
        self._met: dict[tuple[int, tuple[Expression, ...]], Array] = {}
        self._own: dict[tuple[Factor, Semiring], list[Value]] = {}
        self.products: dict[Pressed, Value] = {}
        """What arrives on an axis, multiplied: sums that share it share what is made of it too."""

    def summed(self, onto: tuple[str, ...], masks: Masks) -> Summed:
        """Sums by these attributes, with these messages multiplied in."""
        made = Summed(self, onto, masks)
        self._sums.append(made)
        return made

    def run(self, threads: int) -> None:
        """Take all sums. If a product of integers did not fit, once more with doubles for those."""
        for axis in self.axes:
            self.ids(axis)  # they may be new, so before all that is looked up
        chosen = self._chosen()
        for checked in (True, False):
            program = Program(self.leg.rows, chosen, checked)
            for each in self._sums:
                each.write(program)
            if program.run(threads):
                break

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

    def _chosen(self) -> Array | None:
        """The rows to visit, if they are not all: those that pass, and that can meet something."""
        mask = self.leg.passing(self.where)
        indexed = self._by_index()
        if indexed is not None:
            return indexed if mask is None else indexed[mask[indexed]]
        return None if mask is None else np.flatnonzero(mask).astype(np.uint32)

    def _may_be_few(self, axis: Axis) -> bool:
        """Whether some message on this axis lets few of its rows pass. If it has few anyway, rows
        were chosen by them before.
        """
        return any(masks and self.axis(at) == axis for at, masks in self._sums[0].masks.items())

    def _by_index(self) -> Array | None:
        """The rows of the few ids that the messages on one axis have, by an index of rows.

        It is made when it would have been of use before: for a single question it is not worth it.
        """
        if len(self._sums) != 1:
            return None
        table, names = self.leg.table, self.leg.names
        for axis in self.axes:
            there = self._sums[0].there(axis) if self._may_be_few(axis) else None
            if there is None or np.count_nonzero(there) * FEW > len(there):
                continue
            space = self.book.space(axis)
            if not table.is_wanted(space, names):
                continue
            index, ids = table.index(space, names), np.flatnonzero(there)
            if index.count(ids) * FEW <= table.rows:
                return index.rows(ids)
        return None
