"""How far back the changes of a relation are remembered."""

from __future__ import annotations

from typing import cast
from weakref import finalize, ref

from calitree.memory.budget import Budget, Entry

CHANGES_REMEMBERED, MIN_CHANGES_REMEMBERED = 2_048, 100
"""How many updates back a relation can tell what has changed since: with all room, and without any."""

MIN_FORGOTTEN_PART = 4
"""Changes of long ago are forgotten when one in so many of all can go."""


class History:
    """The changes of a relation since it was first loaded, which all its revisions share.

    What is remembered counts into the budget. If that needs the room the oldest may be forgotten, which they
    are when the next one comes.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.forgettable = 0
        """The number of the last change that may be forgotten."""
        self._forgotten = self._evicted = 0
        self._self = ref(self)

    def add(self, revision: object, number: int, nbytes: int) -> bool:
        """Count one more change; whether it is time to forget some."""
        self.count(revision, number, nbytes)
        self.forgettable = max(
            self.forgettable,
            number - CHANGES_REMEMBERED,
            min(self._evicted, number - MIN_CHANGES_REMEMBERED),
        )
        newly = self.forgettable - self._forgotten
        if newly * MIN_FORGOTTEN_PART <= number - self._forgotten:
            return False
        self._forgotten = self.forgettable
        return True

    def count(self, revision: object, number: int, nbytes: int) -> None:
        """Count what a revision has of its own, as long as it lives."""
        entry = Entry(self._self, number, "history", nbytes)
        if self.budget.admit(entry):
            finalize(revision, self.budget.abandon, entry)
        else:
            self.evict(entry)

    def evict(self, entry: Entry) -> None:
        """Allow a change, and with it all before, to be forgotten."""
        self._evicted = max(self._evicted, cast(int, entry.key))
