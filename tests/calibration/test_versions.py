"""Updates, versions and what-ifs in plain cases: what they are told, what is answered then, and what it
takes to answer it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from concurrent.futures import Future
from decimal import Decimal
from typing import Any, NamedTuple, cast

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calitree as ct
from calitree import CalitreeError, QueryError, SchemaError, WideTable
from calitree.calibration import revisions
from calitree.calibration.branch import VERSIONS_KEPT
from calitree.calibration.planning import staleness
from calitree.calibration.planning.plan import Plan
from calitree.calibration.state import Mode
from calitree.engines.spark import SparkEngine
from calitree.errors import ConflictError, ExpressionError, UpdateError
from calitree.memory import history
from calitree.storage.frames import ACCEPTED
from tests.support.engines import LOCAL, engine_named, spark_engine_named, spark_frame

ENGINES = ["reference", *LOCAL]
DAY = datetime.date(2024, 5, 1)
SALES = pa.table(
    {
        "store": pa.array([1, 1, 2, 3, None], pa.int64()),
        "item": pa.array([1, 2, 1, 2, 1], pa.int64()),
        "price": pa.array([10, 20, 5, 40, 9], pa.int64()),
        "paid": pa.array(
            [Decimal("1.50"), Decimal("2.25"), None, Decimal("7.00"), Decimal("1.00")]
        ),
        "day": pa.array([DAY, DAY, DAY, None, DAY], pa.date32()),
    }
)
STORES = pa.table({"id": [1, 2, 3], "city": ["Quito", "Cuenca", "Quito"], "region": [7, 7, 8]})
REGIONS = pa.table({"id": [7, 8], "country": ["E", "P"]})
ITEMS = pa.table({"item": [1, 2], "family": ["DAIRY", "MEAT"]})
MEASURES = {"n": "count(*)", "revenue": "sum(price)", "dearest": "max(price)"}
NEW = {"store": 2, "item": 2, "price": 7, "paid": Decimal("0.10"), "day": DAY}
TOTAL = {"n": 4, "revenue": 75, "dearest": 40}


def graph(engine: Any) -> ct.JoinGraph:
    declared = ct.JoinGraph(engine=engine)
    declared.add_relation("sales", SALES)
    declared.add_relation("stores", STORES)
    declared.add_relation("regions", REGIONS)
    declared.add_relation("items", ITEMS)
    declared.add_join("sales", "stores", on={"store": "id"})
    declared.add_join("stores", "regions", on={"region": "id"})
    declared.add_join("sales", "items", on="item")
    return declared


def shop(engine: Any = "local", measures: Any = MEASURES, **options: Any) -> WideTable:
    return graph(engine).calibrate(measures, **options)


def sums(engine: Any = "local", **options: Any) -> WideTable:
    """All measures can be subtracted."""
    return shop(engine, {"n": "count(*)", "revenue": "sum(price)"}, **options)


def total(wide: WideTable) -> dict[str, Any]:
    (row,) = wide.query().rows()
    return row


def by(wide: WideTable, column: str, measure: str = "revenue") -> dict[Any, Any]:
    return {row[column]: row[measure] for row in wide.query([column]).rows()}


@pytest.fixture(params=ENGINES)
def wide(request: pytest.FixtureRequest) -> WideTable:
    return shop(engine_named(request.param))


# -- rows in every form ------------------------------------------------------------------------


FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "Arrow": lambda row: pa.Table.from_pylist([row], SALES.schema),
    "Arrow, other types and order": lambda row: pa.table(
        {"price": pa.array([row["price"]], pa.int16()), **{k: [v] for k, v in row.items() if k != "price"}}
    ),
    "a batch": lambda row: pa.RecordBatch.from_pylist([row], SALES.schema),
    "pandas": lambda row: pd.DataFrame([row]),
    "polars": lambda row: pl.DataFrame([row]),
    "dictionaries": lambda row: [row],
    "columns": lambda row: {name: [value] for name, value in row.items()},
    "other case": lambda row: [{name.upper(): value for name, value in row.items()}],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_every_form(wide: WideTable, form: str) -> None:
    rows = FORMS[form](NEW)
    assert wide.update("sales", insert=rows) == 1
    assert total(wide) == {"n": 5, "revenue": 82, "dearest": 40}
    assert wide.update("sales", delete=rows) == 2
    assert total(wide) == TOTAL


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark", "hybrid, frames"])
def test_rows_as_a_spark_frame(spark: Any, tmp_path: Any, engine: str) -> None:
    wide = shop(spark_engine_named(engine, spark, tmp_path))
    rows = spark_frame(spark, pa.Table.from_pylist([NEW], SALES.schema))
    assert wide.update("sales", insert=rows) == 1
    assert total(wide) == {"n": 5, "revenue": 82, "dearest": 40}
    assert wide.update("sales", delete=rows) == 2
    assert total(wide) == TOTAL
    loja = spark_frame(spark, pa.table({"city": ["Loja"], "id": [3], "region": [7]}))
    assert wide.update("stores", upsert=loja, key="id") == 3
    assert by(wide, "city") == {"Quito": 30, "Cuenca": 5, "Loja": 40}


@pytest.mark.spark
def test_a_spark_frame_with_other_columns(spark: Any) -> None:
    """It is told at once, as the update would be there when a query fails."""
    wide = shop(SparkEngine(spark))
    for columns, text in {
        ("item", "famly"): "items has no column 'famly'. Did you mean family?",
        ("item",): "items: the rows lack family. Give NULLs if there are no values.",
        ("item", "FAMILY"): "items.family is string, and what is given is called otherwise. Rename "
        "or cast it in the frame.",
    }.items():
        frame = spark.createDataFrame([(1,) * len(columns)], list(columns))
        with pytest.raises(UpdateError) as caught:
            wide.update("items", insert=frame)
        assert str(caught.value) == text and wide.version == 0
    with pytest.raises(
        UpdateError, match=r"items.family is string, and what is given is integer\."
    ):
        wide.update("items", insert=spark.createDataFrame([(1, 2)], ["item", "family"]))


def test_nothing_to_do_makes_no_version(wide: WideTable) -> None:
    assert wide.update("sales", insert=[]) == 0
    assert wide.update("sales", insert=SALES.slice(0, 0)) == 0
    assert wide.update("sales", delete="price > 1000") == 0
    assert wide.version == 0 and wide.versions == range(1)


# -- deleting ----------------------------------------------------------------------------------


def test_delete_by_a_condition(wide: WideTable) -> None:
    assert wide.update("sales", delete="price >= 10 and day is not null") == 1
    assert total(wide) == {"n": 2, "revenue": 45, "dearest": 40}
    assert wide.update("stores", delete="city = 'Quito'") == 2
    assert total(wide) == {"n": 1, "revenue": 5, "dearest": 5}
    assert wide.update("sales", delete="true") == 3
    assert total(wide) == {"n": 0, "revenue": None, "dearest": None}


def test_delete_whole_rows_goes_one_for_one(wide: WideTable) -> None:
    wide.update("sales", insert=[NEW, NEW, NEW])
    wide.update("sales", delete=[NEW, NEW])
    assert total(wide)["n"] == 5
    with pytest.raises(UpdateError, match="1 of the 2 rows to delete is not there"):
        wide.update("sales", delete=[NEW, NEW])
    assert wide.version == 2 and total(wide)["n"] == 5


def test_delete_by_some_columns_goes_all_that_have_these_values(wide: WideTable) -> None:
    assert wide.update("sales", delete={"item": [1], "day": [DAY]}) == 1
    assert total(wide) == {"n": 2, "revenue": 60, "dearest": 40}
    assert wide.update("sales", delete={"day": pa.array([None], pa.date32())}) == 2
    assert total(wide) == {"n": 1, "revenue": 20, "dearest": 20}
    assert wide.update("sales", delete={"price": [1000]}) == 2


def test_whole_rows_with_their_columns_in_any_order(wide: WideTable) -> None:
    rows = pa.Table.from_pylist([NEW], SALES.schema)
    for names in (SALES.column_names, SALES.column_names[::-1]):
        wide.update("sales", insert=rows.select(names))
        wide.update("sales", delete=rows.select(names))
    assert total(wide) == TOTAL
    assert total(wide.what_if(delete={"sales": "price = 5"}))["n"] == 3
    assert wide.verify([{}, {"group_by": ["day"]}])


def test_a_row_that_went_can_come_again_and_go_again(wide: WideTable) -> None:
    for _ in range(3):
        wide.update("stores", delete="id = 1")
        assert by(wide, "city") == {"Quito": 40, "Cuenca": 5}
        wide.update("stores", delete="id = 1")
        wide.update("stores", insert=[{"id": 1, "city": "Quito", "region": 7}])
        assert by(wide, "city") == {"Quito": 70, "Cuenca": 5}


def test_delete_and_insert_in_one_version(wide: WideTable) -> None:
    """Rows go from those that were there before; those that come stay."""
    assert wide.update("sales", delete="item = 2", insert=[NEW]) == 1
    assert total(wide) == {"n": 3, "revenue": 22, "dearest": 10}


# -- replacing ---------------------------------------------------------------------------------


def test_upsert_by_a_key(wide: WideTable) -> None:
    rows = [{"id": 2, "city": "Loja", "region": 8}, {"id": 4, "city": "Manta", "region": 8}]
    assert wide.update("stores", upsert=rows, key="id") == 1
    assert by(wide, "city") == {"Quito": 70, "Loja": 5}
    wide.update("sales", insert=[{**NEW, "store": 4}])
    assert by(wide, "city") == {"Quito": 70, "Loja": 5, "Manta": 7}
    assert by(wide, "country") == {"E": 30, "P": 52}


def test_upsert_finds_the_columns_that_tell_rows_apart(wide: WideTable) -> None:
    wide.update("stores", upsert=[{"id": 3, "city": "Loja", "region": 7}])
    assert by(wide, "city") == {"Quito": 30, "Cuenca": 5, "Loja": 40}


def test_upsert_by_several_columns(wide: WideTable) -> None:
    wide.update("sales", upsert=[{**NEW, "store": 1}], key=["store", "item"])
    assert total(wide) == {"n": 4, "revenue": 62, "dearest": 40}


def test_a_null_is_replaced_like_any_value(wide: WideTable) -> None:
    wide.update("sales", upsert=[{**NEW, "store": None, "price": 1}], key="store")
    wide.update("sales", upsert=[{**NEW, "store": 3}], key="store")
    assert total(wide) == {"n": 4, "revenue": 42, "dearest": 20}
    assert wide.schema.rows("sales") == 5


def test_delete_and_upsert_of_the_same_row(wide: WideTable) -> None:
    """The row goes once."""
    wide.update(
        "stores", delete="id <= 2", upsert=[{"id": 2, "city": "Loja", "region": 7}], key="id"
    )
    assert by(wide, "city") == {"Quito": 40, "Loja": 5}
    assert wide.schema.rows("stores") == 2


# -- what SQL says of values -------------------------------------------------------------------


def test_new_values_new_keys_and_groups_that_vanish(wide: WideTable) -> None:
    wide.update("regions", insert=[{"id": 9, "country": "Ö"}])
    wide.update("stores", insert=[{"id": 9, "city": "", "region": 9}])
    wide.update("sales", insert=[{**NEW, "store": 9, "item": 9}])
    wide.update("items", insert=[{"item": 9, "family": None}])
    assert by(wide, "country") == {"E": 35, "P": 40, "Ö": 7}
    assert by(wide, "family") == {"DAIRY": 15, "MEAT": 60, None: 7}
    wide.update("regions", delete="country = 'P'")
    assert by(wide, "country") == {"E": 35, "Ö": 7}
    assert by(wide, "city") == {"Quito": 30, "Cuenca": 5, "": 7}


def test_a_group_whose_sum_is_zero_stays(wide: WideTable) -> None:
    wide.update("sales", insert=[{**NEW, "price": -5}])
    assert by(wide, "city") == {"Quito": 70, "Cuenca": 0}


def test_nulls_come_to_a_column_that_had_none(wide: WideTable) -> None:
    wide.update("sales", insert=[{**NEW, "price": None}])
    assert wide.query(
        ["city"], measures={"n": "count(*)", "known": "count(price)"}
    ).arrow().sort_by("city").to_pydict() == {
        "city": ["Cuenca", "Quito"],
        "n": [2, 3],
        "known": [1, 3],
    }
    wide.update("sales", delete="price is not null")
    assert total(wide) == {"n": 1, "revenue": None, "dearest": None}
    assert wide.at(0).query().rows() == [TOTAL]


@pytest.mark.parametrize("engine", ENGINES)
def test_max_after_the_largest_went(engine: str) -> None:
    wide = shop(engine_named(engine), {"dearest": "max(price)", "least": "min(price)"})
    wide.update("sales", delete="price = 40 or price = 5")
    assert wide.query().rows() == [{"dearest": 20, "least": 10}]
    assert by(wide, "country", "dearest") == {"E": 20}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_comes_meets_what_went_where_nothing_can_be_subtracted(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come to items and pass sales, of which rows went, on their way to where MIN is."""
    monkeypatch.setattr(revisions, "MERGE_RATIO", 0)
    measures = {"n": "count(*)", "revenue": "sum(price)", "first": "min(city)"}
    wide = shop(engine_named(engine), measures, group_by=["country"])
    wide.update("sales", delete="price = 10")
    wide.refresh()
    wide.update("items", insert=[{"item": 1, "family": "MILK"}])
    wide.refresh()
    assert wide.query(["country"]).arrow().sort_by("country").to_pylist() == [
        {"country": "E", "n": 3, "revenue": 30, "first": "Cuenca"},
        {"country": "P", "n": 1, "revenue": 40, "first": "Quito"},
    ]
    assert wide.verify([{"group_by": [column]} for column in ("country", "city", "family", "day")])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_group_of_null_stays_in_an_empty_bag(engine: str) -> None:
    """What is touched is computed anew by its keys; NULL is none."""
    declared = graph(engine_named(engine))
    tree = declared.hypertree(empty={"view": ["sales.day"]})
    wide = declared.calibrate({"dearest": "max(price)"}, tree=tree)
    wide.update("sales", insert=[{**NEW, "day": None}])
    wide.update("sales", delete="price = 40")
    wide.refresh()
    assert by(wide, "day", "dearest") == {DAY: 20, None: 7}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("large", [1e17, math.inf, math.nan])
