"""Everything a relation can be made of, and what is said about everything else."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from calitree.errors import SchemaError
from calitree.storage.frames import arrow_table, files_of, schema_of

TABLE = pa.table({"k": [1, 2, None], "name": ["a", None, "c"]})
ROWS = TABLE.to_pylist()


def parquet(path: Path, table: pa.Table = TABLE) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return str(path)


def text(path: Path, content: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def refused(source: Any, read: Callable[[str, Any], Any] = arrow_table) -> str:
    with pytest.raises(SchemaError) as caught:
        read("sales", source)
    return str(caught.value)


# --- in memory

NAMES, INDEX = ["a", None, "c"], pd.Index([7, 8, 9], name="i")

MEMORY: dict[str, Callable[[], Any]] = {
    "arrow table": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "batch reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches()),
    "dataset": lambda: ds.dataset(TABLE),
    "pandas": lambda: pd.DataFrame({"k": pd.array([1, 2, None], "Int64"), "name": NAMES}),
    "pandas with arrow types": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas with an index": lambda: TABLE.to_pandas(types_mapper=pd.ArrowDtype).set_index(INDEX),
    "polars": lambda: pl.from_arrow(TABLE),
    "lazy polars": lambda: pl.from_arrow(TABLE).lazy(),  # type: ignore[union-attr]
    "duckdb": lambda: duckdb.from_arrow(TABLE),
    "dictionary of lists": lambda: {"k": [1, 2, None], "name": ["a", None, "c"]},
    "list of dictionaries": lambda: [{"k": 1, "name": "a"}, {"k": 2}, {"name": "c"}],
    "dictionary of arrays": lambda: {"k": TABLE["k"], "name": pa.array(["a", None, "c"])},
    "anything that streams": lambda: Streaming(),
}  # fmt: skip


class Streaming:
    """Some library's table, known only by Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", MEMORY)
def test_in_memory(kind: str) -> None:
    assert arrow_table("t", MEMORY[kind]()).to_pylist() == ROWS
    assert schema_of("t", MEMORY[kind]()).names == ["k", "name"]
    assert files_of(MEMORY[kind]()) is None


def test_asking_for_the_schema_does_not_consume_a_reader() -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    assert schema_of("t", reader) == TABLE.schema
    assert arrow_table("t", reader).num_rows == 3


def test_what_pandas_means() -> None:
    frame = pd.DataFrame(
        {
            "x": [1.5, np.nan, 2.5],
            "c": pd.Categorical(["b", "a", None]),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            "flag": pd.array([True, None, False], "boolean"),
            "money": [Decimal("1.10"), None, Decimal("2.25")],
            "when": [date(2020, 1, 1), None, date(2020, 1, 2)],
            5: [1, 2, 3],
        },
        index=[3, 3, 4],
    )
    table = arrow_table("t", frame)
    assert table.column_names == ["x", "c", "day", "flag", "money", "when", "5"]
    assert table["x"].to_pylist() == [1.5, None, 2.5]
    assert table["c"].to_pylist() == ["b", "a", None]
    assert table["c"].type == pa.string()
    assert pa.types.is_timestamp(table["day"].type)
    assert table["day"].null_count == 1
    assert table["flag"].to_pylist() == [True, None, False]
    assert table["money"].to_pylist() == [Decimal("1.10"), None, Decimal("2.25")]
    assert table["when"].to_pylist() == [date(2020, 1, 1), None, date(2020, 1, 2)]


def test_elsewhere_nan_is_a_number() -> None:
    for source in (
        {"x": [np.nan, None]},
        {"x": np.array([np.nan, 1.0])},
        pl.DataFrame({"x": [np.nan, 1.0]}),
    ):
        assert arrow_table("t", source)["x"][0].as_py() != 0
        assert arrow_table("t", source)["x"][0].is_valid


def test_nested_columns_may_be_there() -> None:
    table = arrow_table("t", [{"k": 1, "tags": ["a"], "at": {"x": 1}}])
    assert table.column_names == ["k", "tags", "at"]


def test_frames_derived_from_pandas() -> None:
    class Mine(pd.DataFrame):  # type: ignore[misc]
        pass

    assert arrow_table("t", Mine({"k": [1]})).to_pylist() == [{"k": 1}]


