"""The memory of a calibrated tree: messages by key. Reuse is `store.find(key, aggregates)`.

The pivot's messages are pinned. Messages that delta queries compute are kept as long as they fit a
limit, and the least recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from calitree.annotation import Aggregate
from calitree.message import Message, MessageKey


class Store:
    """Messages, pinned and kept. One key may have several messages with different columns.

    `version` is another one whenever a message came or went: what was planned at this version is
    still the best there is.
    """

    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = memory_limit
        self.version = 0
        self.kept_bytes = 0
        self._messages: dict[MessageKey, tuple[Message, ...]] = {}
        self._kept: OrderedDict[Message, int] = OrderedDict()
        """Those that may go, and their bytes, in the order of their last use."""
        self._lock = Lock()

    def find(self, key: MessageKey, aggregates: Iterable[Aggregate]) -> Message | None:
        """A message with these rows and at least these columns."""
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
            # Before the others, so that it is found first and they can go.
            self._messages[message.key] = (message, *self._messages.get(message.key, ()))
            self.version += 1

    def keep(self, message: Message) -> None:
        """Keep while there is room."""
        size = message.table.nbytes
        with self._lock:
            known = self._messages.get(message.key, ())
            there = any(each.columns.keys() == message.columns.keys() for each in known)
            if there or size > self.memory_limit:
                return
            self._messages[message.key] = (*known, message)
            self._kept[message] = size
            self.kept_bytes += size
            while self.kept_bytes > self.memory_limit:
                self._evict()
            self.version += 1

    def _evict(self) -> None:
        oldest, size = self._kept.popitem(last=False)
        self.kept_bytes -= size
        rest = tuple(m for m in self._messages.pop(oldest.key) if m is not oldest)
        if rest:
            self._messages[oldest.key] = rest

    @property
    def pinned(self) -> list[Message]:
        with self._lock:
            every = [message for messages in self._messages.values() for message in messages]
            return [message for message in every if message not in self._kept]

    @property
    def pinned_bytes(self) -> int:
        return sum(message.table.nbytes for message in self.pinned)

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._messages.values()))
