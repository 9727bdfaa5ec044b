"""One engine object for two join graphs whose attributes have the same names and other types."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.hybrid import HybridEngine
from calitree.engines.local import LocalEngine
from calitree.engines.reference import ReferenceEngine
from tests.support.engines import ON_SPARK, spark_engine_named

KEYS: list[list[Any]] = [
    ["a", "b", "c"],
    [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)],
    [1, 2, 3],
    [True, False, None],
]
"""A key is an integer in one graph, and text, a date or a truth value in another."""


@pytest.fixture(
    params=[
        "reference",
        "local",
        "hybrid",
        *(pytest.param(name, marks=pytest.mark.spark) for name in ON_SPARK),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    engines = {"reference": ReferenceEngine, "local": LocalEngine, "hybrid": HybridEngine}
    if request.param in engines:
        return engines[request.param]()
    return spark_engine_named(request.param, request.getfixturevalue("spark"), tmp_path)


def calibrated(engine: Any, keys: list[Any]) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    first, second, third = keys
    graph.add_relation("sales", pa.table({"k": [first, first, second], "x": [1, 2, 4]}))
    graph.add_relation("stores", pa.table({"k": keys, "group": [second, third, third]}))
    graph.add_join("sales", "stores", on="k")
    return graph.calibrate({"x": "sum(x)"})


def expected(keys: list[Any]) -> dict[Any, int]:
    _, second, third = keys
    return {second: 3, third: 4}


def answer(wide: ct.WideTable) -> dict[Any, int]:
    return {row["group"]: row["x"] for row in wide.query(group_by=["group"]).rows()}


@pytest.mark.parametrize("second", [1, 2, 3])
def test_two_graphs_have_types_of_their_own(engine: Any, second: int) -> None:
    wides = [(calibrated(engine, KEYS[at]), KEYS[at]) for at in (0, second)]
    for _ in range(2):
        for wide, keys in wides:
            groups = answer(wide)
            assert groups == expected(keys)
            assert {type(key) for key in groups} <= {type(key) for key in keys}


def test_an_update_of_one_graph_leaves_the_other(engine: Any) -> None:
    text, numbers = calibrated(engine, KEYS[0]), calibrated(engine, KEYS[2])
    text.update("sales", insert=pa.table({"k": ["c"], "x": [8]}))
    assert answer(text) == {"b": 3, "c": 12}
    assert answer(numbers) == {2: 3, 3: 4}
    numbers.update("sales", delete="x = 4")
    assert answer(text) == {"b": 3, "c": 12}
    assert answer(numbers) == {2: 3}
