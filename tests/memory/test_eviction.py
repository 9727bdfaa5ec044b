"""Dictionaries of expressions go when they take much room, and codes never lose their meaning by that."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.local.encoding.eviction import ATTRIBUTE_BYTES, BUDGET_SHARE, Eviction

ROWS = 400
SALES = pa.table(
    {
        "store": [i % 5 for i in range(ROWS)],
        "price": [i * 7 % 101 for i in range(ROWS)],
        "qty": [i % 9 for i in range(ROWS)],
    }
)
STORES = {"store": [0, 1, 2, 3], "city": ["a", "b", "a", None], "size": [1, 2, 3, 4]}


def tree(engine: Any = "local", limit: int | None = None, group_by: Any = ()) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", SALES)
    graph.add_relation("stores", STORES)
    graph.add_join("sales", "stores", on="store")
    graph.add_column("sales", "third", "qty % 3")
    return graph.calibrate({"n": "count(*)"}, group_by=group_by, memory_limit=limit, progress=False)


def question(i: int) -> dict[str, Any]:
    """Of an expression that nobody has asked for."""
    kinds: list[dict[str, Any]] = [
        {"group_by": [f"price + {i}"]},
        {"group_by": [f"price % 7 + {i}", f"size * {i}", "city"]},
        {"group_by": [f"qty + size + {i}"], "where": f"price + {i} > {i + 9}"},
        {"group_by": ["city"], "measures": {"m": f"max(price * size + {i})"}},
        {"group_by": ["third"], "measures": {"m": f"count(distinct price % {i + 1})"}},
        {"group_by": [f"third + {i}"], "measures": {"m": f"median(qty + {i})"}},
    ]
    return kinds[i % len(kinds)]


def rows_of(result: Any) -> list[str]:
    return sorted(map(repr, result.rows()))


def dictionaries(wide: ct.WideTable) -> int:
    (held,) = (holding for holding in wide.memory().data if holding.kind == "dictionaries")
    return held.nbytes + ATTRIBUTE_BYTES * held.count


def test_they_do_not_pile_up() -> None:
    limit = 1 << 19
    wide = tree(limit=limit)
    base = dictionaries(wide)
    most = 0
    for i in range(240):
        wide.query(**question(i)).arrow()
        most = max(most, dictionaries(wide))
        assert len(wide.schema.relations["sales"].table.computed) < 120  # type: ignore[attr-defined]
    # Those of messages that are kept stay with these, and one question's come before the next looks.
    assert most - base <= 3 * limit // BUDGET_SHARE + (1 << 16)


@pytest.fixture
def at_every_use(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Evict whatever can go whenever nobody works with codes; how many went each time."""
    gone: list[int] = []
    evict = Eviction._evict

    def counted(eviction: Eviction) -> None:
        before = len(eviction._dictionaries)
        evict(eviction)
        gone.append(before - len(eviction._dictionaries))

    monkeypatch.setattr(Eviction, "_is_too_much", lambda _: True)
    monkeypatch.setattr(Eviction, "_evict", counted)
    return gone


def changed(wide: ct.WideTable, i: int) -> None:
    wide.update("sales", insert=[{"store": i % 5, "price": 500 + i, "qty": i}])
    wide.update("sales", delete=f"price = {i % 101} and qty < 4")


def test_answers_are_right_if_they_go_at_every_chance(at_every_use: list[int]) -> None:
    ours = tree(limit=50_000, group_by=["third"])
    theirs = tree("reference", group_by=["third"])
    held = []
    for i in range(60):
        asked = question(i % 24)  # each more than once
        held.append((ours.query(**asked), rows_of(theirs.query(**asked))))
        if i % 3 == 0:
            result, known = held[-1]
            assert rows_of(result) == known, asked
        if i % 8 == 7:
            changed(ours, i)
            changed(theirs, i)
            assert rows_of(ours.query()) == rows_of(theirs.query())
    assert sum(at_every_use) > 20
    for result, known in held:  # also of what was not converted when others went
        assert rows_of(result) == known


@pytest.mark.usefixtures("frequent_switches")
def test_threads_keep_what_they_work_with(at_every_use: list[int]) -> None:
    ours, theirs = tree(), tree("reference")
    known = [rows_of(theirs.query(**question(i))) for i in range(12)]

    def ask(thread: int) -> None:
        for i in range(36):
            number = (i * (thread + 1)) % 12
            assert rows_of(ours.query(**question(number))) == known[number]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(4)))
    assert at_every_use


def test_a_use_ends_with_its_holder() -> None:
    """Whatever ends a call, an interrupt too."""
    eviction = tree().state.engine.book.eviction  # type: ignore[attr-defined]
    use = eviction.use()
    assert len(eviction._uses) == 1
    del use
    gc.collect()
    assert len(eviction._uses) == 0
    with pytest.raises(KeyboardInterrupt), eviction.use():
        raise KeyboardInterrupt
    gc.collect()
    assert len(eviction._uses) == 0
