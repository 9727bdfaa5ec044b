"""Vacuum: who has an older version open reads it for the grace period, and is told when it is gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

import calitree as ct
from calitree.saved import manifest
from calitree.saved.directory import Directory
from calitree.saved.guard import local_files
from calitree.saved.manifest import Manifest

vacuum = import_module("calitree.saved.vacuum")  # the file, not the function

ROWS = {"store": [1, 2, 2], "units": [1, 10, 100]}


def calibrated(units: int = 1) -> ct.WideTable:
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {**ROWS, "units": [units, 10, 100]})
    graph.add_relation("stores", {"store": [1, 2], "town": ["Quito", "Cuenca"]})
    graph.add_join("sales", "stores", on="store")
    return graph.calibrate({"units": "sum(units)"})


def grown(path: Path) -> ct.WideTable:
    """A reader of the first version of a tree that has a second one, of which all files are others."""
    wide = calibrated()
    wide.save(path)
    reader = ct.open(path, engine="local")
    wide.update("sales", insert=[{"store": 1, "units": 1000}] * 5)
    wide.update("stores", upsert=[{"store": 2, "town": "Loja"}], key="store")
    wide.refresh()
    wide.save()
    return reader


def older(path: Path, minutes: float) -> None:
    """Let everything in a directory be so much older."""
    for file in path.rglob("*"):
        then = file.stat().st_mtime - minutes * 60
        os.utime(file, (then, then))


def test_files_of_a_dropped_version_stay_for_the_grace_period(tmp_path: Path) -> None:
    reader = grown(tmp_path)
    older(tmp_path, minutes=600)  # when the files were written says nothing
    assert ct.saved.vacuum(tmp_path) == ["manifests/000000000001.json"]
    assert ct.saved.status(tmp_path).versions == (2,)
    with pytest.raises(ct.SavedError, match="has no version 1"):
        ct.open(tmp_path, version=1, engine="local")
    assert ct.saved.vacuum(tmp_path) == [], "they are still young"
    older(tmp_path, minutes=59)
    assert ct.saved.vacuum(tmp_path) == []
    assert reader.query(["town"]).rows() == [
        {"town": "Quito", "units": 1},
        {"town": "Cuenca", "units": 110},
    ]
    older(tmp_path, minutes=2)
    deleted = ct.saved.vacuum(tmp_path)
    assert deleted and not any(name.startswith("manifests") for name in deleted)
    assert not list((tmp_path / "manifests").glob("*.dropped"))
    assert ct.saved.vacuum(tmp_path, grace=0) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda wide: wide.query().rows(),
        lambda wide: wide.query(["town"]).rows(),
        lambda wide: wide.query(measures={"most": "max(units)"}).rows(),
    ],
    ids=["the pivot", "by message", "by rows"],
)
def test_a_reader_whose_files_are_gone_is_told_to_reload(
    ask: Callable[[ct.WideTable], object], tmp_path: Path
) -> None:
    reader = grown(tmp_path)
    ct.saved.vacuum(tmp_path, grace=0)
    with pytest.raises(ct.SavedError, match=r"reload\(\)"):
        ask(reader)
    reader.reload()
    assert ask(reader) == ask(ct.open(tmp_path, engine="local"))
    assert reader.query().rows() == [{"units": 5111}]


def test_reloading_takes_rows_of_the_same_revision_from_new_files(tmp_path: Path) -> None:
    writer = calibrated()
    writer.save(tmp_path)
    reader = ct.open(tmp_path, engine="local")
    question = {"measures": {"most": "max(units)"}}
    for file in (tmp_path / "relations").iterdir():
        file.unlink()  # as somebody does who is short of space
    assert writer.save() == 2
    with pytest.raises(ct.SavedError, match=r"reload\(\)"):
        reader.query(**question).rows()
    reader.reload()
    assert reader.query(**question).rows() == [{"most": 100}]
    assert reader.query(["town"]).rows() == calibrated().query(["town"]).rows()


def test_vacuums_at_the_same_time(tmp_path: Path) -> None:
    wide = calibrated()
    for _ in range(30):
        wide.update("sales", insert=[{"store": 1, "units": 1}] * 30)
        wide.save(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda keep: ct.saved.vacuum(tmp_path, keep, grace=0), [8, 4, 2, 1] * 3))
    assert ct.open(tmp_path, engine="local").query().rows() == [{"units": 111 + 900}]
    assert ct.saved.vacuum(tmp_path, grace=0) == []


def test_another_vacuum_drops_a_version_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = grown(tmp_path)
    really = vacuum.read

    def read(directory: Directory, number: int) -> Manifest:
        if number == 1:
            manifest.drop(directory, number)  # as others do after a third version is saved
        return really(directory, number)

    monkeypatch.setattr(vacuum, "read", read)
    assert ct.saved.vacuum(tmp_path, keep=2) == []
    assert reader.query(["town"]).rows()[0] == {"town": "Quito", "units": 1}
    (tmp_path / "manifests" / "000000000002.json").write_text("{")
    with pytest.raises(ct.SavedError, match="is damaged"):
        ct.saved.vacuum(tmp_path, grace=0)


def test_a_dropped_manifest_that_is_damaged_protects_nothing(tmp_path: Path) -> None:
    grown(tmp_path)
    ct.saved.vacuum(tmp_path)
    (tmp_path / "manifests" / "000000000001.dropped").write_text("{")
    assert ct.saved.vacuum(tmp_path) == [], "files are young themselves"
    older(tmp_path, minutes=61)
    assert ct.saved.vacuum(tmp_path)


def test_dropping_at_a_url(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    url = f"memory://vacuum-{time.time_ns()}"
    reader = grown_at(url)
    assert ct.saved.vacuum(url) == ["manifests/000000000001.json"]
    assert reader.query().rows() == [{"units": 111}]
    assert len(ct.saved.vacuum(url, grace=0)) > 1
    with pytest.raises(ct.SavedError, match=r"reload\(\)"):
        reader.query(["town"]).rows()
    fsspec.filesystem("memory").rm(url, recursive=True)


def grown_at(url: str) -> ct.WideTable:
    wide = calibrated()
    wide.save(url)
    reader = ct.open(url, engine="local")
    calibrated(2).save(url)
    return reader


# -- the disk -------------------------------------------------------------------------------------


def test_new_directories_are_on_the_disk_up_to_their_parents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    really = local_files.sync
    monkeypatch.setattr(local_files, "sync", lambda path: (synced.append(Path(path)), really(path)))
    tree = tmp_path / "new" / "below" / "tree"
    calibrated().save(tree)
    for directory in (tmp_path, tmp_path / "new", tree.parent, tree, tree / "manifests"):
        assert directory in synced, directory
    last = len(synced) - 1 - synced[::-1].index(tree / "relations")
    assert last < len(synced) - 1 - synced[::-1].index(tree / "manifests"), (
        "the manifest comes last"
    )
    synced.clear()
    Directory(tree).make("manifests", "messages")
    assert synced == [], "they are there already"
