"""One pass over a table, on which any number of aggregations are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan.aggregation import Aggregation
from calitree.engines.local.scan.axes import Axes, Predicates, ProbedMessages
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.vm.program import Program
from calitree.process.compiled import compiled
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

INDEX_RATIO = 4
"""An index of rows is used where it leaves at most one row in so many."""


class Scan:
    """The pass: its table, the messages around it with their separators, and a filter of its rows."""

    def __init__(
        self,
        book: Codebook,
        leg: Leg,
        around: Mapping[int, tuple[Leg, tuple[str, ...]]],
        where: Sequence[Expression],
    ) -> None:
        self.leg, self.where = leg, tuple(where)
        self.axes = Axes(book, leg, around)
        self._aggregations: list[Aggregation] = []

    def aggregate(self, onto: tuple[str, ...], masks: Mapping[int, Predicates]) -> Aggregation:
        """Sums by these attributes, over rows joined with these messages."""
        aggregation = Aggregation(ProbedMessages(self.axes, masks), onto)
        self._aggregations.append(aggregation)
        return aggregation

    def run(self, threads: int) -> None:
        """Take all sums.

        If a product of integers did not fit, once more with doubles for those; and once more if the first
        rows of some groups were far from their means.
        """
        chosen, checked, is_complete = self.chosen(), True, False
        while not is_complete:
            program = Program(self.leg.rows, chosen, checked)
            for aggregation in self._aggregations:
                aggregation.write(program)
            fits = program.run(threads)
            checked = checked and fits
            if fits or not program.checked:
                poor = [aggregation.recentre() for aggregation in self._aggregations]
                is_complete = not any(poor)

    def chosen(self) -> Array | None:
        """The rows to visit, if not all: those that pass, and that may join with something."""
        mask = self.leg.passing(self.where)
        indexed = self._by_index()
        if indexed is not None:
            return indexed if mask is None else indexed[mask[indexed]]
        return None if mask is None else rows_of(mask)

    def _by_index(self) -> Array | None:
        """The rows of the few ids that the messages on one axis have, by an index of rows.

        It is built when it would have been of use before: for a single question it is not worth it.
        Messages that have few ids without predicates have been used for a semi-join already.
        """
        if len(self._aggregations) != 1:
            return None
        messages = self._aggregations[0].messages
        table, names = self.leg.table, self.leg.names
        for axis in self.axes.axes:
            filters = (m for at, m in messages.masks.items() if self.axes.axis_of(at) is axis)
            present = messages.present(axis) if any(filters) else None
            if present is None or np.count_nonzero(present) * INDEX_RATIO > len(present):
                continue
            if not table.is_wanted(axis.space, names):
                continue
            index, ids = table.index(axis.space, names), np.flatnonzero(present)
            if index.count(ids) * INDEX_RATIO <= table.rows:
                return index.rows(ids)
        return None


def rows_of(mask: Array) -> Array:
    """The numbers of the rows where a mask is true."""
    rows = np.empty(len(mask), np.uint32)
    return rows[: _write_rows(mask, rows)]


@compiled
def _write_rows(mask: Array, rows: Array) -> int:  # pragma: no cover (compiled)
    """Every number is written, and the next over it if the row does not count: no branch is guessed."""
    count = 0
    for row in range(len(mask)):
        rows[count] = row
        count += mask[row]
    return count
