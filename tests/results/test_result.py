"""A result in every form it can be asked for, and the edges: no rows, NULLs, names that need quoting."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calitree as ct
from calitree.engines.spark import SparkEngine


def shop(engine: Any = "local") -> ct.WideTable:
    graph = ct.JoinGraph(engine=engine)
    sales = {
        "store": [1, 1, 2, None],
        "unit price": [Decimal("1.10"), Decimal("2.20"), None, Decimal("5.00")],
        "day": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1), None, None],
    }
    graph.add_relation("my sales", sales)
    graph.add_relation("stores", {"id": [1, 2, 3], "city": ["Quito", None, "<Loja>"]})
    graph.add_join("my sales", "stores", on={"store": "id"})
    return graph.calibrate({"n": "count(*)", "total": 'sum("unit price")'})


EXPECTED = [
    {"city": "Quito", "n": 2, "total": Decimal("3.30")},
    {"city": None, "n": 1, "total": None},
]


def by_city(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["city"] is None)


def test_every_form() -> None:
    result = shop().query(group_by=["city"])
    assert result.columns == ["city", "n", "total"] and len(result) == 2 and result.exact
    assert by_city(result.rows()) == EXPECTED
    assert by_city(list(result)) == EXPECTED
    assert by_city(result.arrow().to_pylist()) == EXPECTED
    assert by_city(pa.table(result).to_pylist()) == EXPECTED
    assert by_city(result.polars().to_dicts()) == EXPECTED
    assert isinstance(result.polars(), pl.DataFrame)
    frame = result.pandas()
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == ["city", "n", "total"]
    assert frame["n"].sum() == 3


def test_text_and_html_escape_and_shorten() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", {"x": [f"<{i}>" for i in range(200)]})
    result = graph.calibrate().query(group_by=["x"])
    assert repr(result).splitlines()[-1] == "… 200 rows"
    page = result._repr_html_()
    assert "&lt;0&gt;" in page and "<0>" not in page and "200 rows, the first 100 shown" in page


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_total_over_no_rows_is_one_row(engine: str) -> None:
    measures = {
        "n": "count(*)",
        "c": "count(city)",
        "s": 'sum("unit price")',
        "a": 'avg("unit price")',
        "lo": "min(city)",
        "hi": "max(day)",
        "sd": 'stddev("unit price")',
        "p": 'var_pop("unit price")',
        "r": 'corr("unit price", "unit price")',
        "two": 'sum("unit price") + count(*)',
    }
    rows = shop(engine).query(where="city = 'nowhere'", measures=measures).rows()
    assert rows == [
        {"n": 0, "c": 0, **dict.fromkeys(("s", "a", "lo", "hi", "sd", "p", "r", "two"))}
    ]
    assert shop(engine).query(where="city = 'nowhere'", group_by=["city"]).rows() == []


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_extremes_of_any_type(engine: str) -> None:
    measures = {
        "city": "max(city)",
        "day": "min(day)",
        "price": 'max("unit price")',
        "id": "min(id)",
    }
    assert shop(engine).query(measures=measures).rows() == [
        {"city": "Quito", "day": datetime.date(2024, 1, 1), "price": Decimal("2.20"), "id": 1}
    ]


def test_names_with_spaces_and_other_cases() -> None:
    wide = shop()
    for column in ("my sales.day", '"my sales".day', '"my sales"."day"', "DAY", "day"):
        assert len(wide.query(group_by=[column])) == 3
    assert wide.query(where='"my sales"."unit price" > 2 and City = \'Quito\'').rows()[0]["n"] == 1


def test_a_key_is_one_attribute_under_all_its_names() -> None:
    wide = shop()
    result = wide.query(group_by=["my sales.store", "stores.id"])
    assert sorted(result.rows(), key=str) == [
        {"my sales.store": 1, "stores.id": 1, "n": 2, "total": Decimal("3.30")},
        {"my sales.store": 2, "stores.id": 2, "n": 1, "total": None},
    ]


@pytest.mark.spark
def test_on_spark(spark: Any) -> None:
    wide = shop(SparkEngine(spark))
    result = wide.query(group_by=["city"])
    assert by_city(result.rows()) == EXPECTED
    frame = result.spark()
    assert frame.columns == ["city", "n", "total"]
    assert by_city([row.asDict() for row in frame.collect()]) == EXPECTED
    assert wide.query(where="city = 'nowhere'").spark().collect()[0].asDict() == {
        "n": 0,
        "total": None,
    }
    assert by_city([r.asDict() for r in shop("local").query(group_by=["city"]).spark().collect()])[
        0
    ] == {"city": "Quito", "n": 2, "total": Decimal("3.30")}