def test_no_library_is_imported_for_another(tmp_path: Path) -> None:
    program = (
        f"import sys; from calitree.storage.frames import arrow_table; "
        f"arrow_table('t', {parquet(tmp_path / 'a.parquet')!r}); "
        f"print([m for m in ('pandas', 'polars', 'pyspark', 'duckdb') if m in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.spark
def test_spark_frames(spark: Any) -> None:
    frame = spark.createDataFrame(ROWS, "k bigint, name string")
    assert arrow_table("t", frame).to_pylist() == ROWS
    assert schema_of("t", frame).names == ["k", "name"]


# --- files


def test_parquet_and_csv_by_every_way_of_naming_them(tmp_path: Path) -> None:
    one = parquet(tmp_path / "parts" / "one.parquet")
    two = parquet(tmp_path / "parts" / "two.pq")
    text(tmp_path / "parts" / "_SUCCESS", "")
    text(tmp_path / "parts" / "_logs" / "x.parquet", "")
    for source in (one, Path(one)):
        assert arrow_table("t", source).to_pylist() == ROWS
        assert files_of(source) == [one]
    for source in (
        tmp_path / "parts",
        [one, two],
        str(tmp_path / "parts" / "[ot]*.p*q*"),
        (one, Path(two)),
    ):
        assert arrow_table("t", source).to_pylist() == ROWS + ROWS
        assert schema_of("t", source) == TABLE.schema
        assert files_of(source) == [one, two]
    assert files_of(str(tmp_path / "**" / "*.parquet"))[0].endswith("x.parquet")  # type: ignore[index]


def test_csv(tmp_path: Path) -> None:
    content = 'k,name,x,day,flag\n1,"a,b",1.5,2020-01-01,true\n,"",,,\n3,NA,2,2020-01-02,false\n'
    expected = [
        {"k": 1, "name": "a,b", "x": 1.5, "day": date(2020, 1, 1), "flag": True},
        {"k": None, "name": "", "x": None, "day": None, "flag": None},
        {"k": 3, "name": "NA", "x": 2.0, "day": date(2020, 1, 2), "flag": False},
    ]
    plain = text(tmp_path / "plain.csv", content)
    assert arrow_table("t", plain).to_pylist() == expected
    assert schema_of("t", plain) == arrow_table("t", plain).schema
    zipped = tmp_path / "zipped.CSV.gz"
    zipped.write_bytes(gzip.compress(content.encode()))
    assert arrow_table("t", zipped).to_pylist() == expected
    tabs = text(tmp_path / "tabs.tsv", "k\tname\n1\ta,b\n")
    assert arrow_table("t", tabs).to_pylist() == [{"k": 1, "name": "a,b"}]
    lines = text(tmp_path / "lines.csv", 'k,name\n1,"two\nlines"\n')
    assert arrow_table("t", lines).to_pylist() == [{"k": 1, "name": "two\nlines"}]
    assert arrow_table("t", text(tmp_path / "head.csv", "k,name\n")).num_rows == 0


def test_types_that_show_late_in_a_csv(tmp_path: Path) -> None:
    late = text(tmp_path / "late.csv", "k,x\n" + "1,\n" * 800_000 + "2.5,7\n")
    table = arrow_table("t", late)
    assert table.schema.types == [pa.float64(), pa.int64()]
    assert table.slice(800_000).to_pylist() == [{"k": 2.5, "x": 7}]


def test_csv_files_that_look_different(tmp_path: Path) -> None:
    text(tmp_path / "a.csv", "k,x,y\n1,2,\n")
    text(tmp_path / "b.csv", "x,k,y\n2.5,1,z\n")
    table = arrow_table("t", tmp_path)
    assert table.to_pylist() == [{"k": 1, "x": 2.0, "y": None}, {"k": 1, "x": 2.5, "y": "z"}]
    assert schema_of("t", tmp_path) == table.schema


def test_partitioned_directories(tmp_path: Path) -> None:
    hive = ds.partitioning(pa.schema({"year": pa.int64(), "city": pa.string()}), flavor="hive")
    data = pa.table(
        {"k": [1, 2, 3], "year": [2020, 2021, 2021], "city": ["Köln / Bonn", "x", None]}
    )
    ds.write_dataset(data, tmp_path / "d", format="parquet", partitioning=hive)
    table = arrow_table("t", tmp_path / "d")
    assert (
        sorted(table.select(["k", "year", "city"]).to_pylist(), key=lambda r: r["k"])
        == data.to_pylist()
    )
    assert schema_of("t", tmp_path / "d") == table.schema


def test_files_without_rows_of_a_type(tmp_path: Path) -> None:
    a = parquet(tmp_path / "a.parquet", pa.table({"k": pa.nulls(1)}))
    b = parquet(tmp_path / "b.parquet", pa.table({"k": ["x"]}))
    assert arrow_table("t", [a, b]).to_pylist() == [{"k": None}, {"k": "x"}]


def test_only_footers_are_read_for_a_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "a.parquet")

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the data was read")

    monkeypatch.setattr(pq.ParquetFile, "read", never)
    monkeypatch.setattr(pacsv, "read_csv", never)
    assert schema_of("t", path) == TABLE.schema
    assert schema_of("t", text(tmp_path / "b.csv", "k\n1\n")).types == [pa.int64()]


