"""One pass over a table, on which any number of sums are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan.axes import Axes, Axis, Masks
from calitree.engines.local.scan.summed import Summed
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
        self.book, self.leg, self.where = book, leg, tuple(where)
        self.axes = Axes(book, leg, around)
        self._sums: list[Summed] = []

    def summed(self, onto: tuple[str, ...], masks: Masks) -> Summed:
        """Sums by these attributes, with these messages multiplied in."""
        made = Summed(self.axes, onto, masks)
        self._sums.append(made)
        return made

    def run(self, threads: int) -> None:
        """Take all sums. If a product of integers did not fit, once more with doubles for those."""
        for axis in self.axes.axes:
            self.axes.ids(axis)  # they may be new, so before all that is looked up
        chosen = self._chosen()
        for checked in (True, False):
            program = Program(self.leg.rows, chosen, checked)
            for each in self._sums:
                each.write(program)
            if program.run(threads):
                break

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
        return any(
            masks and self.axes.axis(at) == axis for at, masks in self._sums[0].masks.items()
        )

    def _by_index(self) -> Array | None:
        """The rows of the few ids that the messages on one axis have, by an index of rows.

        It is made when it would have been of use before: for a single question it is not worth it.
        """
        if len(self._sums) != 1:
            return None
        table, names = self.leg.table, self.leg.names
        for axis in self.axes.axes:
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
