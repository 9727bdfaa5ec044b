"""As-of joins: how they are declared and shown, what they meet, and what becomes of their matches."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv

import calitree as ct
from calitree.calibration.as_of.search import latest
from calitree.cli.model import ModelFile

TRADES = {"sym": ["x", "x", "y", "z", None], "t": [1, 5, 5, 7, 3], "qty": [10, 20, 30, 40, 50]}
QUOTES = {"sym": ["x", "x", "y", "y"], "t": [2, 3, 5, 5], "price": [7, 8, 9, 11]}


def graph(how: str = "left", engine: Any = "local", **asked: Any) -> ct.JoinGraph:
    g = ct.JoinGraph(engine=engine)
    g.add_relation("trades", TRADES)
    g.add_relation("quotes", QUOTES)
    g.add_join("trades", "quotes", on="sym", asof="t", how=how, **asked)
    return g


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_each_trade_meets_the_latest_quotes(engine: str) -> None:
    wide = graph(engine=engine).calibrate({"n": "count(*)", "price": "sum(price)"})
    rows = wide.query(["trades.t", "sym"]).rows()
    assert sorted(rows, key=str) == [
        {"trades.t": 1, "sym": "x", "n": 1, "price": None},
        {"trades.t": 3, "sym": None, "n": 1, "price": None},
        {"trades.t": 5, "sym": "x", "n": 1, "price": 8},
        {"trades.t": 5, "sym": "y", "n": 2, "price": 20},  # two quotes are the latest together
        {"trades.t": 7, "sym": "z", "n": 1, "price": None},
    ]


def test_it_is_shown_as_it_was_declared() -> None:
    g = graph()
    assert str(g).splitlines()[1:] == [
        "  trades(sym, t, qty)",
        "  quotes(sym, t, price)",
        "  trades ⟕ quotes as of trades on trades.sym = quotes.sym and trades.t >= quotes.t",
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("tolerance", [None, 1])
def test_the_from_clause_is_sql(how: str, tolerance: int | None) -> None:
    g = graph(how, tolerance=tolerance)
    connection = duckdb.connect()
    connection.register("trades", pa.table(TRADES))
    connection.register("quotes", pa.table(QUOTES))
    sql = f"SELECT count(*), sum(qty * price) FROM {g.from_clause()}"
    answer = g.calibrate({"n": "count(*)", "v": "sum(qty * price)"}).query().rows()
    assert [tuple(row.values()) for row in answer] == connection.sql(sql).fetchall()


def test_the_matches_cannot_be_named() -> None:
    wide = graph().calibrate()
    name = "quotes as of trades"
    for ask in (
        lambda: wide.query([f'"{name}".sym']),
        lambda: wide.query(relations=[name]),
        lambda: wide.update(name, delete="t = 1"),
    ):
        with pytest.raises(ct.SchemaError, match="follows from trades and quotes"):
            ask()


def test_they_are_left_out_with_either_side() -> None:
    wide = graph("inner").calibrate()
    assert wide.query(relations=["trades"]).rows() == [{"n": 5}]
    assert wide.query(relations=["quotes"]).rows() == [{"n": 4}]
    assert wide.query(relations=["quotes", "trades"]).rows() == wide.query().rows() == [{"n": 3}]


def test_changes_of_both_sides_since_are_a_conflict(tmp_path: Path) -> None:
    wide = graph().calibrate()
    supposed = wide.what_if(delete={"quotes": "price = 8"})
    wide.update("trades", insert=[{"sym": "y", "t": 9, "qty": 2}])
    with pytest.raises(ct.ConflictError, match=r"^quotes, trades changed since"):
        supposed.commit()
    wide.save(tmp_path)
    other = ct.open(tmp_path, engine="local")
    other.update("quotes", insert=[{"sym": "z", "t": 6, "price": 1}])
    other.save(tmp_path)
    wide.update("trades", insert=[{"sym": "z", "t": 9, "qty": 2}])
    with pytest.raises(ct.ConflictError, match=r"^quotes, trades changed in"):
        wide.save(tmp_path)
    assert ct.open(tmp_path, engine="local").query(where="price = 1").rows() == [{"n": 1}]


def test_the_matches_keep_nothing_of_rows_that_are_gone() -> None:
    wide = graph().calibrate()
    for t in range(20, 40):
        wide.update("trades", insert=[{"sym": "x", "t": t, "qty": 1}])
        wide.update("trades", delete=f"t = {t}")
    assert wide.schema.rows("quotes as of trades") == 4


def test_check_tells_of_rows_that_meet_nothing_and_of_ties() -> None:
    findings = graph("inner").check().findings
    assert [(f.severity, f.kind, f.rows) for f in findings] == [
        ("warning", "orphans", 3),
        ("warning", "repeated-keys", 2),
    ]
    assert "meets all of them, up to 2" in findings[1].message
    assert graph().check().findings[-1].severity == "remark"


def test_verify_agrees() -> None:
    assert graph().calibrate({"v": "sum(qty * price)"}).verify().ok


@pytest.mark.parametrize("tolerance", [-1, True, math.nan, math.inf, 10**400, "1 day", b"1", []])
def test_tolerances_of_numbers_are_numbers(tolerance: Any) -> None:
    with pytest.raises(ct.SchemaError, match="tolerance is a number of 0 or more"):
        graph(tolerance=tolerance)


@pytest.mark.parametrize("tolerance", ["90 minutes", "1.5 hours", timedelta(minutes=90)])
def test_dates_are_midnights_and_tolerances_are_spans(tolerance: Any) -> None:
    g = ct.JoinGraph(engine="local")
    times = [datetime(2020, 1, 2, 1, 30), datetime(2020, 1, 2, 1, 31), datetime(2020, 1, 1, 23)]
    g.add_relation("a", {"at": times})
    g.add_relation("b", {"day": [date(2020, 1, 1), date(2020, 1, 2)]})
    g.add_join("a", "b", asof={"at": "day"}, tolerance=tolerance)
    assert g.calibrate().query(["a.at"]).rows() == [{"a.at": times[0], "n": 1}]


@pytest.mark.parametrize("engine", ["local", "reference"])
def test_keys_and_times_may_be_expressions(engine: str) -> None:
    g = ct.JoinGraph(engine=engine)
    g.add_relation("a", {"s": ["X", "y"], "t": [10, 21]})
    g.add_relation("b", {"s": ["x", "x", "Y"], "u": [1, 2, 3], "p": [5, 6, 7]})
    g.add_join("a", "b", on={"lower(s)": "lower(s)"}, asof={"t": "u * 10"})
    wide = g.calibrate({"p": "sum(p)"})
    assert wide.query(["a.s"]).rows() == [{"a.s": "X", "p": 5}]
    wide.update("b", insert=[{"s": "Y", "u": 2, "p": 9}])
    assert wide.query(["a.s"]).rows() == [{"a.s": "X", "p": 5}, {"a.s": "y", "p": 9}]


def test_a_relation_that_is_joined_already_cannot_be_met() -> None:
    g = ct.JoinGraph(engine="local")
    g.add_relation("trades", TRADES)
    g.add_relation("quotes", QUOTES)
    g.add_relation("venues", {"price": [7]})
    g.add_join("quotes", "venues", on="price")
    with pytest.raises(ct.SchemaError, match="before other joins of quotes"):
        g.add_join("trades", "quotes", on="sym", asof="t")


def test_a_model_file_declares_it(tmp_path: Path) -> None:
    for name, table in (("trades", TRADES), ("quotes", QUOTES)):
        csv.write_csv(pa.table(table), tmp_path / f"{name}.csv")
    (tmp_path / "model.toml").write_text(
        '[relations]\ntrades = "trades.csv"\nquotes = "quotes.csv"\n[[joins]]\nleft = "trades"\n'
        'right = "quotes"\non = "sym"\nasof = "t"\ntolerance = 2\nhow = "left"\n'
    )
    graph = ModelFile.read(tmp_path / "model.toml").graph("local")
    assert graph.calibrate().query(where="price is not null").rows() == [{"n": 3}]


@pytest.mark.parametrize(
    ("left", "right", "tolerance", "expected"),
    [
        ([1.5, float("nan"), 0.0], [-0.0, 1.5], None, [1.5, 1.5, 0.0]),
        ([Decimal("1.25")], [Decimal("1.2"), Decimal("1.3")], 0.05, [Decimal("1.20")]),
        ([2**63 - 1, -(2**63)], [-(2**63), 5], None, [5, -(2**63)]),
        ([2**63 - 1, -(2**63)], [-(2**63), 5], 3, [None, -(2**63)]),
        ([], [1], None, []),
        ([1], [], None, [None]),
    ],
)
def test_the_search(left: list[Any], right: list[Any], tolerance: Any, expected: list[Any]) -> None:
    values = pa.array(left + right)
    ours, theirs = values[: len(left)], values[len(left) :]
    times = latest(pa.table({"t": ours}), pa.table({"t": theirs}), tolerance)
    assert times.to_pylist() == expected
