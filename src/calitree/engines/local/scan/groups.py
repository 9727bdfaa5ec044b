"""By what the rows of a scan are summed: attributes of its table, or of messages it probes.

An axis determines some of these attributes: for each of its ids there is a table of codes. If all
combinations of codes have room in an accumulator, the group of a row is their combination; else the
combinations that occur are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.scan.axes import Axis, ProbedMessages
from calitree.engines.local.vm.program import Program

Array = np.ndarray[Any, Any]
MIN_GROUPS_WITH_ROOM = 1 << 16
"""So many groups have room in an accumulator, however few rows there are."""


class GroupComponent(NamedTuple):
    """What one axis contributes to the group of a row: the row's id, or its entry in a table."""

    ids: Codes
    table: Array | None
    size: int
    codes: dict[str, Codes]
    """The codes of each entry."""


class GroupComponents:
    """What each axis contributes to the group of a row, and how many combinations there are."""

    def __init__(
        self, messages: ProbedMessages, onto: tuple[str, ...], axis: Axis | None = None
    ) -> None:
        """All that `onto` has may be of one axis, which is given then."""
        self.messages, self.axes, self.onto = messages, messages.axes, onto
        by_axis = self._by_axis() if axis is None else {axis: list(onto)}
        self.components = [self._component(axis, names) for axis, names in by_axis.items()]
        self.size = prod(component.size for component in self.components)

    def of_rows(self, rows: Array | slice, length: int) -> Array:
        """The combinations of so many rows, which are given by their numbers."""
        groups = np.zeros(length, np.int64)
        for ids, table, size, _ in self.components:
            groups = groups * size + (ids[rows] if table is None else table[ids[rows]])
        return groups

    def entries(self, groups: Array) -> list[Array]:
        """The entry of each component in some combinations."""
        rest = groups.astype(np.uint32)
        entries = []
        for component in reversed(self.components):
            rest, whole = rest // np.uint32(component.size), rest
            entries.append(whole - rest * np.uint32(component.size))
        return entries[::-1]

    def codes_of(self, entries: Sequence[Array]) -> list[Codes]:
        """The codes of `onto`, given the entries of each component."""
        codes: dict[str, Codes] = {}
        for component, own in zip(self.components, entries, strict=True):
            codes |= {name: column[own] for name, column in component.codes.items()}
        return [codes[name] for name in self.onto]

    def _by_axis(self) -> dict[Axis, list[str]]:
        """The axis that determines each attribute: a message's, or that of the table's own column.

        The ids of several columns do not determine them where one of them is NULL.
        """
        names: dict[Axis, list[str]] = {}
        leg = self.axes.leg
        for name in self.onto:
            if name not in leg.names:
                axis = self.axes.axis_of(self.messages.holder(name))
            else:
                holding = (axis for axis in self.axes.axes if name in axis.attributes)
                whole = (axis for axis in holding if all(map(leg.is_null_free, axis.attributes)))
                axis = next(whole, None) or self.axes.axis((name,))
            names.setdefault(axis, []).append(name)
        return names

    def _component(self, axis: Axis, names: list[str]) -> GroupComponent:
        codes = {name: self._codes(axis, name) for name in names}
        if tuple(sorted(names)) == axis.attributes:
            return GroupComponent(axis.ids, None, axis.size, codes)
        sizes = [self.axes.book.dictionary(name).size for name in names]
        if len(names) == 1:
            every = np.arange(sizes[0], dtype=np.int32)
            return GroupComponent(axis.ids, codes[names[0]], sizes[0], {names[0]: every})
        table, distinct = number_rows(list(codes.values()), sizes, axis.size)
        by_entry = dict(zip(names, distinct, strict=True))
        return GroupComponent(axis.ids, table, len(distinct[0]), by_entry)

    def _codes(self, axis: Axis, name: str) -> Codes:
        """An attribute's code in each id of an axis."""
        if name in axis.attributes:
            return axis.codes(name)
        at = self.messages.holder(name)
        padded = np.append(np.int32(0), self.axes.around[at][0].codes(name))
        codes: Codes = padded[self.messages.places(at)]
        return codes


class Grouping:
    """The group of each row as an index of a program (None: there is one), and how many there are."""

    def __init__(self, messages: ProbedMessages, onto: tuple[str, ...], program: Program) -> None:
        self.onto, self._combined = onto, GroupComponents(messages, onto)
        self.index: int | None = None
        self._numbered: list[Codes] | None = None
        self._groups: Codes | None = None
        room = min(max(MIN_GROUPS_WITH_ROOM, 2 * program.rows), 2**31 - 1)
        if self._combined.size > room:
            axis = _separator(messages, onto)
            if axis is not None and axis.size <= room:
                self._combined = GroupComponents(messages, onto, axis)
        components = self._combined.components
        self.size = self._combined.size
        if self.size <= room:
            for ids, table, size, _ in components:
                index = program.index(ids)
                index = index if table is None else program.map(index, table)
                before: int | None = self.index
                self.index = index if before is None else program.combine(before, index, size)
        else:
            columns = [c.ids if c.table is None else c.table[c.ids] for c in components]
            sizes = [component.size for component in components]
            self._groups, self._numbered = number_rows(columns, sizes, program.rows)
            self.index, self.size = program.index(self._groups), len(self._numbered[0])

    def of_rows(self, rows: Array | slice, length: int) -> Array:
        """The groups of so many rows, which are given by their numbers."""
        if self._groups is not None:
            return self._groups[rows]
        return self._combined.of_rows(rows, length)

    def codes(self, groups: Array | slice) -> list[Codes]:
        """The codes of `onto` in some groups, or a view of those in a range."""
        if len(self._combined.components) == 1 and self._numbered is None:
            (component,) = self._combined.components
            return [component.codes[name][groups] for name in self.onto]
        if isinstance(groups, slice):
            groups = np.arange(groups.start, groups.stop)
        if self._numbered is not None:
            return self._combined.codes_of([entries[groups] for entries in self._numbered])
        return self._combined.codes_of(self._combined.entries(groups))


def _separator(messages: ProbedMessages, onto: tuple[str, ...]) -> Axis | None:
    """The axis of all of these, if they are columns of the table whose ids are known: a separator's.

    The ids of several columns do not determine them where one of them is NULL.
    """
    axes, attributes = messages.axes, tuple(sorted(onto))
    is_own = all(name in axes.leg.names for name in onto)
    if not is_own or not axes.book.has_space(attributes):
        return None
    return axes.axis(attributes) if all(map(axes.leg.is_null_free, onto)) else None
