"""Saved trees: what is opened answers as what was saved, and reads no more than it must."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import calitree as ct
from calitree.engines.local import LocalEngine
from calitree.engines.spark import SparkEngine
from calitree.saved.directory import Directory
from calitree.saved.manifest import FORMAT
from calitree.storage.table_format import write_parquet
from calitree.wide_table import WideTable
from tests.support import sales
from tests.support.engines import LOCAL, engine_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES: dict[str, Any] = {
    "n": "count(*)",
    "price": "sum(price)",
    "guests": "sum(units * guests)",
    "paid": "sum(paid * cost)",
    "spread": "stddev_samp(units)",
    "label": "max(label)",
    "day": "min(day)",
    "at": "max(at)",
    "since": "max(since)",
    "flag": "bool_or(flag)",
    "flags": "bool_and(flag)",
    "own": ct.aggregate(ct.semiring.AVG, {"sales": {"n": "1", "s": "units"}}, final="s / n"),
}
QUESTIONS: list[dict[str, Any]] = [
    {},
    {"group_by": ["city"]},
    {"group_by": ["family", "city"], "where": "oil.oil > 0.5"},
    {"group_by": ["label"], "measures": ["n", "paid"]},
    {"group_by": ["sales.date"], "where": "family = 3 and city <> 'c1'"},
    {"group_by": ["sales.day"], "where": "units > 30", "measures": ["n", "at", "spread"]},
    {"group_by": ["offer"], "measures": {"worth": "sum(rank * units)", "far": "max(price)"}},
    {"group_by": ["city"], "relations": ["sales", "stores"], "measures": ["n", "price", "label"]},
    {"where": "city = 'nowhere'"},
]


def calibrated(engine: Any, rows: int = 400, **pivot: Any) -> WideTable:
    return sales.graph(sales.database(rows, nulls=True), engine).calibrate(MEASURES, **pivot)


def answer(wide: WideTable, question: dict[str, Any]) -> list[dict[str, Any]]:
    def key(row: dict[str, Any]) -> str:
        return repr([str(row[column]) for column in question.get("group_by", ())])

    return [
        {k: pytest.approx(v, rel=1e-9, nan_ok=True) if isinstance(v, float) else v for k, v in r.items()}
        for r in sorted(wide.query(**question).rows(), key=key)
    ]  # fmt: skip


def test_a_view_of_columns_that_one_relation_has(tmp_path: Path) -> None:
    """A message to it has only those of its columns that its sender's side has."""
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
    graph.add_relation("stores", {"store": [1, 2], "city": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    tree = graph.hypertree(empty={"view": ["sales.store", "sales.price"]})
    graph.calibrate({"n": "count(*)"}, tree=tree).save(tmp_path / "tree")
    opened = ct.open(tmp_path / "tree", "local")
    assert answer(opened, {"group_by": ["city"]}) == [
        {"city": "Cuenca", "n": 1},
        {"city": "Quito", "n": 2},
    ]


Answers = list[tuple[list[dict[str, Any]], bool]]


def answers(wide: WideTable) -> Answers:
    """To all questions, with whether they are exact."""
    return [(answer(wide, question), wide.query(**question).exact) for question in QUESTIONS]


def same(opened: WideTable, live: WideTable | Answers) -> None:
    """All questions have the same answers."""
    expected = answers(live) if isinstance(live, WideTable) else live
    for question, (rows, exact) in zip(QUESTIONS, expected, strict=True):
        result = opened.query(**question)
        assert answer(opened, question) == rows, question
        assert result.exact == exact


def files(path: Path) -> dict[str, int]:
    return {
        str(file.relative_to(path)): file.stat().st_mtime_ns
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("pivot", [{}, {"group_by": ["city"], "where": "family < 5"}])
@pytest.mark.parametrize("opening", LOCAL)
@pytest.mark.parametrize("saving", LOCAL)
def test_what_is_opened_answers_as_what_was_saved(
    saving: str, opening: str, pivot: dict[str, Any], tmp_path: Path
) -> None:
    live = calibrated(engine_named(saving), **pivot)
    assert live.save(tmp_path / "tree") == 1
    opened = ct.open(tmp_path / "tree", engine=engine_named(opening))
    assert opened.is_calibrated
    assert opened.plan(**pivot).computed == ()
    same(opened, live)


def test_messages_of_delta_queries_are_saved_too(tmp_path: Path) -> None:
    live = calibrated("local")
    question = {"group_by": ["city"], "where": "family = 3"}
    assert live.query(**question).plan.computed
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    assert len(opened.state.store) == len(live.state.store)
    assert opened.plan(**question).computed == ()
    assert answer(opened, question) == answer(live, question)
    # They may go again, and then they are read again.
    assert opened.state.store.kept_bytes > 0
    opened.state.store.memory_limit = opened.state.store.kept_bytes
    opened.query(group_by=["city"], where="family = 4")
    assert len(opened.state.store) > len(live.state.store)
    assert opened.plan(**question).computed == ()


def test_opening_reads_the_manifest_and_nothing_else(tmp_path: Path) -> None:
    calibrated("local").save(tmp_path)
    calibrated("local").save(tmp_path)
    shutil.move(tmp_path / "messages", tmp_path / "away")
    (tmp_path / "manifests" / "000000000001.json").unlink()
    for file in (tmp_path / "relations").iterdir():
        file.unlink()
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    assert opened.plan(group_by=["city"]).reused
    with pytest.raises(ct.SavedError, match=r"not there.*reload\(\)"):
        opened.query()


@pytest.fixture
def no_java() -> dict[str, str]:
    here = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    return {**here, "PATH": "/nonexistent"}


def test_opening_needs_no_spark(tmp_path: Path, no_java: dict[str, str]) -> None:
    live = calibrated("local")
    live.save(tmp_path)
    program = (
        "import sys, calitree as ct\n"
        f"wide = ct.open({str(tmp_path)!r}, engine='local')\n"
        "rows = wide.query(group_by=['city'], measures=['n']).rows()\n"
        "assert not any(name.startswith('pyspark') for name in sys.modules)\n"
        "print(sorted((row['city'], row['n']) for row in rows))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=no_java
    )
    rows = live.query(group_by=["city"], measures=["n"]).rows()
    assert done.stdout.strip() == str(sorted((row["city"], row["n"]) for row in rows))


# -- relations ------------------------------------------------------------------------------------


def shop(path: Path, engine: Any = "local", rows: int = 50) -> ct.JoinGraph:
    """A large relation in two files, a small one in a file, and one in this process."""
    (path / "sales").mkdir(parents=True, exist_ok=True)
    for part in range(2):
        keys = pa.array([(i + part) % 7 for i in range(rows)])
        table = pa.table({"store": keys, "units": pa.array(range(rows)), "pad": ["x" * 50] * rows})
        parquet.write_table(table, path / "sales" / f"part {part}.parquet", compression="none")
    stores = pa.table({"store": range(6), "town": [0, 0, 1, 1, 2, None]})
    parquet.write_table(stores, path / "stores.parquet")
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", str(path / "sales"))
    graph.add_relation("stores", str(path / "stores.parquet"))
    graph.add_relation("towns", {"town": [0, 1, 2], "name": ["Quito", "Cuenca", None]})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    return graph


BY_NAME: dict[str, Any] = {"group_by": ["name"]}
BY_UNITS: dict[str, Any] = {"group_by": ["name"], "where": "units > 20"}


def test_large_relations_are_referenced(tmp_path: Path) -> None:
    live = shop(tmp_path).calibrate({"n": "count(*)", "units": "sum(units)"})
    live.save(tmp_path / "tree", copy_below=2000)
    status = ct.saved.status(tmp_path / "tree")
    assert {relation.name: relation.where for relation in status.relations} == {
        "sales": "in 2 files",
        "stores": "copied",
        "towns": "copied",
    }
    assert "relation sales, 100 rows, in 2 files" in str(status)
    opened = ct.open(tmp_path / "tree", engine="local")
    for question in (BY_NAME, BY_UNITS):
        assert answer(opened, question) == answer(live, question)


def test_a_relation_that_is_gone_is_missed_only_where_it_is_needed(tmp_path: Path) -> None:
    live = shop(tmp_path).calibrate({"n": "count(*)", "units": "sum(units)"})
    live.save(tmp_path / "tree", copy_below=2000)
    shutil.move(tmp_path / "sales", tmp_path / "away")
    opened = ct.open(tmp_path / "tree", engine="local")
    assert answer(opened, BY_NAME) == answer(live, BY_NAME)
    for question in (BY_UNITS, BY_UNITS):
        with pytest.raises(
            ct.EngineError, match=r"rows of sales, and .*part 0.parquet is not there"
        ):
            opened.query(**question)
    (missing,) = [r for r in ct.saved.status(tmp_path / "tree").relations if r.problem]
    assert missing.name == "sales"
    shutil.move(tmp_path / "away", tmp_path / "sales")
    assert answer(opened, BY_UNITS) == answer(live, BY_UNITS)


@pytest.mark.parametrize("gone", ["sales", "stores", "towns"])
def test_another_root_is_taken_if_the_cheapest_is_gone(tmp_path: Path, gone: str) -> None:
    live = shop(tmp_path, rows=4).calibrate({"n": "count(*)", "units": "sum(units)"})
    live.save(tmp_path / "tree")
    for file in (tmp_path / "tree" / "relations").glob(f"{gone}-*"):
        file.unlink()
    opened = ct.open(tmp_path / "tree", engine="local")
    assert answer(opened, {}) == answer(live, {})
    for relation, column in {"sales": "units", "stores": "town", "towns": "name"}.items():
        question = {"group_by": [f"{relation}.{column}"]}
        if relation != gone:
            assert answer(opened, question) == answer(live, question)


def test_a_relation_that_has_changed_is_not_read(tmp_path: Path) -> None:
    live = shop(tmp_path).calibrate()
    live.save(tmp_path / "tree", copy_below=2000)
    shop(tmp_path, rows=51)
    opened = ct.open(tmp_path / "tree", engine="local")
    assert answer(opened, BY_NAME) == answer(live, BY_NAME)
    with pytest.raises(ct.EngineError, match=r"sales, and .* has changed since the tree was saved"):
        opened.query(**BY_UNITS)


def test_a_directory_can_be_moved(tmp_path: Path) -> None:
    live = calibrated("local")
    live.save(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    same(ct.open(tmp_path / "there", engine="local"), live)


def test_names_of_relations_and_columns_need_not_be_simple(tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("a/b ü", {"k.x": [1, 2, None], "a `b`": ["x", None, "x"]})
    graph.add_relation("B", {"y z": [1, 2, 2], "v": [1.5, None, 2.0]})
    graph.add_join("a/b ü", "B", on={"k.x": "y z"})
    live = graph.calibrate({"v": "sum(v)"}, group_by=["a `b`"])
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    for question in ({}, {"group_by": ["a `b`"]}, {"group_by": ["y z"], "where": "v > 1"}):
        assert answer(opened, question) == answer(live, question)


TYPES = {
    "time zone": pa.array([0, 1, None], pa.timestamp("ms", "Europe/Berlin")),
    "nanoseconds": pa.array([1, 1001, None], pa.timestamp("ns")),
    "nanoseconds, zone": pa.array([1, 1001, None], pa.timestamp("ns", "UTC")),
    "time": pa.array([1, 2, None], pa.time32("s")),
    "duration": pa.array([1, 2, None], pa.duration("ms")),
    "decimal": pa.array([1, 2, None]).cast(pa.decimal256(60, 3)),
    "bytes": pa.array([b"a", b"", None], pa.large_binary()),
    "view": pa.array(["a", "", None], pa.string_view()),
    "dictionary": pa.array(["a", "", None]).dictionary_encode(),
    "unsigned": pa.array([2**64 - 1, 1, None], pa.uint64()),
    "null": pa.nulls(3),
    "date": pa.array([0, 86_400_000, None], pa.date64()),
    "flag": pa.array([True, False, None]),
    "float": pa.array([float("nan"), -0.0, None], pa.float32()),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_stay(name: str, tmp_path: Path) -> None:
    """As the key of a message, and as what it carries."""
    graph = ct.JoinGraph("local")
    graph.add_relation("a", pa.table({"k": TYPES[name], "i": [1, 2, 3]}))
    graph.add_relation("b", pa.table({"k": TYPES[name], "j": [4, 5, 6]}))
    graph.add_join("a", "b", on="k")
    measures = {"n": "count(*)"}
    if name != "null":
        measures["least"] = "max(a.k)" if name != "flag" else "bool_or(a.k)"
    live = graph.calibrate(measures)
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    for question in ({}, {"group_by": ["k"]}, {"group_by": ["i"]}, {"where": "j > 4"}):
        answered, expected = opened.query(**question).arrow(), live.query(**question).arrow()
        assert answered.schema == expected.schema
        assert repr(answered.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("engine", LOCAL)
def test_empty_relations(engine: str, tmp_path: Path) -> None:
    graph = ct.JoinGraph(engine_named(engine))
    graph.add_relation(
        "a", pa.table({"k": pa.array([], pa.int32()), "x": pa.array([], pa.string())})
    )
    graph.add_relation("b", {"k": [1, 2], "y": [1.0, None]})
    graph.add_join("a", "b", on="k")
    live = graph.calibrate({"n": "count(*)", "y": "sum(y)", "x": "max(x)"})
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine_named(engine))
    assert opened.is_calibrated
    for question in ({}, {"group_by": ["a.x"]}, {"relations": ["b"], "measures": ["y"]}):
        assert answer(opened, question) == answer(live, question)


def test_one_relation_and_messages_without_columns(tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("a", {"k": [1, 2], "x": [3, 4]})
    graph.calibrate({"x": "sum(x)"}).save(tmp_path / "one")
    assert ct.open(tmp_path / "one", engine="local").query().rows() == [{"x": 7}]
    graph.add_relation("b", {"k": [1, 1]})
    graph.add_join("a", "b", on="k")
    graph.calibrate({"x": "max(x)"}).save(tmp_path / "two")
    opened = ct.open(tmp_path / "two", engine="local")
    assert opened.is_calibrated and opened.query().rows() == [{"x": 3}]


# -- versions -------------------------------------------------------------------------------------


def test_saving_again_writes_what_is_new(tmp_path: Path) -> None:
    live = calibrated("local")
    assert live.save(tmp_path) == 1
    first = files(tmp_path)
    assert live.save(tmp_path) == 2
    second = files(tmp_path)
    assert second.keys() - first.keys() == {"manifests/000000000002.json"}
    live.query(group_by=["city"], where="family = 3")
    kept = len(live.state.store) - len(live.state.store.pinned)
    assert live.save(tmp_path) == 3
    third = files(tmp_path)
    assert len(third.keys() - second.keys()) == 1 + kept
    opened = ct.open(tmp_path, engine="local")
    opened.query(group_by=["family"])
    assert opened.save(tmp_path) == 4
    assert files(tmp_path).keys() - third.keys() == {"manifests/000000000004.json"}
    assert {name: third[name] for name in first} == first
    assert "version 4 of" in repr(opened)
    same(ct.open(tmp_path, version=4, engine="local"), live)


def test_an_opened_tree_is_saved_elsewhere(tmp_path: Path) -> None:
    live = calibrated("local")
    live.query(group_by=["city"], where="family = 3")
    live.save(tmp_path / "one")
    opened = ct.open(tmp_path / "one", engine="local")
    opened.query(group_by=["city"])
    opened.save(tmp_path / "two")
    shutil.rmtree(tmp_path / "one")
    again = ct.open(tmp_path / "two", engine="local")
    assert len(again.state.store) == len(live.state.store)
    same(again, live)


def test_older_versions_can_be_read(tmp_path: Path) -> None:
    first, second = calibrated("local"), calibrated("local", rows=300)
    first.save(tmp_path)
    reader = ct.open(tmp_path, engine="local")
    assert second.save(tmp_path) == 2
    same(ct.open(tmp_path, version=1, engine="local"), first)
    same(reader, first)
    same(ct.open(tmp_path, engine="local"), second)


def test_vacuuming(tmp_path: Path) -> None:
    first, second = calibrated("local"), calibrated("local", rows=300)
    first.save(tmp_path)
    second.save(tmp_path)
    (tmp_path / "messages" / "left.parquet").write_bytes(b"")
    (tmp_path / "messages" / "left by Spark.parquet").mkdir()
    (tmp_path / "manifests" / ".left").write_bytes(b"")
    before = files(tmp_path)
    # Somebody may be about to name these.
    assert ct.saved.vacuum(tmp_path, keep=2) == []
    old = time.time() - 3000
    os.utime(tmp_path / "messages" / "left.parquet", (old, old))
    assert ct.saved.vacuum(tmp_path, keep=2) == []
    assert ct.saved.vacuum(tmp_path, keep=2, grace=40) == ["messages/left.parquet"]
    assert ct.saved.vacuum(tmp_path, keep=2, grace=0) == [
        "manifests/.left",
        "messages/left by Spark.parquet",
    ]
    same(ct.open(tmp_path, version=1, engine="local"), first)
    assert ct.saved.vacuum(tmp_path) == ["manifests/000000000001.json"]
    assert ct.saved.status(tmp_path).versions == (2,)
    # The files of a version that goes are nobody else's.
    assert ct.saved.vacuum(tmp_path, grace=0)
    assert files(tmp_path).items() < before.items()
    assert ct.saved.vacuum(tmp_path, grace=0) == []
    same(ct.open(tmp_path, engine="local"), second)
    with pytest.raises(ct.SavedError, match="keep is at least 1"):
        ct.saved.vacuum(tmp_path, keep=0)
    with pytest.raises(ct.SavedError, match="grace is a number of minutes"):
        ct.saved.vacuum(tmp_path, grace=-1)


def test_what_was_vacuumed_away_is_written_again(tmp_path: Path) -> None:
    live = calibrated("local")
    live.save(tmp_path)
    for file in (*(tmp_path / "messages").iterdir(), *(tmp_path / "relations").iterdir()):
        file.unlink()
    assert live.save() == 2
    same(ct.open(tmp_path, engine="local"), live)


def test_two_writers_make_two_versions(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    directory.make("manifests")
    assert directory.create("manifests/1", b"mine")
    assert not directory.create("manifests/1", b"yours")
    assert directory.read("manifests/1") == b"mine"
    assert directory.names("manifests") == {"1"}
    program = (
        "import calitree as ct\n"
        f"wide = ct.open({str(tmp_path / 'tree')!r}, engine='local')\n"
        f"print([wide.save({str(tmp_path / 'tree')!r}) for _ in range(20)])"
    )
    live = calibrated("local", rows=20)
    live.save(tmp_path / "tree")
    writers = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)
    ]
    numbers = [json.loads(writer.communicate()[0]) for writer in writers]
    assert sorted(numbers[0] + numbers[1]) == list(range(2, 42))
    assert not set(numbers[0]) & set(numbers[1])
    same(ct.open(tmp_path / "tree", engine="local"), live)


def test_a_tree_is_asked_and_updated_while_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save takes the tree as it is when it begins, and holds nobody up while it writes."""
    wide = calibrated("local")
    before = answers(wide)
    write, writing, go_on = LocalEngine.write, Event(), Event()

    def slowly(*given: Any) -> Any:
        writing.set()
        assert go_on.wait(60)
        return write(*given)

    monkeypatch.setattr(LocalEngine, "write", slowly)
    with ThreadPoolExecutor(2) as pool:
        saving = pool.submit(wide.save, tmp_path)
        assert writing.wait(60)
        updating = pool.submit(wide.update, "stores", delete="city = 'c1'")
        assert updating.result(timeout=60) == 1
        assert answers(wide) != before
        assert not saving.done()
        go_on.set()
        assert saving.result(timeout=60) == 1
    same(ct.open(tmp_path, engine="local"), before)
    assert wide.save() == 2
    same(ct.open(tmp_path, engine="local"), wide)


def test_a_disk_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    live = calibrated("local")
    assert [live.save(tmp_path) for _ in range(3)] == [1, 2, 3]
    assert not Directory(tmp_path).create("manifests/000000000003.json", b"")
    assert len(files(tmp_path / "manifests")) == 3
    same(ct.open(tmp_path, engine="local"), live)


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("a", {"k": [1], "x": [3]})
    graph.add_relation("b", {"k": [1]})
    graph.add_join("a", "b", on="k")

    def refuse(table: pa.Table, path: str) -> None:
        if table.column_names == ["k"]:
            raise pa.ArrowInvalid("this cannot be written")
        write_parquet(table, path)

    monkeypatch.setattr("calitree.saved.relation_writer.write_parquet", refuse)
    with pytest.raises(ct.SavedError, match="b cannot be written as Parquet"):
        graph.calibrate().save(tmp_path)
    assert files(tmp_path) == {}


# -- other file systems ---------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[str]:
    from fsspec.implementations.memory import MemoryFileSystem

    MemoryFileSystem.store.clear()
    yield "memory://trees/a tree"
    MemoryFileSystem.store.clear()


def test_through_fsspec(memory: str) -> None:
    live = calibrated("local")
    assert live.save(memory) == 1 and live.save(memory + "/") == 2
    opened = ct.open(memory, engine="local")
    same(opened, live)
    opened.query(group_by=["sales.label"], where="family = 1")
    assert opened.save(memory) == 3
    assert not Directory(memory).create("manifests/000000000003.json", b"")
    assert ct.saved.status(memory).versions == (1, 2, 3)
    Directory(memory).create("messages/left", b"")
    assert Directory(memory).age("messages/left") < 60
    assert ct.saved.vacuum(memory) == ["manifests/000000000001.json", "manifests/000000000002.json"]
    assert ct.saved.vacuum(memory, grace=0) == ["messages/left"]
    same(ct.open(memory, engine="local"), live)


def test_by_a_url_of_this_machine(tmp_path: Path) -> None:
    live = calibrated("local")
    url = f"file://{tmp_path}/tree"
    live.save(url)
    same(ct.open(url, engine="local"), live)
    same(ct.open(tmp_path / "tree", engine="local"), live)


# -- errors ---------------------------------------------------------------------------------------


def test_what_is_no_saved_tree(tmp_path: Path) -> None:
    with pytest.raises(ct.SavedError, match=r"There is no directory .*/nothing\."):
        ct.open(tmp_path / "nothing", engine="local")
    with pytest.raises(ct.SavedError, match="is no saved tree"):
        ct.open(tmp_path, engine="local")
    with pytest.raises(ct.SavedError, match="is no saved tree"):
        ct.saved.vacuum(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ct.SavedError, match=r"Cannot use .*file"):
        calibrated("local", rows=5).save(tmp_path / "file")
    calibrated("local", rows=5).save(tmp_path)
    with pytest.raises(ct.SavedError, match="has no version 7; there are: 1"):
        ct.open(tmp_path, version=7, engine="local")


def test_formats_and_damage(tmp_path: Path) -> None:
    live = calibrated("local", rows=5)
    live.save(tmp_path)
    live.save(tmp_path)
    manifest = tmp_path / "manifests" / "000000000002.json"
    whole = manifest.read_text()
    newer = whole.replace(f'"format": {FORMAT}', '"format": 99')
    assert newer != whole
    manifest.write_text(newer)
    with pytest.raises(ct.SavedError, match=f"has format 99, and this .* formats 1 to {FORMAT}"):
        ct.open(tmp_path, engine="local")
    for damaged in (whole[:100], "", "[]", whole.replace('"n": "count(*)"', '"n": "count(1)"')):
        assert damaged != whole
        manifest.write_text(damaged)
        with pytest.raises(ct.SavedError, match=r"is damaged: .* Other versions are there: 1"):
            ct.open(tmp_path, engine="local")
    ct.open(tmp_path, version=1, engine="local")


def test_a_damaged_message(tmp_path: Path) -> None:
    live = calibrated("local", rows=5)
    live.save(tmp_path)
    for file in (tmp_path / "messages").iterdir():
        file.write_bytes(b"PAR1")
    opened = ct.open(tmp_path, engine="local")
    with pytest.warns(ct.DamagedWarning, match=r"messages.*has 4 bytes.* computed anew"):
        assert opened.query().rows() == live.query().rows()


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    graph = sales.graph(sales.database(5), "local")
    compiled = graph.calibrate({"m": "sum(units)"}).snapshot.pivot.query.measures[0][1]
    with pytest.raises(ct.SavedError, match="Measure 'm' cannot be saved: it is a Measure"):
        graph.calibrate({"m": compiled}).save(tmp_path)
    with pytest.raises(ct.SavedError, match="reference engine cannot be saved"):
        sales.graph(sales.database(5), "reference").calibrate().save(tmp_path)
    graph.calibrate().save(tmp_path)
    with pytest.raises(ct.SavedError, match="reference engine cannot open"):
        ct.open(tmp_path, engine="reference")
    with pytest.raises(ct.EngineError, match="no engine 'nope'"):
        ct.open(tmp_path, engine="nope")


# -- between engines ------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [1 << 24, -1], ids=["by this process", "by Spark"])
def test_from_spark_to_local_and_back(
    spark: SparkSession, tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.engines.spark.saved.MAX_COLLECTED_BYTES", small)
    live = calibrated(SparkEngine(spark), rows=60)
    live.save(tmp_path / "spark")
    expected = answers(calibrated("local", rows=60))
    opened = ct.open(tmp_path / "spark", engine=LocalEngine())
    assert opened.is_calibrated
    same(opened, expected)
    opened.save(tmp_path / "local")
    again = ct.open(tmp_path / "local", engine=SparkEngine(spark))
    assert again.is_calibrated
    same(again, expected)
    by_spark = [path for path in (tmp_path / "spark" / "messages").iterdir() if path.is_dir()]
    assert bool(by_spark) == (small < 0)


@pytest.mark.parametrize("small", [1 << 24, -1], ids=["by this process", "by Spark"])
def test_from_local_to_spark(
    spark: SparkSession, tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.engines.spark.saved.MAX_COLLECTED_BYTES", small)
    live = calibrated("local", rows=60, group_by=["city", "sales.label"])
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine=SparkEngine(spark))
    assert opened.is_calibrated
    same(opened, live)


@pytest.mark.parametrize("small", [1 << 24, -1], ids=["by this process", "by Spark"])
def test_types_between_spark_and_local(
    spark: SparkSession, tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("calitree.engines.spark.saved.MAX_COLLECTED_BYTES", small)
    columns = {
        "zone": pa.array([10**15, 5, None, 5], pa.timestamp("us", "Europe/Berlin")),
        "plain": pa.array([10**15, 5, None, 5], pa.timestamp("us")),
        "date": pa.array([0, -90_000, None, 0], pa.date32()),
        "decimal": pa.array([1, 2, None, 2]).cast(pa.decimal128(22, 3)),
        "short": pa.array([1, 2, None, 2], pa.int16()),
        "unsigned": pa.array([2**64 - 1, 2, None, 2], pa.uint64()),
        "bytes": pa.array([b"a", b"", None, b""]),
        "double": pa.array([float("nan"), 0.5, None, 0.5]),
        "flag": pa.array([True, False, None, False]),
        "text": pa.array(["ü", "", None, ""]),
    }
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    graph = ct.JoinGraph(SparkEngine(spark))
    graph.add_relation("a", pa.table({"k": [1, 2, 2, None], **columns}))
    graph.add_relation("b", {"k": [1, 2, 2], "x": [1, 2, 3]})
    graph.add_join("a", "b", on="k")
    measures = {
        f"m_{name}": f"max({name})" for name in columns if name not in ("bytes", "flag", "unsigned")
    }
    try:
        live = graph.calibrate({"n": "count(*)", **measures}, group_by=list(columns))
        live.save(tmp_path / "spark")
        here = ct.open(tmp_path / "spark", engine="local")
        here.save(tmp_path / "local")
        there = ct.open(tmp_path / "local", engine=SparkEngine(spark))
        again = ct.open(tmp_path / "spark", engine=SparkEngine(spark))
        questions = [{"group_by": list(columns)}, {"group_by": ["x"]}, {"group_by": ["zone", "x"]}]
        for question in questions:
            expected = answer(live, question)
            assert len(expected) == {10: 3, 1: 3, 2: 5}[len(question["group_by"])]
            for wide in (here, there, again):
                assert wide.is_calibrated
                assert answer(wide, question) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_what_spark_reads_is_referenced(spark: SparkSession, tmp_path: Path) -> None:
    graph = shop(tmp_path, SparkEngine(spark))
    frame = spark.createDataFrame(pa.table({"name": ["Quito", "Cuenca"], "people": [3, 2]}))
    frame.write.saveAsTable("saved_people")
    try:
        graph.add_relation("people", "saved_people")
        graph.add_relation("again", frame)
        graph.add_join("towns", "people", on="name")
        graph.add_join("towns", "again", on="name")
        live = graph.calibrate({"n": "count(*)", "units": "sum(units)", "p": "max(people.people)"})
        live.save(tmp_path / "tree", copy_below=0)
        where = {
            relation.name: relation.where
            for relation in ct.saved.status(tmp_path / "tree").relations
        }
        assert where["sales"] == "in 2 files"
        assert where["people"] == "in Spark's table saved_people"
        assert where["towns"] == "copied"
        assert where["again"] == "not saved"
        there = ct.open(tmp_path / "tree", engine=SparkEngine(spark))
        here = ct.open(tmp_path / "tree", engine="local")
        for question in (BY_NAME, BY_UNITS, {"group_by": ["stores.town"]}):
            assert answer(there, question) == answer(here, question) == answer(live, question)
        by_people = {"group_by": ["people.people"]}
        assert answer(there, by_people) == answer(live, by_people)
        with pytest.raises(ct.EngineError, match="rows of people, and they are in Spark's table"):
            here.query(**by_people)
        for opened in (here, there):
            with pytest.raises(ct.EngineError, match="rows of again, and they were a Spark DataF"):
                opened.query(group_by=["again.people"])
        shutil.rmtree(tmp_path / "sales")
        gone = ct.open(tmp_path / "tree", engine=SparkEngine(spark))
        assert answer(gone, BY_NAME) == answer(live, BY_NAME)
        with pytest.raises(ct.EngineError, match=r"rows of sales, and .* is not there"):
            gone.query(**BY_UNITS)
    finally:
        spark.sql("DROP TABLE saved_people")


def test_sums_beyond_64_bits(spark: SparkSession, tmp_path: Path) -> None:
    graph = ct.JoinGraph(SparkEngine(spark))
    graph.add_relation("a", {"k": [1, 1, 2], "x": [2**62, 2**62, 5]})
    graph.add_relation("b", {"k": [1, 2], "y": ["p", "q"]})
    graph.add_join("a", "b", on="k")
    live = graph.calibrate({"x": "sum(x)"})
    live.save(tmp_path)
    question = {"group_by": ["y"]}
    assert answer(ct.open(tmp_path, engine=SparkEngine(spark)), question) == answer(live, question)
    opened = ct.open(tmp_path, engine="local").query(**question)
    assert opened.exact
    assert sorted((row["y"], row["x"]) for row in opened) == [("p", 2**63), ("q", 5)]


def test_hybrid(spark: SparkSession, tmp_path: Path) -> None:
    live = shop(tmp_path, "hybrid").calibrate({"n": "count(*)", "units": "sum(units)"})
    live.save(tmp_path / "tree", copy_below=2000)
    for engine in ("hybrid", "local", SparkEngine(spark)):
        opened = ct.open(tmp_path / "tree", engine=engine)
        assert opened.is_calibrated
        for question in (BY_NAME, BY_UNITS):
            assert answer(opened, question) == answer(live, question)


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """Here it is a limit on the size of files; the error and what is left are the same."""
    script = f"""
import resource
import calitree as ct
graph = ct.JoinGraph("local")
graph.add_relation("a", {{"k": list(range(50_000))}})
wide = graph.calibrate()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    wide.save({str(tmp_path / "tree")!r})
except ct.SavedError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    place = f"Cannot use {tmp_path / 'tree'} as the directory of a saved tree: "
    assert done.stdout.startswith(place) and "File too large" in done.stdout, done.stdout
    assert not [file for file in (tmp_path / "tree").rglob("*") if file.is_file()]
