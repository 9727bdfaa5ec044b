"""Memories of what was made before, safe to share between threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class cached_property(Generic[V]):  # noqa: N801 - it is used as a decorator
    """A property that is computed when it is first read, and by two threads at most twice: both are right.

    `functools.cached_property` has a lock, in Python 3.11 one for all objects of a class. Who waits for
    it while holding another lock may wait for ever.
    """

    def __init__(self, compute: Callable[[Any], V]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> V:
        if instance is None:  # asked of the class
            return self  # type: ignore[return-value]
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


class LRUCache(Generic[V]):
    """At most `limit` values by key; the least recently used go first, one at a time.

    >>> memory = LRUCache[str](limit=2)
    >>> memory.of("a", lambda: "made"), memory.of("a", lambda: "made again")
    ('made', 'made')
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values: OrderedDict[object, V] = OrderedDict()
        self._lock = Lock()

    def of(self, key: object, make: Callable[[], V]) -> V:
        """The value of a key, made if it is not known; what has no key (None) is made every time.

        Nobody waits while it is made. Two threads may make the same, and both are right.
        """
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def get(self, key: object) -> V | None:
        """The value of a key, if it is known."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: object, value: V) -> None:
        """Remember this value, whatever there was."""
        if key is not None:
            with self._lock:
                self._values[key] = value
                self._values.move_to_end(key)
                if len(self._values) > self.limit:
                    self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
