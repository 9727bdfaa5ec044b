"""Relations at URLs: through pyarrow's file systems and fsspec's, and a server that speaks S3."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import calitree as ct
from calitree.cli.model import ModelFile
from calitree.engines.hybrid import HybridEngine
from calitree.errors import CalitreeError, EngineError, SchemaError
from calitree.storage.filesystem import filesystem_of, is_url, path_of, shown, url_of
from calitree.storage.frames import arrow_table, files_of, schema_of
from calitree.storage.parquet import ParquetColumns, read_split

SALES = pa.table({"k": [1, 2, 2, 3], "x": [1.5, 2.5, None, 4.5]})
MEASURES = {"n": "count(*)", "s": "sum(x)"}
STORES = pa.table({"k": [1, 2, 3], "city": ["a", "b", "a"]})

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def s3_server(**environment: str) -> Iterator[str]:
    """A process that speaks S3; what has to be behind the `?` of its URLs."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    with server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        yield f"endpoint_override=127.0.0.1:{port}&scheme=http"  # then its input ends, and so does it


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as query:
        yield query


class Place:
    """Somewhere to write files to, and what they are called from here."""

    def __init__(self, base: str, query: str = "") -> None:
        self.base, self.query = base, query
        self.system, self.there = filesystem_of(base + query)

    def url(self, name: str) -> str:
        return f"{self.base}/{name}{self.query}"

    def write(self, name: str, table: pa.Table, **options: Any) -> str:
        self.system.create_dir(f"{self.there}/{name}".rpartition("/")[0], recursive=True)
        pq.write_table(table, f"{self.there}/{name}", filesystem=self.system, **options)
        return self.url(name)

    def text(self, name: str, content: bytes) -> str:
        self.system.create_dir(f"{self.there}/{name}".rpartition("/")[0], recursive=True)
        with self.system.open_output_stream(f"{self.there}/{name}", compression=None) as out:
            out.write(content)
        return self.url(name)


