"""Saved trees that change: only changes are written, and two writers never lose each other's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import calitree as ct
from calitree.calibration.planning.plan import Plan
from calitree.engines.hybrid import HybridEngine
from calitree.engines.spark import SparkEngine
from calitree.errors import ConflictError, UpdateError
from calitree.saved import relation_writer
from calitree.saved.directory import Directory
from calitree.saved.manifest import read
from calitree.storage.table_format import SavedRelation
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SALES = [{"store": i % 4, "item": i % 3, "units": i} for i in range(40)]
STORES = [{"store": i, "town": i % 2} for i in range(4)]
ITEMS = [{"item": i, "price": 10 + i} for i in range(3)]


def graph(engine: Any = "local", sales: Any = None) -> ct.JoinGraph:
    declared = ct.JoinGraph(engine)
    declared.add_relation("sales", pa.Table.from_pylist(SALES) if sales is None else sales)
    declared.add_relation("stores", pa.Table.from_pylist(STORES))
    declared.add_relation("items", pa.Table.from_pylist(ITEMS))
    declared.add_join("sales", "stores", on="store")
    declared.add_join("sales", "items", on="item")
    return declared


def calibrated(engine: Any = "local", **pivot: Any) -> WideTable:
    return graph(engine).calibrate(
        {"n": "count(*)", "paid": "sum(units * price)", "most": "max(units)"}, **pivot
    )


def rows(wide: WideTable, **question: Any) -> list[dict[str, Any]]:
    return sorted(wide.query(**question).rows(), key=repr)


def same(opened: WideTable, live: WideTable) -> None:
    for question in ({}, {"group_by": ["town"]}, {"group_by": ["price"], "where": "units > 9"}):
        assert rows(opened, **question) == rows(live, **question)


def refreshes(opened: WideTable) -> None:
    """Its messages are those of before, which take the changes."""
    assert not opened.is_calibrated
    plan = opened.refresh(progress=False)
    assert isinstance(plan, Plan)
    assert plan.refreshed and not plan.computed


def one(store: int = 1, item: int = 2, units: int = 100) -> list[dict[str, int]]:
    return [{"store": store, "item": item, "units": units}]


def new_files(path: Path, before: set[str]) -> list[str]:
    return sorted(name.split("-")[0] for name in names(path) - before if "manifests" not in name)


def names(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def relation(path: Path, name: str) -> SavedRelation:
    (saved,) = [saved for saved in read(Directory(path)).relations if saved.name == name]
    return saved


# -- what is written ------------------------------------------------------------------------------


def test_an_update_is_saved_as_what_came_and_went(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    before = names(tmp_path)
    live.update("sales", insert=one(), delete="units = 3")
    live.update("sales", insert=one(units=7))
    assert live.save() == 2
    assert new_files(tmp_path, before) == ["relations/sales", "relations/sales"]
    (change,) = relation(tmp_path, "sales").changes
    assert change.came is not None and change.went is not None
    assert (change.came.rows, change.went.rows) == (2, 1)
    assert relation(tmp_path, "sales").current_rows == 41
    opened = ct.open(tmp_path, engine="local")
    assert opened.schema.rows("sales") == 41
    refreshes(opened)
    same(opened, live)
    assert "relation sales, 41 rows, copied, 3 rows of changes beside" in str(
        ct.saved.status(tmp_path)
    )
    same(ct.open(tmp_path, version=1, engine="local"), calibrated())


def test_an_opened_tree_goes_on(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    for units in range(5):
        opened = ct.open(tmp_path, engine="local")
        opened.update("sales", insert=one(units=units))
        opened.update("stores", upsert=[{"store": 1, "town": units}], key="store")
        live.update("sales", insert=one(units=units))
        live.update("stores", upsert=[{"store": 1, "town": units}], key="store")
        assert opened.save() == units + 2
    assert len(relation(tmp_path, "sales").changes) == 5
    same(ct.open(tmp_path, engine="local"), live)


def test_what_pinned_messages_need_stays_apart(tmp_path: Path) -> None:
    """Some are refreshed between two updates, others are not."""
    live = graph(sales=pa.Table.from_pylist(SALES * 1000)).calibrate()
    live.save(tmp_path)
    live.update("sales", insert=one())
    assert live.query(group_by=["town"]).plan.refreshed
    live.update("sales", insert=one(units=7), delete="units = 5")
    live.save()
    assert len(relation(tmp_path, "sales").changes) == 2
    opened = ct.open(tmp_path, engine="local")
    refreshes(opened)
    assert rows(opened, group_by=["town"]) == rows(live, group_by=["town"])


def test_kept_messages_of_older_versions_are_not_saved(tmp_path: Path) -> None:
    live = calibrated()
    live.query(group_by=["town"], where="price = 11")
    kept = len(live.state.store) - len(live.state.store.pinned)
    assert kept
    live.update("sales", insert=one())
    live.save(tmp_path)
    assert len(read(Directory(tmp_path)).messages) < len(live.state.store)
    live.refresh()
    live.save()
    messages = read(Directory(tmp_path)).messages
    assert sum(message.pinned for message in messages) == len(live.state.store.pinned)
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    same(opened, live)


def test_changes_are_merged_when_they_are_too_numerous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation_writer, "MAX_CHANGES", 4)
    sales = pa.Table.from_pylist(SALES * 10)
    live = graph(sales=sales).calibrate()
    live.save(tmp_path)
    (base,) = relation(tmp_path, "sales").own_files
    lengths = []
    for units in range(12):
        live.update("sales", insert=one(units=units))
        live.refresh()
        live.save()
        saved = relation(tmp_path, "sales")
        lengths.append(len(saved.changes))
        assert saved.current_rows == 401 + units
    assert max(lengths) == 4 and 1 in lengths[1:]
    assert base in relation(tmp_path, "sales").own_files
    assert rows(ct.open(tmp_path, engine="local")) == rows(live)


def test_a_relation_that_has_changed_much_is_written_anew(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    (base,) = relation(tmp_path, "sales").own_files
    live.update("sales", delete="units > 20")
    live.refresh()
    live.save()
    saved = relation(tmp_path, "sales")
    assert not saved.changes and saved.own_files != [base] and saved.rows == 21
    assert saved.revision == live.snapshot.revisions["sales"]
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    same(opened, live)
    opened.update("sales", insert=one())
    live.update("sales", insert=one())
    same(opened, live)


def test_messages_from_long_ago_are_not_saved(tmp_path: Path) -> None:
    """To refresh them would take as long as to compute them, and all changes since."""
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", delete="units > 20")
    live.update("sales", insert=one())
    live.save()
    assert not relation(tmp_path, "sales").changes
    edges = {message.edge for message in read(Directory(tmp_path)).messages}
    assert edges == {("stores", "sales"), ("items", "sales")}
    opened = ct.open(tmp_path, engine="local")
    assert not opened.is_calibrated
    same(opened, live)


def test_a_relation_elsewhere_stays_there(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(SALES * 10), tmp_path / "sales.parquet")
    live = graph(sales=str(tmp_path / "sales.parquet")).calibrate({"n": "count(*)"})
    live.update("sales", insert=one(), delete="units < 20")
    live.save(tmp_path / "tree", copy_below=100)
    saved = relation(tmp_path / "tree", "sales")
    assert saved.source.place == "files" and len(saved.changes) == 1
    opened = ct.open(tmp_path / "tree", engine="local")
    assert rows(opened, group_by=["town"]) == rows(live, group_by=["town"])
    opened.update("sales", insert=one())
    live.update("sales", insert=one())
    opened.save(copy_below=100)
    again = ct.open(tmp_path / "tree", engine="local")
    assert rows(again, where="units > 30") == rows(live, where="units > 30")
    status = ct.saved.status(tmp_path / "tree").relations[0]
    assert status.where == f"in {tmp_path / 'sales.parquet'}" and status.changes == 202


def test_what_is_long_ago_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calitree.memory.history.CHANGES_REMEMBERED", 5)
    live = graph(sales=pa.Table.from_pylist(SALES * 10)).calibrate()
    live.save(tmp_path)
    for units in range(12):
        live.update(
            "sales",
            insert=one(units=units),
            delete="store = 3 and units = 3" if not units else None,
        )
    live.save()
    saved = relation(tmp_path, "sales")
    assert len(saved.changes) == 1 and saved.current_rows == 402
    opened = ct.open(tmp_path, engine="local")
    assert rows(opened, group_by=["town"]) == rows(live, group_by=["town"])
    live.save(tmp_path / "other")
    assert rows(ct.open(tmp_path / "other", engine="local")) == rows(live)


def test_types_of_changes_stay(tmp_path: Path) -> None:
    table = pa.table(
        {
            "store": pa.array([1, 2, None], pa.uint64()),
            "label": pa.array(["a", None, "b"]).dictionary_encode(),
            "at": pa.array([1, 2, None], pa.timestamp("ns", "Europe/Berlin")),
        }
    )
    declared = ct.JoinGraph("local")
    declared.add_relation("sales", table)
    declared.add_relation("stores", pa.table({"store": pa.array([1, 2], pa.uint64())}))
    declared.add_join("sales", "stores", on="store")
    live = declared.calibrate({"n": "count(*)", "at": "max(at)"})
    live.update("sales", insert=table.slice(0, 2), delete=table.slice(1))
    live.save(tmp_path)
    live.update("sales", insert=table)
    live.save()
    opened = ct.open(tmp_path, engine="local")
    question = {"group_by": ["label", "sales.store"]}
    answer, expected = opened.query(**question).arrow(), live.query(**question).arrow()
    assert answer.schema == expected.schema
    assert sorted(map(repr, answer.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def test_where_filters_stand_is_saved(tmp_path: Path) -> None:
    """The smallest bag has it, and another may be smallest later."""
    live = calibrated(where="sales.store < 3")
    live.save(tmp_path)
    live.update("stores", insert=[{"store": 5 + i, "town": i} for i in range(200)])
    live.update("sales", delete="units > 5")
    live.refresh()
    live.save()
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    assert opened.state.bound == live.state.bound
    same(opened, live)


def test_a_what_if_and_a_past_version_can_be_saved(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path / "tree")
    live.update("sales", insert=one())
    supposed = live.what_if(delete={"stores": "town = 0"})
    with pytest.raises(ct.SavedError, match="neither saved nor opened"):
        supposed.save()
    supposed.save(tmp_path / "supposed")
    same(ct.open(tmp_path / "supposed", engine="local"), supposed)
    past = live.at(0)
    past.save(tmp_path / "past")
    same(ct.open(tmp_path / "past", engine="local"), calibrated())
    assert live.saved.last is not None and live.saved.last.directory == str(tmp_path / "tree")
    with pytest.raises(UpdateError, match="stays so"):
        live.at(0).reload()


def test_streams_are_saved(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    other = ct.open(tmp_path, engine="local")
    live.state.streams.update(a=3, b=1)
    live.save()
    other.state.streams.update(a=2, c=5)
    other.save()
    assert other.state.streams == {"a": 3, "b": 1, "c": 5}
    assert ct.open(tmp_path, engine="local").state.streams == {"a": 3, "b": 1, "c": 5}


def test_format_1_is_read(tmp_path: Path) -> None:
    live = calibrated()
    live.save(tmp_path)
    manifest = tmp_path / "manifests" / "000000000001.json"
    content = json.loads(manifest.read_text())
    for name in ("format", "checksum", "lineage", "streams", "read_files", "bound"):
        del content[name]
    for described in content["relations"]:
        del described["changes"]
    from calitree.saved.manifest import checksum

    content = {"format": 1, "checksum": checksum(content), **content}
    manifest.write_text(json.dumps(content))
    first, second = (ct.open(tmp_path, engine="local") for _ in range(2))
    same(first, live)
    first.update("sales", insert=one())
    second.update("stores", delete="store = 3")
    assert [first.save(), second.save()] == [2, 3]
    live.update("sales", insert=one())
    live.update("stores", delete="store = 3")
    same(second, live)


# -- two writers ----------------------------------------------------------------------------------


def pair(tmp_path: Path) -> tuple[WideTable, WideTable]:
    """Two trees of one directory."""
    first = calibrated()
    first.save(tmp_path)
    return first, ct.open(tmp_path, engine="local")


def test_other_relations_go_together(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    first.update("sales", insert=one())
    first.query(group_by=["town"])
    assert first.save() == 2
    second.update("stores", upsert=[{"store": 1, "town": 9}], key="store")
    second.query(group_by=["price"])
    at = second.version
    assert second.save() == 3
    assert second.version == at + 1
    expected = calibrated()
    expected.update("sales", insert=one())
    expected.update("stores", upsert=[{"store": 1, "town": 9}], key="store")
    for wide in (second, ct.open(tmp_path, engine="local")):
        same(wide, expected)
    # What it had is still asked as it was.
    assert rows(second.at(at), group_by=["town"]) != rows(second, group_by=["town"])
    assert first.reload() == 2
    assert first.reload() == 2
    same(first, expected)
    assert first.save() == 4
    same(ct.open(tmp_path, engine="local"), expected)


def test_nothing_is_written_twice_by_two(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    first.update("sales", insert=one())
    first.refresh()
    first.save()
    before = names(tmp_path)
    second.update("stores", delete="store = 3")
    second.save()
    assert new_files(tmp_path, before) == ["relations/stores"]


def test_what_they_refreshed_need_not_be_refreshed_again(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    second.query(group_by=["town"])
    first.update("sales", insert=one())
    first.refresh()
    first.save()
    second.reload()
    plan = second.query(group_by=["town"]).plan
    assert not plan.refreshed and not plan.computed
    assert second.is_calibrated
    assert len(second.state.store.pinned) == len(first.state.store.pinned)
    same(second, first)


def test_messages_of_both_sides_are_brought_up_to_date(tmp_path: Path) -> None:
    """What neither has at hand is taken from the newest version, as far as that can be refreshed."""
    first, second = pair(tmp_path)
    first.update("sales", insert=one())
    first.refresh()
    first.save()
    second.update("stores", delete="store = 3")  # none of its messages has been read
    second.save()
    opened = ct.open(tmp_path, engine="local")
    for wide in (second, opened):
        plan = wide.refresh(progress=False)
        assert isinstance(plan, Plan) and not plan.computed
        assert {(key.source, key.target) for key in plan.refreshed} == {
            ("stores", "sales"),
            ("sales", "items"),
        }
    same(second, opened)


def test_a_reader_for_long(tmp_path: Path) -> None:
    """It has the messages of the newest version, and no more of older ones than it has room for."""
    writer, reader = pair(tmp_path)
    for units in range(6):
        writer.update("sales", insert=one(units=units))
        writer.refresh()
        writer.save()
        ct.saved.vacuum(tmp_path, grace=0)
        assert reader.reload() == units + 1
        same(reader, writer)
        assert len(reader.state.store.shelved) <= 4
    assert len(reader.state.store.pinned) <= 4


def test_the_same_relation_is_a_conflict(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    first.update("sales", insert=one())
    first.update("stores", delete="store = 3")
    first.save()
    second.update("sales", delete="units = 3")
    mine = rows(second)
    for attempt in (second.save, second.reload, lambda: second.save(tmp_path)):
        with pytest.raises(
            ConflictError, match=r"^sales changed in .* between its versions 1 and 2"
        ):
            attempt()
    assert rows(second) == mine and second.version == 1
    assert ct.saved.status(tmp_path).version == 2
    assert second.save(tmp_path / "other") == 1
    same(ct.open(tmp_path / "other", engine="local"), second)
    # Saved elsewhere or not, there it is still a conflict.
    with pytest.raises(ConflictError, match="sales"):
        second.save(tmp_path)


def test_a_conflict_that_compaction_does_not_hide(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    first.update("sales", delete="units > 5")
    first.refresh()
    first.save()
    ct.saved.vacuum(tmp_path, grace=0)
    second.update("sales", insert=one())
    with pytest.raises(ConflictError, match="sales"):
        second.save()
    third = ct.open(tmp_path, engine="local")
    third.update("sales", insert=one())
    assert third.save() == 3


def test_what_was_written_anew_is_taken_over(tmp_path: Path) -> None:
    """Its version is the same, or nothing of it is known here."""
    first, second = pair(tmp_path)
    third = ct.open(tmp_path, engine="local")
    for wide in (second, third):
        rows(wide, group_by=["town"], where="units > 1")  # its rows are read
    first.update("sales", delete="units > 5")
    first.refresh()
    first.save()
    ct.saved.vacuum(tmp_path, grace=0)
    second.update("items", delete="price = 12")
    assert second.save() == 3
    third.reload()
    expected = calibrated()
    expected.update("sales", delete="units > 5")
    expected.update("items", delete="price = 12")
    for wide in (second, third, ct.open(tmp_path, engine="local")):
        same(wide, expected)


def test_another_tree_is_a_conflict(tmp_path: Path) -> None:
    first, second = pair(tmp_path)
    other = calibrated()
    assert other.save(tmp_path) == 2  # it does not come from here, and nobody is asked
    second.update("sales", insert=one())
    with pytest.raises(ConflictError, match=r"Version 2 of .* is another tree than this one"):
        second.save()
    with pytest.raises(ConflictError, match="another tree"):
        first.reload()
    assert other.save() == 3


def test_a_directory_that_is_gone_is_created_again(tmp_path: Path) -> None:
    first, _ = pair(tmp_path / "tree")
    first.update("sales", insert=one())
    first.save()
    shutil.rmtree(tmp_path / "tree")
    assert first.save() == 1
    same(ct.open(tmp_path / "tree", engine="local"), first)


def test_a_number_is_taken_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else commits just before."""
    first, second = pair(tmp_path)
    create = Directory.create

    def late(directory: Directory, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Directory, "create", create)
        first.update("sales", insert=one())
        assert first.save() == 2
        return create(directory, name, content)

    second.update("stores", delete="store = 3")
    monkeypatch.setattr(Directory, "create", late)
    assert second.save() == 3
    expected = calibrated()
    expected.update("sales", insert=one())
    expected.update("stores", delete="store = 3")
    same(ct.open(tmp_path, engine="local"), expected)
    same(second, expected)


