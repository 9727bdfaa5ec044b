"""Parquet files as a relation: what is read of them, when, and what their footers tell."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.engines.local import LocalEngine
from calitree.errors import EngineError, SchemaError
from calitree.storage.column_types import plain_table
from calitree.storage.frames import arrow_table, files_of
from calitree.storage.parquet import ParquetColumns
from tests.support.scale import examples

FACT = pa.table(
    {
        "k": [1, 2, None, 2, 3, 1],
        "j": ["a", "b", "b", None, "a", "a"],
        "x": [1.5, None, 2.5, 3.5, 4.5, 5.5],
        "y": [1, 2, 3, 4, 5, 6],
        "note": ["never", "asked", "for", "by", "any", "one"],
    }
)
ITEMS = pa.table({"k": [1, 2, 3], "family": ["f", "g", "f"], "unused": [0, 0, 0]})


def write(path: Path, table: pa.Table, **options: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return str(path)


def columns(source: Any, threads: int = 2) -> ParquetColumns:
    files = files_of(source)
    assert files is not None
    return ParquetColumns("t", files, threads)


def graph(fact: Any, items: Any, **options: Any) -> ct.JoinGraph:
    declared = ct.JoinGraph(LocalEngine(**options))
    declared.add_relation("fact", fact)
    declared.add_relation("items", items)
    declared.add_join("fact", "items", on="k")
    return declared


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [0, 1000])
def test_a_column_is_read_when_it_is_needed(
    large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    column = ParquetColumns.column

    def spied(self: ParquetColumns, label: str) -> pa.ChunkedArray:
        read.append(f"{self.name}.{label}")
        return column(self, label)

    def asked(wide: ct.WideTable, **question: Any) -> list[str]:
        read.clear()
        wide.query(**question)
        return sorted(set(read))

    monkeypatch.setattr(ParquetColumns, "column", spied)
    fact, items = write(tmp_path / "f.parquet", FACT), write(tmp_path / "i.parquet", ITEMS)
    declared = graph(fact, items, large=large)
    assert read == [], "adding a relation reads footers"
    wide = declared.calibrate()
    assert sorted(read) == ["fact.k", "items.k"]
    assert asked(wide) == []
    assert asked(wide, group_by=["family"]) == ["items.family"]
    assert asked(wide, measures={"s": "sum(x)"}) == ["fact.x"]
    assert asked(wide, measures={"s": "sum(x)"}, where="family = 'f'") == []
    assert asked(wide, measures={"s": "sum(y)"}, where="j = 'a'") == ["fact.j", "fact.y"]
    assert asked(wide, where="x > 2") == [*asked(wide, where="x > 3"), "fact.x"]
    assert wide.query(measures={"s": "sum(x * y)"}).rows() == [{"s": 1.5 + 14 + 22.5 + 33}]


def test_nothing_is_held_by_the_files(tmp_path: Path) -> None:
    assert columns(write(tmp_path / "f.parquet", FACT)).nbytes == 0


# -- what footers tell -----------------------------------------------------------------------------

HALF = pa.table({"k": [1, 2, 3, None], "x": [1, 2, 3, 4]})


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({}, {"x"}),
        ({"row_group_size": 1}, {"x"}),
        ({"write_statistics": False}, set()),
        ({"write_statistics": ["x"]}, {"x"}),
        ({"write_statistics": ["k"]}, set()),
    ],
    ids=["whole", "row groups", "no statistics", "some statistics", "others"],
)
def test_what_has_no_null(options: dict[str, Any], known: set[str], tmp_path: Path) -> None:
    """Only where every row group of every file says so."""
    path = write(tmp_path / "a.parquet", HALF, **options)
    assert (columns(path).null_free, columns(path).rows) == (known, 4)
    write(tmp_path / "b.parquet", HALF[:3])
    both = columns(tmp_path)
    assert (both.null_free, both.rows) == (known, 7)
    write(tmp_path / "c.parquet", HALF.set_column(1, "x", pa.nulls(4, pa.int64())))
    assert columns(tmp_path).null_free == set()


def test_nested_columns_may_be_null(tmp_path: Path) -> None:
    nested = pa.table({"x": [1], "at": [{"x": 1}], "tags": [["a"]], "a.b": [1], "a": [2]})
    parquet = columns(write(tmp_path / "a.parquet", nested))
    assert parquet.null_free == {"x", "a.b", "a"}
    assert parquet.table().equals(nested.select(["x", "a.b", "a"]))
    assert parquet.unsupported == {
        "at": "struct<x: int64>, which cannot be used here: give its fields as columns",
        "tags": "list<element: string>, which cannot be used here: give its elements as rows of a relation "
        "of their own",
    }


# -- several files ---------------------------------------------------------------------------------


def test_files_of_all_shapes(tmp_path: Path) -> None:
    """In another order of columns, without rows, without row groups, with a column of no type."""
    write(tmp_path / "a.parquet", FACT, row_group_size=1)
    write(tmp_path / "b.parquet", FACT.select(FACT.column_names[::-1]), row_group_size=4)
    write(tmp_path / "c.parquet", FACT[:0])
    pq.ParquetWriter(tmp_path / "d.parquet", FACT.schema).close()
    assert pq.read_metadata(tmp_path / "d.parquet").num_row_groups == 0
    write(tmp_path / "e.parquet", FACT[:2].set_column(4, "note", pa.nulls(2)))
    for threads in (1, 2, 3, 16):
        parquet = columns(tmp_path, threads)
        assert parquet.rows == 14
        assert parquet.schema == FACT.schema
        assert parquet.table().equals(arrow_table("t", tmp_path))
        assert parquet.column("note").to_pylist() == FACT["note"].to_pylist() * 2 + [None] * 2
    assert parquet.null_free == {"y"}


@pytest.mark.parametrize("groups", [True, False])
def test_without_rows(groups: bool, tmp_path: Path) -> None:
    write(tmp_path / "f.parquet", FACT[:0])
    if not groups:
        pq.ParquetWriter(tmp_path / "f.parquet", FACT.schema).close()
    assert columns(tmp_path / "f.parquet").table().equals(FACT[:0])
    wide = graph(tmp_path / "f.parquet", ITEMS, large=0).calibrate()
    measures = {"s": "sum(x)", "m": "min(j)", "n": "count(*)"}
    assert wide.query(measures=measures).rows() == [{"s": None, "m": None, "n": 0}]
    assert wide.query(group_by=["family", "j"], where="j > 'a' or y > 1").rows() == []


def test_partitioned_directories(tmp_path: Path) -> None:
    """A column that only the directories tell: it repeats for the rows of a file, once."""
    null = "__HIVE_DEFAULT_PARTITION__"
    for year, city, size in (
        (2020, "K%C3%B6ln", 3),
        (2021, null, 2),
        (2021, "x", 0),
        (2022, "x", 4),
    ):
        part = pa.table({"k": pa.array(range(size), pa.int64())})
        write(tmp_path / f"year={year}" / f"city={city}" / "0.parquet", part, row_group_size=1)
    for threads in (1, 3):
        parquet = columns(tmp_path, threads)
        assert parquet.table().equals(arrow_table("t", tmp_path))
        assert parquet.column("year").to_pylist() == [2020] * 3 + [2021] * 2 + [2022] * 4
        assert parquet.column("city").to_pylist() == ["Köln"] * 3 + [None] * 2 + ["x"] * 4
        assert (parquet.rows, parquet.null_free) == (9, {"k", "year"})
    items = pa.table({"k": [0, 1, 2], "family": ["f", "g", "f"]})
    wide = graph(tmp_path, items, large=0).calibrate()
    rows = wide.query(group_by=["city", "family"], where="year < 2022").rows()
    assert {(row["city"], row["family"]): row["n"] for row in rows} == {
        ("Köln", "f"): 2, ("Köln", "g"): 1, (None, "f"): 1, (None, "g"): 1,
    }  # fmt: skip


def test_files_that_differ_are_refused_when_they_are_added(tmp_path: Path) -> None:
    a = write(tmp_path / "a.parquet", pa.table({"k": [1]}))
    b = write(tmp_path / "b.parquet", pa.table({"k": ["1"]}))
    with pytest.raises(SchemaError) as caught:
        columns([a, b])
    assert str(caught.value) == f"t: the files differ: column 'k' is string in {b}, int64 in {a}."


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    """Columns that are read now would not belong to those read before."""
    path = write(tmp_path / "f.parquet", FACT)
    wide = graph(path, ITEMS).calibrate()
    write(tmp_path / "f.parquet", FACT.take([1, 0]))
    message = f"fact: {path} has changed since it was added. Add it to a new graph."
    with pytest.raises(EngineError) as caught:
        wide.query(measures={"s": "sum(x)"})
    assert str(caught.value) == message
    assert wide.query().rows() == [{"n": 5}], "what was read before still answers"
    write(tmp_path / "f.parquet", FACT)  # of the same size, later
    os.utime(path, ns=(0, 0))
    with pytest.raises(EngineError, match="has changed since it was added"):
        wide.query(measures={"s": "sum(x)"})
    Path(path).unlink()
    with pytest.raises(EngineError, match="has changed since it was added"):
        wide.query(measures={"s": "sum(x)"})


# -- the same answers as from memory ---------------------------------------------------------------


def test_columns_of_all_types(tmp_path: Path) -> None:
    day = datetime.date(2020, 2, 29)
    table = pa.table(
        {
            "k": pa.array([1, None, 2], pa.uint8()),
            "m": pa.array([Decimal("1.25"), None, Decimal("-3.00")], pa.decimal128(9, 2)),
            "d": pa.array([day, None, day]),
            "t": pa.array([datetime.datetime(2020, 1, 1), None, None], pa.timestamp("ms", "UTC")),
            "s": pa.array(["x", None, ""], pa.large_string()),
            "c": pa.array(["x", None, "y"]).dictionary_encode(),
            "b": pa.array([True, None, False]),
            "f": pa.array([1.5, None, float("nan")], pa.float32()),
            "z": pa.array([b"1", None, b"\0"]),
        }
    )
    parquet = columns(write(tmp_path / "a.parquet", table, row_group_size=2))
    assert parquet.schema == plain_table(table).schema
    for label in table.column_names:
        assert str(parquet.column(label).to_pylist()) == str(table[label].to_pylist())


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_files_answer_as_tables_do(data: st.DataObject, tmp_path_factory: Any) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = data.draw(st.integers(0, 60))
    nulls = data.draw(st.sampled_from([0.0, 0.3]))

    def column(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(rows) < nulls)

    fact = pa.table(
        {
            "k": column(rng.integers(0, 5, rows)),
            "j": column(rng.choice(["a", "b", "c"], rows)),
            "x": column(rng.normal(size=rows)),
            "y": column(rng.integers(-9, 9, rows)),
        }
    )
    directory = tmp_path_factory.mktemp("files")
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=3)))
    for i, (start, stop) in enumerate(zip([0, *cuts], [*cuts, rows], strict=True)):
        size = data.draw(st.integers(1, 9))
        write(directory / f"{i}.parquet", fact[start:stop], row_group_size=size)
    options = {
        "threads": data.draw(st.integers(1, 3)),
        "large": data.draw(st.sampled_from([0, 999])),
    }
    wides = [graph(source, ITEMS, **options).calibrate() for source in (directory, fact)]
    for group_by in ([], ["family"], ["j"], ["fact.k", "j"]):
        where = data.draw(st.sampled_from([None, "y > 0", "j <> 'a' and family = 'f'", "x < 0"]))
        measures = {"s": "sum(x * y)", "n": "count(j)", "m": "max(j)", "a": "avg(y)"}
        asked = {"group_by": group_by, "where": where, "measures": measures}
        ours, theirs = (wide.query(**asked).arrow() for wide in wides)
        assert not compare(ours, theirs, len(group_by)), asked
