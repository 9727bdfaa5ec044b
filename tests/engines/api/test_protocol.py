"""Engines of other people: what an engine must have, and what it may lack."""

from __future__ import annotations

from typing import Any

import pytest

import calitree as ct
from calitree.engines.reference import ReferenceEngine
from calitree.errors import CalitreeError, EngineError, SavedError


class Minimal:
    """An engine with the methods of `Engine` and no others."""

    name = "minimal"

    def __init__(self) -> None:
        self._engine = ReferenceEngine()

    def load(self, name: str, source: Any) -> Any:
        return self._engine.load(name, source)

    def contract(self, contraction: Any, watch: Any = None) -> Any:
        return self._engine.contract(contraction, watch)

    def how(self, contraction: Any) -> str:
        return self._engine.how(contraction)

    def arrow(self, table: Any) -> Any:
        return self._engine.arrow(table)


class WithoutArrow(Minimal):
    """One that lacks even one of these."""

    arrow = property()  # type: ignore[assignment]


@pytest.fixture
def wide() -> ct.WideTable:
    graph = ct.JoinGraph(Minimal())
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on={"store": "id"})
    return graph.calibrate({"revenue": "sum(price)"})


def test_it_answers_queries(wide: ct.WideTable) -> None:
    answer = wide.query(group_by=["city"], where="price > 5")
    assert answer.rows() == [{"city": "Quito", "revenue": 30}]
    assert "Quito" in str(wide.query(group_by=["city"]).arrow())
    assert wide.query(relations=["sales"]).rows() == [{"revenue": 35}]


@pytest.mark.parametrize(
    "change",
    [
        lambda wide: wide.update("sales", insert={"store": [1], "price": [1]}),
        lambda wide: wide.update("sales", delete="price > 5"),
        lambda wide: wide.what_if(delete={"sales": "price > 5"}),
    ],
)
def test_an_update_says_what_the_engine_lacks(wide: ct.WideTable, change: Any) -> None:
    with pytest.raises(CalitreeError) as caught:
        change(wide)
    assert str(caught.value) == (
        "Relations of the minimal engine cannot be updated: it lacks "
        "schema, add, settle, select, matching, apart."
    )
    assert wide.query().rows() == [{"revenue": 35}]


def test_a_save_says_that_the_engine_cannot(wide: ct.WideTable) -> None:
    with pytest.raises(SavedError, match="Trees of the minimal engine cannot be saved"):
        wide.save("tree")


def test_an_engine_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(EngineError, match=r"got WithoutArrow, which lacks arrow\.$"):
        ct.JoinGraph(WithoutArrow())
