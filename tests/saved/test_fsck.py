"""Damaged files: what is told of them, what is computed anew, and what `fsck` and `status` say."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import calitree as ct
from calitree.saved import fsck, status

if TYPE_CHECKING:
    from calitree.wide_table import WideTable

TREES = Path(__file__).parent / "trees"


def calibrated(sales: Any = None, engine: Any = "local") -> WideTable:
    graph = ct.JoinGraph(engine)
    units = {"store": [1, 2, 2, 3] * 10, "units": list(range(40))}
    graph.add_relation("sales", units if sales is None else sales)
    graph.add_relation("stores", {"store": [1, 2, 3], "town": ["Quito", "Cuenca", "Quito"]})
    graph.add_relation("towns", {"town": ["Quito", "Cuenca"], "people": [3, 2]})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("stores", "towns", on="town")
    return graph.calibrate({"sold": "sum(units)", "n": "count(*)"})


def flip(path: Path, at: int = -1) -> None:
    """Change one bit: of a footer, or elsewhere."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def messages(tree: Path) -> list[Path]:
    return sorted((tree / "messages").iterdir())


def relation(tree: Path, name: str) -> Path:
    (path,) = (tree / "relations").glob(f"{name}-*")
    return path


@contextmanager
def warned(times: int) -> Iterator[None]:
    """So many messages are told to be damaged."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert [w.category for w in seen] == [ct.DamagedWarning] * times, [str(w.message) for w in seen]


# -- messages -------------------------------------------------------------------------------------


def test_a_damaged_message_is_computed_anew_and_told_once(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    for file in messages(tmp_path):
        flip(file, 9)
    opened = ct.open(tmp_path, engine="local")
    with pytest.warns(
        ct.DamagedWarning, match=r"/messages/\w+-\w+\.parquet is damaged: it is not what"
    ):
        assert opened.query(["people"]).rows() == live.query(["people"]).rows()
    with warned(0):
        assert opened.query(["people"]).rows() == live.query(["people"]).rows()
        assert opened.query(["people"], "people > 1").rows() == live.query(["people"]).rows()


def test_saving_again_makes_a_tree_whole(tmp_path: Path) -> None:
    calibrated().save(tmp_path)
    for file in messages(tmp_path):
        flip(file, 9)
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    with warned(4):
        for column in ("units", "people"):
            opened.query([column])
    assert opened.is_calibrated, "what was pinned is pinned again"
    assert len(opened.state.store.pinned) == 4
    opened.save()
    assert fsck(tmp_path).ok
    assert not fsck(tmp_path, all_versions=True).ok
    with warned(0):
        again = ct.open(tmp_path, engine="local")
        assert again.is_calibrated
        assert again.query(["people"]).rows() == opened.query(["people"]).rows()


def test_the_plan_says_so(tmp_path: Path) -> None:
    calibrated().save(tmp_path)
    for file in messages(tmp_path):
        flip(file, 9)
    opened = ct.open(tmp_path, engine="local")
    with pytest.warns(ct.DamagedWarning):
        plan = opened.query(["people"]).plan
    assert re.search(
        r"compute  sales→stores +its file is damaged: it is not what was written", str(plan)
    )


@pytest.mark.parametrize("change", ["update", "what_if", "augment", "at", "eager", "cube"])
def test_wherever_a_message_is_needed(tmp_path: Path, change: str) -> None:
    live = calibrated()
    live.save(tmp_path)
    for file in messages(tmp_path):
        flip(file, 9)
    opened = ct.open(tmp_path, engine="local")

    def changed(wide: WideTable) -> list[dict[str, Any]]:
        rows = [{"town": "Quito", "people": 9}]
        if change == "what_if":
            wide = wide.what_if(insert={"towns": rows})
        elif change == "augment":
            wide = wide.augment(
                {"people": [2, 3], "hue": ["red", "blue"]}, on="people", name="hues"
            )
            return wide.query(["hue"]).rows()
        elif change == "cube":
            return wide.cube(["people", "units"], k=1).query(["people"]).rows()
        else:
            wide.maintenance = "eager" if change == "eager" else "lazy"
            wide.update("towns", insert=rows)
            wide = wide.at(0) if change == "at" else wide
        return wide.query(["people"]).rows()

    expected = changed(live)
    with pytest.warns(ct.DamagedWarning):
        assert changed(opened) == expected


def test_the_pivots_answer_is_adjusted_with_what_is_whole(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    opened.query()
    for file in messages(tmp_path):
        flip(file, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ct.DamagedWarning)
        for tree in (live, opened):
            tree.update("towns", delete="people = 2")
            tree.update("stores", delete="store = 1")
        assert opened.query().rows() == live.query().rows()


def test_a_warning_may_be_an_error(tmp_path: Path) -> None:
    calibrated().save(tmp_path)
    for file in messages(tmp_path):
        file.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ct.DamagedWarning)
        with pytest.raises(ct.DamagedWarning, match="it is not there"):
            ct.open(tmp_path, engine="local").query()


# -- relations ------------------------------------------------------------------------------------


def test_a_damaged_relation_is_told_where_it_is_needed(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    flip(relation(tmp_path, "sales"), 20)
    opened = ct.open(tmp_path, engine="local")
    assert opened.query(["people"]).rows() == live.query(["people"]).rows()
    with pytest.raises(ct.SavedError) as caught:
        opened.query(where="units > 3")
    assert isinstance(caught.value, ct.DamagedRelationError)
    assert caught.value.relation == "sales"
    assert caught.value.path == str(relation(tmp_path, "sales"))
    assert re.match(
        r"This needs the rows of sales, and /.*/relations/sales-\w+\.parquet is damaged: it is not what "
        r"was written\. Put it back from a copy of the tree, .* `calitree fsck` tells .*still answered",
        str(caught.value),
    )


def test_both_are_damaged(tmp_path: Path) -> None:
    calibrated().save(tmp_path)
    flip(relation(tmp_path, "sales"), 20)
    for file in messages(tmp_path):
        flip(file, 9)
    with pytest.warns(ct.DamagedWarning), pytest.raises(ct.DamagedRelationError):
        ct.open(tmp_path, engine="local").query(["people"])


def test_rows_that_came_and_went(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    before = set((tmp_path / "relations").iterdir())
    live.update("sales", insert=[{"store": 3, "units": 1_000}], delete="units = 3")
    live.save(tmp_path)
    came, went = set((tmp_path / "relations").iterdir()) - before
    for file in (came, went):
        flip(file, 20)
        with pytest.raises(ct.DamagedRelationError, match="rows of sales"):
            ct.open(tmp_path, engine="local").query(["people"])
        (problem,) = fsck(tmp_path).damaged
        assert re.fullmatch("rows (inserted into|deleted from) sales", problem.holds)
        flip(file, 20)
    assert ct.open(tmp_path, engine="local").query().rows() == live.query().rows()


def test_files_of_the_user(tmp_path: Path) -> None:
    """Known by their size and time, and by their pages' checksums if they have some."""
    path = tmp_path / "sales.parquet"
    table = pa.table({"store": [1, 2, 2, 3] * 10, "units": list(range(40))})
    parquet.write_table(table, path, write_page_checksum=True)
    live = calibrated(path)
    live.save(tmp_path / "tree", copy_below=0)
    known = path.stat()
    chunk = parquet.read_metadata(path).row_group(0).column(1)
    flip(path, chunk.dictionary_page_offset + chunk.total_compressed_size - 3)
    (problem,) = fsck(tmp_path / "tree").damaged
    assert (problem.name, problem.holds) == (str(path), "relation sales")
    assert "has changed since the tree was saved" in str(problem.problem)
    with pytest.raises(ct.MissingRelationError, match="has changed since"):
        ct.open(tmp_path / "tree", engine="local").query(where="units > 3")
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(ct.EngineError, match="CRC checksum verification failed"):
        ct.open(tmp_path / "tree", engine="local").query(where="units > 3")


