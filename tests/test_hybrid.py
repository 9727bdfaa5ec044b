"""The hybrid engine: scans of large relations in Spark's tasks, everything else in this process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.engines.hybrid import HybridEngine
from calitree.engines.local import LocalEngine
from calitree.engines.spark_tasks import Tasks
from calitree.errors import EngineError
from calitree.verify import compare
from tests.sales import JOINS, database

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
    found = {}
    for name, table in tables.items():
        found[name] = str(directory / f"{name}.parquet")
        pq.write_table(table, found[name], row_group_size=rows)
    return found


def graph(sources: Mapping[str, Any], engine: Any) -> ct.JoinGraph:
    made = ct.JoinGraph(engine)
    for name, source in sources.items():
        made.add_relation(name, source)
    for left, right, on in JOINS:
        made.add_join(left, right, on=on)
    return made


class Spying(HybridEngine):
    """Counts the contractions that went to Spark."""

    sent = 0

    def _in_tasks(self, contraction: Any, relation: int) -> Any:
        self.sent += 1
        return super()._in_tasks(contraction, relation)


def hybrid(spark: Any, in_process: int, split: int = 1500) -> Spying:
    """Tasks that read a few row groups each."""
    from calitree.engines.spark_jobs import Jobs

    engine = Spying(spark, in_process)
    engine._tasks = Tasks(engine.local, Jobs(), split)
    return engine


@pytest.mark.parametrize("nulls", [False, True])
def test_the_same_answers_as_in_one_process(spark: Any, tmp_path: Path, nulls: bool) -> None:
    tables = database(5000, nulls)
    engine = hybrid(spark, in_process=100_000)
    large = graph(files(tables, tmp_path), engine)
    wide = large.calibrate(MEASURES, memory_limit=0)
    assert engine.sent == 2, "one pass for the mean that stddev needs, one for all messages"
    here = graph(tables, "local").calibrate(MEASURES)
    for question in QUESTIONS:
        found, expected = wide.query(**question), here.query(**question)
        keys = len(question.get("group_by", ()))
        assert not compare(found.arrow(), expected.arrow(), keys), question
        assert found.exact == expected.exact


def test_questions_that_need_no_large_relation_never_call_spark(spark: Any, tmp_path: Path) -> None:
    engine = hybrid(spark, in_process=100_000)
    wide = graph(files(database(3000), tmp_path), engine).calibrate(MEASURES)
    engine._session = None
    engine.__class__ = type("Alone", (Spying,), {"session": property(lambda self: 1 / 0)})
    wide.query()
    wide.query(group_by=["city"], where="city <> 'c0'")
    wide.query(group_by=["family"])
    assert engine.sent == 2
    with pytest.raises(ZeroDivisionError):
        wide.query(group_by=["family", "city"])


def test_small_files_stay_in_this_process(tmp_path: Path) -> None:
    engine = HybridEngine()
    wide = graph(files(database(2000), tmp_path), engine).calibrate(MEASURES)
    assert wide.query().rows()[0]["n"] > 0
    assert engine._session is None


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
    made = ct.JoinGraph(hybrid(spark, in_process=-1, split=2))
    for name, source in sources.items():
        made.add_relation(name, source)
    made.add_join("a", "b", on="k")
    found = made.calibrate({"s": "sum(x)", "n": "count(*)"}).query()
    assert found.rows() == [{"s": float(6 * 2**62), "n": 6}]
    assert not found.exact


def test_only_columns_that_are_needed_are_read(spark: Any, tmp_path: Path) -> None:
    engine = hybrid(spark, in_process=100_000)
    wide = graph(files(database(3000), tmp_path), engine).calibrate({"units": "sum(units)"})
    seen: list[set[str]] = []
    tasks = engine._tasks
    assert tasks is not None
    work = tasks._work

    def spied(*arguments: Any) -> Any:
        made = work(*arguments)
        seen.append(set(made.types))
        return made

    tasks._work = spied  # type: ignore[method-assign]
    wide.query(group_by=["city", "family"], where="sales.label = 'l3'")
    assert seen == [{"date", "store", "item", "units", "label"}]


def test_what_it_cannot_do_is_said(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(3)
    with pytest.raises(EngineError) as caught:
        ct.JoinGraph(HybridEngine(spark)).add_relation("r", frame)
    assert str(caught.value) == (
        "r: a Spark DataFrame needs engine='spark'; the hybrid engine takes its files."
    )
    tables = {name: pa.table({a: [1], b: [1]}) for name, (a, b) in
              {"R": "ab", "S": "bc", "T": "ca"}.items()}  # fmt: skip
    made = ct.JoinGraph(HybridEngine(spark, in_process=-1))
    for name, path in files(tables, tmp_path).items():
        made.add_relation(name, path)
    for left, right, on in (("R", "S", "b"), ("S", "T", "c"), ("R", "T", "a")):
        made.add_join(left, right, on=on)
    with pytest.raises(EngineError, match="Relations that share a bag are joined in this process"):
        made.calibrate().query()


def test_a_file_that_has_changed_is_not_read(spark: Any, tmp_path: Path) -> None:
    sources = files(database(2000), tmp_path)
    made = graph(sources, hybrid(spark, in_process=-1))
    pq.write_table(database(2500)["sales"], sources["sales"])
    with pytest.raises(EngineError, match="has changed since it was added"):
        made.calibrate()


def test_a_failing_task_is_explained(spark: Any, tmp_path: Path) -> None:
    sources = files(database(5000), tmp_path)
    wide = graph(sources, hybrid(spark, in_process=100_000)).calibrate()
    with pytest.raises(EngineError) as caught:
        wide.query(where="CAST(label AS INT) > 3")
    assert re.fullmatch(
        r"Spark could not compute messages from sales \(\d splits\): ExpressionError: In "
        r"CAST\(label AS BIGINT\) > 3: 'l\d+' is not a valid integer; TRY_CAST would give NULL instead\.",
        str(caught.value),
    )


def test_local_is_the_engine_inside() -> None:
    assert isinstance(ct.JoinGraph("hybrid").engine.local, LocalEngine)  # type: ignore[attr-defined]
