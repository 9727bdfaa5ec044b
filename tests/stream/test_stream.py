"""Rows that keep coming: every batch is in the tree exactly once, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
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
from calitree.saved.directory import Directory
from calitree.saved.manifest import checksum
from calitree.storage import file_log
from calitree.stream.files import FileBatch, Listing
from calitree.stream.intake import Intake

KILLS = 30
SOON = 60.0
"""Seconds after which something that should happen soon has not happened."""


def calibrated(engine: Any = "local", **options: Any) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", {"store": [1, 2, 2], "units": [1, 10, 100]})
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"units": "sum(units)", "n": "count(*)"}, **options)


def put(directory: Path, name: str, **columns: Any) -> None:
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
            "sales.units is int64, and what is given is string: 'many' does not fit. "
            "Convert it first.",
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


def test_a_what_if_takes_no_stream(tmp_path: Path) -> None:
    """What it reads would be remembered by the tree, which has not read it."""
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", store=[1], units=[1_000])
    supposed = wide.what_if(insert={"sales": [{"store": 1, "units": 5}]})
    with pytest.raises(UpdateError, match=r"not into a what-if.*Stream into the tree, or update"):
        supposed.stream("sales", incoming)
    assert read_from(wide, incoming) == (4, 1_111)


def test_a_saved_tree_is_saved_with_every_batch(tmp_path: Path) -> None:
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


# -- which files are remembered -------------------------------------------------------------------


def read_from(wide: ct.WideTable, directory: Path) -> tuple[int, int]:
    """The rows and units once all files of a directory are in the tree."""
    with wide.stream("sales", directory, every=SOON) as stream:
        stream.drain()
    return total(wide)


def remembered(wide: ct.WideTable) -> list[str]:
    """The names of files that the tree's state has."""
    logs = wide.state.read_files.values()
    names = [name for log in logs for path in log.directories for name in log.files(path)]
    return sorted([*wide.state.streams, *names])


def test_files_that_were_removed_are_forgotten(tmp_path: Path) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    streams = []
    for i in range(12):
        put(incoming, f"{i}.parquet", store=[1], units=[1_000])
        assert read_from(wide, incoming) == (4 + i, 111 + 1_000 * (i + 1))
        if i % 3 == 0:
            wide = ct.open(tree, engine="local")
        (incoming / f"{i}.parquet").unlink()
        manifest = json.loads(max((tree / "manifests").iterdir()).read_text())
        streams.append(json.dumps([manifest["streams"], manifest["read_files"]]))
        assert remembered(wide) == [f"{i}.parquet"]
    assert max(map(len, streams)) <= len(streams[0]) + 1, "a digit of the name"


