"""Rows of Python values that fit the columns are what they are by the long way, or nothing."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.dml import python_rows
from calitree.dml.python_rows import rows_of_types
from calitree.dml.target import UpdateTarget

TYPES = pa.schema(
    {
        "i8": pa.int8(),
        "i32": pa.int32(),
        "i64": pa.int64(),
        "u64": pa.uint64(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "dec": pa.decimal128(9, 2),
        "s": pa.string(),
        "b": pa.bool_(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "raw": pa.binary(),
    }
)
VALUES = st.one_of(
    *(st.none(), st.booleans(), st.integers(-200, 200), st.integers(-(2**65), 2**65)),
    *(st.floats(), st.sampled_from([2.0, 0.1, -0.0, math.nan, math.inf, 1e300])),
    st.decimals(-(10**8), 10**8, places=3, allow_nan=False),
    st.sampled_from([Decimal("1.5"), Decimal("NaN"), Decimal("Infinity"), Decimal("1E+5")]),
    st.sampled_from(["", "a", "7", "1.5", "true", "2020-02-29", "\ud800", b"a"]),
    st.sampled_from([date(2020, 2, 29), datetime(2020, 2, 29), datetime(2020, 2, 29, 12)]),
)


def _target() -> UpdateTarget:
    graph = ct.JoinGraph("local")
    graph.add_relation("r", TYPES.empty_table())
    return UpdateTarget.of(graph.calibrate({"n": "count(*)"}, progress=False).branch.head, "r")


TARGET = _target()


def _read(rows: Any) -> Any:
    try:
        table = TARGET.read(rows, some_columns=True)
    except ct.CalitreeError as error:
        return str(error)
    return table.schema.names, [str(t) for t in table.schema.types], repr(table.to_pylist())


@settings(max_examples=600)
@given(st.data())
def test_the_same_as_by_the_long_way(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(TYPES.names), min_size=1, max_size=3, unique=True))
    row = st.fixed_dictionaries(dict.fromkeys(names, VALUES))
    rows = data.draw(st.lists(row, min_size=1, max_size=2))
    quick = _read(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(python_rows, "rows_of_types", lambda rows, types: None)
        assert quick == _read(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [{"i8": 1}, {"i32": 1}],
        [{"other": 1}],
        [{"I8": 1}],
        [{"i8": True}],
        [{"i8": 1.0}],
        [{"i8": 200}],
        [{"dec": Decimal("1.234")}],
        [{"s": "\ud800"}],
        [{"d": datetime(2020, 1, 1)}],
        [(1,)],
    ],
)
def test_what_is_left_to_the_long_way(rows: list[Any]) -> None:
    assert rows_of_types(rows, TYPES) is None


def test_columns_are_in_the_order_of_the_relation() -> None:
    rows = rows_of_types([{"s": "a", "i8": None}, {"i8": 2, "s": None}], TYPES)
    assert rows is not None and rows.schema == pa.schema([TYPES.field("i8"), TYPES.field("s")])
    assert rows.to_pylist() == [{"i8": None, "s": "a"}, {"i8": 2, "s": None}]
