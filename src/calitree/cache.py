"""Memoisation that is safe between threads. There is one rule for each case.

- A value derived from an immutable object is a `cached_property`. It takes no lock: two threads may both
  compute it, and both results are right.
- Values by key go into a `BudgetedCache` of `memory/budget.py`: their bytes count into `memory_limit`. It
  too computes without holding a lock.
- A few small values of a module, whatever is asked, go into an `LRUCache`.
- `functools.cache` is for pure functions that are called with a handful of constants.
- What must exist only once, such as a number given to one thing, is made under the lock of its owner.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from calitree.process.locks import BriefLock

V = TypeVar("V")


class cached_property(Generic[V]):  # noqa: N801 - it is used as a decorator
    """A property that is computed when it is first read, and kept in the instance's `__dict__`.

    `functools.cached_property` has a lock, in Python 3.11 one for all objects of a class. Whoever waits
    for it while holding another lock may wait for ever.
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
    """At most `limit` values by key; the least recently used is evicted first.

    None is no value: it is not distinguished from an unknown key.

    >>> cache = LRUCache[str](limit=2)
    >>> cache.of("a", lambda: "first"), cache.of("a", lambda: "second")
    ('first', 'first')
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values: OrderedDict[object, V] = OrderedDict()
        self._lock = BriefLock()

    def of(self, key: object, compute: Callable[[], V]) -> V:
        """The value of a key, computed if it is unknown; with the key None it is computed every time.

        The lock is not held meanwhile: two threads may compute the same value.
        """
        value = self.get(key)
        if value is None:
            value = compute()
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
        """Set the value of a key, unless the key is None."""
        if key is not None:
            with self._lock:
                self._values[key] = value
                self._values.move_to_end(key)
                if len(self._values) > self.limit:
                    self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
