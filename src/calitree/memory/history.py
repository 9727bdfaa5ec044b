"""How far back the changes of a relation are remembered."""

from __future__ import annotations

from typing import cast
from weakref import ref

from calitree.memory.budget import Budget, Entry

CHANGES_REMEMBERED, MIN_CHANGES_REMEMBERED = 2_048, 100
"""How many updates back a relation can tell what has changed since: with all room, and without any."""

UNCOUNTED_CHANGES, UNCOUNTED_BYTES = 4, 1 << 16
"""So many changes of a relation, if each is so small, do not count into the budget."""

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

    def is_time_to_forget(self, number: int) -> bool:
        """Whether enough of the changes up to this one may be forgotten by now."""
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

    def count(self, number: int, nbytes: int) -> Counted | None:
        """Count what a revision has of its own, for as long as it keeps what is returned.

        The first few changes are not worth it if they are small: most are those of a what-if.
        """
        if number <= UNCOUNTED_CHANGES and nbytes <= UNCOUNTED_BYTES:
            return None
        entry = Entry(self._self, number, "history", nbytes)
        if not self.budget.admit(entry):
            self.evict(entry)
        return Counted(self.budget, entry)

    def evict(self, entry: Entry) -> None:
        """Allow a change, and with it all before, to be forgotten."""
        self._evicted = max(self._evicted, cast(int, entry.key))


class Counted:
    """Something that counts into a budget until this is no more."""

    __slots__ = ("budget", "entry")

    def __init__(self, budget: Budget, entry: Entry) -> None:
        self.budget, self.entry = budget, entry

    def __del__(self) -> None:
        self.budget.abandon(self.entry)