def test_a_file_that_comes_again_after_it_was_forgotten_is_a_new_one(tmp_path: Path) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (4, 1_111)
    (incoming / "a.parquet").unlink()
    put(incoming, "b.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (5, 2_111)
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (6, 3_111)


def test_files_that_arrive_in_any_order_are_read_once(tmp_path: Path) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    for count, (name, mtime) in enumerate(
        [("m", 500), ("b", 500), ("z", 100), ("a", 900), ("n", 500), ("y", 100)], start=1
    ):
        put(tmp_path / "elsewhere", f"{name}.parquet", store=[1], units=[1_000])
        os.utime(tmp_path / "elsewhere" / f"{name}.parquet", (mtime, mtime))
        incoming.mkdir(exist_ok=True)
        (tmp_path / "elsewhere" / f"{name}.parquet").rename(incoming / f"{name}.parquet")
        for _ in range(2):
            assert read_from(wide, incoming) == (3 + count, 111 + 1_000 * count)
    for path in incoming.iterdir():
        path.touch()
    put(incoming, "m.parquet", store=[1], units=[5_000])
    assert read_from(wide, incoming) == (9, 6_111), "by its name it is known"


def test_nothing_is_forgotten_while_a_directory_is_empty(tmp_path: Path) -> None:
    """As that of a disk is which is not mounted."""
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (4, 1_111)
    incoming.rename(tmp_path / "unmounted")
    incoming.mkdir()
    assert read_from(wide, incoming) == (4, 1_111)
    incoming.rmdir()
    (tmp_path / "unmounted").rename(incoming)
    assert read_from(wide, incoming) == (4, 1_111)


def test_a_directory_that_was_moved_is_the_same(tmp_path: Path) -> None:
    wide = calibrated()
    put(tmp_path / "monday", "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, tmp_path / "monday") == (4, 1_111)
    (tmp_path / "monday").rename(tmp_path / "archive")
    put(tmp_path / "archive", "b.parquet", store=[1], units=[10_000])
    assert read_from(wide, tmp_path / "archive") == (5, 11_111)
    assert read_from(wide, tmp_path / "archive") == (5, 11_111)
    assert remembered(wide) == ["a.parquet", "b.parquet"], "and each is remembered once"


def test_two_directories_may_have_files_of_the_same_name(tmp_path: Path) -> None:
    wide = calibrated()
    put(tmp_path / "monday", "a.parquet", store=[1], units=[1_000])
    put(tmp_path / "tuesday", "a.parquet", store=[1], units=[10_000])
    for _ in range(2):
        read_from(wide, tmp_path / "monday")
        assert read_from(wide, tmp_path / "tuesday") == (5, 11_111)
    (tmp_path / "monday" / "a.parquet").unlink()
    put(tmp_path / "monday", "b.parquet", store=[1], units=[0])
    assert read_from(wide, tmp_path / "monday") == (6, 11_111)
    assert read_from(wide, tmp_path / "tuesday") == (6, 11_111), "only monday's is forgotten"


def test_a_file_that_is_removed_while_it_is_listed_is_left_out(tmp_path: Path) -> None:
    wide, incoming = calibrated(), tmp_path / "incoming"
    put(incoming, "a.parquet", store=[1], units=[1_000])
    (incoming / "gone.parquet").symlink_to(tmp_path / "nowhere")
    assert read_from(wide, incoming) == (4, 1_111)


def test_files_that_older_trees_remember_are_known(tmp_path: Path) -> None:
    """Up to format 3 every file was a key of `streams`, whatever its directory."""
    tree, incoming = tmp_path / "tree", tmp_path / "incoming"
    calibrated().save(tree)
    manifest = tree / "manifests" / "000000000001.json"
    content = json.loads(manifest.read_text())
    for name in ("format", "checksum", "read_files", "read_segments"):
        del content[name]
    content["streams"] = {"file:sales:a.parquet": 0, "file:sales:gone.parquet": 0, "spark:x": 7}
    manifest.write_text(json.dumps({"format": 3, "checksum": checksum(content), **content}))
    wide = ct.open(tree, engine="local")
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (3, 111)
    put(incoming, "b.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (4, 1_111)
    (incoming / "a.parquet").unlink()
    put(incoming, "c.parquet", store=[1], units=[1_000])
    wide = ct.open(tree, engine="local")
    assert read_from(wide, incoming) == (5, 2_111)
    assert remembered(wide) == ["b.parquet", "c.parquet", "file:sales:gone.parquet", "spark:x"]
    put(incoming, "gone.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (5, 2_111), "its directory is not known"


def test_a_listing_that_is_old_forgets_nothing(tmp_path: Path) -> None:
    """One stream lists the directory, then another reads a file that has come since."""
    wide, incoming = calibrated(), tmp_path / "incoming"
    intake = Intake(wide.branch, wide.saved, "sales", None)
    put(incoming, "a.parquet", store=[1], units=[1_000])
    old = {"a.parquet": (0, 0)}
    put(incoming, "b.parquet", store=[1], units=[10_000])
    new = {**old, "b.parquet": (0, 0)}
    rows = pa.table({"store": [1], "units": [10_000]})
    intake.take(FileBatch(Listing("sales", incoming, new), "b.parquet"), rows)
    intake.take(FileBatch(Listing("sales", incoming, old), "a.parquet"), rows)
    assert remembered(wide) == ["a.parquet", "b.parquet"]


def test_what_two_trees_have_read_comes_together(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    calibrated().save(tree)
    wide, other = (ct.open(tree, engine="local") for _ in range(2))
    put(tmp_path / "sales", "a.parquet", store=[1], units=[1_000])
    put(tmp_path / "stores", "a.parquet", store=[3], town=["Loja"])
    assert read_from(wide, tmp_path / "sales") == (4, 1_111)
    with other.stream("stores", tmp_path / "stores") as stream:
        stream.drain()
    opened = ct.open(tree, engine="local")
    assert opened.state.read_files.keys() == {"sales", "stores"}
    assert read_from(opened, tmp_path / "sales") == (4, 1_111)


# -- many files that stay -------------------------------------------------------------------------


@pytest.fixture
def two_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments after every third file."""
    monkeypatch.setattr(file_log, "MAX_RECENT", 2)


def segments(tree: Path) -> set[str]:
    return {path.name for path in (tree / "relations").glob("read-files-*")}


def size_of(tree: Path) -> int:
    return sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())


def test_what_a_save_writes_does_not_grow_with_the_files_that_stay(tmp_path: Path) -> None:
    wide, tree = calibrated(), tmp_path / "tree"
    files = {f"{i:05}.csv": (10**18 + i, 100) for i in range(2_020)}
    listing = Listing("sales", tmp_path, files)
    wide.save(tree)
    manifests, written = [], []
    for i, name in enumerate(files):
        listing.record(wide.state, name)
        if i in (99, 1_999):
            wide.save()
            before = size_of(tree)
            manifests.append(max((tree / "manifests").iterdir()).stat().st_size)
        if i in range(100, 120) or i >= 2_000:  # with what is sealed meanwhile
            wide.save()
        if i in (119, 2_019):
            written.append(size_of(tree) - before)
    assert manifests[1] < 1.3 * manifests[0]
    assert written[1] < 1.5 * written[0]
    assert len(segments(tree)) < 10
    assert remembered(ct.open(tree, engine="local")) == list(files)


@pytest.mark.usefixtures("two_recent")
def test_files_in_segments_are_known_wherever_a_tree_is_opened(tmp_path: Path) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    for i in range(9):
        put(incoming, f"{i}.parquet", store=[1], units=[1_000])
        expected = (4 + i, 111 + 1_000 * (i + 1))
        assert read_from(wide, incoming) == expected
        wide = ct.open(tree, engine="local")
        assert read_from(wide, incoming) == expected, "nothing twice"
    shutil.copytree(tree, tmp_path / "copied")
    wide.save(tmp_path / "elsewhere")
    assert len(segments(tmp_path / "elsewhere")) == len(wide.state.read_files["sales"].segments)
    for version in range(1, 11):
        older = ct.open(tree, engine="local", version=version)
        assert remembered(older) == [f"{i}.parquet" for i in range(version - 1)]
    shutil.rmtree(tree)
    for path in (tmp_path / "copied", tmp_path / "elsewhere"):
        assert read_from(ct.open(path, engine="local"), incoming) == expected
    older = ct.open(tmp_path / "copied", engine="local", version=4)
    older.save(tmp_path / "anew")
    assert read_from(older, incoming) == expected, "it reads what it has not"


@pytest.mark.usefixtures("two_recent")
def test_vacuuming_keeps_the_segments_of_versions_that_stay(tmp_path: Path) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    old = ct.open(tree, engine="local")
    for i in range(12):  # of which the last merges all segments
        put(incoming, f"{i:02}.parquet", store=[1], units=[1_000])
        assert read_from(wide, incoming) == (4 + i, 111 + 1_000 * (i + 1))
        if i == 5:
            old = ct.open(tree, engine="local")
    ct.saved.vacuum(tree, keep=4, grace=0)
    for version in (10, 11, 12, 13):
        opened = ct.open(tree, engine="local", version=version)
        assert remembered(opened) == [f"{i:02}.parquet" for i in range(version - 1)]
    before = segments(tree)
    ct.saved.vacuum(tree, grace=0)
    assert segments(tree) < before
    assert len(segments(tree)) == len(wide.state.read_files["sales"].segments)
    assert read_from(ct.open(tree, engine="local"), incoming) == (15, 12_111)
    with pytest.raises(ct.SavedError, match=r"is not there any more\. Open the tree again, or"):
        read_from(old, incoming)
    old.reload()
    assert read_from(old, incoming) == (15, 12_111)
    for name in segments(tree):
        (tree / "relations" / name).unlink()
    old.save()
    assert read_from(ct.open(tree, engine="local"), incoming) == (15, 12_111), "written again"


@pytest.mark.usefixtures("two_recent")
def test_segments_are_read_by_streams_only(tmp_path: Path) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    for i in range(3):
        put(incoming, f"{i}.parquet", store=[1], units=[1_000])
    read_from(wide, incoming)
    (name,) = segments(tree)
    path = tree / "relations" / name
    content = path.read_text()
    for damaged in ("", "[]", "{}", content.replace("2.parquet", "3.parquet")):
        path.write_text(damaged)
        opened = ct.open(tree, engine="local")
        assert total(opened) == (6, 3_111)
        opened.save()
        with pytest.raises(ct.SavedError, match=r"Which files were read is not known.*is damaged"):
            read_from(opened, incoming)
    path.write_text(content)
    assert read_from(opened, incoming) == (6, 3_111)


@pytest.mark.usefixtures("two_recent")
def test_a_forgotten_file_stays_forgotten(tmp_path: Path) -> None:
    incoming, tree = tmp_path / "incoming", tmp_path / "tree"
    calibrated().save(tree)
    n = 3
    for i in range(12):
        for name in ("again", f"{i}", f"{i} too"):
            put(incoming, f"{name}.parquet", store=[1], units=[0])
        n += 3
        assert read_from(ct.open(tree, engine="local"), incoming) == (n, 111)
        (incoming / "again.parquet").unlink()
        put(incoming, f"{i} alone.parquet", store=[1], units=[0])
        n += 1
        assert read_from(ct.open(tree, engine="local"), incoming) == (n, 111)
    assert len(remembered(ct.open(tree, engine="local"))) == 36


@pytest.mark.usefixtures("two_recent")
def test_two_writers_by_turns(tmp_path: Path) -> None:
    tree, incoming = tmp_path / "tree", tmp_path / "incoming"
    calibrated().save(tree)
    writers = [ct.open(tree, engine="local") for _ in range(2)]
    chance, n, units = random.Random(1), 3, 111
    for i in range(30):
        wide, other = chance.sample(writers, 2)
        wide.reload()
        put(incoming, f"{i}.parquet", store=[1] * (i % 3), units=[i] * (i % 3))
        if i % 2 == 0:  # the other relation changes meanwhile, also when the file has no rows
            other.update("stores", insert=[{"store": 10 + i, "town": "Loja"}])
            other.save()
        n, units = n + i % 3, units + i * (i % 3)
        assert read_from(wide, incoming) == (n, units)
        if chance.random() < 0.3:
            ct.saved.vacuum(tree, grace=0)
        if chance.random() < 0.3:
            (incoming / f"{i}.parquet").unlink()
    for wide in (*writers, ct.open(tree, engine="local")):
        wide.reload()
        assert read_from(wide, incoming) == (n, units)


def test_what_a_file_without_rows_made_another_writer_forget(tmp_path: Path) -> None:
    tree, incoming = tmp_path / "tree", tmp_path / "incoming"
    calibrated().save(tree)
    wide, other = (ct.open(tree, engine="local") for _ in range(2))
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (4, 1_111)
    other.reload()
    (incoming / "a.parquet").unlink()
    put(incoming, "empty.parquet", store=pa.array([], pa.int64()), units=pa.array([], pa.int64()))
    assert read_from(wide, incoming) == (4, 1_111)
    other.reload()
    put(incoming, "a.parquet", store=[1], units=[1_000])
    assert read_from(other, incoming) == (5, 2_111)


@pytest.mark.usefixtures("two_recent")
def test_who_is_interrupted_after_the_commit_has_read_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide, incoming, tree = calibrated(), tmp_path / "incoming", tmp_path / "tree"
    wide.save(tree)
    create = Directory.create

    def interrupted(directory: Directory, name: str, content: bytes) -> bool:
        created = create(directory, name, content)
        if name.startswith("manifests"):
            raise KeyboardInterrupt
        return created

    for i in range(8):
        put(incoming, f"{i}.parquet", store=[1], units=[1_000])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Directory, "create", interrupted)
            listing = Listing("sales", incoming, {f"{k}.parquet": (k, k) for k in range(i + 1)})
            rows = pa.table({"store": [1], "units": [1_000]})
            intake = Intake(wide.branch, wide.saved, "sales", None)
            intake.take(FileBatch(listing, f"{i}.parquet"), rows)
        if i % 3 == 2:
            wide = ct.open(tree, engine="local")
        assert total(wide) == (4 + i, 111 + 1_000 * (i + 1))
        assert remembered(wide) == [f"{k}.parquet" for k in range(i + 1)]
    wide.save()
    assert read_from(ct.open(tree, engine="local"), incoming) == (11, 8_111)


def test_a_tree_that_names_all_files_in_its_manifest_goes_on(tmp_path: Path) -> None:
    """So were the first ones of format 4."""
    tree, incoming = tmp_path / "tree", tmp_path / "incoming"
    calibrated().save(tree)
    manifest = tree / "manifests" / "000000000001.json"
    content = json.loads(manifest.read_text())
    for name in ("format", "checksum", "read_segments"):
        del content[name]
    files = {f"{i}.parquet": [i, i] for i in range(100)}
    content["read_files"] = {"sales": {str(incoming): files}}
    manifest.write_text(json.dumps({"format": 4, "checksum": checksum(content), **content}))
    incoming.mkdir()
    for name in files:
        (incoming / name).touch()
    wide = ct.open(tree, engine="local")
    wide.save()
    assert read_from(wide, incoming) == (3, 111)
    put(incoming, "new.parquet", store=[1], units=[1_000])
    assert read_from(wide, incoming) == (4, 1_111)
    assert len(segments(tree)) == 1
    opened = ct.open(tree, engine="local")
    assert remembered(opened) == sorted([*files, "new.parquet"])
    assert read_from(opened, incoming) == (4, 1_111)


# -- a process that is killed ---------------------------------------------------------------------

WRITER = """
import os, signal, sys
from pathlib import Path
import calitree as ct
import calitree.engines.local.tables.lazy, calitree.stream
from calitree.storage import file_log

tree, incoming = sys.argv[1:3]
file_log.MAX_RECENT = int(sys.argv[3])
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


def killed_again_and_again(directory: Path, kills: int, remove: bool = False) -> None:
    tree, incoming = directory / "tree", directory / "incoming"
    calibrated().save(tree)
    incoming.mkdir()
    recent = str(file_log.MAX_RECENT)
    command = [sys.executable, "-c", WRITER, str(tree), str(incoming), recent]
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
            read = remembered(ct.open(tree, engine="local"))
            assert len(read) <= len(list(incoming.iterdir())) or remove
            for name in read if remove else ():
                (incoming / name).unlink(missing_ok=True)
        process.stdin.close()
    wide = ct.open(tree, engine="local")
    with wide.stream("sales", incoming) as stream:
        stream.drain()
    assert total(ct.open(tree, engine="local")) == (3 + files, 111 + files * 10**6)


def test_a_stream_that_is_killed_loses_nothing_and_takes_nothing_twice(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, KILLS)


def test_a_stream_that_is_killed_while_what_it_has_read_is_removed(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, KILLS, remove=True)


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.usefixtures("two_recent")
def test_a_stream_that_is_killed_while_it_writes_segments(tmp_path: Path, remove: bool) -> None:
    killed_again_and_again(tmp_path, KILLS // 3, remove)
    assert segments(tmp_path / "tree")


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


def test_an_error_in_a_batch_of_spark_is_raised(spark: Any, tmp_path: Path) -> None:
    wide, incoming = calibrated(HybridEngine(spark)), tmp_path / "incoming"
    put(incoming, "0.parquet", store=[9], units=[1])
    frame = streaming(spark, incoming).selectExpr("store", "units", "-1 AS op")
    stream = wide.stream("sales", frame, change="op")
    with pytest.raises(UpdateError, match="sales: 1 of the 1 rows to delete is not there"):
        stream.drain()
    assert wide.version == 0
