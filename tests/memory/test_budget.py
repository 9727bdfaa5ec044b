"""The budget: its accounts are exact, it is never passed, and what is least useful goes first."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from calitree.memory.budget import ENTRY_BYTES, Budget, Entry, default_limit
from calitree.memory.budgeted_cache import BudgetedCache

UNIT = 10_000


def sized(budget: Budget, kind: str = "lifts", **options: Any) -> BudgetedCache[Any, bytes]:
    """A cache of texts, each of as many bytes as it has, and those of an entry."""
    return BudgetedCache(budget, kind, len, **options)


def text(units: int) -> bytes:
    return bytes(units * UNIT - ENTRY_BYTES)


def test_the_least_recently_used_of_all_caches_goes_first() -> None:
    budget = Budget(4 * UNIT)
    ours, theirs = sized(budget), sized(budget, "filters")
    ours.put("a", text(1))
    theirs.put("b", text(1))
    ours.put("c", text(1))
    theirs.put("d", text(1))
    assert ours.get("a") is not None
    ours.put("e", text(2))
    assert [key for key, _ in ours.items()] == ["a", "e"]
    assert [key for key, _ in theirs.items()] == ["d"]
    assert budget.nbytes == 4 * UNIT


def test_what_is_dear_stays_for_one_turnover_more() -> None:
    budget = Budget(4 * UNIT)
    messages, lifts = sized(budget, "messages"), sized(budget)
    messages.put("dear", text(1))
    for i in range(4):
        lifts.put(i, text(1))
    assert "dear" in messages and [key for key, _ in lifts.items()] == [1, 2, 3]
    for i in range(4, 9):
        lifts.put(i, text(1))
    assert "dear" not in messages


def test_what_is_larger_than_the_budget_is_not_kept_and_nothing_goes_for_it() -> None:
    budget = Budget(2 * UNIT)
    cache = sized(budget)
    cache.put("small", text(1))
    assert cache.of("large", lambda: text(3)) == text(3)
    assert "large" not in cache and "small" in cache and budget.nbytes == UNIT


def test_without_room_nothing_is_kept() -> None:
    budget = Budget(0)
    cache, computed = sized(budget), []
    for _ in range(3):
        assert cache.of("a", lambda: computed.append(1) or b"") == b""
    assert len(computed) == 3 and len(cache) == budget.nbytes == 0
    assert budget.holdings == ()


def test_none_is_no_key() -> None:
    cache = sized(Budget())
    assert cache.of(None, lambda: b"x") == b"x"
    cache.put(None, b"x")
    assert len(cache) == 0


def test_a_cache_that_is_gone_counts_no_more() -> None:
    budget = Budget(10 * UNIT)
    cache, other = sized(budget), sized(budget)
    cache.put("a", text(2))
    other.put("b", text(1))
    del cache
    gc.collect()
    assert [holding.nbytes for holding in budget.holdings] == [UNIT]


class Thing:
    """Something with a weak reference."""


def test_with_weak_keys_an_entry_goes_with_its_key() -> None:
    budget = Budget(10 * UNIT)
    cache, key, other = sized(budget, weak=True), Thing(), Thing()
    cache.put(key, text(1))
    cache.put(key, text(2))
    cache.put(other, text(3))
    assert cache.get(key) == text(2) and budget.holdings[0].nbytes == 5 * UNIT
    del key
    gc.collect()
    assert len(cache) == 1 and budget.holdings[0].nbytes == 3 * UNIT
    cache.drop(other)
    assert len(cache) == 0 and budget.holdings == ()


def test_a_cache_may_have_a_number_of_entries_too() -> None:
    budget = Budget()
    cache = sized(budget, limit=2)
    for key in "abacab":
        cache.of(key, lambda: text(1))
    assert {key for key, _ in cache.items()} == {"a", "b"} and budget.nbytes == 2 * UNIT


def test_what_several_keep_counts_until_all_have_released_it() -> None:
    budget = Budget()
    entry = Entry(lambda: None, "shared", "messages", 10)  # type: ignore[arg-type]
    assert budget.admit(entry)
    budget.share(entry)
    budget.release(entry)
    assert budget.nbytes == entry.nbytes
    budget.abandon(entry)
    assert budget.holdings == () and budget.nbytes == 0


def test_the_limit_is_the_largest_of_the_trees_in_use() -> None:
    budget, small, large = Budget(), Thing(), Thing()
    assert budget.limit == default_limit() >= 1 << 30
    budget.admit_tree(small, 10)
    budget.admit_tree(large, 1_000)
    assert budget.limit == 1_000
    del large
    gc.collect()
    assert budget.limit == 10


def test_threads_leave_the_accounts_right() -> None:
    budget = Budget(20 * UNIT)
    caches = [sized(budget, kind) for kind in ("lifts", "codes", "messages")]

    def work(seed: int) -> None:
        for i in range(400):
            cache = caches[(seed + i) % 3]
            key = (seed * i) % 40
            value = text(1 + key % 3)
            assert len(cache.of(key, value[:].__bytes__)) == len(value)
            assert budget.nbytes <= 20 * UNIT
            if i % 50 == 0:
                cache.drop(key)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sum(cache.nbytes for cache in caches) <= budget.nbytes <= 20 * UNIT


class Budgeting(RuleBasedStateMachine):
    """Whatever is done: what caches hold is what is counted, and that is never more than the limit."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = 20_000
        self.budget = Budget(self.limit)
        self.caches = [
            sized(self.budget, "lifts"),
            sized(self.budget, "messages"),
            sized(self.budget, "lifts", limit=3),
        ]

    @rule(at=st.integers(0, 2), key=st.integers(0, 9), size=st.integers(0, 25_000))
    def put(self, at: int, key: int, size: int) -> None:
        self.caches[at].put(key, bytes(size))
        assert (key in self.caches[at]) == (size + ENTRY_BYTES <= self.limit)

    @rule(at=st.integers(0, 2), key=st.integers(0, 9), size=st.integers(0, 5_000))
    def of(self, at: int, key: int, size: int) -> None:
        known = self.caches[at].get(key)
        wanted = bytes(size) if known is None else known
        assert self.caches[at].of(key, lambda: bytes(size)) == wanted

    @rule(at=st.integers(0, 2), key=st.integers(0, 9))
    def drop(self, at: int, key: int) -> None:
        self.caches[at].drop(key)
        assert key not in self.caches[at]

    @rule(at=st.integers(0, 2))
    def renew(self, at: int) -> None:
        old = self.caches[at]
        self.caches[at] = sized(self.budget, old.kind, limit=old.limit)

    @rule(at=st.integers(0, 2))
    def clear(self, at: int) -> None:
        self.caches[at].clear()

    @invariant()
    def is_exact_and_within_the_limit(self) -> None:
        held = [len(value) + ENTRY_BYTES for cache in self.caches for _, value in cache.items()]
        counted = self.budget.holdings
        assert sum(held) == self.budget.nbytes <= self.limit
        assert sum(kind.nbytes for kind in counted) == sum(held)
        assert sum(kind.count for kind in counted) == len(held)
        assert len(self.caches[2]) <= 3


TestBudgeting = Budgeting.TestCase
TestBudgeting.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.slow
class TestBudgetingLong(Budgeting.TestCase):  # type: ignore[name-defined, misc]
    settings = settings(max_examples=2_000, stateful_step_count=60, deadline=None)
