"""Results beside those of an earlier time: as two queries of DuckDB on the join, joined on their groups."""

from __future__ import annotations

import pickle
import random
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree import QueryError
from calitree.apps.verify.check import compare
from tests.support.engines import LOCAL, engine_named, spark_engine_named
from tests.support.periods import (
    DAYS,
    Asked,
    Sales,
    all_comparisons,
    compared,
    comparisons,
    sales_at_days,
    wide_of,
)
from tests.support.scale import examples


def assert_compared(wide: ct.WideTable, sales: Sales, asked: Asked) -> None:
    comparison = wide.query(asked.group_by, asked.where).compare(asked.period)
    difference = compare(comparison.arrow(), compared(sales, asked), len(asked.group_by))
    assert not difference, f"{asked}: {difference}"


def check(engine: Any, data: st.DataObject) -> None:
    sales = data.draw(sales_at_days(), label="sales")
    wide = wide_of(engine, sales)
    for _ in range(3):
        assert_compared(wide, sales, data.draw(comparisons(), label="question"))


def test_every_group_period_and_filter() -> None:
    rng = random.Random(1)
    days = [*range(len(DAYS)), None]
    sales = [(day, store, rng.randrange(-3, 9)) for day in days for store in (0, 1, 2, 9)]
    sales = rng.sample(sales, 60)
    wide = wide_of("local", sales)
    for asked in all_comparisons():
        assert_compared(wide, sales, asked)


