"""Rows that keep coming: every batch is in the tree exactly once, whatever happens on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.engines.hybrid import HybridEngine
from calitree.errors import UpdateError

KILLS = 30
SOON = 60.0
"""Seconds after which something that should happen soon has not happened."""


def calibrated(engine: Any = "local", **options: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", {"store": [1, 2, 2], "units": [1, 10, 100]})
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"units": "sum(units)", "n": "count(*)"}, **options)


def put(directory: Path, name: str, **columns: list[Any]) -> None:
    """A file that comes whole."""
    directory.mkdir(exist_ok=True)
    hidden = directory / f".{name}"
    pq.write_table(pa.table(columns), hidden)
    hidden.rename(directory / name)


def total(wide: ct.WideTable) -> tuple[int, int]:
    (row,) = wide.query().rows()
    return row["n"], row["units"]


def test_files_put_into_a_directory_are_batches(tmp_path: Path) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", store=[1], units=[1_000])
    (incoming / "_SUCCESS").touch()
    (incoming / "notes.txt").write_text("no rows")
    with wide.stream("sales", incoming, every=0.01) as stream:
        stream.drain()
        assert total(wide) == (4, 1_111)
        put(incoming, "b.parquet", store=[2, 2], units=[10_000, 0])
        (incoming / "c.csv").write_text("units,store\n5,1\n")
        stream.drain()
        assert total(wide) == (7, 11_116)
        assert wide.version == 3, "a version for each file"
        assert stream.is_active and not stream.wait(0.01)
    assert not stream.is_active and stream.wait(0)
    assert total(wide.at(1)) == (4, 1_111)
    put(incoming, "d.parquet", store=[1], units=[1])
    with wide.stream("sales", incoming, every=0.01) as again:
        again.drain()
    assert total(wide) == (8, 11_117), "the files before are not taken again"


def test_a_watched_directory_is_looked_at_by_itself(tmp_path: Path) -> None:
    wide, incoming = calibrated(maintenance="eager"), tmp_path / "incoming"
    incoming.mkdir()
    with wide.stream("sales", str(incoming), every=0.01):
        put(incoming, "a.parquet", store=[1], units=[1_000])
        until = time.monotonic() + SOON
        while wide.version == 0 and time.monotonic() < until:
            time.sleep(0.01)
    assert total(wide) == (4, 1_111) and wide.is_calibrated


def test_a_column_tells_which_rows_come_and_which_go(tmp_path: Path) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", op=["insert", "DELETE"], store=[1, 2], units=[7, 100])
    with wide.stream("sales", incoming, change="op") as stream:
        stream.drain()
    assert total(wide) == (3, 18)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"store": [1], "units": ["many"]},
            {},
            "sales.units is int64, and what is given is string: Failed to parse string: 'many' as a "
            "scalar of type int64.",
        ),
        (
            {"store": [1], "units": [1], "op": ["maybe"]},
            {"change": "op"},
            "op = 'maybe' does not tell whether a row of sales comes or goes; write 1 and -1, or "
            "'insert' and 'delete'.",
        ),
        (
            {"store": [1], "units": [1]},
            {"change": "op"},
            "The stream into sales has no column 'op' that tells which rows come and which go; it has "
            "store, units.",
        ),
        (
            {"store": [9], "units": [1], "op": [-1]},
            {"change": "op"},
            "sales: 1 of the 1 rows to delete is not there: store=9, units=1.",
        ),
    ],
)
def test_a_bad_batch_ends_the_stream_and_changes_nothing(
    tmp_path: Path, columns: dict[str, list[Any]], options: dict[str, Any], message: str
) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", **columns)
    stream = wide.stream("sales", incoming, every=0.01, **options)
    with pytest.raises(UpdateError) as caught:
        stream.wait(SOON)
    assert str(caught.value) == message
    assert not stream.is_active and wide.version == 0


@pytest.mark.parametrize(
    ("relation", "source", "options", "message"),
    [
        ("sale", "there", {}, "There is no relation 'sale'. Did you mean sales?"),
        ("sales", "nowhere", {}, "There is no directory nowhere to take files from."),
        (
            "sales",
            {"store": [1], "units": [1]},
            {},
            "A stream is a streaming Spark frame (spark.readStream…) or a directory that files are "
            "put into; got dict. Rows that are there already are for update().",
        ),
        ("sales", "there", {"every": -1}, "every is a number of seconds; got -1."),
    ],
)
def test_wrong_uses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    relation: str,
    source: Any,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    with pytest.raises(ct.CalitreeError) as caught:
        calibrated().stream(relation, source, **options)
    assert str(caught.value) == message


def test_an_old_version_takes_no_rows(tmp_path: Path) -> None:
    wide = calibrated()
    wide.update("sales", insert=[{"store": 1, "units": 1}])
    with pytest.raises(UpdateError, match="This is version 0 as it was, and stays so"):
        wide.at(0).stream("sales", tmp_path)


def test_a_saved_tree_is_saved_with_each_batch(tmp_path: Path) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    put(incoming, "a.parquet", store=[1], units=[1_000])
    with wide.stream("sales", incoming) as stream:
        stream.drain()
    opened = ct.open(tree, engine="local")
    assert total(opened) == (4, 1_111)
    put(incoming, "b.parquet", store=[1], units=[5])
    with opened.stream("sales", incoming) as stream:
        stream.drain()
    assert total(ct.open(tree, engine="local")) == (5, 1_116), "a.parquet is known"


WRITER = """
import os, signal, sys
from pathlib import Path
import calitree as ct
import calitree.engines.local.tables.lazy, calitree.stream

