"""Thousands of single rows that are deleted: by a condition, by some values, or given whole."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.engines.local import LocalEngine
from calitree.errors import UpdateError

COLUMNS = pa.schema(
    {
        "id": pa.int32(),
        "item": pa.int64(),
        "x": pa.float64(),
        "note": pa.string(),
        "day": pa.date32(),
        "price": pa.decimal128(20, 2),
        "open": pa.bool_(),
    }
)
VALUES = {
    "id": st.integers(0, 5),
    "item": st.integers(0, 2),
    "x": st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    "note": st.sampled_from(["", "a", "ab", "ä"]),
    "day": st.sampled_from([date(2020, 1, 1), date(2021, 1, 1)]),
    "price": st.sampled_from([Decimal("1.10"), Decimal("1.20")]),
    "open": st.booleans(),
}


def _rows(least: int, most: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries({n: v | st.none() for n, v in VALUES.items()})
    return st.lists(row, min_size=least, max_size=most)


def _tree(rows: list[dict[str, Any]], engine: str) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", pa.Table.from_pylist(rows, schema=COLUMNS))
    graph.add_relation("items", {"item": [0, 1, 2], "family": ["a", "b", "b"]})
    graph.add_join("sales", "items", on="item")
    return graph.calibrate({"n": "count(*)", "total": "sum(sales.price)"}, progress=False)


def _known(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _key(row: dict[str, Any], columns: Any = COLUMNS.names) -> tuple[Any, ...]:
    return tuple(_known(row[name]) for name in columns)


def _check(wide: ct.WideTable, left: list[dict[str, Any]]) -> None:
    joined = [row for row in left if row["item"] is not None]
    (total,) = wide.query().rows()
    prices = [row["price"] for row in joined if row["price"] is not None]
    assert total == {"n": len(joined), "total": sum(prices) if prices else None}


@settings(max_examples=40)
@given(_rows(8, 30), st.data())
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_rows_given_whole_go_one_for_one(
    engine: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    wide, left = _tree(rows, engine), list(rows)
    for _ in range(8):
        row = data.draw(st.sampled_from(rows))
        at = [i for i, other in enumerate(left) if _key(other) == _key(row)]
        if data.draw(st.integers(0, 4)) == 0:
            wide.update("sales", insert=[row])
            left.append(row)
        elif at:
            wide.update("sales", delete=[row])
            del left[at[0]]
        else:
            with pytest.raises(UpdateError, match="not there"):
                wide.update("sales", delete=[row])
    _check(wide, left)


@settings(max_examples=40)
@given(_rows(8, 30), st.data())
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_rows_by_some_of_their_values(
    engine: str, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    wide, left = _tree(rows, engine), list(rows)
    columns = data.draw(
        st.lists(st.sampled_from(COLUMNS.names), min_size=1, max_size=6, unique=True)
    )
    for _ in range(8):
        row = data.draw(st.sampled_from(rows))
        if data.draw(st.integers(0, 4)) == 0:
            wide.update("sales", insert=[row])
            left.append(row)
        else:
            wide.update("sales", delete=[{name: row[name] for name in columns}])
            left = [other for other in left if _key(other, columns) != _key(row, columns)]
    _check(wide, left)


CONDITIONS = ["id = {id}", "note = '{note}'", "day = date '{day}'", "id = {id} and note = '{note}'"]


@settings(max_examples=40)
@given(_rows(8, 30), st.sampled_from(CONDITIONS), st.data())
@pytest.mark.parametrize("engine", ["local", "reference"])
def test_rows_by_a_condition(
    engine: str, rows: list[dict[str, Any]], condition: str, data: st.DataObject
) -> None:
    wide, left = _tree(rows, engine), list(rows)
    names = [name for name in VALUES if f"{{{name}}}" in condition]
    for _ in range(8):
        row = {name: data.draw(VALUES[name]) for name in names}
        wide.update("sales", delete=condition.format(**row))
        left = [other for other in left if _key(other, names) != _key(row, names)]
        if data.draw(st.integers(0, 4)) == 0:
            wide.update("sales", insert=rows[:1])
            left.append(rows[0])
    _check(wide, left)


def test_constants_that_no_value_equals() -> None:
    wide = _tree([dict.fromkeys(COLUMNS.names) | {"id": i, "item": 0} for i in range(9)], "local")
    for condition in ("id = 3000000000", "id = 2.5", "id = -1", "note = ''", "id = NULL"):
        for _ in range(5):
            wide.update("sales", delete=condition)
    _check(wide, [{"item": 0, "price": None}] * 9)


@pytest.mark.parametrize("form", ["condition", "values", "row"])
def test_thousands(form: str) -> None:
    rows = [
        {"id": i, "item": i % 3, "x": float(i % 7), "note": f"n{i % 11}", "day": date(2020, 1, 1)}
        | {"price": Decimal(i % 13), "open": bool(i % 2)}
        for i in range(3000)
    ]
    wide = _tree(rows, "local")
    for row in rows[:1500]:
        what: Any = {
            "condition": f"id = {row['id']}",
            "values": [{"id": row["id"]}],
            "row": [row],
        }[form]
        wide.update("sales", delete=what)
    _check(wide, rows[1500:])
    families = Counter("a" if row["item"] == 0 else "b" for row in rows[1500:])
    asked = wide.query(group_by=["items.family"]).rows()
    assert {row["items.family"]: row["n"] for row in asked} == families


def test_the_next_question_takes_all_deletions_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One contraction, not one for each of the changes since."""
    rows = [dict.fromkeys(VALUES) | {"id": i, "item": i % 3} for i in range(400)]
    wide = _tree(rows, "local")
    wide.query(["family"]).rows()
    for i in range(40):
        wide.update("sales", delete=[{"id": i}] if i % 2 else f"id = {i}")
    contracted = []
    contract = LocalEngine.contract

    def counted(engine: LocalEngine, *arguments: Any) -> Any:
        contracted.append(arguments)
        return contract(engine, *arguments)

    monkeypatch.setattr(LocalEngine, "contract", counted)
    answer = {row["family"]: row["n"] for row in wide.query(["family"]).rows()}
    assert answer == {"a": 120, "b": 240}
    assert len(contracted) <= 4