def test_no_digits_are_lost_to_what_went(engine: str, large: float) -> None:
    """0.1 + 1e17 − 1e17 is not 0.1 in floating point; nor can an infinity be subtracted."""
    declared = ct.JoinGraph(engine=engine_named(engine))
    declared.add_relation("a", {"k": [1, 1, 2, 3], "v": [0.1, 0.2, 0.7, large]})
    declared.add_relation("b", {"k": [1, 2, 3], "g": ["x", "x", "y"]})
    declared.add_relation("c", {"g": ["x", "y"], "h": [1, 2]})
    declared.add_join("a", "b", on="k")
    declared.add_join("b", "c", on="g")
    wide = declared.calibrate({"v": "sum(v)"})
    wide.update("a", insert={"k": [1, 2], "v": [large, -large]})
    wide.query(["h"])
    wide.update("a", delete={"v": [large, -large]})
    assert wide.query().rows() == [{"v": pytest.approx(1.0, rel=1e-12)}]
    assert wide.query(["h"]).rows() == [{"h": 1, "v": pytest.approx(1.0, rel=1e-12)}]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_digits_are_lost_little_by_little(engine: str) -> None:
    large = [1e16 / 30**i for i in range(12)]
    declared = ct.JoinGraph(engine=engine_named(engine))
    declared.add_relation("a", {"k": [1] * 15, "v": [0.1, 0.2, 0.7, *large]})
    declared.add_relation("b", {"k": [1], "g": ["x"]})
    declared.add_join("a", "b", on="k")
    wide = declared.calibrate({"v": "sum(v)"}, maintenance="eager")
    for value in large:
        wide.update("a", delete={"v": [value]})
        wide.query()
    assert wide.query().rows() == [{"v": pytest.approx(1.0, rel=1e-9)}]
    assert wide.query(["g"]).rows() == [{"g": "x", "v": pytest.approx(1.0, rel=1e-9)}]


