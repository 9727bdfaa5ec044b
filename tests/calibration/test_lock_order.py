"""Locks are taken in the order that `docs/concurrency.md` lists, whatever is done to a tree."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import calitree as ct
from calitree.process import locks

PAGE = Path(__file__).parents[2] / "docs" / "concurrency.md"
LISTED = re.findall(r"^\| `([\w.]+)` in `([\w/]+)\.py` \|", PAGE.read_text(), re.M)
ORDER = [name for name, _ in LISTED]

WATCHED = {
    "Saves.lock": "SharedLock",
    "Branch.lock": "SharedLock",
    "Store._lock": "SharedLock",
    "Updated._lock": "SharedLock",
    "TreeState._lock": "BriefLock",
    "Codebook.lock": "SharedLock",
    "Eviction._lock": "SharedLock",
    "Budget._lock": "BriefLock",
}
"""Locks of objects without Spark; each module makes them by this name of `calitree.process.locks`."""


class Recorder:
    """Makes locks that note which others their thread holds when it takes them."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()
        self._here = threading.local()

    def factory(self, name: str, make: Callable[..., Any]) -> Callable[..., RecordedLock]:
        return lambda *rank: RecordedLock(self, name, make(*rank))

    @property
    def held(self) -> list[RecordedLock]:
        """The locks that this thread holds, in the order in which it took them."""
        if not hasattr(self._here, "held"):
            self._here.held = []
        held: list[RecordedLock] = self._here.held
        return held


class RecordedLock:
    def __init__(self, recorder: Recorder, name: str, lock: Any) -> None:
        self.recorder, self.name, self.lock = recorder, name, lock

    def __enter__(self) -> None:
        held = self.recorder.held
        if self not in held:  # else it is reentrant
            self.recorder.pairs |= {(other.name, self.name) for other in held}
        self.lock.acquire()
        held.append(self)

    def __exit__(self, *error: object) -> None:
        self.recorder.held.reverse()
        self.recorder.held.remove(self)
        self.recorder.held.reverse()
        self.lock.release()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    import importlib

    recorder = Recorder()
    for name, file in LISTED:
        if name in WATCHED:
            module = importlib.import_module(f"calitree.{file.replace('/', '.')}")
            factory = recorder.factory(name, getattr(locks, WATCHED[name]))
            monkeypatch.setattr(module, WATCHED[name], factory)
    return recorder


def test_the_page_lists_every_lock() -> None:
    """Wherever a lock is made, the page says what it guards."""
    root = Path(ct.__file__).parent
    pattern = re.compile(r"\b(?:threading\.)?(?:(?:Brief|R)?Lock\(\)|SharedLock\()")
    files = {path for path in root.rglob("*.py") if pattern.search(path.read_text())}
    ours = {str(path.relative_to(root).with_suffix("")) for path in files}
    # A codebook gives its dictionaries its own.
    beside = {"engines/local/encoding/dictionary", "process/locks"}
    assert ours - beside == {file for _, file in LISTED}


def test_locks_are_taken_in_order(recorder: Recorder, tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.calibrate({"revenue": "sum(price)"}).save(tmp_path / "tree")
    wide, other = ct.open(tmp_path / "tree", "local"), ct.open(tmp_path / "tree", "local")

    def ask(at: int) -> int:
        total: int = wide.query(["city"], where=f"price > {at % 4}").rows()[0]["revenue"]
        return total

    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ask, at) for at in range(40)]
        wide.update("sales", insert=[{"store": 2, "price": 7}])
        wide.cube(["city"], 1)
        supposed = wide.what_if(update={"sales": ({"price": "price + 1"}, "store = 1")})
        supposed.query(["city"]).rows()
        supposed.commit()
        wide.augment({"city": ["Quito"], "high": [True]}, on="city", name="cities").query(
            ["high"]
        ).rows()
        wide.save()
        other.update("stores", insert=[{"id": 3, "city": "Loja"}])
        other.save()
        wide.reload()
        wide.refresh()
        assert all(future.result() > 0 for future in asked)
    assert {first for first, _ in recorder.pairs} >= {"Saves.lock", "Branch.lock", "Updated._lock"}
    wrong = {(a, b) for a, b in recorder.pairs if ORDER.index(a) > ORDER.index(b)}
    assert wrong == set()
