"""The messages of a calibrated tree, by key. Reuse is `store.find(key, aggregates)`.

The pivot's messages are pinned. Messages that delta queries compute are kept as long as they fit the limit of
this tree, the least recently used evicted first, and the budget of all trees on the engine (`budget`). Messages
of an opened tree wait on a shelf, until somebody asks for their key; if evicted they go back there.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import cast
from weakref import WeakSet, ref

from calitree.calibration.message import ColumnsByText, Message, MessageKey, Shelved
from calitree.engines.api.contraction import Table
from calitree.errors import DamagedError
from calitree.interrupts import uninterrupted
from calitree.memory.budget import Budget, Entry
from calitree.process.locks import Rank, SharedLock
from calitree.query.annotation import Aggregate
from calitree.storage.filesystem import shown
from calitree.storage.table_format import SavedMessage

REVISIONS_KEPT = 8
"""Of how many revisions of its relations a message is kept."""
CANDIDATES = 4
"""How many of them are compared, beside the pinned one, to choose that from which the least has changed."""

Restore = Callable[[SavedMessage], Table]


class Store:
    """Messages, pinned and kept. One key may have several messages with different columns.

    `epoch` changes whenever a message comes or goes: what was planned at this epoch is still the best
    plan there is. Every change is made under the lock; `find` reads without it. It is held while the engine
    restores a saved message, which reads no file, and takes no other lock of `calibration`.
    """

    def __init__(
        self,
        memory_limit: int,
        shelved: Iterable[Shelved] = (),
        restore: Restore | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.memory_limit = memory_limit
        self.budget = Budget() if budget is None else budget
        """That of all trees on the engine; `memory_limit` is this tree's part in it."""
        if budget is not None:
            budget.admit_tree(self, memory_limit)
        self._family = _Family()
        self._family.add(self)
        self._condemned: deque[Entry] = deque()
        """Entries that others need the room of, to be evicted by the next who takes the lock."""
        self.epoch = 0
        self.kept_bytes = 0
        self._messages: dict[MessageKey, tuple[Message, ...]] = {}
        self._kept: OrderedDict[Message, tuple[Entry, int]] = OrderedDict()
        """Those that may be evicted, and the bytes of their rows, in the order of their last use."""
        self._times: dict[MessageKey, dict[MessageKey, None]] = {}
        """For each message whatever its revisions, the keys of those at some, latest last."""
        self._shelf: dict[str, list[Shelved]] = {}
        for message in shelved:
            self._shelf.setdefault(message.digest, []).append(message)
        self._restore = restore
        self.damaged: dict[MessageKey, str] = {}
        """Messages that were dropped as their files are damaged, and what is wrong with these."""
        self._was_pinned: set[MessageKey] = set()
        """Those of them that are to be pinned again once they are computed."""
        self.has_revisions = False
        """Whether there was ever a message of a revision that is not the first."""
        self._lock = SharedLock(Rank.STORE)

    def branch(self) -> Store:
        """A copy of this store, which changes independently from now on."""
        with self._lock:
            other = Store(self.memory_limit, (), self._restore, self.budget)
            other.kept_bytes, other.has_revisions = self.kept_bytes, self.has_revisions
            other._messages = dict(self._messages)
            other._kept = self._kept.copy()
            other._family = self._family
            self._family.add(other)
            for entry, _ in self._kept.values():
                self.budget.share(entry)
            other._times = {key: dict(times) for key, times in self._times.items()}
            other._shelf = {digest: list(shelved) for digest, shelved in self._shelf.items()}
            other.damaged, other._was_pinned = dict(self.damaged), set(self._was_pinned)
            return other

    def find(self, key: MessageKey, aggregates: Iterable[Aggregate]) -> Message | None:
        """A message with these rows and at least these columns."""
        if self._restore is not None:
            self._take(key, self._restore)
        for message in self._messages.get(key, ()):
            if message.has_columns(aggregates):
                if message in self._kept:
                    self.touch((message,))
                return message
        return None

    def at_any_revision(self, key: MessageKey, aggregates: Iterable[Aggregate]) -> list[Message]:
        """Messages like this one at any revisions of its relations."""
        timeless = key.timeless
        if self._restore is not None:
            for revisions in self._shelved_revisions(timeless.text):
                self._take(timeless.at(revisions), self._restore)
        with self._lock:
            keys = list(self._times.get(timeless, ()))
            latest = {message for key in keys[-CANDIDATES:] for message in self._messages[key]}
            messages = [message for key in keys for message in self._messages[key]]
            near = [m for m in messages if m in latest or m not in self._kept]
        return [message for message in near if message.has_columns(aggregates)]

    def _shelved_revisions(self, text: str) -> list[dict[str, int]]:
        """The revisions at which messages of a timeless key are on the shelf."""
        return [message.revisions for message in self.shelved if message.timeless == text]

    @uninterrupted()
    def succeed(self, old: Message, new: Message) -> None:
        """Pin a message if the one that it follows is pinned, else keep it."""
        with self._lock:
            pinned = old in self._messages.get(old.key, ()) and old not in self._kept
            self.pin(new) if pinned else self.keep(new)

    @uninterrupted()
    def shelve(self, fresh: Iterable[Shelved], stale: Iterable[Shelved], restore: Restore) -> None:
        """Replace the shelf by messages that others have saved.

        Those of ours that a fresh one follows may be evicted from now on; a stale one is not needed where
        we have one ourselves.
        """
        with self._lock:
            self._restore = restore
            available = {key.digest for key in self._messages}
            pinned: dict[str, list[Message]] = {}
            for message in self.pinned:
                pinned.setdefault(message.key.timeless.text, []).append(message)
            self._shelf = {}
            followed: set[Message] = set()
            for new in fresh:
                if new.digest not in available:
                    self._shelf.setdefault(new.digest, []).append(new)
                    ours = pinned.get(new.timeless, ()) if new.pinned else ()
                    followed |= {m for m in ours if m.column_texts.keys() <= new.columns.keys()}
            for new in stale:
                ours = pinned.get(new.timeless, ())
                if not any(new.columns.keys() <= m.column_texts.keys() for m in ours):
                    self._shelf.setdefault(new.digest, []).append(new)
            for message in followed:
                self._unpin(message)
            self.epoch += 1

    def _unpin(self, message: Message) -> None:
        """Allow a message to be evicted, and evict as many as do not fit."""
        if message not in self._messages.get(message.key, ()):
            return  # it was evicted meanwhile
        entry, size = self._entry(message), message.table.nbytes
        self._kept[message] = entry, size
        self.kept_bytes += size
        if size > self.memory_limit or not self.budget.admit(entry):
            self._evict(message)
        while self.kept_bytes > self.memory_limit:
            self._evict(next(iter(self._kept)))
        self._evict_condemned()

    def _entry(self, message: Message) -> Entry:
        return Entry(ref(self._family), message, "messages", message.nbytes)

    def _evict(self, message: Message) -> None:
        self._unkeep(message)
        self._remove(message)
        if message.shelved is not None:
            self._shelf.setdefault(message.key.digest, []).append(message.shelved)

    def _unkeep(self, message: Message) -> None:
        entry, size = self._kept.pop(message)
        self.budget.release(entry)
        self.kept_bytes -= size

    def condemn(self, entry: Entry) -> None:
        """Evict a message that others need the room of: at once, unless somebody is changing something."""
        self._condemned.append(entry)
        if self._lock.acquire(blocking=False):
            try:
                self._evict_condemned()
            finally:
                self._lock.release()

    def _evict_condemned(self) -> None:
        while self._condemned:
            entry = self._condemned.popleft()
            message = cast(Message, entry.key)
            if self._kept.get(message, (None,))[0] is entry:
                self._evict(message)

    def touch(self, messages: Iterable[Message]) -> None:
        """Note that these were used now."""
        with self._lock:
            self._evict_condemned()
            for message in messages:
                kept = self._kept.get(message)
                if kept is not None:
                    kept[0].used = True
                    self._kept.move_to_end(message)

    @uninterrupted()
    def pin(self, message: Message) -> None:
        """Keep for as long as the tree lives. Those of other revisions may be evicted from now on."""
        with self._lock:
            if message in self._kept:
                self._unkeep(message)
            elif message in self._messages.get(message.key, ()):
                return
            else:
                self._insert(message, pinned=True)
            for key in list(self._times[message.key.timeless]):
                if key != message.key:
                    for other in self._messages.get(key, ()):
                        if other not in self._kept and message.covers(other):
                            self._unpin(other)
            self.epoch += 1

    @uninterrupted()
    def keep(self, message: Message) -> None:
        """Keep while there is room, or pin if it stands for one that was damaged and pinned."""
        with self._lock:
            if message.key in self._was_pinned:
                self._was_pinned.remove(message.key)
                self.pin(message)
                return
            for known in self._messages.get(message.key, ()):
                if len(known.columns) == len(message.columns) and known.covers(message):
                    return
            if message.table.nbytes <= self.memory_limit and self.budget.has_room(
                self._entry(message)
            ):
                self._insert(message, pinned=False)
                self.epoch += 1

    def _insert(self, message: Message, pinned: bool) -> None:
        """Add a message; those of its key that are pinned come first, so that others can be evicted."""
        key, alike = message.key, self._messages.get(message.key, ())
        self._messages[key] = (message, *alike) if pinned else (*alike, message)
        times = self._times.setdefault(key.timeless, {})
        times.pop(key, None)
        times[key] = None
        self.has_revisions |= bool(key.revisions)
        for old in list(times)[:-REVISIONS_KEPT]:
            for other in self._messages[old]:
                if other in self._kept:
                    self._evict(other)
        if not pinned:
            self._unpin(message)

    def _remove(self, message: Message) -> None:
        self.epoch += 1
        key = message.key
        rest = tuple(m for m in self._messages.pop(key) if m is not message)
        if rest:
            self._messages[key] = rest
        else:
            self._times[key.timeless].pop(key, None)
            if not self._times[key.timeless]:
                del self._times[key.timeless]

    def drop(self, damage: DamagedError) -> bool:
        """Forget the messages of a file that is damaged; False if there is none."""
        with self._lock:
            dropped = [m for m, _ in self.messages if m.shelved and _is_in(m.shelved, damage)]
            for message in dropped:
                self.damaged[message.key] = damage.reason
                if message in self._kept:
                    self._unkeep(message)
                else:
                    self._was_pinned.add(message.key)
                self._remove(message)
            return bool(dropped)

    @uninterrupted()
    def _take(self, key: MessageKey, restore: Restore) -> None:
        """Take the messages of a key from the shelf. Nothing of them is read yet."""
        with self._lock:
            for shelved in self._shelf.pop(key.digest, ()):
                if shelved.pinned or shelved.table.nbytes <= self.memory_limit:
                    columns = ColumnsByText(shelved.columns, self.budget)
                    message = Message(key, restore(shelved.table), columns, shelved)
                    self._insert(message, shelved.pinned)
                else:
                    self._shelf.setdefault(key.digest, []).append(shelved)

    @property
    def pinned(self) -> list[Message]:
        """The messages that are never evicted."""
        return [message for message, may_go in self.messages if not may_go]

    @property
    def pinned_bytes(self) -> int:
        """How much memory these take."""
        return sum(message.table.nbytes for message in self.pinned)

    @property
    def messages(self) -> list[tuple[Message, bool]]:
        """All but those on the shelf, and whether they may be evicted: these last, by their last use."""
        with self._lock:
            messages = [message for alike in self._messages.values() for message in alike]
            pinned = [(message, False) for message in messages if message not in self._kept]
            return pinned + [(message, True) for message in self._kept]

    @property
    def shelved(self) -> list[Shelved]:
        """All that nobody has asked for yet, or that were evicted."""
        with self._lock:
            return [message for alike in self._shelf.values() for message in alike]

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, (*self._messages.values(), *self._shelf.values())))

    def __del__(self) -> None:
        for entry, _ in self._kept.values():
            self.budget.abandon(entry)


class _Family:
    """A store and its copies, which share messages: each counts once, and goes from all."""

    def __init__(self) -> None:
        self._stores: WeakSet[Store] = WeakSet()

    def add(self, store: Store) -> None:
        """Let a store have part in it."""
        self._stores.add(store)

    def evict(self, entry: Entry) -> None:
        """Let all stores evict a message."""
        for store in list(self._stores):
            store.condemn(entry)


def _is_in(shelved: Shelved, damage: DamagedError) -> bool:
    return shown(shelved.table.path) == damage.path
