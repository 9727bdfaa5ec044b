"""The hybrid engine: scans of large relations in Spark's tasks, everything else in this process."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.calibration.branch import Branch
from calitree.engines.api.contraction import Contraction, Input, Output
from calitree.engines.hybrid import HybridEngine
from calitree.engines.local import LocalEngine
from calitree.errors import EngineError, SchemaError
from calitree.wide_table import WideTable
from tests.support.engines import spark_frame
from tests.support.sales import JOINS, database

MEASURES = {
    "n": "count(*)",
    "units": "sum(units)",
    "price": "sum(price * oil)",
    "paid": "sum(paid)",
    "mean": "avg(cost)",
    "first": "min(label)",
    "last": "max(day)",
    "any": "bool_or(flag)",
    "spread": "stddev_samp(units)",
}
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"group_by": ["city"]},
    {"group_by": ["family", "city"]},
    {"group_by": ["sales.date", "sales.store"]},
    {"group_by": ["label", "offer"], "where": "city <> 'c1' and units > 3"},
    {"where": "price > oil and family in (1, 2)", "group_by": ["offers.rank"]},
    {"relations": ["sales", "stores"], "group_by": ["city"], "measures": ["n", "units"]},
    {"where": "units > 1000"},
    {"measures": {"busy": "sum(guests * units)"}, "group_by": ["oil.date"]},
]


def files(tables: Mapping[str, pa.Table], directory: Path, rows: int = 700) -> dict[str, str]:
    """Each table as a Parquet file with several row groups."""
    paths = {}
    for name, table in tables.items():
        paths[name] = str(directory / f"{name}.parquet")
        pq.write_table(table, paths[name], row_group_size=rows)
    return paths


def graph(sources: Mapping[str, Any], engine: Any) -> ct.JoinGraph:
    join_graph = ct.JoinGraph(engine)
    for name, source in sources.items():
        join_graph.add_relation(name, source)
    for left, right, on in JOINS:
        join_graph.add_join(left, right, on=on)
    return join_graph


class Spying(HybridEngine):
    """Counts the contractions that went to Spark."""

    sent = 0

    def _in_tasks(self, *arguments: Any) -> Any:
        self.sent += 1
        return super()._in_tasks(*arguments)


def hybrid(spark: Any, split: int = 1500, **limits: int) -> Spying:
    """Tasks that read a few row groups each."""
    engine = Spying(spark, **limits)
    engine.tasks.split = split
    return engine


@pytest.mark.parametrize("nulls", [False, True])
def test_the_same_answers_as_in_one_process(spark: Any, tmp_path: Path, nulls: bool) -> None:
    tables = database(5000, nulls)
    engine = hybrid(spark, in_process=100_000)
    large = graph(files(tables, tmp_path), engine)
    wide = large.calibrate(MEASURES, memory_limit=0)
    assert engine.sent == 1, "one pass for all messages"
    here = graph(tables, "local").calibrate(MEASURES)
    asked_alike(wide, here)


def test_questions_that_need_no_large_relation_never_call_spark(spark: Any, tmp_path: Path) -> None:
    engine = hybrid(spark, in_process=100_000)
    wide = graph(files(database(3000), tmp_path), engine).calibrate(MEASURES)
    engine.__class__ = type("Alone", (Spying,), {"session": property(lambda self: 1 / 0)})
    wide.query()
    wide.query(group_by=["city"], where="city <> 'c0'")
    wide.query(group_by=["family"])
    assert engine.sent == 1
    with pytest.raises(ZeroDivisionError):
        wide.query(group_by=["family", "city"])


def test_small_files_stay_in_this_process(tmp_path: Path) -> None:
    engine = HybridEngine()
    wide = graph(files(database(2000), tmp_path), engine).calibrate(MEASURES)
    assert wide.query().rows()[0]["n"] > 0
    assert engine.spark.runtime.started is None


def test_all_relations_on_spark(spark: Any, tmp_path: Path) -> None:
    tables = database(1500, nulls=True)
    engine = hybrid(spark, in_process=0)
    wide = graph(files(tables, tmp_path), engine).calibrate({"n": "count(*)", "m": "max(offer)"})
    here = graph(tables, "local").calibrate({"n": "count(*)", "m": "max(offer)"})
    assert not compare(wide.query().arrow(), here.query().arrow(), 0)
    assert engine.sent > 5


def test_an_empty_relation(spark: Any, tmp_path: Path) -> None:
    tables = database(1500)
    tables["sales"] = tables["sales"].slice(0, 0)
    engine = hybrid(spark, in_process=-1)
    wide = graph(files(tables, tmp_path), engine).calibrate(MEASURES)
    assert wide.query().rows()[0]["n"] == 0
    assert wide.query(group_by=["city"]).rows() == []


def test_sums_beyond_64_bits_over_several_tasks(spark: Any, tmp_path: Path) -> None:
    big = pa.table({"k": pa.array([1] * 6), "x": pa.array([2**62] * 6)})
    sources = files({"a": big, "b": pa.table({"k": [1]})}, tmp_path, rows=2)
    join_graph = ct.JoinGraph(hybrid(spark, in_process=-1, split=2))
    for name, source in sources.items():
        join_graph.add_relation(name, source)
    join_graph.add_join("a", "b", on="k")
    answer = join_graph.calibrate({"s": "sum(x)", "n": "count(*)"}).query()
    assert answer.rows() == [{"s": 6 * 2**62, "n": 6}]
    assert answer.exact


def test_only_columns_that_are_needed_are_read(spark: Any, tmp_path: Path) -> None:
    engine = hybrid(spark, in_process=100_000)
    wide = graph(files(database(3000), tmp_path), engine).calibrate({"units": "sum(units)"})
    seen: list[set[str]] = []
    partial_messages = engine.tasks._partial_messages

    def spied(rows: Any, scan: Any, source: Any, *others: Any) -> Any:
        seen.append(set(source.types))
        return partial_messages(rows, scan, source, *others)

    engine.tasks._partial_messages = spied  # type: ignore[method-assign]
    wide.query(group_by=["city", "family"], where="sales.label = 'l3'")
    assert seen == [{"date", "store", "item", "units", "label"}]


def asked_alike(wide: ct.WideTable, here: ct.WideTable, questions: Any = None) -> None:
    """The same answers, and as exact."""
    for question in QUESTIONS if questions is None else questions:
        answer, expected = wide.query(**question), here.query(**question)
        keys = len(question.get("group_by", ()))
        assert not compare(answer.arrow(), expected.arrow(), keys), question
        assert answer.exact == expected.exact, question


def ways(wide: ct.WideTable, **question: Any) -> set[str]:
    """How the contractions of a question were computed."""
    return {
        measured.how.partition(":")[0] for measured in wide.query(**question).plan.measured.values()
    }


@pytest.mark.parametrize("nulls", [False, True])
def test_frames_of_spark(spark: Any, nulls: bool) -> None:
    """Their rows are known to Spark alone: it hands them over, or it computes."""
    tables = database(3000, nulls)
    frames = {name: spark_frame(spark, table) for name, table in tables.items()}
    wide = graph(frames, HybridEngine(spark, in_process=-1)).calibrate(MEASURES, memory_limit=0)
    here = graph(tables, "local").calibrate(MEASURES)
    asked_alike(wide, here)
    plan = wide.plan(group_by=["label"])
    assert "by Spark SQL: 1 message of" in str(plan)
    assert "a query costs less than handing over the rows" in str(plan)


def test_many_messages_of_a_frame_in_one_pass(spark: Any) -> None:
    tables = database(4000, nulls=True)
    sources: dict[str, Any] = {**tables, "sales": spark_frame(spark, tables["sales"])}
    engine = HybridEngine(spark, in_process=100_000)
    wide = graph(sources, engine).calibrate(MEASURES)
    assert wide.calibration is not None
    (step,) = [s for s in wide.calibration.steps if s.bag == "sales"]
    assert {wide.calibration.measured[send.key].how for send in step.sends} == {
        "in Spark's tasks, on rows that Spark reads: 5 messages of 9 columns of sales in one pass "
        "cost less than 5 queries"
    }
    asked_alike(wide, graph(tables, "local").calibrate(MEASURES))


def test_messages_too_large_for_tasks_go_by_sql(spark: Any, tmp_path: Path) -> None:
    tables = database(3000, nulls=True)
    sources = files(tables, tmp_path)
    engine = HybridEngine(spark, in_process=100_000, broadcast=10)
    wide = graph(sources, engine).calibrate(MEASURES, memory_limit=0)
    asked_alike(wide, graph(tables, "local").calibrate(MEASURES))
    assert ways(wide, group_by=["label"]) == {"by Spark SQL"}
    assert "are more than the 10 bytes that go with tasks" in str(wide.plan(group_by=["label"]))


def test_results_too_large_to_come_home_stay_on_spark(spark: Any, tmp_path: Path) -> None:
    tables = database(3000, nulls=True)
    engine = hybrid(spark, in_process=100_000, collect=40_000)
    wide = graph(files(tables, tmp_path), engine).calibrate({"n": "count(*)", "u": "sum(units)"})
    here = graph(tables, "local").calibrate({"n": "count(*)", "u": "sum(units)"})
    question: dict[str, Any] = {"group_by": ["sales.date", "sales.item", "label", "sales.store"]}
    answer = wide.query(**question)
    with pytest.raises(EngineError, match=r"This has 2,\d{3} rows, .* Take it with \.spark\(\)"):
        answer.arrow()
    assert len(answer) == len(here.query(**question))
    assert "1 of 1 too large to come home, so by Spark SQL" in str(answer.plan)
    assert not compare(answer.spark().toArrow(), here.query(**question).arrow(), 4)
    asked_alike(wide, here, [{}, {"group_by": ["city"]}])


def test_messages_too_large_to_come_home_serve_from_spark(spark: Any, tmp_path: Path) -> None:
    tables = database(3000, nulls=True)
    engine = hybrid(spark, in_process=100_000, collect=3_000)
    wide = graph(files(tables, tmp_path), engine).calibrate({"n": "count(*)", "u": "sum(units)"})
    here = graph(tables, "local").calibrate({"n": "count(*)", "u": "sum(units)"})
    assert "rows has stayed on Spark" in str(wide.plan(group_by=["guests"]))
    for question in QUESTIONS[:2]:
        answer = wide.query(**{**question, "measures": ["n", "u"]})
        keys = len(question.get("group_by", ()))
        assert not compare(answer.spark().toArrow(), here.query(**question).arrow(), keys)


def test_parts_summed_by_other_tasks(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.engines.hybrid.driver.MAX_TASKS_MERGED_BY_DRIVER", 1)
    tables = database(3000, nulls=True)
    engine = hybrid(spark, in_process=100_000, split=700)
    wide = graph(files(tables, tmp_path), engine).calibrate(MEASURES)
    asked_alike(wide, graph(tables, "local").calibrate(MEASURES))


def test_relations_that_share_a_bag(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    tables = {
        name: pa.table({column: rng.integers(0, 9, 60) for column in pair})
        for name, pair in {"R": "ab", "S": "bc", "T": "ca"}.items()
    }

    def triangle(sources: Mapping[str, Any], engine: Any) -> ct.WideTable:
        join_graph = ct.JoinGraph(engine)
        for name, source in sources.items():
            join_graph.add_relation(name, source)
        for left, right, on in (("R", "S", "b"), ("S", "T", "c"), ("R", "T", "a")):
            join_graph.add_join(left, right, on=on)
        return join_graph.calibrate()

    wide = triangle(files(tables, tmp_path), HybridEngine(spark, in_process=-1))
    here = triangle(tables, "local")
    asked_alike(wide, here, [{}, {"group_by": ["R.a"]}, {"where": "R.a > S.b"}])
    assert "share a bag, and not all of them fit here" in str(wide.plan())


def test_a_table_of_the_catalogue(spark: Any) -> None:
    spark.range(20).selectExpr("id AS k", "id % 3 AS g").createOrReplaceTempView("some_dimension")
    join_graph = ct.JoinGraph(HybridEngine(spark))
    join_graph.add_relation("d", "some_dimension")
    join_graph.add_relation("f", {"k": [1, 1, 2, 99], "x": [1, 2, 3, 4]})
    join_graph.add_join("d", "f", on="k")
    wide = join_graph.calibrate({"x": "sum(x)"})
    assert sorted(wide.query(group_by=["g"]).rows(), key=str) == [
        {"g": 1, "x": 3},
        {"g": 2, "x": 3},
    ]
    assert ways(wide, group_by=["g"]) == {"here"}, "it is small, so it has come home"
    with pytest.raises(SchemaError, match="neither a file nor a Spark table called 'no_such'"):
        join_graph.add_relation("n", "no_such")


def test_verify_asks_duckdb_of_tables_that_can_come_here(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = hybrid(spark, in_process=100_000)
    wide = graph(files(database(5000), tmp_path), engine).calibrate({"n": "count(*)"})
    for limit in (256 << 20, 0):  # with the second it reads the files itself
        monkeypatch.setattr("calitree.apps.verify.plain.MAX_BYTES_HERE", limit)
        checked = wide.verify()
        assert checked and checked.built_by == "DuckDB"
        assert all(check.verbatim for check in checked.checks)
    assert engine.is_on_spark(relation.table for relation in wide.schema.relations.values())


def test_a_filter_that_leaves_few_row_groups_needs_no_spark(tmp_path: Path) -> None:
    tables = database(5000, nulls=True)
    tables["sales"] = tables["sales"].sort_by("date")
    join_graph = graph(files(tables, tmp_path, rows=200), HybridEngine(in_process=100_000))
    wide = WideTable(
        Branch.new(
            join_graph.schema,
            join_graph.engine,
            join_graph.hypertree(),
            measures={"u": "sum(units)"},
        )
    )
    here = graph(tables, "local").calibrate({"u": "sum(units)"})
    question: dict[str, Any] = {"group_by": ["label"], "where": "sales.date = 7"}
    assert not compare(wide.query(**question).arrow(), here.query(**question).arrow(), 1)
    assert any(
        re.fullmatch(
            r"here, from the row groups that a filter leaves: [12] of 25 row groups of sales, "
            r"\d{3} rows",
            measured.how,
        )
        for measured in wide.query(**question).plan.measured.values()
    )
    assert join_graph.engine.spark.runtime.started is None  # type: ignore[attr-defined]


def test_row_groups_that_no_row_passes_are_not_read(spark: Any, tmp_path: Path) -> None:
    tables = database(5000, nulls=True)
    tables["sales"] = tables["sales"].sort_by("date")
    engine = hybrid(spark, in_process=30_000)
    join_graph = graph(files(tables, tmp_path, rows=200), engine)
    wide = WideTable(
        Branch.new(join_graph.schema, engine, join_graph.hypertree(), measures={"u": "sum(units)"})
    )
    here = graph(tables, "local").calibrate({"u": "sum(units)"})
    question: dict[str, Any] = {"group_by": ["label"], "where": "sales.date >= 12"}
    answer = wide.query(**question)
    assert not compare(answer.arrow(), here.query(**question).arrow(), 1)
    assert re.search(r"read the files: 1\d of 25 row groups of sales", str(answer.plan))


def test_a_file_that_has_changed_is_not_read(spark: Any, tmp_path: Path) -> None:
    sources = files(database(2000), tmp_path)
    join_graph = graph(sources, hybrid(spark, in_process=-1))
    pq.write_table(database(2500)["sales"], sources["sales"])
    with pytest.raises(EngineError, match="has changed since it was added"):
        join_graph.calibrate()


def test_a_failing_task_is_explained(spark: Any, tmp_path: Path) -> None:
    sources = files(database(5000), tmp_path)
    wide = graph(sources, hybrid(spark, in_process=100_000)).calibrate()
    with pytest.raises(EngineError) as caught:
        wide.query(where="CAST(label AS INT) > 3")
    assert re.fullmatch(
        r"Spark could not compute messages from sales \(\d splits\): In CAST\(label AS INT\) > 3: "
        r"'l\d+' is not a valid integer; TRY_CAST would give NULL instead\. "
        r"\(reading .*/sales\.parquet, row groups \d to \d\)",
        str(caught.value),
    )


def test_local_is_the_engine_inside() -> None:
    assert isinstance(ct.JoinGraph("hybrid").engine.local, LocalEngine)  # type: ignore[attr-defined]


def test_a_contraction_goes_once_nobody_needs_it() -> None:
    engine = HybridEngine()
    table = engine.load("t", {"k": [1, 2]})
    contraction = Contraction((Input(table, {"t.k": "k"}),), (Output((0,), (), ("t.k",), ()),))
    assert engine.contract(contraction)[0].rows == 2 and engine.how(contraction)
    left = weakref.ref(contraction)
    del contraction
    gc.collect()
    assert left() is None