# -- versions ----------------------------------------------------------------------------------


def test_earlier_versions_can_be_asked(wide: WideTable) -> None:
    wide.update("sales", insert=[NEW])
    wide.update("sales", delete="price > 30")
    wide.update("stores", delete="city = 'Cuenca'")
    revenues = [by(wide.at(version), "city") for version in wide.versions]
    assert revenues == [
        {"Quito": 70, "Cuenca": 5},
        {"Quito": 70, "Cuenca": 12},
        {"Quito": 30, "Cuenca": 12},
        {"Quito": 30},
    ]
    assert [wide.at(v).version for v in wide.versions] == [0, 1, 2, 3]
    assert wide.at(3).at(1).version == 1


def test_what_is_held_stays_as_it_was(wide: WideTable) -> None:
    before = wide.at(wide.version)
    wide.update("sales", delete="true")
    assert total(before) == TOTAL and total(wide)["n"] == 0
    assert before.verify([{"group_by": ["city"]}, {}])


def test_the_difference_of_two_versions(wide: WideTable) -> None:
    wide.update("sales", insert=[NEW], delete="store = 3")
    wide.update("stores", insert=[{"id": 9, "city": "Loja", "region": 7}])
    wide.update("sales", insert=[{**NEW, "store": 9}])
    rows = wide.diff(0, 3, ["city"], measures=["n", "revenue"]).rows()
    assert sorted(rows, key=lambda row: str(row["city"])) == [
        {
            "city": "Cuenca",
            "n_before": 1,
            "n_after": 2,
            "n_change": 1,
            "revenue_before": 5,
            "revenue_after": 12,
            "revenue_change": 7,
        },
        {
            "city": "Loja",
            "n_before": None,
            "n_after": 1,
            "n_change": 1,
            "revenue_before": None,
            "revenue_after": 7,
            "revenue_change": 7,
        },
        {
            "city": "Quito",
            "n_before": 3,
            "n_after": 2,
            "n_change": -1,
            "revenue_before": 70,
            "revenue_after": 30,
            "revenue_change": -40,
        },
    ]
    assert wide.diff(1, 2).rows() == []
    assert [row["city"] for row in wide.diff(2, 1).query(["city"])] == []
    assert len(wide.diff(0, 1, ["city"])) == 2