def test_a_word_may_be_a_table_of_spark() -> None:
    assert files_of("sales") is None
    assert files_of("warehouse.sales") is None


# --- errors


def test_no_such_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = Path.cwd()
    for pattern in ("none/*.parquet", "none.csv"):
        assert refused(pattern) == f"No file matches {pattern!r} (looked for {here / pattern})."
    empty = tmp_path / "empty"
    empty.mkdir()
    assert refused(empty) == f"There is no Parquet or CSV file in {empty}."
    assert refused("sales").startswith(
        "sales: there is no file 'sales', and names of tables are for Spark."
    )


def test_unknown_endings(tmp_path: Path) -> None:
    path = text(tmp_path / "sales.xlsx", "")
    endings = ".parquet, .pq, .csv, .csv.gz, .tsv, .tsv.gz"
    expected = f"sales: cannot tell what {path!r} is; files end in {endings}."
    assert refused(path) == expected
    assert refused(path, schema_of) == expected
    assert refused(tmp_path) == expected


def test_files_that_differ(tmp_path: Path) -> None:
    a = parquet(tmp_path / "a.parquet")
    b = parquet(tmp_path / "b.parquet", pa.table({"k": ["1"], "name": ["a"]}))
    for read in (arrow_table, schema_of):
        message = refused([a, b], read)
        assert message == f"sales: the files differ: column 'k' is string in {b}, int64 in {a}."
    parquet(tmp_path / "b.parquet", pa.table({"k": [1]}))
    assert refused([a, b]) == f"sales: the files differ: {b} has no column 'name', {a} has."
    parquet(tmp_path / "b.parquet", TABLE.append_column("more", pa.nulls(3)))
    assert refused([a, b]) == f"sales: the files differ: {a} has no column 'more', {b} has."


def test_broken_files(tmp_path: Path) -> None:
    path = text(tmp_path / "a.parquet", "this is no parquet file")
    assert refused(path).startswith(f"sales: cannot read {path}: ")
    ragged = text(tmp_path / "a.csv", "a,b\n1,2\n3\n")
    assert refused(ragged).startswith(
        f"sales: cannot read {ragged}: CSV parse error: Expected 2 columns"
    )
    nothing = text(tmp_path / "b.csv", "")
    assert refused(nothing) == f"sales: cannot read {nothing}: Empty CSV file."


def test_columns_of_one_name(tmp_path: Path) -> None:
    double = pa.table([pa.array([1]), pa.array([2])], names=["k", "k"])
    expected = "sales has two columns called 'k'; rename one."
    assert refused(double) == expected
    assert refused(double, schema_of) == expected
    assert refused(pd.DataFrame([[1, 2]], columns=["k", "k"])) == expected
    path = text(tmp_path / "a.csv", "k,k\n1,2\n")
    assert refused(path) == f"sales: {path} has two columns called 'k'; rename one."


def test_no_columns() -> None:
    for source in ({}, [], pd.DataFrame(), pl.DataFrame(), pa.table({})):
        assert refused(source) == "sales has no columns."


def test_columns_that_mix_types() -> None:
    expected = "sales: 'k' mixes values of several types (int, str); give it one."
    assert refused(pd.DataFrame({"a": [1, 2], "k": [1, "x"]})) == expected
    assert refused({"k": [1, "x", None]}) == expected
    assert refused([{"k": 1}, {"k": "x"}]) == expected


def test_columns_that_are_none() -> None:
    assert (
        refused({"k": [1, 2], "x": [1]}) == "sales: the columns differ in length: k has 2, x has 1."
    )
    assert refused({"k": "abc"}) == "sales: 'k' is one text, not a list of values."
    assert refused({"k": 3}) == "sales: 'k' cannot be a column: 'int' object is not iterable."
    assert refused({"k": [object()]}).startswith("sales: 'k' cannot be a column: ")
    levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")]))
    assert refused(levels) == "sales: the columns of the frame have several levels; flatten them."


@pytest.mark.parametrize(
    "source", [3, None, [1, 2], object(), pd.Series([1]), pl.Series([1]), pa.array([1])]
)
def test_what_is_no_table(source: object) -> None:
    message = refused(source)
    assert message.startswith("sales: ")
    assert "table" in message
    assert message.endswith(".")


def test_the_error_lists_what_is_accepted() -> None:
    assert refused(3) == (
        "sales: a relation cannot be made of int; it is an Arrow table or dataset, a pandas or "
        "polars frame, a Spark DataFrame, anything with __arrow_c_stream__, a dictionary of lists, "
        "a list of dictionaries, or the path, URL, glob or directory of Parquet or CSV files."
    )
