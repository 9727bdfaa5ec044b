"""Under any memory limit answers are right, and the limit holds, for as long as a process asks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calitree as ct
from tests.support.engines import engine_named, spark_engine_named

ROOT = Path(__file__).parents[2]
LIMITS = [0, 3_000, 60_000, None]
FROM = "sales JOIN stores USING (store) JOIN items USING (item)"
MEASURES = {"n": "count(*)", "revenue": "sum(price)"}


def tables() -> dict[str, pa.Table]:
    random = np.random.default_rng(5)
    rows = 200
    return {
        "sales": pa.table(
            {
                "id": np.arange(rows),
                "store": random.integers(0, 12, rows),
                "item": random.integers(0, 30, rows),
                "price": random.integers(1, 500, rows),
                "note": [f"n{i % 37}" for i in range(rows)],
            }
        ),
        "stores": pa.table({"store": np.arange(10), "city": [f"c{i % 4}" for i in range(10)]}),
        "items": pa.table({"item": np.arange(30), "family": [f"f{i % 6}" for i in range(30)]}),
    }


QUESTIONS: list[dict[str, Any]] = [
    {"group_by": ["city"]},
    {"group_by": ["family", "city"], "where": "price > 100 and note <> 'n3'"},
    {"group_by": ["note"], "where": "family like 'f%' and city <> 'c1'"},
    {"group_by": ["family"], "measures": {"m": "sum(price * 3 + id)", "a": "avg(price)"}},
    {"group_by": ["city"], "measures": {"most": "max(note)", "least": "min(price)"}},
    {"where": "price between 20 and 300 or id < 50", "measures": {"n": "count(*)"}},
]


class Twin:
    """The tree, and the same tables in DuckDB, which joins them really."""

    def __init__(self, engine: Any, limit: int | None, sources: dict[str, Any]) -> None:
        graph = ct.JoinGraph(engine=engine)
        self.duck = duckdb.connect()
        for name, data in tables().items():
            graph.add_relation(name, sources.get(name, data))
            self.duck.register("given", data)
            self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        graph.add_join("sales", "stores", on="store")
        graph.add_join("sales", "items", on="item")
        self.wide = graph.calibrate(MEASURES, memory_limit=limit, progress=False)

    def check(self, wide: ct.WideTable | None = None) -> None:
        tree = self.wide if wide is None else wide
        for question in QUESTIONS:
            keys = question.get("group_by", [])
            measures = question.get("measures", MEASURES)
            columns = [*keys, *(f"{text} AS {name}" for name, text in measures.items())]
            sql = f"SELECT {', '.join(columns)} FROM {FROM} WHERE {question.get('where', 'true')}"
            sql += f" GROUP BY {', '.join(keys)}" if keys else ""
            wanted = sorted(self.duck.execute(sql).fetchall(), key=repr)
            rows = [tuple(row.values()) for row in tree.query(**question).rows()]
            assert sorted(rows, key=repr) == wanted, question
            memory = tree.memory()
            assert memory.kept_bytes <= memory.limit

    def change(self) -> None:
        rows = [{"id": 900, "store": 3, "item": 4, "price": 77, "note": "new"}]
        self.wide.update("sales", insert=rows)
        self.duck.execute("INSERT INTO sales VALUES (900, 3, 4, 77, 'new')")
        self.wide.update("sales", delete="id < 40")
        self.duck.execute("DELETE FROM sales WHERE id < 40")
        self.wide.update("stores", upsert=[{"store": 1, "city": "c9"}], key="store")
        self.duck.execute("UPDATE stores SET city = 'c9' WHERE store = 1")


def sources(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """All tables as files, which are read when a question needs a column."""
    for name, data in tables().items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(data, path, row_group_size=100)
        yield name, str(path)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("engine", ["reference", "local", "local, scanning"])
@pytest.mark.parametrize("in_files", [False, True], ids=["in memory", "in files"])
def test_answers_are_right(engine: str, limit: int | None, in_files: bool, tmp_path: Path) -> None:
    if in_files and engine == "reference":
        pytest.skip("it reads all at once")
    twin = Twin(engine_named(engine), limit, dict(sources(tmp_path)) if in_files else {})
    for _ in range(2):
        twin.check()
        twin.change()
    twin.check()
    if engine == "local":
        twin.check(twin.wide.what_if())
        twin.wide.save(tmp_path / "tree")
        twin.check(ct.open(tmp_path / "tree", "local", memory_limit=limit))


@pytest.mark.spark
@pytest.mark.parametrize("limit", [0, 60_000])
@pytest.mark.parametrize("engine", ["spark", "hybrid, files"])
def test_answers_of_spark_are_right(engine: str, limit: int, spark: Any, tmp_path: Path) -> None:
    given = dict(sources(tmp_path)) if engine == "spark" else {}  # the other writes files itself
    twin = Twin(spark_engine_named(engine, spark, tmp_path), limit, given)
    twin.check()


def soak(*arguments: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What must hold at the end, and the curve up to there."""
    command = [sys.executable, "-m", "tests.torture.memory_soak", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *curve, last = map(json.loads, done.stdout.splitlines())
    for line in curve:
        print(line)
    print(last, done.stderr, sep="\n")
    return last, curve


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody tells what is resident")
def test_a_process_stays_within_its_limit() -> None:
    """Before there was a budget, so many measures took some 60 MB more at any limit.

    What questions need while they are answered comes and goes, but allocators hold on to some 30 MB of it.
    """
    limit = 12 << 20
    last, curve = soak(40, 300, 40, limit)
    assert all(line["kept"] <= limit for line in curve)
    assert last["resident"] - last["base"] <= limit + (40 << 20)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="nobody tells what is resident")
def test_a_process_stays_within_its_limit_for_long() -> None:
    last, _ = soak(20_000, 20_000, 5_000, 64 << 20)
    assert last["resident"] <= 1.2 * (last["base"] + last["limit"])
