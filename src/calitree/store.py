"""The memory of a calibrated tree: messages by key. Reuse is `store.find(key, aggregates)`.

The pivot's messages are pinned. Messages that delta queries compute are kept as long as they fit a
limit, and the least recently used go first. Messages of a tree that was opened wait on a shelf, until
somebody asks for their key; those evicted go back there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock

from calitree.annotation import Aggregate
from calitree.engines import Table
from calitree.message import ColumnsByText, Message, MessageKey, Shelved
from calitree.saved_tables import SavedMessage

Restore = Callable[[SavedMessage], Table]


class Store:
    """Messages, pinned and kept. One key may have several messages with different columns.

    `version` is another one whenever a message came or went: what was planned at this version is
    still the best there is.
    """

    def __init__(
        self,
        memory_limit: int,
        shelved: Iterable[Shelved] = (),
        restore: Restore | None = None,
    ) -> None:
        self.memory_limit = memory_limit
        self.version = 0
        self.kept_bytes = 0
        self._messages: dict[MessageKey, tuple[Message, ...]] = {}
        self._kept: OrderedDict[Message, int] = OrderedDict()
        """Those that may go, and their bytes, in the order of their last use."""
        self._shelf: dict[str, list[Shelved]] = {}
        for each in shelved:
            self._shelf.setdefault(each.digest, []).append(each)
        self._restore = restore
        self._lock = Lock()

    def find(self, key: MessageKey, aggregates: Iterable[Aggregate]) -> Message | None:
        """A message with these rows and at least these columns."""
        if self._restore is not None:
            self._take(key, self._restore)
        for message in self._messages.get(key, ()):
            if message.carries(aggregates):
                if message in self._kept:
                    self.touch((message,))
                return message
        return None

    def touch(self, messages: Iterable[Message]) -> None:
        """Take note that these are used now."""
        with self._lock:
            for message in messages:
                if message in self._kept:
                    self._kept.move_to_end(message)

    def pin(self, message: Message) -> None:
        """Keep for as long as the tree lives."""
        with self._lock:
            self._pin(message)
            self.version += 1

    def _pin(self, message: Message) -> None:
        # Before the others, so that it is found first and they can go.
        self._messages[message.key] = (message, *self._messages.get(message.key, ()))

    def keep(self, message: Message) -> None:
        """Keep while there is room."""
        with self._lock:
            for each in self._messages.get(message.key, ()):
                if len(each.columns) == len(message.columns) and each.carries(message.columns):
                    return
            if message.table.nbytes <= self.memory_limit:
                self._keep(message)
                self.version += 1

    def _keep(self, message: Message) -> None:
        size = message.table.nbytes
        self._messages[message.key] = (*self._messages.get(message.key, ()), message)
        self._kept[message] = size
        self.kept_bytes += size
        while self.kept_bytes > self.memory_limit:
            self._evict()

    def _evict(self) -> None:
        oldest, size = self._kept.popitem(last=False)
        self.kept_bytes -= size
        self.version += 1
        rest = tuple(m for m in self._messages.pop(oldest.key) if m is not oldest)
        if rest:
            self._messages[oldest.key] = rest
        if oldest.shelved is not None:
            self._shelf.setdefault(oldest.key.digest, []).append(oldest.shelved)

    def _take(self, key: MessageKey, restore: Restore) -> None:
        """Take the messages of a key from the shelf. Nothing of them is read yet."""
        with self._lock:
            for each in self._shelf.pop(key.digest, ()):
                if each.pinned or each.table.nbytes <= self.memory_limit:
                    columns = ColumnsByText(each.columns)
                    message = Message(key, restore(each.table), columns, each)
                    self._pin(message) if each.pinned else self._keep(message)
                else:
                    self._shelf.setdefault(key.digest, []).append(each)

    @property
    def pinned(self) -> list[Message]:
        return [message for message, may_go in self.messages if not may_go]

    @property
    def pinned_bytes(self) -> int:
        return sum(message.table.nbytes for message in self.pinned)

    @property
    def messages(self) -> list[tuple[Message, bool]]:
        """All that are at hand, and whether they may go: these last, in the order of their last use."""
        with self._lock:
            every = [message for messages in self._messages.values() for message in messages]
            stay = [(message, False) for message in every if message not in self._kept]
            return stay + [(message, True) for message in self._kept]

    @property
    def shelved(self) -> list[Shelved]:
        """All that nobody has asked for yet, or that were evicted."""
        with self._lock:
            return [each for shelved in self._shelf.values() for each in shelved]

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, (*self._messages.values(), *self._shelf.values())))
