"""By what the rows of a scan are summed: attributes of its table, or of messages it meets.

An attribute is told by an axis: for each of its ids there is a table of codes. If all combinations
of codes have room in an accumulator, the group of a row is their combination; else the combinations
that there are get numbers.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.scan.axes import Axes, Axis, Masks
from calitree.engines.local.vm.program import Program

Array = np.ndarray[Any, Any]
ROOM = 1 << 16


class Share(NamedTuple):
    """What one axis tells of the group: by the row's id, or by what a table has there."""

    ids: Codes
    table: Array | None
    size: int
    codes: dict[str, Codes]
    """The codes of each entry."""


class Grouping:
    """The group of each row as an index of a program (None: there is one), and how many there are."""

    def __init__(self, axes: Axes, onto: tuple[str, ...], masks: Masks, program: Program) -> None:
        self.axes, self.onto, self.masks = axes, onto, masks
        self.index: int | None = None
        self._entries: list[Codes] | None = None
        self._shares = [self._share(axis, names) for axis, names in self._told_by().items()]
        self.size = prod(share.size for share in self._shares)
        if self.size <= max(ROOM, 2 * program.rows) and self.size < 2**31:
            for share in self._shares:
                here = program.index(share.ids)
                here = here if share.table is None else program.map(here, share.table)
                before: int | None = self.index
                self.index = here if before is None else program.combine(before, here, share.size)
        else:
            each = [s.ids if s.table is None else s.table[s.ids] for s in self._shares]
            sizes = [share.size for share in self._shares]
            groups, self._entries = number_rows(each, sizes, program.rows)
            self.index, self.size = program.index(groups), len(self._entries[0])

    def codes(self, groups: Array) -> list[Codes]:
        """The codes of `onto` in some groups."""
        left = groups.astype(np.uint32)
        found: dict[str, Codes] = {}
        for at, share in reversed(list(enumerate(self._shares))):
            if self._entries is not None:
                here = self._entries[at][groups]
            else:
                left, whole = left // np.uint32(share.size), left
                here = whole - left * np.uint32(share.size)
            found |= {name: each[here] for name, each in share.codes.items()}
        return [found[name] for name in self.onto]

    def _told_by(self) -> dict[Axis, list[str]]:
        """The axis of each attribute: a message's, or that of the table's own column.

        The ids of several columns do not tell them where one of them is NULL.
        """
        found: dict[Axis, list[str]] = {}
        leg = self.axes.leg
        for name in self.onto:
            axis: Axis = (name,)
            if name not in leg.names:
                axis = self.axes.axis(self._holder(name))
            else:
                for each in self.axes.axes:
                    if name in each and all(leg.is_null_free(a) for a in each):
                        axis = each
                        break
            found.setdefault(axis, []).append(name)
        return found

    def _holder(self, name: str) -> int:
        """The message that has an attribute."""
        around = self.axes.around
        return next(at for at in self.masks if name in around[at][0].names)

    def _share(self, axis: Axis, names: list[str]) -> Share:
        book = self.axes.book
        ids, space = self.axes.ids(axis), book.space(axis)
        codes = {name: self._codes(axis, name) for name in names}
        if tuple(sorted(names)) == axis:
            return Share(ids, None, space.size, codes)
        sizes = [book.dictionary(name).size for name in names]
        if len(names) == 1:
            every = np.arange(sizes[0], dtype=np.int32)
            return Share(ids, codes[names[0]], sizes[0], {names[0]: every})
        table, distinct = number_rows(list(codes.values()), sizes, space.size)
        return Share(ids, table, len(distinct[0]), dict(zip(names, distinct, strict=True)))

    def _codes(self, axis: Axis, name: str) -> Codes:
        """An attribute's code in each id of an axis."""
        if name in axis:
            return self.axes.book.space(axis).codes(name)
        at = self._holder(name)
        codes = self.axes.around[at][0].codes(name)
        padded: Codes = np.concatenate([np.zeros(1, np.int32), codes])
        found: Codes = padded[self.axes.meets(at, self.masks[at])]
        return found
