"""One memory budget for all that is kept to be used again.

Trees that share an engine share a `Budget`: all that was calibrated, augmented or supposed on one join graph.
Its limit is the largest `memory_limit` among the trees that are in use. Whatever is kept because it may be of
use again is in a `BudgetedCache`, or is a message in a store, and counts with its bytes. What the data itself
needs (relations, the dictionaries of their keys, the pivot's messages) does not count.

What is least useful goes first. That is what was used longest ago, by a clock that counts the bytes that came
since. Kinds that take a pass over a relation, or a call of Spark, to get back (`DEAR`) count as used later than
they were, by the bytes of the whole budget: they stay for one turnover more.

A hit takes no lock. It sets a mark on the entry, and whoever needs room looks at it: an entry with a mark loses
the mark instead of its place (second chance). What is larger than the whole budget is not kept at all.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Protocol
from weakref import ref

from calitree.interrupts import uninterrupted
from calitree.memory.report import Holding
from calitree.process.locks import BriefLock

DEAR = frozenset(("messages", "codes", "columns", "joins", "transfers"))
"""Kinds that stay for one turnover of the budget more."""

MIN_DEFAULT_LIMIT, MEMORY_SHARE = 1 << 30, 4
"""Without another limit: so many bytes, or one part in so many of the machine's memory if that is more."""

ENTRY_BYTES = 1_000
"""An entry of a cache with its key, beside its value."""


def default_limit() -> int:
    """The limit of trees that are given none."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not every system tells
        return MIN_DEFAULT_LIMIT
    return max(MIN_DEFAULT_LIMIT, memory // MEMORY_SHARE)


class Evicting(Protocol):
    """Who has entries in a budget."""

    def evict(self, entry: Entry) -> None:
        """Give up what this entry stands for; the budget has forgotten it already."""


class Entry:
    """Something kept: how large it is, and whether it was used since somebody needed room."""

    __slots__ = ("due", "key", "kind", "nbytes", "owner", "shares", "used")

    def __init__(self, owner: ref[Any], key: object, kind: str, nbytes: int) -> None:
        self.owner, self.key, self.kind = owner, key, kind
        self.nbytes = nbytes + ENTRY_BYTES
        self.due = 0
        self.used = False
        self.shares = 1


class Budget:
    """The bytes of all that is kept, and what must go for more.

    Its lock is held for the accounts alone; whatever goes is given up after that.
    """

    def __init__(
        self, limit: int | None = None, data: Callable[[], tuple[Holding, ...]] = tuple
    ) -> None:
        """A budget.

        Args:
            limit: Its bytes as long as no tree says otherwise.
            data: What its owner holds that does not count.
        """
        self.data = data
        self._lock = BriefLock()
        self._limits: dict[ref[object], int] = {}
        self._default = self._limit = default_limit() if limit is None else limit
        self._entries: dict[str, OrderedDict[Entry, None]] = {}
        """Of each kind, what is due first first."""
        self._bytes: dict[str, int] = {}
        self._clock = 0
        self._gone_trees: deque[ref[object]] = deque()
        self._gone: deque[Entry] = deque()
        """Entries whose owner is no more. Finalisers run at any time, so they take no lock."""
        self.nbytes = 0

    def admit_tree(self, tree: object, limit: int) -> None:
        """Note the limit of a tree, for as long as that is in use."""
        with self._lock:
            self._limits[ref(tree, self._gone_trees.append)] = limit
            self._limit = max(self._limits.values())
        self.trim()

    @property
    def limit(self) -> int:
        """The largest limit of the trees that are in use."""
        if self._gone_trees:
            with self._lock:
                self._bury()
        return self._limit

    @uninterrupted()
    def trim(self) -> None:
        """Let go what has no room any more, as the limit is smaller than it was."""
        with self._lock:
            self._bury()
            victims = self._victims(self.limit)
        _evict(victims)

    @uninterrupted()
    def admit(self, entry: Entry) -> bool:
        """Count an entry, and let others go for it; False if it is larger than all room."""
        return self.admit_in_change(entry)

    def admit_in_change(self, entry: Entry) -> bool:
        """The same inside of a change that is not interrupted."""
        kind, size, victims = entry.kind, entry.nbytes, []
        with self._lock:
            self._bury()
            if size <= (limit := self._limit):
                if self.nbytes > limit - size:
                    victims = self._victims(limit - size)
                self._clock += size
                entry.due = self._clock + (limit if kind in DEAR else 0)
                self._entries.setdefault(kind, OrderedDict())[entry] = None
                self._bytes[kind] = self._bytes.get(kind, 0) + size
                self.nbytes += size
        _evict(victims)
        return size <= limit

    def _victims(self, room: int) -> list[Entry]:
        """Entries, taken out, without which the others fit."""
        victims = []
        while self.nbytes > room:
            first = [next(iter(queue)) for queue in self._entries.values() if queue]
            entry = min(first, key=_due)
            self._remove(entry)
            if entry.used:
                entry.used = False
                entry.due = self._clock + (self.limit if entry.kind in DEAR else 0)
                self._entries[entry.kind][entry] = None
                self._bytes[entry.kind] += entry.nbytes
                self.nbytes += entry.nbytes
            else:
                victims.append(entry)
        return victims

    def has_room(self, entry: Entry) -> bool:
        """Whether an entry could be kept."""
        return entry.nbytes <= self.limit

    def share(self, entry: Entry) -> None:
        """Note that one more keeps this: it counts until all have released it."""
        with self._lock:
            entry.shares += 1

    @uninterrupted()
    def release(self, entry: Entry) -> None:
        """Count an entry no longer, unless others keep it too."""
        with self._lock:
            self._release(entry)

    def abandon(self, entry: Entry) -> None:
        """Count an entry no longer, from the next call of another method on; for finalisers."""
        self._gone.append(entry)

    def _bury(self) -> None:
        while self._gone:
            self._release(self._gone.popleft())
        while self._gone_trees:
            self._limits.pop(self._gone_trees.popleft(), None)
            self._limit = max(self._limits.values(), default=self._default)

    def _release(self, entry: Entry) -> None:
        entry.shares -= 1
        if entry.shares <= 0:
            self._remove(entry)

    def _remove(self, entry: Entry) -> None:
        queue = self._entries.get(entry.kind)
        if queue is not None and entry in queue:
            del queue[entry]
            self._bytes[entry.kind] -= entry.nbytes
            self.nbytes -= entry.nbytes

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """What is kept, by kind, the largest first."""
        with self._lock:
            self._bury()
            kinds = sorted(self._entries, key=lambda kind: -self._bytes[kind])
            return tuple(
                Holding(kind, len(self._entries[kind]), self._bytes[kind])
                for kind in kinds
                if self._entries[kind]
            )


def _due(entry: Entry) -> int:
    return entry.due


def _evict(victims: list[Entry]) -> None:
    for victim in victims:
        owner = victim.owner()
        if owner is not None:
            owner.evict(victim)
