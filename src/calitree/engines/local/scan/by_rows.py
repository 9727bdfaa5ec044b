"""⊕ of products that no program computes, on all rows of a scan: of wide integers, and of texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from calitree.engines.api.contraction import Factor
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.annotation.labels import best_texts
from calitree.engines.local.annotation.texts import Goal, Texts
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.join.star import constant, plus, times
from calitree.engines.local.scan.axes import ProbedMessages
from calitree.engines.local.scan.groups import Grouping
from calitree.engines.local.vm.program import Program

Array = np.ndarray[Any, Any]


def fits_program(values: Sequence[Value]) -> bool:
    """Whether a program can compute with these: they are neither wide integers nor texts."""
    return not any(value.is_wide or isinstance(value.labels, Texts) for value in values)


class SumsByRows:
    """Products on every row, and their sums by group over the rows that join with every message."""

    def __init__(self, messages: ProbedMessages, grouping: Grouping, program: Program) -> None:
        self.messages, self.axes = messages, messages.axes
        self.grouping, self.program = grouping, program

    def product(
        self, semiring: Semiring, own: Sequence[Factor], probed: Sequence[tuple[int, Factor]]
    ) -> list[Value]:
        """⊗ of factors of the table and of messages, on all rows."""
        rows = self.axes.leg.rows
        factors = [self.axes.own(factor, semiring) for factor in own]
        for at, factor in probed:
            ids = self.axes.axis_of(at).ids
            values = self.messages.factor(at, factor, semiring)
            factors.append([value.take(ids) for value in values])
        if not factors:
            return [constant(one, rows) for one in semiring.one]
        return reduce(lambda left, right: times(semiring, left, right, rows), factors)

    def sums(self, semiring: Semiring, product: Sequence[Value]) -> list[Callable[[], Value]]:
        """⊕ of a product, component by component."""
        rows, groups = self._joined_rows(), None
        if self.grouping.onto:
            length = self.program.rows if rows is None else len(rows)
            groups = self.grouping.of_rows(slice(None) if rows is None else rows, length)
        taken = [value.take(rows) for value in product]
        if any(isinstance(value.labels, Texts) for value in product):
            ways = zip(semiring.plus, taken, strict=True)
            return [partial(self._best, way == "max", value, groups) for way, value in ways]
        if groups is None:
            groups = np.zeros(len(taken[0].data), np.int64)
        sums = plus(semiring, taken, groups, self.grouping.size)
        return [partial(value.take, None) for value in sums]

    def _best(self, largest: bool, texts: Value, groups: Array | None) -> Value:
        if groups is not None:
            groups = groups.astype(np.int32, copy=False)
        return best_texts(texts, groups, Goal(self.grouping.size, largest))

    def _joined_rows(self) -> Array | None:
        """The rows that join with every message; None for all."""
        rows = self.program.chosen
        for axis in self.axes.axes:
            present = self.messages.present(axis)
            if present is not None:
                here = present[axis.ids if rows is None else axis.ids[rows]]
                rows = np.flatnonzero(here) if rows is None else rows[here]
        return rows
