"""Derived columns: declared once, then columns like any other, on every engine."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import calitree as ct
from calitree import ExpressionError, SchemaError, UpdateError
from calitree.apps.verify.check import compare
from tests.support.engines import spark_engine_named

IN_PROCESS = ["reference", "local"]
DAY = dt.date(2024, 1, 30)

FLIGHTS = pa.table(
    {
        "carrier": ["AA", "AA", "DL", None, "UA", "DL"],
        "delay": pa.array([20, None, 3, 40, 16, 15], pa.int32()),
        "moment": [dt.datetime(2024, 1, 30 + i % 2, 5 * i % 24) for i in range(6)],
        "fare": [Decimal("10.50"), Decimal("0.25"), None, Decimal(3), Decimal(4), Decimal("10.50")],
    }
)
CARRIERS = pa.table({"code": ["AA", "DL", "UA"], "name": ["American", "Delta", "United"]})
DAYS = pa.table({"day": [DAY, DAY + dt.timedelta(days=1)], "holiday": [True, False]})


def graph(engine: Any) -> ct.JoinGraph:
    g = ct.JoinGraph(engine=engine)
    g.add_relation("flights", FLIGHTS)
    g.add_relation("carriers", CARRIERS)
    g.add_relation("days", DAYS)
    g.add_column("flights", "late", "delay > 15")
    g.add_column("flights", "very_late", "late and flights.delay > 30")
    g.add_column("carriers", "initial", "substring(name, 1, 1)")
    g.add_join("flights", "carriers", on={"carrier": "code"})
    g.add_join("flights", "days", on={"cast(moment as date)": "day"})
    return g


def wide_of(engine: Any, **pivot: Any) -> ct.WideTable:
    measures = {"n": "count(*)", "fare": "sum(fare)", "lates": "count(*) filter (where late)"}
    return graph(engine).calibrate(measures, **pivot)


FROM = """
    FROM (SELECT *, delay > 15 AS late, delay > 15 AND delay > 30 AS very_late FROM flights) flights
    JOIN (SELECT *, substring(name, 1, 1) AS initial FROM carriers) carriers ON carrier = code
    JOIN days ON CAST(moment AS DATE) = day
