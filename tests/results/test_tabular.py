"""What every table of results has in common."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa
import pytest

import calitree as ct
from calitree.results.rollup import matching_rows


@pytest.fixture
def wide() -> ct.WideTable:
    graph = ct.JoinGraph("reference")
    graph.add_relation("sales", {"city": ["Quito", "Quito", "Loja"], "price": [10, 20, 5]})
    wide = graph.calibrate({"revenue": "sum(price)"})
    wide.update("sales", insert=[{"city": "Loja", "price": 7}])
    return wide


def test_a_difference_and_groups_are_tables_too(wide: ct.WideTable) -> None:
    difference = wide.diff(0, 1, ["city"])
    names = ["city", "revenue_before", "revenue_after", "revenue_change"]
    assert difference.columns == names and len(difference) == 1
    assert repr(difference).splitlines()[-1].split() == ["Loja", "5", "12", "7"]
    assert "<td>12</td>" in difference._repr_html_()
    groups = wide.query(["city"]).groups
    assert groups.columns == ["city", "revenue"] == groups.arrow().column_names
    assert "<td>Quito</td><td>30</td>" in groups._repr_html_()


def test_nan_does_not_differ_from_nan() -> None:
    graph = ct.JoinGraph("reference")
    rows = {"x": [math.nan, 1.0], "price": [math.nan, 5.0]}
    graph.add_relation("sales", pa.table(rows))
    wide = graph.calibrate({"revenue": "sum(price)"})
    wide.update("sales", insert=pa.table({"x": [1.0], "price": [7.0]}))
    assert wide.diff(0, 1, ["x"]).rows() == [
        {"x": 1.0, "revenue_before": 5.0, "revenue_after": 12.0, "revenue_change": 7.0}
    ]


def test_rows_with_the_same_values() -> None:
    """NULL equals NULL, and NaN itself."""
    among = [pa.array([1, 1, None]), pa.array([math.nan, 2.0, None])]
    columns = [pa.array([None, 1, 2, 1]), pa.array([None, 2.0, 2.0, math.nan])]
    assert matching_rows(columns, among).tolist() == [2, 1, -1, 0]
    empty = [column.slice(0, 0) for column in among]
    assert matching_rows(columns, empty).tolist() == [-1] * 4
    assert matching_rows(empty, among).tolist() == []


def test_years_that_python_does_not_have() -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("t", {"day": [date(1, 1, 1), date(2020, 1, 1)]})
    result = graph.calibrate().query(["day - 1"])
    assert "0000-12-31" in str(result) and "2019-12-31" in result._repr_html_()
    assert result.arrow().num_rows == 2
    with pytest.raises(ct.QueryError, match=r"Python has none for.*take it by arrow\(\)"):
        result.rows()