@pytest.mark.parametrize("same_relation", [False, True])
def test_a_number_that_was_vacuumed_away_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same_relation: bool
) -> None:
    """Others have had it, and gone on: a commit under it would be seen by nobody."""
    first, second = pair(tmp_path)
    create = Directory.create

    def late(directory: Directory, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Directory, "create", create)
        first.update("sales", insert=one())
        assert [first.save(), first.save()] == [2, 3]
        ct.saved.vacuum(tmp_path)
        return create(directory, name, content)

    second.update("sales" if same_relation else "stores", delete="store = 3")
    monkeypatch.setattr(Directory, "create", late)
    if same_relation:
        with pytest.raises(ConflictError, match="sales changed"):
            second.save()
        assert ct.saved.status(tmp_path).versions == (3,)
        same(ct.open(tmp_path, engine="local"), first)
        return
    assert second.save() == 4
    assert ct.saved.status(tmp_path).versions == (3, 4)
    expected = calibrated()
    expected.update("sales", insert=one())
    expected.update("stores", delete="store = 3")
    same(ct.open(tmp_path, engine="local"), expected)


def test_others_may_go_on_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed on top of a version, before its writer has looked, stands on it."""
    first, second = pair(tmp_path)
    create = Directory.create

    def early(directory: Directory, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Directory, "create", create)
        created = create(directory, name, content)
        second.update("stores", delete="store = 3")
        assert [second.save(), second.save()] == [3, 4]
        ct.saved.vacuum(tmp_path)
        return created

    first.update("sales", insert=one())
    monkeypatch.setattr(Directory, "create", early)
    assert first.save() == 2
    first.reload()
    same(first, second)
    same(ct.open(tmp_path, engine="local"), second)


def test_a_vacuum_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what is written and not named yet; then that is written again."""
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", insert=one(), delete="units = 3")
    live.refresh()
    create = Directory.create

    def late(directory: Directory, name: str, content: bytes) -> bool:
        monkeypatch.setattr(Directory, "create", create)
        assert ct.saved.vacuum(tmp_path, grace=0)
        return create(directory, name, content)

    monkeypatch.setattr(Directory, "create", late)
    assert live.save() == 3
    opened = ct.open(tmp_path, engine="local")
    assert opened.is_calibrated
    same(opened, live)