# -- manifests ------------------------------------------------------------------------------------


def test_a_manifest_in_the_place_of_another(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", delete="units = 3")
    live.save(tmp_path)
    first, second = sorted((tmp_path / "manifests").iterdir())
    shutil.copy(first, second)
    with pytest.raises(ct.SavedError, match="it is the manifest of version 1"):
        ct.open(tmp_path, engine="local")
    (problem,) = fsck(tmp_path).damaged
    assert problem.name == "manifests/000000000002.json"
    assert ct.open(tmp_path, engine="local", version=1).query().rows()


# -- fsck and status ------------------------------------------------------------------------------


def test_fsck_changes_nothing_and_names_all(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", delete="units = 3")
    live.refresh()
    live.save(tmp_path)
    (tmp_path / "messages" / "left.parquet").write_bytes(b"")
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    checked = fsck(tmp_path, all_versions=True)
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    assert checked.ok and checked.versions == (1, 2)
    assert checked.leftovers == ("messages/left.parquet",)
    names = {str(file.relative_to(tmp_path)) for file in before if file.is_file()}
    assert {file.name for file in checked.files} == names - {"messages/left.parquet"}
    assert re.search(r"\nunused +messages/left.parquet +no version needs it$", str(checked))
    assert len(fsck(tmp_path).files) < len(checked.files)


def test_fsck_looks_also_into_files_without_digests(tmp_path: Path) -> None:
    """Trees of older formats are read, and damage is told that can be seen without a digest."""
    for tree in ("plain", "updated"):
        shutil.copytree(TREES / tree, tmp_path / tree)
        checked = fsck(tmp_path / tree)
        assert checked.ok and {file.compared for file in checked.files} == {True, False}
        assert re.search(r"^read  relations/", str(checked), re.MULTILINE)
        next(tmp_path / tree / f.name for f in checked.files if "message " in f.holds).write_bytes(
            b""
        )
        assert len(fsck(tmp_path / tree).damaged) == 1


def test_rows_and_columns_are_those_of_the_manifest(tmp_path: Path) -> None:
    """Where there is no digest."""
    shutil.copytree(TREES / "plain", tmp_path / "tree")
    path = next((tmp_path / "tree" / "relations").iterdir())
    rows = parquet.read_table(path)
    parquet.write_table(rows.slice(1), path)
    (problem,) = fsck(tmp_path / "tree").damaged
    assert re.fullmatch(r"it has \d+ rows, and should have \d+", str(problem.problem))
    parquet.write_table(rows.append_column("more", [[1] * len(rows)]), path)
    (problem,) = fsck(tmp_path / "tree").damaged
    assert problem.problem == "its columns are not those of the relation"


def test_what_is_no_tree(tmp_path: Path) -> None:
    with pytest.raises(ct.SavedError, match="is no saved tree"):
        fsck(tmp_path)


def test_status_tells_sizes_and_what_is_gone(tmp_path: Path) -> None:
    calibrated().save(tmp_path)
    assert status(tmp_path).damaged == ()
    gone, cut, *_ = messages(tmp_path)
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    sales = relation(tmp_path, "sales")
    sales.write_bytes(sales.read_bytes() + b"x")
    report = status(tmp_path)
    assert report.damaged[0] == f"{gone} is not there"
    assert re.fullmatch(
        rf"{cut} is damaged: it has [\d,]+ bytes, and should have [\d,]+", report.damaged[1]
    )
    assert re.search(r"missing: .*sales-\w+\.parquet is damaged: it has", str(report))
    assert str(report).count("to be computed anew") == 2
