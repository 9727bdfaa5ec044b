"""The store: what is pinned stays, what is kept goes least recently used first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calitree.calibration.message import Message, MessageKey
from calitree.calibration.store import Store
from calitree.engines.api.semiring import MIN
from calitree.query.annotation import COUNT, Aggregate

OTHER = Aggregate(MIN)


@dataclass(frozen=True)
class Sized:
    """A table of which the store needs to know only the size."""

    nbytes: int
    rows: int = 1


def message(source: str, nbytes: int, *aggregates: Aggregate) -> Message:
    table: Any = Sized(nbytes)
    names = {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates or (COUNT,))}
    return Message(MessageKey(source, "t"), table, names)


def has(store: Store, source: str, *aggregates: Aggregate) -> bool:
    return store.find(MessageKey(source, "t"), frozenset(aggregates or (COUNT,))) is not None


def test_the_least_recently_used_goes_first() -> None:
    store = Store(memory_limit=100)
    for source in "ab":
        store.keep(message(source, 40))
    assert has(store, "a")
    store.keep(message("c", 40))
    assert has(store, "a") and has(store, "c") and not has(store, "b")
    assert store.kept_bytes == 80


def test_pinned_messages_do_not_count_and_do_not_go() -> None:
    store = Store(memory_limit=10)
    store.pin(message("p", 1000))
    store.keep(message("too large", 11))
    assert has(store, "p") and not has(store, "too large")
    assert store.pinned_bytes == 1000 and store.kept_bytes == 0 and len(store) == 1


def test_a_message_serves_whoever_needs_no_more_columns() -> None:
    store = Store(memory_limit=100)
    store.pin(message("a", 1, COUNT))
    assert not has(store, "a", COUNT, OTHER)
    store.keep(message("a", 1, COUNT, OTHER))
    assert has(store, "a", COUNT, OTHER) and has(store, "a", OTHER) and has(store, "a")


def test_the_version_changes_when_a_message_comes_or_goes() -> None:
    store = Store(memory_limit=100)
    seen = [store.epoch]
    for change in (store.pin, store.keep):
        change(message(change.__name__, 60))
        seen.append(store.epoch)
    store.keep(message("evicts the one before", 60))
    seen.append(store.epoch)
    assert len(set(seen)) == len(seen)
    store.keep(message("too large", 101))
    store.keep(message("evicts the one before", 60))
    assert has(store, "evicts the one before")
    assert store.epoch == seen[-1] and store.kept_bytes == 60