def test_a_difference_may_need_more_digits(wide: WideTable) -> None:
    """The answer at one version has another type than at the other, or one that is too small."""
    wide.update("sales", insert=[{**NEW, "price": 2**62, "paid": Decimal("9.99")}] * 3)
    wide.update("sales", delete="paid is not null")
    wide.update(
        "sales", delete="true", insert=[{**NEW, "price": -(2**62), "paid": Decimal("-9.99")}]
    )
    measures = {"paid": "sum(paid)", "most": "max(paid)", "large": "max(price)"}

    def change(before: int, after: int) -> list[Any]:
        (row,) = wide.diff(before, after, measures=measures).rows()
        return [row[f"{name}_change"] for name in measures]

    assert change(0, 1) == [Decimal("29.97"), Decimal("2.99"), 2**62 - 40]
    assert change(1, 3) == [Decimal("-50.71"), Decimal("-19.98"), -(2**63)]
    assert change(3, 1) == [Decimal("50.71"), Decimal("19.98"), 2**63]
    assert change(1, 2)[0] == Decimal("-40.72") and change(2, 1)[0] == Decimal("40.72")


def test_a_difference_in_every_form() -> None:
    wide = shop()
    wide.update("sales", delete="store = 2")
    difference = wide.diff(0, 1, ["city"], measures=["n"])
    expected = {"city": ["Cuenca"], "n_before": [1], "n_after": [None], "n_change": [-1]}
    assert difference.arrow().to_pydict() == pa.table(difference).to_pydict() == expected
    assert difference.polars().to_dict(as_series=False) == expected
    assert list(difference.pandas()["city"]) == ["Cuenca"]
    assert "Cuenca" in repr(difference)


