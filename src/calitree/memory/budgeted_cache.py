"""A cache that counts into a memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

from calitree.interrupts import uninterrupted
from calitree.memory.budget import Budget, Entry

K = TypeVar("K")
V = TypeVar("V")


class BudgetedCache(Generic[K, V]):
    """Values by key that count into a budget, and at most `limit` of them.

    None is no value: it is not distinguished from an unknown key. A look-up takes no lock. With `weak`
    keys an entry goes with its key.

    >>> cache = BudgetedCache[str, bytes](Budget(), "texts", len)
    >>> cache.of("a", lambda: b"first"), cache.of("a", lambda: b"second")
    (b'first', b'first')
    """

    __slots__ = ("__weakref__", "_held", "_self", "_size_of", "budget", "kind", "limit", "weak")

    def __init__(
        self,
        budget: Budget,
        kind: str,
        size_of: Callable[[V], int],
        *,
        limit: int | None = None,
        weak: bool = False,
    ) -> None:
        self.budget, self.kind, self.limit, self.weak = budget, kind, limit, weak
        self._size_of = size_of
        self._held: dict[object, tuple[V, Entry]] = {}
        self._self = ref(self)

    def of(self, key: K | None, compute: Callable[[], V]) -> V:
        """The value of a key, computed if it is unknown; with the key None it is computed every time.

        Two threads may compute the same value; both get the one that was first.
        """
        if key is None:
            return compute()
        value = self.get(key)
        return self._first(key, compute()) if value is None else value

    def get(self, key: K) -> V | None:
        """The value of a key, if it is known."""
        held = self._held.get(ref(key) if self.weak else key)
        if held is None:
            return None
        held[1].used = True
        return held[0]

    @uninterrupted()
    def put(self, key: K | None, value: V) -> None:
        """Set the value of a key, unless the key is None or the value has no room."""
        if key is None:
            return
        own: object = ref(key, self._on_death()) if self.weak else key
        before = self._held.get(own)
        entry = Entry(self._self, own, self.kind, self._size_of(value))
        self._held[own] = value, entry
        if before is not None:
            self.budget.release(before[1])
        self._admit(entry)

    @uninterrupted()
    def _first(self, key: K, value: V) -> V:
        """Keep a value, unless another thread was quicker: then it is that one's."""
        own: object = ref(key, self._on_death()) if self.weak else key
        entry = Entry(self._self, own, self.kind, self._size_of(value))
        held = self._held.setdefault(own, (value, entry))
        if held[1] is entry:
            self._admit(entry)
        return held[0]

    def _admit(self, entry: Entry) -> None:
        if not self.budget.admit_in_change(entry):
            self.evict(entry)
        elif self.limit is not None and len(self._held) > self.limit:
            self._evict_oldest()

    def drop(self, key: K) -> None:
        """Forget the value of a key."""
        held = self._held.get(ref(key) if self.weak else key)
        if held is not None:
            self.budget.release(held[1])
            self.evict(held[1])

    def evict(self, entry: Entry) -> None:
        """Forget the value of an entry, unless its key has another one by now."""
        held = self._held.get(entry.key)
        if held is not None and held[1] is entry:
            self._held.pop(entry.key, None)

    def _evict_oldest(self) -> None:
        """Forget the first that was not used since it was last looked at."""
        for key, held in 2 * list(self._held.items())[:-1]:
            entry = held[1]
            if not entry.used:
                self.budget.release(entry)
                self.evict(entry)
                return
            entry.used = False
            if self._held.pop(key, None) is not None:
                self._held[key] = held

    def _on_death(self) -> Callable[[ref[Any]], None]:
        def forget(key: ref[Any], own: ref[BudgetedCache[K, V]] = self._self) -> None:
            cache = own()
            held = None if cache is None else cache._held.pop(key, None)
            if cache is not None and held is not None:
                cache.budget.abandon(held[1])

        return forget

    def take_over(self, other: BudgetedCache[K, V]) -> None:
        """Keep all that another one keeps."""
        for key, value in other.items():
            self.put(key, value)

    def clear(self) -> None:
        """Forget all values."""
        for _, entry in list(self._held.values()):
            self.budget.release(entry)
            self.evict(entry)

    def items(self) -> Iterator[tuple[Any, V]]:
        """All keys with their values, as they are now; this is no use of them."""
        for key, (value, _) in list(self._held.items()):
            yield key, value

    @property
    def nbytes(self) -> int:
        """What is counted for it."""
        return sum(entry.nbytes for _, entry in list(self._held.values()))

    def __contains__(self, key: K) -> bool:
        return (ref(key) if self.weak else key) in self._held

    def __len__(self) -> int:
        return len(self._held)

    def __del__(self) -> None:
        for _, entry in self._held.values():
            self.budget.abandon(entry)
