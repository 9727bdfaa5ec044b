"""Distinct and holistic measures: what is carried and reused, and what they are where rows are few or equal."""

from __future__ import annotations

import pickle
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import calitree as ct
from calitree.calibration.folding import functions, parts
from calitree.engines.local import LocalEngine

SALES = {
    "store": [1, 1, 1, 2, 2, 3],
    "item": [7, 8, 7, 8, None, 7],
    "price": [10, 20, 10, 5, None, 40],
    "cost": [Decimal("1.05"), Decimal("2.00"), None, Decimal("-3.01"), Decimal("-3.00"), None],
}
STORES = {"store": [1, 2, 3], "city": ["Quito", "Cuenca", "Quito"], "opened": [2001, 2002, 2002]}
ITEMS = {"item": [7, 8], "family": ["DAIRY", "BREAD"], "weight": [2, 3]}


def tree(engine: Any = "local", **given: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", SALES)
    graph.add_relation("stores", STORES)
    graph.add_relation("items", ITEMS)
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item", how="left")
    return graph.calibrate(given.pop("measures", {"n": "count(*)"}), **given)


def total(text: str, **question: Any) -> Any:
    (row,) = tree().query(measures={"m": text}, **question).rows()
    return row["m"]


VALUES: dict[str, Any] = {
    "count(distinct price)": 4,
    "count(distinct (item, price))": 5,
    "count(distinct item, price)": 4,
    "sum(distinct price)": 75,
    "avg(distinct price)": 18.75,
    "median(price)": 10.0,
    "median(cost)": Decimal("-0.97"),
    "quantile_cont(price, 0.9)": 32.0,
    "quantile_disc(price, 0.9)": 40,
    "median(cast('2024-01-0' || cast(store as varchar) as date))": datetime(2024, 1, 1, 12),
    "mode(item)": 7,
    "mode(weight)": 2,
    "arg_max(family, price)": "DAIRY",
    "arg_min(city, opened)": "Quito",
    "top_k(price, 2)": [10, 5],
    "top_k(city, 1, price)": ["Quito"],
    "top_k(price, 2) filter (where city = 'Cuenca')": [5],
    "histogram(family)": [("BREAD", 2), ("DAIRY", 3)],
    "list(price)": [5, 10, 10, 20, 40, None],
    "list(distinct price order by price desc)": [40, 20, 10, 5, None],
    "string_agg(family)": "BREAD,BREAD,DAIRY,DAIRY,DAIRY",
    "string_agg(distinct city, ' and ')": "Cuenca and Quito",
    "max(sales.price * items.weight)": 80,
    "sum(price) filter (where price > weight * 4)": 80,
    "round(median(price) / count(distinct city), 1)": 5.0,
    "coalesce(mode(family) filter (where price > 100), 'none')": "none",
    "count(distinct family) filter (where price > 100)": 0,
    "list(price) filter (where price > 100)": None,
    "histogram(price) filter (where price > 100)": None,
}


@pytest.mark.parametrize("text", VALUES)
def test_value(text: str) -> None:
    assert total(text) == VALUES[text]


def test_over_nothing() -> None:
    texts = {
        "d": "count(distinct price)",
        "m": "median(price)",
        "c": "count(*) filter (where price > weight)",
    }
    assert tree().query(where="price > 1000", measures=texts).rows() == [
        {"d": 0, "m": None, "c": 0}
    ]


def test_large_sums_of_distinct_values_are_exact() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("a", {"x": [2**62, 2**62 - 1, 2**62, None]})
    (row,) = graph.calibrate({"s": "sum(distinct x)"}).query().rows()
    assert row["s"] == 2**63 - 1


def test_a_dimensions_column_by_another_takes_no_pass_over_the_fact() -> None:
    wide = tree()
    wide.cube(["city", "family"], k=1)
    asked = {
        "group_by": ["city"],
        "measures": {"d": "count(distinct family)", "m": "median(weight)"},
    }
    plan = wide.plan(**asked)
    assert wide.query(**asked).rows() == [
        {"city": "Quito", "d": 2, "m": 2.0},
        {"city": "Cuenca", "d": 1, "m": 3.0},
    ]
    assert len(plan.parts) == 3
    assert [part.carries for part in plan.parts] == [
        "",
        "family for count of distinct values",
        "weight for quantile_cont",
    ]
    by_family = plan.parts[1]
    assert by_family.root != "sales"
    assert all(key.source != "sales" for key in by_family.computed)


def star(measures: dict[str, str], **given: Any) -> ct.WideTable:
    rng = np.random.default_rng(5)
    graph = ct.JoinGraph(engine="local")
    keys = {"store": 6, "item": 40, "day": 900}
    sales = {key: rng.integers(0, size, 3_000) for key, size in keys.items()}
    graph.add_relation("sales", pa.table({**sales, "price": rng.integers(0, 50, 3_000)}))
    graph.add_relation("stores", {"store": [*range(6)], "city": list("aabbbc")})
    graph.add_relation("items", {"item": [*range(40)], "family": [f"f{i % 7}" for i in range(40)]})
    graph.add_relation("days", {"day": [*range(900)], "month": [i // 30 for i in range(900)]})
    for key, name in {"store": "stores", "item": "items", "day": "days"}.items():
        graph.add_join("sales", name, on=key)
    return graph.calibrate(measures, **given)


def test_declared_measures_carry_a_dimensions_values_when_they_are_calibrated() -> None:
    wide = star({"d": "count(distinct family)", "m": "mode(upper(family))"})
    for where in (None, "city <> 'b'"):
        plan = wide.plan(["city"], where)
        assert not plan.computed
        assert {part.root for part in plan.parts} == {"stores"}
        assert wide.verify([{"group_by": ["city"], "where": where}])
    # Their messages to days would be as large as the sales.
    by_month = wide.plan(["month"], measures=["d"])
    assert [part.root for part in by_month.parts] == ["days", "sales"]
    assert wide.verify([{"group_by": ["month"]}])


def test_values_of_the_fact_are_not_carried_when_they_are_calibrated() -> None:
    plain, carried = star({"n": "count(*)"}), star({"d": "count(distinct price)"})
    messages = [len(wide.state.store.messages) for wide in (plain, carried)]
    assert messages[0] == messages[1]


def test_carried_values_are_refreshed_saved_and_forgotten(tmp_path: Path) -> None:
    wide = star({"d": "count(distinct family)"}, maintenance="eager")
    row = {"store": 0, "item": 39, "day": 1, "price": 3}
    wide.update("sales", insert=[row] * 3, delete="store = 5")
    wide.update("items", insert=[{"item": 40, "family": "new"}])
    wide.update("sales", insert=[{**row, "item": 40}])
    assert not wide.plan(["city"]).computed
    assert wide.verify([{"group_by": ["city"]}])
    wide.save(str(tmp_path / "tree"))
    opened = ct.open(str(tmp_path / "tree"), engine="local")
    assert not opened.plan(["city"]).computed
    assert opened.query(["city"]).rows() == wide.query(["city"]).rows()
    small = star({"d": "count(distinct family)"}, memory_limit=2_000)
    assert small.is_calibrated
    assert (
        small.query(["city"]).rows() == star({"d": "count(distinct family)"}).query(["city"]).rows()
    )


def test_folds_of_the_same_values_share_a_question() -> None:
    texts = {"a": "median(price)", "b": "mode(price)", "c": "quantile_disc(price, 0.1)"}
    result = tree().query(["city"], measures=texts)
    assert len(result.plan.parts) == 2
    assert "carries price for quantile_cont, price for mode" in str(result.plan)


def test_messages_are_reused() -> None:
    wide = tree()
    asked = {"group_by": ["city"], "measures": {"d": "count(distinct family)"}}
    wide.query(**asked)
    assert not wide.query(**asked).plan.computed


def test_distinct_values_of_a_fact_are_counted_by_bits() -> None:
    rng = np.random.default_rng(3)
    keys, customers = rng.integers(0, 5, 3_000), rng.integers(0, 400, 3_000)
    sales = pa.table({"store": keys, "customer": pa.array(customers, mask=customers == 7)})
    graph = ct.JoinGraph(engine=LocalEngine(threads=2, large=0))
    graph.add_relation("sales", sales)
    graph.add_relation("stores", {"store": [0, 1, 2, 3], "city": ["a", None, "a", "b"]})
    graph.add_join("sales", "stores", on="store")
    result = graph.calibrate({"d": "count(distinct customer)"}).query(["city"])
    known = keys[customers != 7], customers[customers != 7]
    cities = {None: [1], "a": [0, 2], "b": [3]}
    assert {row["city"]: row["d"] for row in result.rows()} == {
        city: len(set(known[1][np.isin(known[0], stores)])) for city, stores in cities.items()
    }
    assert "counted by bits" in str(result.plan)


def test_versions_and_what_ifs() -> None:
    wide = tree(measures={"d": "count(distinct price)", "m": "median(price)"})
    supposed = wide.what_if(delete={"sales": "price = 20"})
    assert supposed.query().rows() == [{"d": 3, "m": 10.0}]
    wide.update("sales", insert=[{"store": 1, "item": 7, "price": 41, "cost": None}])
    assert wide.query().rows() == [{"d": 5, "m": 15.0}]
    assert wide.at(0).query().rows() == [{"d": 4, "m": 10.0}]
    assert wide.diff(0, 1).rows()[0]["d_change"] == 1


def test_a_saved_tree_has_such_measures(tmp_path: Path) -> None:
    wide = tree(measures={"d": "count(distinct price)", "m": "median(price)"}, group_by=["city"])
    wide.save(str(tmp_path / "tree"))
    opened = ct.open(str(tmp_path / "tree"), engine="local")
    assert opened.query(["city"]).rows() == wide.query(["city"]).rows()


def test_results_are_pickled_and_filtered() -> None:
    result = tree().query(["city"], measures={"m": "median(price)", "l": "list(price)"})
    assert pickle.loads(pickle.dumps(result)).rows() == result.rows()
    assert result.having("m > 7").rows() == [{"city": "Quito", "m": 15.0, "l": [10, 10, 20, 40]}]


def test_groups_cannot_be_rolled_up() -> None:
    with pytest.raises(ct.QueryError, match="cannot be rolled up"):
        _ = tree().query(["city"], measures={"m": "median(price)"}).groups


def test_verify_compares_what_depends_on_the_order_of_rows() -> None:
    texts = {
        "a": "mode(price)",
        "b": "arg_min(price, opened)",
        "c": "list(family)",
        "d": "top_k(price, 2)",
    }
    (check,) = tree().verify([{"group_by": ["city"], "measures": texts}]).checks
    assert not check.difference
    assert not check.verbatim
    assert tree().verify([{"measures": {"d": "count(distinct price)"}}]).checks[0].verbatim


def test_lists_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MAX_LISTED", 3)
    with pytest.raises(ct.QueryError, match=r"would have 6 values, of at most 3\. Count"):
        total("list(price)")


def test_joined_texts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MAX_JOINED_BYTES", 8)
    with pytest.raises(ct.QueryError, match=r"would have \d+ bytes, of at most 8\. Join distinct"):
        total("string_agg(cast(price as varchar), ',')")


def test_at_a_grain() -> None:
    texts = {
        "wide": "median(stores.opened)",
        "stores": ct.measure("median(stores.opened)", grain="stores"),
        "listed": ct.measure("list(opened)", grain="owner"),
    }
    assert tree().query(measures=texts).rows() == [
        {"wide": 2001.5, "stores": 2002.0, "listed": [2001, 2002, 2002]}
    ]
    with pytest.raises(ct.ExpressionError, match="Add sales to the grain"):
        tree().query(measures={"m": ct.measure("median(price)", grain="stores")})


def test_too_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MAX_CARRIED_ROWS", 3)
    with pytest.raises(ct.QueryError, match="takes 5 values by group, of at most 3"):
        total("median(price)")
