"""The memory of a calibrated tree: messages by key. Reuse is `store.find(key, aggregates)`.

The pivot's messages are pinned. Messages that delta queries compute are kept as long as they fit a
limit, and the least recently used go first.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from calitree.annotation import Aggregate
from calitree.message import Message, MessageKey

_Slot = tuple[MessageKey, frozenset[Aggregate]]


class Store:
    """Messages, pinned and kept. One key may have several messages with different columns."""

    def __init__(self, memory_limit: int) -> None:
        self.memory_limit = memory_limit
        self._pinned: dict[MessageKey, list[Message]] = {}
        self._kept: OrderedDict[_Slot, Message] = OrderedDict()
        self._lock = Lock()

    def find(self, key: MessageKey, aggregates: frozenset[Aggregate]) -> Message | None:
        """A message with these rows and at least these columns."""
        for message in self._pinned.get(key, ()):
            if message.carries(aggregates):
                return message
        if not self._kept:
            return None
        with self._lock:
            for slot, message in self._kept.items():
                if slot[0] == key and message.carries(aggregates):
                    self._kept.move_to_end(slot)
                    return message
        return None

    def pin(self, message: Message) -> None:
        """Keep for as long as the tree lives."""
        self._pinned.setdefault(message.key, []).append(message)

    def keep(self, message: Message) -> None:
        """Keep while there is room."""
        with self._lock:
            self._kept[message.key, frozenset(message.columns)] = message
            while self._kept and self.kept_bytes > self.memory_limit:
                self._kept.popitem(last=False)

    @property
    def pinned(self) -> list[Message]:
        return [message for messages in self._pinned.values() for message in messages]

    @property
    def pinned_bytes(self) -> int:
        return sum(message.table.nbytes for message in self.pinned)

    @property
    def kept_bytes(self) -> int:
        return sum(message.table.nbytes for message in self._kept.values())

    def __len__(self) -> int:
        return len(self.pinned) + len(self._kept)
