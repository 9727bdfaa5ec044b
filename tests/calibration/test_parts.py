"""Questions that are answered in parts: measures of different grains, put together by group."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import calitree as ct

MEASURES: dict[str, Any] = {
    "n": "count(*)",
    "employees": ct.measure("sum(employees)", grain="stores"),
    "price": ct.measure("sum(price)", grain="owner"),
    "a_store": "sum(price) / count(stores)",
    "first": "min(day)",
}


def two_legs(engine: str) -> ct.WideTable:
    """Stores with two legs; a NULL group, NULL keys, and rows without a partner."""
    graph = ct.JoinGraph(engine=engine)
    stores = {"id": [1, 2, 3, None], "city": ["Q", None, "Q", "Q"], "employees": [10, 20, 30, 40]}
    graph.add_relation("stores", pa.table(stores))
    sales = {"store": [1, 1, 2, 2, None], "price": [5, 6, 7, 8, 9], "day": [1, 2, None, 1, 2]}
    graph.add_relation("sales", pa.table(sales))
    graph.add_relation("visits", pa.table({"store": [1, 1, 2, 3], "kind": ["a", "b", "a", None]}))
    graph.add_join("stores", "sales", on={"id": "store"})
    graph.add_join("stores", "visits", on={"id": "store"})
    return graph.calibrate(MEASURES)


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_parts_are_put_together_by_group(engine: str) -> None:
    wide = two_legs(engine)
    (total,) = wide.query().rows()
    assert total == {"n": 6, "employees": 30, "price": 26, "a_store": 18.5, "first": 1}
    by_city = wide.query(["city"])
    assert sorted(by_city.rows(), key=str) == [
        {"city": "Q", "n": 4, "employees": 10, "price": 11, "a_store": 22.0, "first": 1},
        {"city": None, "n": 2, "employees": 20, "price": 15, "a_store": 15.0, "first": 1},
    ]
    assert [sorted(part.grain) for part in by_city.plan.parts] == [
        [],
        ["stores"],
        ["sales", "stores"],
    ]
    assert by_city.having("employees > 10").rows() == [
        row for row in by_city.rows() if row["city"] is None
    ]
    assert pickle.loads(pickle.dumps(by_city)).rows() == by_city.rows()
    with pytest.raises(ct.QueryError, match="several of these groups"):
        by_city.groups.by([])


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_nothing_joined_is_one_total(engine: str) -> None:
    wide = two_legs(engine)
    (total,) = wide.query(where="city = 'nowhere'").rows()
    assert total == {"n": 0, "employees": None, "price": None, "a_store": None, "first": None}


def test_calibrated_messages_serve_all_parts() -> None:
    wide = two_legs("local")
    plan = wide.query(measures=["n", "employees"]).plan
    assert plan.computed == ()
    assert str(plan).startswith("2 parts   reused 3 of 3 messages")
    assert "root stores at grain stores" in str(plan)


def test_updates_are_seen_by_all_parts() -> None:
    wide = two_legs("local")
    wide.update("sales", insert=[{"store": 3, "price": 4, "day": 3}])
    wide.update("stores", delete="id = 1", insert=[{"id": 2, "city": "Q", "employees": 1}])
    wide.update("visits", insert=[{"store": 3, "kind": "a"}])
    (total,) = wide.query(measures=["n", "employees"]).rows()
    assert total == {"n": 6, "employees": 51}
    (change,) = wide.diff(0, 3, measures=["employees"]).rows()
    assert change["employees_change"] == 21