def test_only_so_many_versions_are_kept() -> None:
    wide = sums("reference")
    for _ in range(VERSIONS_KEPT):
        wide.update("items", insert=[{"item": 3, "family": "FISH"}])
    assert wide.versions == range(1, VERSIONS_KEPT + 1)
    assert wide.at(1).schema.rows("items") == 3
    with pytest.raises(UpdateError) as caught:
        wide.at(0)
    text = f"There is no version 0 any more, or not yet. There are 1 to {VERSIONS_KEPT}."
    assert str(caught.value) == text


# -- keeping fresh -----------------------------------------------------------------------------


def as_if_tables_were_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are small, computing a message is as quick as refreshing it."""
    monkeypatch.setattr(staleness, "SENDING", 0)


def is_calibrated(wide: WideTable) -> bool:
    return wide.is_calibrated


def names(keys: Any) -> set[str]:
    return set(map(str, keys))


@pytest.mark.parametrize("engine", ENGINES)
def test_lazy_refreshes_what_a_query_needs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_if_tables_were_large(monkeypatch)
    wide = sums(engine_named(engine))
    wide.update("items", insert=[{"item": 1, "family": "MILK"}])
    assert not is_calibrated(wide)
    plan = wide.plan(["country"])
    assert plan.computed == () and names(plan.refreshed) <= {
        "items→sales",
        "sales→stores",
        "stores→regions",
    }
    assert plan.refreshed
    assert "refresh" in str(plan) and "items changed" in str(plan)
    result = wide.query(["country"])
    assert result.plan.refreshed == plan.refreshed
    assert all(key in result.plan.measured for key in plan.refreshed)
    assert wide.plan(["country"]).refreshed == () == wide.plan(["country"]).computed
    assert not is_calibrated(wide)
    done = cast(Plan, wide.refresh())
    assert is_calibrated(wide) and done.computed == () and done.refreshed
    assert wide.calibration is done


@pytest.mark.parametrize("engine", ENGINES)
def test_eager_refreshes_with_every_update(engine: str) -> None:
    wide = sums(engine_named(engine), maintenance="eager")
    wide.update("sales", insert=[NEW])
    assert is_calibrated(wide)
    for group_by in ([], ["city"], ["family"], ["country"]):
        plan = wide.plan(group_by)
        assert plan.computed == () == plan.refreshed
    assert by(wide, "family") == {"DAIRY": 15, "MEAT": 67}


@pytest.mark.parametrize("engine", ENGINES)
def test_recompute_refreshes_nothing(engine: str) -> None:
    wide = sums(engine_named(engine), maintenance="recompute")
    wide.update("items", insert=[{"item": 1, "family": "MILK"}])
    plan = wide.plan(["country"])
    assert plan.refreshed == () and plan.computed
    assert not is_calibrated(wide)
    assert cast(Plan, wide.refresh()).refreshed == ()
    assert is_calibrated(wide)
    assert by(wide, "country") == {"E": 50, "P": 40}


def test_many_updates_are_refreshed_at_once(wide: WideTable) -> None:
    for _ in range(5):
        wide.update("sales", insert=[NEW])
        wide.update("items", delete="family = 'MEAT'")
        wide.update("items", insert=[{"item": 2, "family": "MEAT"}])
    assert by(wide, "family") == {"DAIRY": 15, "MEAT": 95}
    assert wide.version == 15


def test_refresh_in_the_background(wide: WideTable) -> None:
    wide.update("sales", insert=[NEW])
    done = wide.refresh(background=True)
    assert cast("Future[Plan]", done).result().refreshed
    assert is_calibrated(wide) and total(wide)["n"] == 5


def test_messages_of_an_earlier_version_are_kept_for_it(wide: WideTable) -> None:
    wide.update("sales", insert=[NEW])
    wide.refresh()
    plan = wide.at(0).plan(["city"])
    assert plan.computed == () == plan.refreshed


# -- what if -----------------------------------------------------------------------------------


def test_what_if_commits_nothing(wide: WideTable) -> None:
    supposed = wide.what_if(delete={"items": "family = 'DAIRY'"})
    assert total(supposed) == {"n": 2, "revenue": 60, "dearest": 40}
    assert total(wide) == TOTAL and wide.version == 0
    assert supposed.verify([{}, {"group_by": ["city"]}])


def test_what_if_in_every_form(wide: WideTable) -> None:
    def revenue(**supposed: Any) -> dict[Any, Any]:
        return by(wide.what_if(**supposed), "city")

    loja = {"id": 3, "city": "Loja", "region": 7}
    assert revenue(insert={"sales": [NEW]}) == {"Quito": 70, "Cuenca": 12}
    assert revenue(delete={"sales": "price > 15", "items": {"item": [1]}}) == {}
    assert revenue(update={"stores": [loja]}) == {"Quito": 30, "Cuenca": 5, "Loja": 40}
    assert revenue(update={"sales": {"price": "price * 2"}}) == {"Quito": 140, "Cuenca": 10}
    assert revenue(update={"sales": ({"price": "price + store"}, "item = 1")}) == {
        "Quito": 71,
        "Cuenca": 7,
    }
    assert revenue(update={"stores": {"city": "'Loja'", "region": "null"}}) == {}
    assert revenue(update={"sales": {"price": "null"}}) == {"Quito": None, "Cuenca": None}
    # First rows go, then they change, then they come.
    assert revenue(
        delete={"sales": "price = 40"},
        update={"sales": {"price": "price + 1"}},
        insert={"sales": [NEW]},
    ) == {"Quito": 32, "Cuenca": 13}
    assert by(wide, "city") == {"Quito": 70, "Cuenca": 5}


def test_what_ifs_of_what_ifs(wide: WideTable) -> None:
    without = wide.what_if(delete={"items": "family = 'DAIRY'"})
    double = without.what_if(update={"sales": {"price": "2 * price"}})
    assert [by(tree, "city") for tree in (wide, without, double)] == [
        {"Quito": 70, "Cuenca": 5},
        {"Quito": 60},
        {"Quito": 120},
    ]
    assert double.commit() == without.version
    assert by(without, "city") == {"Quito": 120} and total(wide) == TOTAL
    assert without.commit() == wide.version == 1
    assert by(wide, "city") == {"Quito": 120}


def test_a_what_if_can_be_updated(wide: WideTable) -> None:
    supposed = wide.what_if(delete={"sales": "store = 3"})
    supposed.update("sales", insert=[NEW])
    assert by(supposed, "city") == {"Quito": 30, "Cuenca": 12}
    assert supposed.commit() == 1
    assert by(wide, "city") == {"Quito": 30, "Cuenca": 12}


def test_a_what_if_of_more_updates_than_are_remembered(
    wide: WideTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be told any more what came since; the answer is then not computed from the one before."""
    monkeypatch.setattr(history, "CHANGES_REMEMBERED", 2)
    assert total(wide) == TOTAL
    supposed = wide.what_if()
    for _ in range(5):
        supposed.update("sales", insert=[NEW])
    assert supposed.commit() == 1
    assert total(wide) == {"n": 9, "revenue": 110, "dearest": 40}
    assert total(wide.at(0)) == TOTAL