"""


def expected(by: list[str], where: str = "true", flights: pa.Table = FLIGHTS) -> pa.Table:
    connection = duckdb.connect()
    for name, table in {"flights": flights, "carriers": CARRIERS, "days": DAYS}.items():
        connection.register(name, table)
    return connection.sql(
        f"SELECT {', '.join([*by, ''])} count(*) n, sum(fare) fare, count(*) filter (where late) lates "
        f"{FROM} WHERE {where} {'GROUP BY ' + ', '.join(by) if by else ''}"
    ).to_arrow_table()


QUESTIONS: list[tuple[list[str], str]] = [
    ([], "true"),
    (["late"], "true"),
    (["late"], "very_late is not true"),
    (["very_late", "initial"], "true"),
    (["initial"], "late"),
    (["holiday", "late"], "true"),
    (["day"], "late is null or not late"),
    (["late", "holiday"], "initial <> 'A' and late"),
    (["CASE WHEN late THEN initial ELSE name END"], "true"),
    (["late = holiday"], "true"),
]


def check(wide: ct.WideTable, flights: pa.Table = FLIGHTS) -> None:
    for by, where in QUESTIONS:
        difference = compare(
            wide.query(group_by=by, where=where).arrow(), expected(by, where, flights), len(by)
        )
        assert not difference, f"{by} where {where}: {difference}"


def check_all(engine: Any, path: Path | None) -> None:
    check(wide_of(engine))
    wide = wide_of(engine, group_by=["late"], where="late is not null")
    check(wide)
    new = FLIGHTS.slice(0, 2).set_column(1, "delay", pa.array([99, 1], pa.int32()))
    kept = [row for row in FLIGHTS.to_pylist() if not (row["delay"] or 0) > 15]
    after = pa.concat_tables([pa.Table.from_pylist(kept, FLIGHTS.schema), new])
    check(wide.what_if(insert={"flights": new}, delete={"flights": "late"}), after)
    check(wide)
    wide.update("flights", insert=new, delete="late")
    check(wide, after)
    wide.refresh()
    check(wide, after)
    if path is not None:
        wide.save(str(path))
        opened = ct.open(str(path), engine=wide.engine)
        assert opened.is_calibrated
        check(opened, after)
        opened.update("flights", insert=FLIGHTS.slice(0, 1))
        check(opened, pa.concat_tables([after, FLIGHTS.slice(0, 1)]))


@pytest.mark.parametrize("engine", IN_PROCESS)
def test_a_derived_column_is_a_column(engine: str, tmp_path: Path) -> None:
    check_all(engine, None if engine == "reference" else tmp_path / "tree")


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files", "hybrid, frames", "hybrid, SQL"])
def test_on_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    given = spark_engine_named(engine, spark, tmp_path)
    check_all(given, tmp_path / "tree" if engine == "hybrid, files" else None)


def test_min_and_max_of_a_derived_column() -> None:
    g = graph("local")
    g.add_column("flights", "double_delay", "delay * 2")
    wide = g.calibrate({"most": "max(double_delay)", "first": "min(initial)"})
    assert wide.query().rows() == [{"most": 40, "first": "A"}]


def test_its_messages_are_reused() -> None:
    """Grouping by a derived column of a dimension needs no scan of the facts if the cube has it."""
    wide = wide_of("local")
    wide.cube(["initial", "late", "month(moment)"], k=1)
    assert not wide.plan(group_by=["initial", "late"]).computed
    assert not wide.plan(group_by=["late"], where="initial = 'A'").computed
    assert not wide.plan(group_by=["month(moment)", "initial"]).computed
    check(wide)


def test_an_equal_expression_is_the_declared_column() -> None:
    wide = wide_of("local", group_by=["late"])
    query = wide.query(group_by=["delay > 15"]).query
    assert query.keep == ("flights.late",)
    assert not query.derived


def test_check_and_verify() -> None:
    assert graph("local").check().edges[1].left.columns == ('CAST("moment" AS DATE)',)
    wide = wide_of("local")
    asked = [{"group_by": by, "where": where} for by, where in QUESTIONS]
    verified = wide.verify(asked)
    assert verified.ok, str(verified)


def test_explanation_and_regression() -> None:
    wide = wide_of("local")
    model = wide.linear_regression(target="fare", features=["late", "initial"])
    assert {"late", "initial"} == set(model.feature_names_in_)
    assert "late" in str(wide.why("n", where="holiday", attributes=["late", "initial"]))
    assert wide.why("n", where="holiday").rows


def test_relations_left_out_and_added() -> None:
    wide = wide_of("local")
    alone = wide.query(["late"], relations=["flights"], measures=["n"]).rows()
    assert sorted(alone, key=str) == [
        {"late": False, "n": 2},
        {"late": None, "n": 1},
        {"late": True, "n": 3},
    ]
    two = wide.query(["late", "initial"], relations=["flights", "carriers"], measures=["n"])
    assert sum(row["n"] for row in two.rows()) == 5
    asked = [{"group_by": ["late"], "relations": ["flights", "carriers"]}]
    assert wide.verify(asked).ok
    sizes = {"code": ["AA", "DL"], "size": [100, 50]}
    larger = wide.augment(sizes, on={"carriers.code": "code"}, name="sizes")
    assert larger.verify([{"group_by": ["late", "size > 60", "initial"]}]).ok


def test_an_expression_that_fails_of_other_rows() -> None:
    """Values of another relation are in the same dictionary, and need not convert."""
    digits = [str(i % 50) for i in range(20_000)]
    g = ct.JoinGraph(engine="local")
    g.add_relation("codes", {"code": [*map(str, range(50)), "none"]})
    g.add_relation("facts", {"code": digits})
    g.add_join("codes", "facts", on="code")
    wide = g.calibrate()
    rows = wide.query(group_by=["cast(facts.code as int) % 2"]).rows()
    assert sorted(row["n"] for row in rows) == [10_000, 10_000]


ERRORS: dict[str, tuple[Callable[[ct.JoinGraph], Any], type[Exception], str]] = {
    "taken": (
        lambda g: g.add_column("flights", "Delay", "delay"),
        SchemaError,
        "flights has a column 'delay' already; take another name.",
    ),
    "taken by a derived one": (
        lambda g: g.add_column("flights", "late", "delay > 1"),
        SchemaError,
        "flights has a column 'late' already; take another name.",
    ),
    "unknown": (
        lambda g: g.add_column("flights", "x", "dely + 1"),
        SchemaError,
        "flights has no column 'dely'. Did you mean delay?",
    ),
    "itself": (
        lambda g: g.add_column("flights", "x", "x + 1"),
        SchemaError,
        "flights.x would be defined by itself.",
    ),
    "two relations": (
        lambda g: g.add_column("flights", "x", "delay > carriers.code"),
        SchemaError,
        "carriers.code is no column of flights: a derived column is computed from one relation. An "
        "expression over several can be grouped by, filtered and summed as it is.",
    ),
    "aggregate": (
        lambda g: g.add_column("flights", "x", "sum(delay)"),
        ExpressionError,
        "In 'SUM(delay)': SUM(delay) is an aggregate; aggregates belong in measures.",
    ),
    "constant": (
        lambda g: g.add_column("flights", "x", "1 + 1"),
        ExpressionError,
        "'1 + 1' is the same in every row; it makes no column.",
    ),
    "nameless": (
        lambda g: g.add_column("flights", "", "delay"),
        SchemaError,
        "A column needs a name, got ''.",
    ),
    "given": (
        lambda g: g.calibrate().update("flights", insert=[{"late": True}]),
        UpdateError,
        "flights.late is derived: it is computed as delay > 15, and not given.",
    ),
    "assigned": (
        lambda g: g.calibrate().what_if(update={"flights": {"late": "true"}}),
        UpdateError,
        "flights.late is derived: it is computed as delay > 15, and not given.",
    ),
    "joined kinds": (
        lambda g: g.add_join("flights", "days", on={"length(carrier)": "day"}),
        SchemaError,
        'Cannot join flights.LENGTH("carrier") (an integer) with days.day (a date). Cast one of them '
        "in the source first.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, text = ERRORS[name]
    with pytest.raises(error) as caught:
        call(graph("local"))
    assert str(caught.value) == text


KEYS: dict[str, tuple[pa.Array, pa.Array, str, str]] = {
    "date and timestamp": (
        pa.array([dt.datetime(2024, 1, 30), dt.datetime(2024, 1, 30, 1), None]),
        pa.array([DAY, DAY, None]),
        "k",
        "k",
    ),
    "int32 and int64": (pa.array([1, 2, None], pa.int32()), pa.array([1, 1, 3]), "k", "k"),
    "dictionary and text": (
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array(["a", "a", "c"]),
        "k",
        "k",
    ),
    "decimal and integer": (
        pa.array([Decimal("1.00"), Decimal("1.50"), None]),
        pa.array([1, 2, None]),
        "k",
        "k",
    ),
    "expressions on both sides": (pa.array([1, 2, 5]), pa.array([3, 5, 5]), "k * 2", "k - 1"),
    "an expression of decimals": (
        pa.array([Decimal("0.50"), Decimal("1.50"), None]),
        pa.array([1, 2, 3]),
        "k * 2",
        "k",
    ),
    "an expression that is NULL": (
        pa.array([1, 2, 3]),
        pa.array([1, 2, None]),
        "case when k < 3 then k end",
        "nullif(k, 2)",
    ),
}


def check_keys(engine: Any, name: str) -> None:
    left, right, a, b = KEYS[name]
    left, right = pa.table({"k": left, "v": [1, 2, 4]}), pa.table({"k": right, "w": [8, 16, 32]})
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    on = f"({a.replace('k', 'l.k')}) = ({b.replace('k', 'r.k')})"
    sql = f"SELECT v, w, count(*) n FROM l JOIN r ON {on} GROUP BY v, w"
    g = ct.JoinGraph(engine=engine)
    g.add_relation("l", left)
    g.add_relation("r", right)
    g.add_join("l", "r", on={a: b})
    wide = g.calibrate()
    rows = connection.sql(sql).to_arrow_table()
    difference = compare(wide.query(group_by=["v", "w"]).arrow(), rows, 2)
    assert not difference, difference
    wide.update("l", insert=left.slice(0, 1))
    assert (
        wide.query().rows()[0]["n"]
        == connection.sql(
            f"SELECT count(*) FROM (FROM l UNION ALL (FROM l LIMIT 1)) l JOIN r ON {on}"
        ).fetchall()[0][0]
    )


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("engine", IN_PROCESS)
def test_joins_on_keys_of_two_types(engine: str, name: str) -> None:
    check_keys(engine, name)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_joins_on_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    for name in KEYS:
        check_keys(spark_engine_named(engine, spark, tmp_path), name)