tree, incoming = sys.argv[1:]
ct.open(tree, engine="local").query()  # so that its loops are compiled
for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            wide = ct.open(tree, engine="local")
            with wide.stream("sales", incoming, every=0) as stream:
                stream.wait()
        finally:
            os._exit(1)
    print(child, flush=True)
    os.waitpid(child, 0)
"""


def killed_again_and_again(directory: Path, kills: int) -> None:
    tree, incoming = directory / "tree", directory / "incoming"
    calibrated().save(tree)
    incoming.mkdir()
    command = [sys.executable, "-c", WRITER, str(tree), str(incoming)]
    chance, files = random.Random(0), 0
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(kills):
            process.stdin.write("\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            for _ in range(chance.randrange(4)):
                put(incoming, f"{files}.parquet", store=[1], units=[10**6])
                files += 1
            time.sleep(chance.random() * 0.15)
            os.kill(child, signal.SIGKILL)
            n, units = total(ct.open(tree, engine="local"))
            assert n <= 3 + files and units == 111 + (n - 3) * 10**6
        process.stdin.close()
    wide = ct.open(tree, engine="local")
    with wide.stream("sales", incoming) as stream:
        stream.drain()
    assert total(ct.open(tree, engine="local")) == (3 + files, 111 + files * 10**6)


def test_a_stream_that_is_killed_loses_nothing_and_takes_nothing_twice(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, KILLS)


@pytest.mark.slow
def test_a_stream_that_is_killed_two_hundred_times(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 200)


# -- Spark ----------------------------------------------------------------------------------------


def streaming(spark: Any, incoming: Path) -> Any:
    reader = spark.readStream.schema("store long, units long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(incoming))


@pytest.mark.parametrize("engine", ["hybrid", "spark", "local"])
def test_structured_streaming(spark: Any, tmp_path: Path, engine: str) -> None:
    chosen: Any = HybridEngine(spark) if engine == "hybrid" else engine
    wide, incoming = calibrated(chosen), tmp_path / "incoming"
    for i in range(3):
        put(incoming, f"{i}.parquet", store=[1 + i % 2], units=[10 ** (3 + i)])
    with wide.stream("sales", streaming(spark, incoming)) as stream:
        stream.drain()
        assert stream.is_active
        assert total(wide) == (6, 111_111)
        put(incoming, "3.parquet", store=[3, None], units=[1, 1])
        stream.drain()
    assert not stream.is_active
    assert total(wide) == (6, 111_111), "they join nothing"
    assert wide.version == 4


def test_structured_streaming_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    tree, incoming = tmp_path / "tree", tmp_path / "incoming"
    wide = calibrated(HybridEngine(spark))
    wide.save(tree)
    put(incoming, "0.parquet", store=[1], units=[1_000])
    with wide.stream("sales", streaming(spark, incoming)) as stream:
        stream.drain()
    # As after a crash between our commit and Spark's: Spark sends the last batch again.
    for commit in (tree / "streams" / "sales" / "commits").glob("*0*"):
        commit.unlink()
    put(incoming, "1.parquet", store=[2], units=[10_000])
    opened = ct.open(tree, engine=HybridEngine(spark))
    assert total(opened) == (4, 1_111)
    with opened.stream("sales", streaming(spark, incoming)) as stream:
        stream.drain()
    assert total(opened) == (5, 11_111)
    assert total(ct.open(tree, engine="local")) == (5, 11_111)


def test_an_error_in_a_batch_of_spark_is_told(spark: Any, tmp_path: Path) -> None:
    wide, incoming = calibrated(HybridEngine(spark)), tmp_path / "incoming"
    put(incoming, "0.parquet", store=[9], units=[1])
    frame = streaming(spark, incoming).selectExpr("store", "units", "-1 AS op")
    stream = wide.stream("sales", frame, change="op")
    with pytest.raises(UpdateError, match="sales: 1 of the 1 rows to delete is not there"):
        stream.drain()
    assert wide.version == 0