@settings(max_examples=examples(8), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_reference(data: st.DataObject) -> None:
    check("reference", data)


@settings(max_examples=examples(12), suppress_health_check=list(HealthCheck), deadline=None)
@given(data=st.data())
def test_local(data: st.DataObject) -> None:
    check(engine_named(data.draw(st.sampled_from(LOCAL), label="engine")), data)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, frames"])
def test_spark(spark: Any, tmp_path: Path, engine: str) -> None:
    graph = ct.JoinGraph(engine=spark_engine_named(engine, spark, tmp_path))
    days = [date(2012, 2, 29), date(2013, 2, 28), date(2013, 3, 31), None]
    graph.add_relation("sales", pa.table({"day": pa.array(days), "x": [1, 2, 4, 8]}))
    result = graph.calibrate({"revenue": "sum(x)"}).query(["day"], "day >= '2013-02-28'")
    rows = [(date(2013, 2, 28), 2, None), (date(2013, 3, 28), None, 2), (date(2013, 3, 31), 4, 2)]
    assert before(result.compare("1 month").rows()) == rows
    assert [row["revenue_cumulative"] for row in result.cumulative()] == [2, 6]


def calendar(engine: str = "local", **measures: str) -> ct.WideTable:
    """Three years of sales, one on each first of a month, by a calendar with columns of its own."""
    days = [date(2012 + at // 12, at % 12 + 1, 1) for at in range(36)]
    graph = ct.JoinGraph(engine=engine)
    graph.add_relation("sales", {"date": range(36), "store": [1, 2] * 18, "price": range(36)})
    graph.add_relation(
        "dates",
        {"id": range(36), "the day": days, "year": [d.year for d in days], "due": days},
    )
    graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Loja"]})
    graph.add_join("sales", "dates", on={"date": "id"})
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.add_column("dates", "month", "date_trunc('month', dates.\"the day\")")
    graph.add_column("dates", "half", 'year(month) * 2 + month("the day") // 7')
    return graph.calibrate(measures or {"revenue": "sum(price)"})


def before(rows: Any) -> list[Any]:
    """The values of groups, and those that they are compared with."""
    return sorted(
        ((*list(row.values())[:-4], row["revenue"], row["revenue_before"]) for row in rows), key=str
    )


def test_no_message_comes_from_the_fact() -> None:
    wide = calendar()
    month = "date_trunc('month', \"the day\")"
    for result in (
        wide.query([month], 'year("the day") = 2013'),
        wide.query([month]),
        wide.query(['year("the day")']),
        wide.query(where="\"the day\" >= '2013-01-01' and \"the day\" < '2014-01-01'"),
    ):
        plan = result.compare("1 year").before.plan
        assert not plan.computed, plan
        assert [edge.edge for edge in plan.reused] == [("sales", "dates")]


def test_a_moved_bound_is_the_question_that_one_would_write() -> None:
    wide = calendar()
    asked = "\"the day\" between '2013-02-01' and '2013-12-31' and city = 'Quito'"
    wide.query(["city"], asked.replace("2013", "2012"))
    comparison = wide.query(["city"], asked).compare("1 year")
    assert [str(part) for part in comparison.before.query.filters] == [
        "\"the day\" BETWEEN '2012-02-01' AND '2012-12-31'",
        "city = 'Quito'",
    ]
    assert not comparison.before.plan.computed


def test_filters_are_moved_with_groups() -> None:
    wide = calendar()
    months = wide.query(["month"], "month >= '2013-12-01'").compare("1 month").rows()
    assert months[0]["revenue_before"] == 22 and len(months) == 14
    assert months[-1]["month"] == datetime(2015, 1, 1) and months[-1]["revenue"] is None
    halves = wide.query(["half"], "half = 2013 * 2").compare("6 months").rows()
    assert before(halves) == [(4026, sum(range(12, 18)), sum(range(6, 12)))]


def test_groups_and_filters_of_any_form() -> None:
    wide = calendar()
    year = 'concat(city, year(dates."the day"))'
    rows = wide.query({"y": year}, 'year("the day") = 2013').compare("1 year").rows()
    assert before(rows) == [("Loja2013", 108, 36), ("Quito2013", 102, 30)]
    listed = ", ".join(f"'2013-01-{day:02}', '2013-02-{day:02}'" for day in range(1, 29))
    several = f"\"the day\" in ({listed}, {listed}) and city in ('Quito', 'Loja')"
    rows = wide.query(["city"], several).compare("1 year").rows()
    assert before(rows) == [("Loja", 13, 1), ("Quito", 12, 0)]
    either = "city = 'Loja' and \"the day\" = '2013-02-01' or date '2013-01-01' >= \"the day\""
    (row,) = wide.query([], either).compare("1 year").rows()
    assert (row["revenue"], row["revenue_before"]) == (sum(range(14)), 0 + 1)


def test_a_missing_period_is_null() -> None:
    wide = calendar()
    wide.update("sales", delete="date = 4")
    rows = wide.query(["month"], "month >= '2013-05-01' and month < '2013-07-01'").compare("1 year")
    assert [row["revenue_before"] for row in rows] == [None, 5]
    assert [row["revenue_change"] for row in rows] == [16, 12]
    assert [row["revenue_ratio"] for row in rows] == [None, 17 / 5]
    gone = wide.query(["month"], "year(month) = 2012").compare("-1 year").rows()
    assert [row["revenue"] for row in gone if row["month"].month == 5] == [None]
    assert [row["revenue_change"] for row in gone if row["month"].month == 5] == [-16]


def test_it_is_the_version_of_the_result() -> None:
    wide = calendar()
    result = wide.query(where="year(month) = 2013")
    wide.update("sales", delete="date < 6")
    assert [*result.compare("1 year").rows()[0].values()][:2] == [
        sum(range(12, 24)),
        sum(range(12)),
    ]
    now = wide.query(where="year(month) = 2013").compare("1 year").rows()
    assert now[0]["revenue_before"] == sum(range(6, 12))
    supposed = wide.what_if(insert={"sales": [{"date": 0, "store": 1, "price": 1}]})
    supposed_rows = supposed.query(where="year(month) = 2013").compare("1 year").rows()
    assert supposed_rows[0]["revenue_before"] == sum(range(6, 12)) + 1


def test_columns_of_integers_are_compared_by_numbers() -> None:
    wide = calendar()
    expected = [(2012, sum(range(12)), None), (2013, sum(range(12, 24)), sum(range(12)))]
    rows = wide.query(["year"], "year <= 2013").compare(1, by="year").rows()
    assert before(rows) == [
        *expected,
    ]
    rows = wide.query(["city"], "2014 > year and year = 2013").compare(1, on="dates.year").rows()
    assert before(rows) == [("Loja", 108, 36), ("Quito", 102, 30)]
    rows = wide.query(["year"], "year = 2012").compare(-2, by="year").rows()
    assert before(rows) == [(2012, sum(range(12)), sum(range(24, 36)))]


def test_timestamps() -> None:
    stamps = [datetime(2013, 2, 28, 6), datetime(2013, 2, 28, 18), datetime(2013, 3, 31, 18)]
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", {"at": [*stamps, datetime(2013, 3, 31, 19)], "x": [1, 2, 4, 8]})
    wide = graph.calibrate({"revenue": "sum(x)"})
    # Of the day before, the same hours.
    rows = wide.query(["cast(at as date)"], "at >= '2013-03-31 12:00'").compare("1 month").rows()
    assert before(rows) == [(date(2013, 3, 31), 12, 2)]
    rows = wide.query(["date_trunc('hour', at)"]).compare("1 hour").rows()
    assert (datetime(2013, 3, 31, 18), 4, None) in before(rows)
    assert (datetime(2013, 3, 31, 19), 8, 4) in before(rows)


def test_a_time_that_is_computed_from_text() -> None:
    graph = ct.JoinGraph(engine="local")
    graph.add_relation("r", {"text": ["2012-02-29", "2013-02-28", None], "x": [1, 2, 4]})
    graph.add_column("r", "day", "cast(text as date)")
    wide = graph.calibrate({"revenue": "sum(x)"})
    rows = wide.query(["date_trunc('month', day)"], "year(day) = 2013").compare("1 year").rows()
    assert before(rows) == [(datetime(2013, 2, 1), 2, 1)]
    rows = wide.query(["day"]).compare("1 year").rows()
    expected = [(date(2012, 2, 29), 1, None), (date(2013, 2, 28), 2, None), (None, 4, None)]
    assert set(before(rows)) == {*expected, (date(2014, 2, 28), None, 2)}


def test_measures_of_all_kinds() -> None:
    wide = calendar()
    asked = {
        "mid": "median(price)",
        "first": "min(city)",
        "towns": ct.measure("count(*)", "stores"),
    }
    (row,) = wide.query([], "year(month) = 2013", asked).compare("1 year").rows()
    assert (row["mid"], row["mid_before"], row["mid_change"]) == (17.5, 5.5, 12.0)
    assert (row["first"], row["first_before"]) == ("Loja", "Loja") and "first_change" not in row
    assert (row["towns"], row["towns_before"]) == (2, 2)
    (row,) = wide.query([], "year(month) = 2012", {"m": "avg(price)"}).compare("1 year").rows()
    assert row == {"m": 5.5, "m_before": None, "m_change": None, "m_ratio": None}


def test_relations_that_are_left_out() -> None:
    wide = calendar()
    result = wide.query([], "year(month) = 2013", relations=["sales", "dates"])
    assert result.compare("1 year").rows()[0]["revenue_before"] == sum(range(12))


def test_of_nothing() -> None:
    wide = calendar()
    nothing = wide.query(["month", "city"], "month > '2030-01-01'").compare("1 year")
    assert nothing.rows() == [] and nothing.columns[:4] == [
        "month",
        "city",
        "revenue",
        "revenue_before",
    ]
    (row,) = wide.query([], "month > '2030-01-01'").compare("1 year").rows()
    assert row["revenue"] is None and row["revenue_change"] == 0 and row["revenue_ratio"] is None


def test_what_it_is_shown_as() -> None:
    comparison = calendar().query([], "year(month) = 2013").compare("1 year")
    shown = comparison.text()
    assert shown.split() == [*comparison.columns, "210", "66", "144", "3.18182"] and shown == repr(
        comparison
    )
    again = pickle.loads(pickle.dumps(comparison))
    assert again.arrow() == comparison.arrow()
    assert comparison.pandas().shape == comparison.polars().shape == (1, 4)


DAY, YEAR = 'dates."the day"', {"where": "year = 2013"}


@pytest.mark.parametrize(
    ("asked", "given", "reason"),
    [
        ({}, {"period": "1 year"}, "no time that could be compared"),
        ({"group_by": [DAY]}, {"period": "soon"}, "'soon' is no period"),
        ({"group_by": [DAY]}, {"period": "0 days"}, "with itself"),
        ({"group_by": [DAY]}, {"period": 1.5}, "got float"),
        ({"group_by": [DAY]}, {"period": "1 hour"}, "no whole number of days"),
        ({"group_by": [DAY]}, {"period": 1}, "Name the column of integers"),
        ({"group_by": [DAY]}, {"period": 1, "by": DAY}, "no column of integers"),
        ({"group_by": ["year"]}, {"period": "1 year", "by": "year"}, "no date or timestamp"),
        ({"group_by": ["city"]}, {"period": "1 year", "by": "town"}, "'town' is not grouped by"),
        ({"group_by": ["city"]}, {"period": "1 year", "on": DAY}, "neither a group nor a filter"),
        ({"group_by": [DAY, "due"]}, {"period": "1 year"}, "several times: dates.due, dates.the day"),
        ({"group_by": ["month"]}, {"period": "1 year", "by": "month", "on": "due"}, "no group of 'due'"),
        ({"group_by": ["date_trunc('week', due)"]}, {"period": "1 year"}, "such as '52 weeks'"),
        ({"group_by": ["month"]}, {"period": "7 days"}, "a whole number of months"),
        ({"group_by": [DAY], "where": "due > '2012-05-01'"}, {"period": "1 year"}, "is of another time than"),
        ({"group_by": [DAY], **YEAR}, {"period": "1 year"}, "The filter year = 2013 may be of the time too"),
        (
            {"group_by": ["year"], "where": "month > '2013-05-01'"},
            {"period": "1 year"},
            "The group 'year' may be of the time too",
        ),
        (
            {"group_by": [DAY], "measures": {"n": f"count(*) filter (where year({DAY}) = 2013)"}},
            {"period": "1 year"},
            "Measure 'n' has a condition on dates.the day",
        ),
        (
            {"group_by": [DAY], "measures": {"n": "count(*)", "n_before": "sum(price)"}},
            {"period": "1 year"},
            "a column 'n_before' already",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused(asked: Any, given: Any, reason: str) -> None:
    result = calendar().query(**asked)
    with pytest.raises(QueryError, match=reason):
        result.compare(**given)


def test_a_filter_beside_the_time_stays_if_the_time_is_named() -> None:
    rows = calendar().query([DAY], **YEAR).compare("1 month", on=DAY).rows()
    assert len(rows) == 13 and [row["revenue_before"] for row in rows][:2] == [None, 12]
    dear = calendar().query(["month"], "price > 10").compare("1 month")
    assert [row["revenue_before"] for row in dear][:2] == [None, 11]


def test_a_pickled_result_cannot_ask() -> None:
    result = pickle.loads(pickle.dumps(calendar().query(["month"])))
    with pytest.raises(QueryError, match="was pickled"):
        result.compare("1 year")
    assert result.cumulative().rows()[1]["revenue_cumulative"] == 1