def test_a_message_from_before_what_is_remembered(
    wide: WideTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of then are those of now without what has changed, if they are not remembered themselves."""
    monkeypatch.setattr(history, "CHANGES_REMEMBERED", 2)
    monkeypatch.setattr(history, "MIN_CHANGES_REMEMBERED", 0)
    monkeypatch.setattr(staleness, "SENDING", 0)
    for price in range(3):
        wide.update("items", insert=[{"item": 10 + price, "family": "NEW"}])
        wide.update("sales", insert=[NEW])
        wide.update("stores", insert=[{"id": 90 + price, "city": "Loja", "region": 8}])
    wide.refresh(progress=False)
    assert total(wide) == {"n": 7, "revenue": 96, "dearest": 40}


def test_what_if_it_had_been_so_then(wide: WideTable) -> None:
    wide.update("sales", delete="true")
    then = wide.at(0).what_if(insert={"sales": [NEW]})
    assert by(then, "city") == {"Quito": 70, "Cuenca": 12}
    with pytest.raises(UpdateError, match="This is version 0 as it was, and stays so"):
        then.commit()


def test_a_commit_is_rebased_where_others_changed_other_relations(wide: WideTable) -> None:
    supposed = wide.what_if(delete={"items": "family = 'DAIRY'"})
    wide.update("sales", insert=[NEW])
    assert supposed.commit() == 2
    assert by(wide, "city") == by(supposed, "city") == {"Quito": 60, "Cuenca": 7}
    assert by(wide.at(1), "city") == {"Quito": 70, "Cuenca": 12}
    supposed.update("sales", delete="price = 7")
    assert supposed.commit() == 3 and by(wide, "city") == {"Quito": 60}


def test_a_commit_conflicts_where_others_changed_the_same(wide: WideTable) -> None:
    supposed = wide.what_if(delete={"items": "family = 'DAIRY'", "sales": "price = 5"})
    wide.update("items", insert=[{"item": 2, "family": "FISH"}])
    with pytest.raises(ConflictError) as caught:
        supposed.commit()
    assert str(caught.value) == (
        "items changed since this was supposed (at version 0; now it is 1). Suppose it again on what "
        "is now."
    )
    assert wide.version == 1 and total(wide)["n"] == 6


@pytest.mark.parametrize("maintenance", ["lazy", "eager"])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_if_rows_of_a_dimension_were_not_there_touches_these(
    engine: str, maintenance: Mode
) -> None:
    """Ten rows less: the pivot is absorbed where they are, from messages as they are."""
    declared = ct.JoinGraph(engine=engine_named(engine))
    declared.add_relation("sales", {"item": [i % 100 for i in range(500)], "price": range(500)})
    declared.add_relation("items", {"item": range(100), "family": [i % 7 for i in range(100)]})
    declared.add_relation("families", {"family": range(7), "head": ["a", "b"] * 3 + ["c"]})
    declared.add_join("sales", "items", on="item")
    declared.add_join("items", "families", on="family")
    wide = declared.calibrate({"n": "count(*)", "revenue": "sum(price)"}, maintenance=maintenance)
    for condition in ("item < 10", "item between 40 and 49"):
        supposed = wide.what_if(delete={"items": condition})
        plan = supposed.plan()
        assert plan.computed == () == plan.refreshed and plan.root == "items"
        assert total(supposed)["n"] == 450
        assert supposed.query().plan.computed == ()
    assert total(wide) == {"n": 500, "revenue": sum(range(500))}


# -- wrong uses --------------------------------------------------------------------------------


class Case(NamedTuple):
    """A wrong use, and what it is answered with."""

    name: str
    call: Callable[[WideTable], object]
    error: type[CalitreeError]
    text: str


def past(wide: WideTable) -> WideTable:
    return wide.at(0)


CASES = [
    Case(
        "unknown relation",
        lambda w: w.update("sale", insert=[NEW]),
        SchemaError,
        "There is no relation 'sale'. Did you mean sales?",
    ),
    Case(
        "unknown column",
        lambda w: w.update("items", insert=[{"item": 1, "famly": "MILK"}]),
        UpdateError,
        "items has no column 'famly'. Did you mean family?",
    ),
    Case(
        "missing column",
        lambda w: w.update("stores", insert=[{"id": 1}]),
        UpdateError,
        "stores: the rows lack city, region. Give NULLs if there are no values.",
    ),
    Case(
        "wrong type",
        lambda w: w.update("items", insert=[{"item": "one", "family": "MILK"}]),
        UpdateError,
        "items.item is int64, and what is given is string: 'one' does not fit. Convert it first.",
    ),
    Case(
        "number that does not fit",
        lambda w: w.update("items", insert=[{"item": 1.5, "family": "MILK"}]),
        UpdateError,
        "items.item is int64, and what is given is double: 1.5 does not fit. Convert it first.",
    ),
    Case(
        "column given twice",
        lambda w: w.update("items", insert={"item": [1], "ITEM": [1], "family": ["MILK"]}),
        UpdateError,
        "items: some column is given twice: ['item', 'ITEM', 'family'].",
    ),
    Case(
        "text as rows",
        lambda w: w.update("items", insert="family = 'MILK'"),
        UpdateError,
        "items: rows are an Arrow table, a frame, a list of dictionaries or columns by name; got the "
        "text \"family = 'MILK'\". Only rows to delete are told by a condition.",
    ),
    Case(
        "text as rows to put in",
        lambda w: w.update("items", upsert="item = 1"),
        UpdateError,
        "items: rows are an Arrow table, a frame, a list of dictionaries or columns by name; got the "
        "text 'item = 1'. Only rows to delete are told by a condition.",
    ),
    Case(
        "number as rows",
        lambda w: w.update("items", insert=3),
        SchemaError,
        f"items: a relation cannot be made of int; it is {ACCEPTED}.",
    ),
    Case(
        "duplicate keys in upsert",
        lambda w: w.update("items", upsert={"item": [1, 1], "family": ["A", "B"]}, key="item"),
        UpdateError,
        "items: several of the rows to put in have the same item.",
    ),
    Case(
        "no key to be found",
        lambda w: w.update("sales", upsert=[NEW]),
        UpdateError,
        "sales: no columns that it joins on tell its rows apart, so say which rows are replaced: "
        "key='column', or a list of columns.",
    ),
    Case(
        "several keys",
        lambda w: w.what_if(delete={"stores": "id < 3"}).update(
            "stores", upsert=[{"id": 1, "city": "Quito", "region": 7}]
        ),
        UpdateError,
        "stores: both id and region tell its rows apart, so say which rows are replaced: "
        "key='column', or a list of columns.",
    ),
    Case(
        "unknown key",
        lambda w: w.update("items", upsert=[{"item": 1, "family": "A"}], key="itm"),
        UpdateError,
        "items has no column 'itm'. Did you mean item?",
    ),
    Case(
        "empty key",
        lambda w: w.update("items", upsert=[{"item": 1, "family": "A"}], key=[]),
        UpdateError,
        "items: a key has at least one column.",
    ),
    Case(
        "condition that is no SQL",
        lambda w: w.update("items", delete="family = ="),
        ExpressionError,
        "Cannot parse 'family = =': something is missing at '='.",
    ),
    Case(
        "nothing to do",
        lambda w: w.update("items"),
        UpdateError,
        "items: say what to insert, delete or upsert.",
    ),
    Case(
        "a key without rows to upsert",
        lambda w: w.update("items", delete="item = 7", key="item"),
        UpdateError,
        "items: key says which rows to upsert, and there are none.",
    ),
    Case(
        "condition on a column that is not there",
        lambda w: w.update("items", delete="famly = 'MILK'"),
        UpdateError,
        "items has no column 'famly'. Did you mean family?",
    ),
    Case(
        "condition on another relation",
        lambda w: w.update("items", delete="sales.price > 3"),
        UpdateError,
        "sales.price is not a column of items, whose rows this is about.",
    ),
    Case(
        "condition that is a number",
        lambda w: w.update("items", delete="item + 1"),
        ExpressionError,
        "A filter must be true or false, but 'item + 1' is an integer.",
    ),
    Case(
        "row that is not there",
        lambda w: w.update("items", delete=[{"item": 1, "family": "MEAT"}]),
        UpdateError,
        "items: 1 of the 1 rows to delete is not there: item=1, family='MEAT'.",
    ),
    Case(
        "rows that are not there",
        lambda w: w.update("items", delete={"item": range(1, 7), "family": ["DAIRY"] * 6}),
        UpdateError,
        "items: 5 of the 6 rows to delete are not there: item=2, family='DAIRY'; item=3, "
        "family='DAIRY'; item=4, family='DAIRY'; ….",
    ),
    Case(
        "update of an old version",
        lambda w: past(w).update("items", delete="true"),
        UpdateError,
        "This is version 0 as it was, and stays so. Update the tree it is of, or suppose a change "
        "with what_if.",
    ),
    Case(
        "commit of what is no what-if",
        lambda w: w.commit(),
        UpdateError,
        "Only a what-if can be committed; this is the tree itself.",
    ),
    Case(
        "version that is not there",
        lambda w: w.at(99),
        UpdateError,
        "There is no version 99 any more, or not yet. There is only version 0.",
    ),
    Case(
        "difference to a version that is not there",
        lambda w: w.diff(0, -1),
        UpdateError,
        "There is no version -1 any more, or not yet. There is only version 0.",
    ),
    Case(
        "what-if without a relation",
        lambda w: w.what_if(delete=cast(Any, "family = 'MILK'")),
        UpdateError,
        "A what-if names relations: {relation: rows or condition}; got \"family = 'MILK'\".",
    ),
    Case(
        "what-if of an unknown relation",
        lambda w: w.what_if(insert={"itms": []}),
        SchemaError,
        "There is no relation 'itms'. Did you mean items?",
    ),
    Case(
        "what-if that sets an unknown column",
        lambda w: w.what_if(update={"items": {"famly": "'MILK'"}}),
        UpdateError,
        "items has no column 'famly'. Did you mean family?",
    ),
    Case(
        "what-if that sets a column to what it cannot be",
        lambda w: w.what_if(update={"items": ({"item": "family"}, "item = 1")}),
        UpdateError,
        "items.item is int64 and cannot be family, which is string: 'DAIRY' does not fit. Cast it.",
    ),
    Case(
        "unknown maintenance",
        lambda w: shop("reference", maintenance="never"),
        QueryError,
        "maintenance is one of lazy, eager, recompute; got 'never'.",
    ),
]


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_error_says_it(case: Case, engine: str) -> None:
    wide = shop(engine)
    with pytest.raises(CalitreeError) as caught:
        case.call(wide)
    assert (type(caught.value), str(caught.value)) == (case.error, case.text)
    assert wide.version == 0 and total(wide) == TOTAL
