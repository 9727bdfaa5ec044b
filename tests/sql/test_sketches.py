"""Cells and buckets: the same number for a value on every engine, however its type is stored."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from calitree import ExpressionError, JoinGraph
from calitree.cli.main import app
from calitree.engines.reference import sketches as rowwise
from calitree.sql.analysis import Resolved
from calitree.sql.kernels.sketches import buckets, cells, xxhash
from calitree.sql.kernels.values import double
from calitree.sql.parser import parse, parse_node
from calitree.sql.rules.sketches import BUCKET, CELL, RANKS, REGISTER_BITS
from calitree.sql.spark import to_spark
from calitree.types import Kind, kind_of_arrow
from tests.support.engines import spark_frame
from tests.support.scale import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_rng = random.Random(7)
DOUBLES = [
    *(
        0.0,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        5e-324,
        -2.2e-308,
        1.7976931348623157e308,
        1.5,
        -1.5,
    ),
    *(math.ldexp(1.0, e) for e in range(-1022, 1024)),
    *(-math.nextafter(math.ldexp(1.0, e), 0) for e in range(-1021, 1024)),
    *(math.nextafter(math.ldexp(1.0, e), math.inf) for e in (-1022, -3, 0, 1, 10, 1023)),
    *(math.ldexp(1 + i / 128, 7) for i in range(128)),
    *(_rng.uniform(-1, 1) * 10 ** _rng.randint(-300, 300) for _ in range(200)),
]
COLUMNS: dict[str, pa.Array] = {
    "bool": pa.array([True, False, None]),
    "int8": pa.array([-1, 0, 1, None], pa.int8()),
    "int64": pa.array([0, 1, -5, 2**63 - 1, -(2**63), None]),
    "float": pa.array([0.1, 1.5, -0.0, math.nan, None], pa.float32()),
    "double": pa.array([*DOUBLES, None]),
    "cents": pa.array([Decimal("1.50"), Decimal("1.00"), Decimal("-0.01"), Decimal("100"), None]),
    "tiny": pa.array([Decimal("1E-10"), Decimal("-10E-10"), Decimal("12345678901234567890.5"), None]),
    "huge": pa.array([Decimal(10) ** 25, Decimal(10) ** 26, Decimal(2) ** 63, None]),
    "text": pa.array(["", "a", "é" * 20, None, *("x" * size for size in range(1, 70))]),
    "bytes": pa.array([b"", b"\x00\xff", None]),
    "date": pa.array([date(1960, 1, 1), date(2024, 2, 29), None]),
    "at": pa.array([datetime(1960, 1, 1, 1, 2, 3, 4), datetime(2024, 2, 29), None]),
    "zoned": pa.array([datetime(2024, 2, 29, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "span": pa.array([timedelta(microseconds=-5), timedelta(days=3), None]),
}  # fmt: skip
HERE = {
    "uint64": pa.array([0, 7, 2**63, 2**64 - 1, None], pa.uint64()),
    "time": pa.array([time(1, 2, 3, 4), None]),
    "seconds": pa.array([datetime(2024, 2, 29), None], pa.timestamp("s")),
}
"""Types that not every Spark has."""


def reference(function: Any, values: pa.Array) -> list[int | None]:
    return [None if value is None else function(value) for value in values.to_pylist()]


def test_hash_is_that_of_spark() -> None:
    """What `xxhash64` gives there."""
    texts = ["", "a", "abc", "12345678", "x" * 31, "x" * 32, "x" * 100]
    expected = [
        *(-7444071767201028348, -8582455328737087284, 1423657621850124518, 6863040065134489090),
        *(-1716462135722163746, 1299777543150008824, 365730103971579591),
    ]
    assert xxhash.of_bytes(pa.array(texts)).view(np.int64).tolist() == expected
    assert xxhash.of_integers(np.array([5, 0])).view(np.int64).tolist() == [
        6251837290343458373,
        -5252525462095825812,
    ]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.binary(max_size=90), max_size=5), st.integers(0, 2))
def test_loops_hash_as_python_does(values: list[bytes], skipped: int) -> None:
    for dtype in (pa.binary(), pa.large_binary()):
        hashed = xxhash.of_bytes(pa.array(values, dtype).slice(skipped))
        assert hashed.tolist() == [rowwise.xxh64(value) for value in values[skipped:]]
    whole = np.array([len(value) - 40 for value in values], np.int64)
    packed = [struct.pack("<q", value) for value in whole.tolist()]
    assert xxhash.of_integers(whole).tolist() == [rowwise.xxh64(value) for value in packed]


@pytest.mark.parametrize("name", [*COLUMNS, *HERE])
def test_cells_are_those_of_the_reference_engine(name: str) -> None:
    values = (COLUMNS | HERE)[name]
    values = values.cast(pa.float64()) if pa.types.is_float32(values.type) else values
    expected = reference(rowwise.cell, values)
    assert cells.cell(values).to_pylist() == expected
    assert cells.cell(values.slice(1)).to_pylist() == expected[1:]
    assert cells.cell(values[0]).as_py() == expected[0]


def test_cells_of_one_value_in_other_types() -> None:
    """Engines do not store all integers and times in the same types."""
    five = [pa.scalar(5), pa.scalar(5, pa.uint64()), pa.scalar(Decimal("5.00"))]
    assert len({cells.cell(value).as_py() for value in five}) == 1
    day = datetime(2024, 2, 29)
    moments = [pa.scalar(day, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    assert len({cells.cell(value).as_py() for value in moments}) == 1
    nanoseconds = pa.array([1, 2, 3, 1_001], pa.timestamp("ns"))
    assert len(set(cells.cell(nanoseconds).to_pylist())) == 4


def test_ranks_are_geometric() -> None:
    taken = np.asarray(cells.cell(pa.array(np.arange(1 << 16))))
    ranks = np.bincount(taken % RANKS, minlength=RANKS)
    assert abs(ranks[0] / (1 << 15) - 1) < 0.02
    assert abs(ranks[3] / (1 << 12) - 1) < 0.05
    registers = np.bincount(taken // RANKS, minlength=1 << REGISTER_BITS)
    assert len(registers) == 1 << REGISTER_BITS
    assert registers.min() > 0


def test_buckets_are_those_of_the_reference_engine() -> None:
    values = COLUMNS["double"]
    assert buckets.bucket(values).to_pylist() == reference(rowwise.bucket, values)


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(), st.floats())
def test_buckets_are_in_the_order_of_numbers(a: float, b: float) -> None:
    low, high = sorted((a, b), key=lambda x: (x != x, x))  # NaN is the greatest
    first, second = buckets.bucket(pa.array([low, high])).to_pylist()
    assert [first, second] == [rowwise.bucket(low), rowwise.bucket(high)]
    assert first <= second


@pytest.fixture(scope="module")
def view(spark: SparkSession) -> Iterator[str]:
    rows = max(map(len, COLUMNS.values()))
    padded = {
        name: pa.concat_arrays([values, pa.nulls(rows - len(values), values.type)])
        for name, values in COLUMNS.items()
    }
    spark_frame(spark, pa.table(padded)).createOrReplaceTempView("values_of_all_types")
    yield "values_of_all_types"
    spark.catalog.dropTempView("values_of_all_types")


def test_spark_has_the_same_cells_and_buckets(spark: SparkSession, view: str) -> None:
    def resolve(table: str | None, name: str) -> Resolved:
        return Resolved(name, ("t",), kind_of_arrow(COLUMNS[name].type))

    numbers = [name for name in COLUMNS if resolve(None, name).kind.is_number]
    asked = [(CELL, name) for name in COLUMNS] + [(BUCKET, name) for name in numbers]
    texts = [to_spark(parse(f"{function}({name})", resolve).node) for function, name in asked]
    columns = [f"{text} AS c{i}" for i, text in enumerate(texts)]
    result = spark.sql(f"SELECT {', '.join(columns)} FROM {view}").toArrow()
    for (function, name), column in zip(asked, result.columns, strict=True):
        values = COLUMNS[name]
        if function == BUCKET or kind_of_arrow(values.type) is Kind.FLOAT:
            values = double(values)
        kernel = cells.cell if function == CELL else buckets.bucket
        assert column.to_pylist()[: len(values)] == kernel(values).to_pylist(), (function, name)
        assert column.null_count == len(column) - len(values) + values.null_count


def test_spark_takes_quantiles_of_plain_sql(spark: SparkSession, view: str) -> None:
    """`verify` asks for them where a join is built by Spark."""
    texts = ["quantile_disc(int8, 0.7)", "quantile_cont(int8, 0.75) filter (where int8 <> 0)"]
    columns = [to_spark(parse_node(text)) for text in texts]
    (row,) = spark.sql(f"SELECT {', '.join(columns)} FROM {view}").collect()
    assert tuple(row) == (1, 0.5)


def test_they_are_no_functions_of_questions() -> None:
    listed = CliRunner().invoke(app, ["functions"]).output
    assert "$" not in listed
    assert "sketches" not in listed
    graph = JoinGraph(engine="local")
    graph.add_relation("a", {"x": [1]})
    with pytest.raises(ExpressionError, match=r"there is no function hash_cell\. `calitree"):
        graph.calibrate({"n": "count(*)"}).query(["hash_cell(x)"])