def test_who_is_interrupted_after_the_commit_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", insert=one())
    create = Directory.create

    def interrupted(directory: Directory, name: str, content: bytes) -> bool:
        create(directory, name, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(Directory, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.save()
    monkeypatch.setattr(Directory, "create", create)
    same(ct.open(tmp_path, engine="local"), live)
    # It finds its own version there, and goes on from it.
    live.update("sales", insert=one(units=8))
    assert live.save() == 3
    same(ct.open(tmp_path, engine="local"), live)


def test_who_fails_takes_back_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = calibrated()
    live.save(tmp_path)
    live.update("sales", insert=one())
    before = names(tmp_path)

    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Directory, "create", full)
        with pytest.raises(ct.SavedError, match="No space left"):
            live.save()
    assert names(tmp_path) == before
    assert live.save() == 2
    same(ct.open(tmp_path, engine="local"), live)


def test_nowhere_to_save_to_or_reload_from() -> None:
    live = calibrated()
    with pytest.raises(ct.SavedError, match="say where"):
        live.save()
    with pytest.raises(ct.SavedError, match="nothing to reload"):
        live.reload()


# -- between engines ------------------------------------------------------------------------------


def test_updates_between_spark_and_local(spark: SparkSession, tmp_path: Path) -> None:
    engine = SparkEngine(spark)
    live = calibrated(engine)
    live.save(tmp_path)
    expected = calibrated()
    live.update("sales", insert=spark.createDataFrame(one()), delete="units = 3")
    expected.update("sales", insert=one(), delete="units = 3")
    live.save()
    for units, chosen in enumerate(("local", engine, "local")):
        opened = ct.open(tmp_path, engine=chosen)
        same(opened, expected)
        for wide in (opened, expected):
            wide.update("sales", insert=one(units=units), delete="units = 100")
            wide.update("sales", insert=one())
            wide.update("stores", upsert=[{"store": 3, "town": units}], key="store")
        same(opened, expected)
        opened.save()
    assert live.reload() == 2
    same(live, expected)


def test_updates_of_a_hybrid_tree(spark: SparkSession, tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(SALES * 50), tmp_path / "sales.parquet")
    small = HybridEngine(spark, in_process=1000)
    live = graph(small, str(tmp_path / "sales.parquet")).calibrate({"n": "count(*)"})
    live.update("sales", insert=one(), delete="units = 3")
    live.save(tmp_path / "tree", copy_below=100)
    assert relation(tmp_path / "tree", "sales").source.place == "files"
    for chosen in (HybridEngine(spark, in_process=1000), "local"):
        opened = ct.open(tmp_path / "tree", engine=chosen)
        assert rows(opened, group_by=["town"]) == rows(live, group_by=["town"])
        assert rows(opened, where="units > 8") == rows(live, where="units > 8")
        opened.update("sales", insert=one(units=9))
        live.update("sales", insert=one(units=9))
        opened.save(tmp_path / "tree", copy_below=100)