@pytest.fixture(params=["file", "s3", "s3a", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = request.node.name.partition("[")[0].replace("_", "-")[:40]
    if request.param == "file":
        return Place((tmp_path / "a b").as_uri())
    if request.param == "memory":
        return Place(f"memory://{name}")
    query = request.getfixturevalue("s3")
    bucket = f"{request.param}-{name}".rstrip("-")
    bucket_system = fs.FileSystem.from_uri(
        f"s3://key:secret@{bucket}?{query}&allow_bucket_creation=true"
    )
    bucket_system[0].create_dir(bucket)
    return Place(f"{request.param}://key:secret@{bucket}/data", f"?{query}")


def names_of(source: Any) -> list[str]:
    """The ends of the files' paths."""
    files = files_of(source)
    assert files is not None
    return [path_of(file).rpartition("/t/")[2] for file in files]


# -- what a URL stands for -------------------------------------------------------------------------


def test_every_way_of_naming_files(place: Place) -> None:
    one = place.write("t/parts/one.parquet", SALES)
    two = place.write("t/parts/two.pq", SALES)
    place.write("t/parts/deep/er/three.parquet", SALES)
    place.text("t/parts/_SUCCESS", b"")
    place.text("t/parts/_logs/x.parquet", b"")
    place.text("t/parts/.hidden.parquet", b"")
    parts, three = ["parts/one.parquet", "parts/two.pq"], "parts/deep/er/three.parquet"
    assert files_of(one) == [one]
    assert files_of([one, two]) == [one, two]
    for directory in ("t/parts", "t/parts/"):
        assert names_of(place.url(directory)) == [three, *parts]
    for pattern, expected in {
        "t/parts/*.parquet": parts[:1],
        "t/parts/[ot]*.p*": parts,
        "t/parts/t?o.pq": parts[1:],
        "t/*/*.p*": parts,
        "t/*s/deep/er/*": [three],
        "t/**/*.parquet": ["parts/_logs/x.parquet", three, parts[0]],
        "t/parts/d**/*.pq": [],
    }.items():
        if expected:
            assert sorted(names_of(place.url(pattern))) == sorted(expected), pattern
        else:
            with pytest.raises(SchemaError, match="No file matches"):
                files_of(place.url(pattern))
    assert arrow_table("t", place.url("t/parts/*.p*")).to_pylist() == SALES.to_pylist() * 2
    assert schema_of("t", [one, two]) == SALES.schema


def test_names_that_urls_cannot_have(place: Place) -> None:
    for name in ("a b.parquet", "50%.parquet", "x%3Ay.parquet", "ö+#&.parquet"):
        place.write(f"t/{name}", SALES)
    files = files_of(place.url("t/*.parquet"))
    assert files is not None
    assert len(files) == 4
    for file in files:
        assert arrow_table("t", file).equals(SALES)
    assert arrow_table("t", place.url("t")).num_rows == 16


def test_partitioned_directories(place: Place) -> None:
    null = "__HIVE_DEFAULT_PARTITION__"
    for year, city in ((2020, "K%C3%B6ln"), (2021, null), (2022, "a b")):
        place.write(f"t/year={year}/city={city}/0.parquet", SALES[:2], row_group_size=1)
    for source in (place.url("t"), place.url("t/**/*.parquet"), place.url("t/year=*/*/0.parquet")):
        files = files_of(source)
        assert files is not None
        columns = ParquetColumns("t", files, 2)
        assert columns.column("year").to_pylist() == [2020] * 2 + [2021] * 2 + [2022] * 2
        assert columns.column("city").to_pylist() == ["Köln"] * 2 + [None] * 2 + ["a b"] * 2
        assert columns.table().equals(arrow_table("t", source))


def test_csv(place: Place) -> None:
    plain = place.text("t/a.csv", b"k,x\n1,1.5\n2,\n")
    zipped = place.text("t/b.csv.gz", gzip.compress(b"k,x\n3,7\n"))
    tabs = place.text("u/c.tsv", b"k\tx\n1\ta,b\n")
    rows = [{"k": 1, "x": 1.5}, {"k": 2, "x": None}, {"k": 3, "x": 7.0}]
    assert arrow_table("t", [plain, zipped]).to_pylist() == rows
    assert arrow_table("t", place.url("t")).to_pylist() == rows
    assert schema_of("t", place.url("t/*")) == pa.schema({"k": pa.int64(), "x": pa.float64()})
    assert arrow_table("t", tabs).to_pylist() == [{"k": 1, "x": "a,b"}]


# -- relations -------------------------------------------------------------------------------------


def wide(sales: Any, engine: Any, measures: dict[str, str] = MEASURES) -> ct.WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("sales", sales)
    graph.add_relation("stores", STORES)
    graph.add_join("sales", "stores", on="k")
    return graph.calibrate(measures)


ANSWER = [{"city": "a", "n": 2, "s": 6.0}, {"city": "b", "n": 2, "s": 2.5}]


@pytest.mark.parametrize("engine", ["local", "hybrid", "reference"])
def test_a_relation_at_a_url(place: Place, engine: str) -> None:
    place.write("t/0.parquet", SALES[:3], row_group_size=2)
    place.write("t/1.parquet", SALES[3:])
    rows = wide(place.url("t/*.parquet"), engine).query(group_by=["city"]).rows()
    assert sorted(rows, key=lambda row: str(row["city"])) == ANSWER


def test_tasks_of_spark_read_urls(spark: Any, s3: str) -> None:
    """Each reads its own part from the server; a split says all that is needed for it."""
    fs.FileSystem.from_uri(f"s3://key:secret@tasks?{s3}&allow_bucket_creation=true")[0].create_dir(
        "tasks"
    )
    place = Place("s3://key:secret@tasks/data", f"?{s3}")
    place.write("t/0.parquet", SALES[:3], row_group_size=2)
    place.write("t/1.parquet", SALES[3:])
    engine = HybridEngine(spark, in_process=-1)
    rows = wide(place.url("t/*.parquet"), engine).query(group_by=["city"]).rows()
    assert sorted(rows, key=lambda row: str(row["city"])) == ANSWER


def test_a_split_is_small_and_says_all(place: Place) -> None:
    place.write("t/year=1/0.parquet", SALES, row_group_size=1)
    files = files_of(place.url("t"))
    assert files is not None
    columns = ParquetColumns("t", files, 2)
    where = columns.everything.splits(3)[0]
    sent = pickle.dumps(where)
    assert len(sent) < 1000
    types = {"x": pa.float64(), "year": pa.int64()}
    expected = [{"x": x, "year": 1} for x in (1.5, 2.5, None)]
    assert read_split(pickle.loads(sent), types).to_pylist() == expected


def test_a_file_that_has_changed_is_refused(place: Place) -> None:
    url = place.write("t/0.parquet", SALES)
    tree = wide(url, "local", {"n": "count(*)"})
    place.write("t/0.parquet", SALES[:1])
    with pytest.raises(EngineError) as caught:
        tree.query(measures={"m": "max(x)"})
    assert str(caught.value) == (
        f"sales: {shown(url)} has changed since it was added. Add it to a new graph."
    )
    place.system.delete_file(f"{place.there}/t/0.parquet")
    with pytest.raises(EngineError, match="has changed since it was added"):
        tree.query(measures={"m": "max(x)"})


# -- errors ----------------------------------------------------------------------------------------


def refused(source: Any) -> str:
    with pytest.raises(CalitreeError) as caught:
        arrow_table("sales", source)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_what_is_not_there(place: Place) -> None:
    place.text("t/notes.parquet", b"no parquet")
    place.text("u/.hidden", b"")
    for name in ("none.parquet", "none"):
        assert refused(place.url(name)) == f"There is no file {shown(place.url(name))}."
    for name in ("t/*.csv", "none/*.parquet", "none/**/x.parquet"):
        assert refused(place.url(name)) == f"No file matches {shown(place.url(name))}."
    assert refused(place.url("u")) == (
        f"There is no Parquet or CSV file in {shown(place.url('u'))}."
    )
    message = refused(place.url("t/notes.parquet"))
    assert message.startswith(f"sales: cannot read {shown(place.url('t/notes.parquet'))}: ")
    assert "secret" not in message


def test_no_such_bucket(s3: str) -> None:
    for name in ("x.parquet", ""):
        url = f"s3://key:secret@no-such-bucket/{name}?{s3}"
        assert refused(url) == f"There is no file {shown(url)}."
    url = f"s3://key:secret@no-such-bucket/*.parquet?{s3}"
    message = refused(url)
    assert message.startswith(f"Cannot list {shown(url)}: ")
    assert "The specified bucket does not exist" in message


def test_no_permission() -> None:
    with s3_server(INITIAL_NO_AUTH_ACTION_COUNT="0") as query:
        for name in ("x.parquet", "*.parquet"):
            url = f"s3://key:secret@bucket/{name}?{query}"
            message = refused(url)
            assert message.startswith(f"Cannot list {shown(url)}: ")
            assert "ACCESS_DENIED" in message or "INVALID_ACCESS_KEY" in message
            assert "secret" not in message


def test_protocols_that_nobody_knows() -> None:
    message = refused("carrier-pigeon://nest/x.parquet")
    assert message.startswith("Cannot reach carrier-pigeon://nest/x.parquet: ")
    message = refused("s3://bucket/x.parquet?no_such_option=1")
    assert message.startswith("Cannot reach s3://bucket/x.parquet?no_such_option=1: ")


# -- URLs ------------------------------------------------------------------------------------------


def test_what_is_a_url() -> None:
    for text in ("s3://b/k", "file:/data/x", "memory://x", "S3://b", "hdfs://h:1/x"):
        assert is_url(text), text
    for text in ("data/x.parquet", "/data/x", "C:/data", "C:\\data", "a:b", "sales", "x//y"):
        assert not is_url(text), text


def test_the_parts_of_a_url() -> None:
    assert url_of("s3a://b/x?y/*.pq?scheme=http&a=b") == (
        "s3",
        "b",
        "/x?y/*.pq",
        "?scheme=http&a=b",
    )
    assert url_of("file:/data/x") == ("file", "", "/data/x", "")
    assert url_of("file:/data").below("a b/year=1%2F2/ö.pq") == (
        "file:///data/a%20b/year=1%252F2/%C3%B6.pq"
    )
    assert url_of("memory://").below("a b.pq") == "memory://a b.pq"
    assert path_of("file:///a%20b?c=d") == "/a b"
    assert shown("s3://user:secret@b/k") == "s3://user:***@b/k"
    assert shown("s3://b/k:1@2") == "s3://b/k:1@2"


def test_a_bucket_is_opened_once(s3: str) -> None:
    first, again = (filesystem_of(f"s3://key:secret@b/{name}?{s3}") for name in ("x/y", "z"))
    assert first[0] is again[0]
    assert (first[1], again[1]) == ("b/x/y", "b/z")


def test_the_root_of_a_file_system() -> None:
    with fsspec.filesystem("memory").open("/root-0.csv", "wb") as out:
        out.write(b"k\n1\n")
    assert arrow_table("t", "memory://root-*.csv").to_pylist() == [{"k": 1}]
    assert arrow_table("t", "memory://root-0.csv").to_pylist() == [{"k": 1}]


LEADING_NOWHERE = {
    "nobody's home": "~nobody-is-called-so/sales.parquet",
    "a long name": "s" * 300 + ".parquet",
    "a long path": "sales/" * 3_000 + "sales.parquet",
    "a long pattern": "*" + "s" * 300,
    "a long name that may be a pattern": "\\" + "(" * 500,
    "a NUL": "sales\0.parquet",
}


@pytest.mark.parametrize("path", LEADING_NOWHERE.values(), ids=list(LEADING_NOWHERE))
def test_paths_that_lead_nowhere(path: str, tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"store": [1], "price": [2.0]})
    wide = graph.calibrate({"n": "count(*)"}, progress=False)
    model = tmp_path / "model.toml"
    model.write_text(f"[relations]\nsales = '{path}'\n".replace("\0", ""))
    wide.save(tmp_path / "tree")
    acts: list[Callable[[], Any]] = [
        lambda: ct.JoinGraph("local").add_relation("sales", path),
        lambda: ct.JoinGraph("local").add_relation("sales", [path]),
        lambda: ModelFile.read(model).graph("local"),
        lambda: wide.update("sales", insert=[path]),
        lambda: wide.search(path, target="price", features=[]),
        lambda: wide.stream("sales", path, every=1),
        *(lambda act=act: act(path) for act in (ct.open, ct.saved.status, ct.saved.fsck)),
    ]
    for act in acts:
        with pytest.raises(CalitreeError):
            act()
    assert ct.open(tmp_path / "tree", "local", allow=[path]).query().rows() == [{"n": 1}]
