"""What every table of results has in common."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

import calitree as ct
from calitree.results.rollup import matching_rows
from calitree.results.tabular import common_type, group_key


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


def test_a_type_for_two_columns_of_numbers() -> None:
    money, other = pa.decimal128(12, 2), pa.decimal128(20, 4)
    assert common_type(pa.int64(), pa.int64()) == pa.int64()
    assert common_type(pa.null(), money) == common_type(money, pa.null()) == money
    assert common_type(pa.int64(), pa.float64()) == common_type(money, pa.float64()) == pa.float64()
    assert common_type(money, other) == pa.decimal128(38, 4)
    assert common_type(pa.int64(), money) == pa.decimal128(38, 2)


def test_nan_is_one_group() -> None:
    nan, other = math.nan, float("nan")
    assert group_key(nan) == group_key(other) and group_key(Decimal("1.0")) == group_key(1)


def test_rows_with_the_same_values() -> None:
    """NULL equals NULL, and NaN itself."""
    among = [pa.array([1, 1, None]), pa.array([math.nan, 2.0, None])]
    columns = [pa.array([None, 1, 2, 1]), pa.array([None, 2.0, 2.0, math.nan])]
    assert matching_rows(columns, among).tolist() == [2, 1, -1, 0]
    empty = [column.slice(0, 0) for column in among]
    assert matching_rows(columns, empty).tolist() == [-1] * 4
    assert matching_rows(empty, among).tolist() == []
