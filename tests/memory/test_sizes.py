"""The estimated sizes of plans, questions, measures and messages, against what Python allocates."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import calitree as ct
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.query.binder import Question

COUNT = 8

QUESTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "sum": lambda i: {"measures": {"m": f"sum(price * {i})"}},
    "sum of a product": lambda i: {"measures": {"m": f"sum(price * w * {i})"}},
    "avg": lambda i: {"measures": {"m": f"avg(price + {i})"}},
    "stddev": lambda i: {"measures": {"m": f"stddev(qty * {i})"}},
    "corr": lambda i: {"measures": {"m": f"corr(price + {i}, w)"}},
    "ratio": lambda i: {"measures": {"m": f"sum((price + {i} + w) * (qty + size)) / sum(w + {i})"}},
    "case": lambda i: {"measures": {"m": f"sum(case when price > {i} then qty else 0 end)"}},
    "filter": lambda i: {"where": f"w > {i}"},
    "filters": lambda i: {"where": f"w > {i} and price <> {i} and qty between 1 and {i}"},
    "long": lambda i: {"where": " or ".join(f"w * w = {i + j}" for j in range(12))},
}


@pytest.fixture(scope="module")
def wide() -> ct.WideTable:
    graph = ct.JoinGraph(engine="reference")
    graph.add_relation("sales", {"store": [1, 2], "item": [1, 2], "price": [10, 20], "qty": [1, 2]})
    graph.add_relation("stores", {"store": [1, 2], "city": ["a", "b"], "size": [5, 6]})
    graph.add_relation("items", {"item": [1, 2], "family": ["f", "g"], "w": [1, 2]})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item")
    return graph.calibrate({"n": "count(*)", "revenue": "sum(price)"}, memory_limit=1 << 40)


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.usefixtures("traced")
def test_what_questions_mean(wide: ct.WideTable, question: str) -> None:
    bindings, arguments = wide.snapshot.bindings, QUESTIONS[question]
    bindings.projections.clear()
    bindings.measures.clear()
    for i in range(COUNT):
        bound = wide.snapshot.bind(Question(**arguments(i)))
        _ = bound.formulas, bound._compiled, bound._measures
    del bound
    counted = bindings.projections.nbytes + bindings.measures.nbytes
    before = allocated()
    bindings.projections.clear()
    bindings.measures.clear()
    freed = before - allocated()
    assert 0.7 * freed <= counted <= 2.5 * freed, (counted // COUNT, freed // COUNT)


@pytest.mark.usefixtures("traced")
def test_plans(wide: ct.WideTable) -> None:
    for i in range(COUNT):
        wide.query(where=f"w > {i}")
    plans: BudgetedCache[Any, Any] = wide.snapshot.cache.plans(wide.state.store.epoch)
    counted, before = plans.nbytes, allocated()
    assert len(plans) >= COUNT
    plans.clear()
    freed = before - allocated()
    assert 0.7 * freed <= counted <= 2.5 * freed, (counted // COUNT, freed // COUNT)
