"""Benchmarks of updates at tiny sizes: what they ask for is what they say, and the answers agree."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import lazy, removals, stream
from benchmarks.__main__ import main
from benchmarks.data import Star
from benchmarks.frame import Race
from benchmarks.lazy import OPERATIONS, READS, Workload, workload
from benchmarks.opponents import DuckDB
from benchmarks.questions import TOTAL
from benchmarks.removals import ROWS_A_REMOVAL, as_rows, by_condition, by_keys, sql_without
from benchmarks.standing import Asked, check
from benchmarks.tpcds_questions import Question
from benchmarks.triangle_updates import cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def little_garbage() -> Iterator[None]:
    """A collection comes before every turn; what is there before the test need not be looked at."""
    gc.freeze()
    yield
    gc.unfreeze()


def results(name: str, tmp_path: Path, *given: str) -> dict[str, dict[str, Any]]:
    """Of a run in which all agree."""
    path = tmp_path / "result.json"
    common = ["--repeat", "1", "--data", str(tmp_path), "--json", str(path)]
    assert main([name, *given, *common]) == 0
    written = json.loads(path.read_text())
    assert written["complete"] is True
    assert written["disagreements"] == []
    lines = {line["name"]: line for line in written["results"]}
    assert len(lines) == len(written["results"]), "no two lines have the same name"
    for line in lines.values():
        assert line.get("agree", True) is True
    return lines


def test_whatif_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removals, "POOL", 50)
    lines = results("whatif", tmp_path, "--rows", "5000")
    assert len(lines) == 37
    raced = [line for line in lines.values() if line["against"]]
    assert len(raced) == 29 and all(line["agree"] for line in raced)
    for kind in ("by keys", "as rows", "by a condition"):
        limits = [bar.get("at_least", bar.get("at_most")) for bar in bars(lines, f"items {kind}")]
        assert limits == [150e-6, 10_000]
    assert [bar["at_least"] for bar in bars(lines, "transactions by keys")] == [1_000]
    growth = lines["one item replaced, then total: 10,000 over 2,500"]
    assert growth["bars"][0]["field"] == "times_smallest"


def bars(lines: dict[str, dict[str, Any]], removed: str) -> list[dict[str, Any]]:
    return list(lines[f"{ROWS_A_REMOVAL} {removed}: total"]["bars"])


def test_rows_are_removed_in_sql_as_in_calitree() -> None:
    """The rows that calitree is told are those that do not meet the condition of the others."""
    import duckdb

    tables, rng = Star(100, 3).tables(), np.random.default_rng(1)
    pools = {
        "items": [by_keys("items", tables["items"], rng), as_rows("items", tables["items"], rng)],
        "transactions": [by_keys("transactions", tables["transactions"], rng)],
    }
    for name, pool in pools.items():
        columns = tables[name].column_names
        for entries in pool:
            (removal,) = entries[5]
            with duckdb.connect() as connection:
                connection.register(name, tables[name])
                gone = connection.sql(f"FROM {name} WHERE NOT ({removal.rest})").to_arrow_table()
            names = removal.given.column_names
            order = [(column, "ascending") for column in names]
            assert gone.select(names).sort_by(order).equals(removal.given.sort_by(order))
            assert gone.num_rows == ROWS_A_REMOVAL and gone.column_names == columns
    conditions = [removal.given for (removal,) in by_condition(tables["items"], rng)]
    assert len(set(conditions)) == len(conditions), "a new one every time"
    ((removal,), *_) = by_condition(tables["items"], rng)
    assert sql_without(TOTAL, (removal, removal)).endswith(
        f"WHERE NOT ({removal.given}) AND NOT ({removal.given})"
    )


def test_answers_of_duckdb_are_asked_by_their_sql(tmp_path: Path) -> None:
    asked = Asked(DuckDB({}), 1)
    sql = "SELECT 1 AS a, 2 AS n"
    race = Race(1)
    assert check(race, "same", {sql: asked[sql]}, asked, "us and DuckDB")
    assert not check(race, "other", {sql: asked["SELECT 1 AS a, 3 AS n"]}, asked, "us and DuckDB")
    (disagreement,) = race.disagreements
    assert disagreement["difference"] == f"{sql}: n of [1] is 3, not 2"


# -- lazy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 1, 50, 100])
def test_a_workload_has_its_share_of_reads(share: int) -> None:
    sales = pa.table({"k": pa.array([1, 2, 3], pa.int32())})
    workloads = [workload(share, sales, np.random.default_rng(4)) for _ in range(2)]
    reads = [operation for operation in workloads[0].operations if isinstance(operation, Question)]
    rows = [
        operation for operation in workloads[0].operations if not isinstance(operation, Question)
    ]
    assert len(reads) == share and len(rows) == OPERATIONS - share
    assert set(reads[: len(READS)]) == set(READS[:share])
    assert all(row.num_rows == 1 and row.schema == sales.schema for row in rows)
    assert workloads[0].operations == workloads[1].operations, "the seed decides"
    assert workloads[0].is_mixed == (share in (1, 50))


def test_the_last_read_is_where_it_is() -> None:
    row = pa.table({"k": [1]})
    assert Workload(50, (row, READS[0], READS[1], row)).last_read == 2
    assert Workload(0, (row, row)).last_read is None


@pytest.mark.slow
def test_lazy_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "SHARES", (0, 1, 50, 100))
    lines = results("lazy", tmp_path, "--scale", "0.01")
    assert len(lines) == 3 * 4 + 1
    one = lines["local: 1 % reads, lazy"]
    assert [bar["at_least"] for bar in one["bars"]] == [20, pytest.approx(1 / 1.1)]
    assert lines["local: lazy update of one row"]["bars"][0]["at_most"] == 100e-6
    assert lines["local: 50 % reads, eager or anew"]["against"] == "recompute"


@pytest.mark.slow
def test_lazy_agrees_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "SHARES", (5,))
    monkeypatch.setattr(lazy, "DIMENSIONS", 1 << 20)  # the sales are Spark's
    monkeypatch.setattr(lazy, "OPERATIONS", 20)
    monkeypatch.setattr(lazy, "UPDATES", 5)
    lines = results("lazy", tmp_path, "--scale", "0.01", "--engine", "spark")
    assert len(lines) == 3 + 1
    assert lines["spark: lazy update of one row"]["runs"] == 5


# -- stream ----------------------------------------------------------------------------------------


def test_stream_agrees(tmp_path: Path) -> None:
    lines = results("stream", tmp_path, "--rows", "5000", "--batches", "5")
    assert len(lines) == 3
    batch = lines["1,000 rows, all messages"]
    assert batch["agree"] is True and batch["runs"] == 5
    assert batch["bars"][0]["at_most"] == 0.02
    memory = lines["this process: memory of the last quarter over the second"]
    assert 0 < memory["bytes_first"] <= memory["bytes_max"] and memory["samples"] == 6


@pytest.mark.slow
def test_stream_agrees_on_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SAMPLE_EVERY", 0.5)
    monkeypatch.setattr(stream, "DIMENSIONS", 1 << 10)  # the sales are Spark's
    given = ("--rows", "5000", "--batches", "5", "--spark", "--minutes", "0.1")
    lines = results("stream", tmp_path, *given)
    batch = lines["Spark: a batch of files of 1,000 rows"]
    assert batch["agree"] is True
    assert 0 < batch["batches"] <= batch["files"] and batch["rows"] == 1000 * batch["files"]
    assert lines["Spark: the JVM: memory of the last quarter over the second"]["bytes_last"] > 0


# -- triangles -------------------------------------------------------------------------------------


def test_the_data_of_the_paper() -> None:
    balanced, unbalanced = cases(100)
    assert balanced.rows == unbalanced.rows == {"R": 10_000, "S": 10_000, "T": 10_000}
    assert balanced.tables["S"].equals(unbalanced.tables["S"])
    assert len(unbalanced.tables["R"].column("a").unique()) == 1
    assert len(unbalanced.tables["T"].column("c").unique()) == 10_000


def test_triangle_updates_agree(tmp_path: Path) -> None:
    lines = results("triangle_updates", tmp_path, "--side", "5")
    assert len(lines) == 2 * (2 + 2 * (2 + 2))
    reduced, redundant = (
        lines[f"unbalanced: calibrate and count, {tree}"] for tree in ("reduced", "redundant")
    )
    assert reduced["bytes"] == 0 < redundant["bytes"]
    for name in ("balanced", "unbalanced"):
        assert lines[f"{name}: 25 rows of S and count, redundant"]["against"] == "DuckDB"
        assert lines[f"{name}: 1 rows of S, refresh after it, reduced"]["seconds"] > 0
