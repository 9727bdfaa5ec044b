"""The versions of a tree that can still be asked for."""

from __future__ import annotations

from collections import OrderedDict

from calitree.calibration.snapshot import Moment
from calitree.errors import UpdateError

KEPT = 100
"""So many versions can be told; older ones would keep their rows in memory for ever."""


class History:
    """The last versions, oldest first."""

    def __init__(self, first: Moment) -> None:
        self._moments = OrderedDict([(first.number, first)])
        self.next = first.number + 1

    def add(self, moment: Moment) -> None:
        self._moments[moment.number] = moment
        self.next = moment.number + 1
        while len(self._moments) > KEPT:
            self._moments.popitem(last=False)
            next(iter(self._moments.values())).before = None

    @property
    def numbers(self) -> range:
        return range(next(iter(self._moments)), self.next)

    def moment(self, number: int) -> Moment:
        found = self._moments.get(number)
        if found is None:
            first, last = self.numbers[0], self.numbers[-1]
            known = (
                f"There is only version {last}."
                if first == last
                else (f"There are {first} to {last}.")
            )
            raise UpdateError(f"There is no version {number!r} any more, or not yet. {known}")
        return found
