"""Every Arrow type as a key, a group, a filter, an extreme and in updates, on every engine, against Python.

One relation has a column of each type, so that a few questions try all of them.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.errors import CalitreeError, SchemaError, UpdateError
from calitree.wide_table import WideTable
from tests.support.engines import LOCAL, engine_named, spark_engine_named

# -- types that can be used -----------------------------------------------------------------------

DAY, NOON = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 1)
UTC_NOON = NOON.replace(tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
IDS = [UUID(int=n << 64 | n) for n in (7, 1, 9, 8, 3)]


class Column(NamedTuple):
    """Four values, of which two are equal, and one more to insert; what they are in an answer."""

    dtype: pa.DataType
    values: list[Any]
    literal: str | None = None
    """The first value, as a condition writes it."""
    answered: Callable[[Any], Any] = lambda value: value

    def array(self, rows: list[int]) -> pa.Array:
        """The values of some rows; NULL for row -1."""
        given = [None if row < 0 else self.values[row] for row in rows]
        dtype = self.dtype
        if pa.types.is_run_end_encoded(dtype):
            return pc.run_end_encode(pa.array(given, dtype.value_type))
        if isinstance(dtype, pa.BaseExtensionType) and dtype.extension_name == "arrow.bool8":
            return pa.ExtensionArray.from_storage(dtype, pa.array(given, pa.int8()))
        return pa.array(given, dtype)


def numbers(dtype: pa.DataType, *values: Any) -> Column:
    return Column(dtype, list(values), str(values[0]))


def texts(dtype: pa.DataType) -> Column:
    return Column(dtype, ["m", "ä", "z", "m", "a"], "'m'")


def blobs(dtype: pa.DataType) -> Column:
    return Column(dtype, [b"mm", b"\x00\xff", b"zz", b"mm", b"\x00\x00"], "'mm'")


def days(dtype: pa.DataType) -> Column:
    others = (dt.date(1, 1, 1), dt.date(2999, 1, 1), DAY, dt.date(2025, 1, 1))
    return Column(dtype, [DAY, *others], f"'{DAY}'")


def moments(dtype: pa.DataType) -> Column:
    noon = UTC_NOON if dtype.tz else NOON
    values = [noon, noon - 400 * HOUR, noon + HOUR, noon, noon + 9999 * HOUR]
    literal = f"'{noon.isoformat(' ')}'"
    return Column(
        dtype, values, literal, lambda value: value.astimezone(dt.UTC) if dtype.tz else value
    )


def clocks(dtype: pa.DataType) -> Column:
    values = [dt.time(12, 30, 1), dt.time(0), dt.time(23, 59, 59), dt.time(12, 30, 1), dt.time(1)]
    return Column(dtype, values, "'12:30:01'")


def spans(dtype: pa.DataType) -> Column:
    return Column(dtype, [HOUR, -HOUR, 99 * HOUR, HOUR, 5 * HOUR], "INTERVAL '60 minutes'")


def decimals(dtype: pa.DataType) -> Column:
    scale = Decimal(1).scaleb(-max(dtype.scale, 0))
    step = 100 if dtype.scale < 0 else 1
    values = [(Decimal(n) * step).quantize(scale) for n in (5, -7, 8, 5, 2)]
    return Column(dtype, values, str(values[0]))


COLUMNS = {
    "bool": Column(pa.bool_(), [True, False, True, True, False], "true"),
    "bool8": Column(pa.bool8(), [1, 0, 1, 1, 0], "true", bool),
    **{str(t): numbers(t, 5, 100, 7, 5, 0) for t in (pa.uint8(), pa.uint16(), pa.uint32())},
    **{
        str(t): numbers(t, 5, -100, 7, 5, 0)
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    },
    "uint64": numbers(pa.uint64(), 5, 2**64 - 1, 7, 5, 2**63),
    "half": numbers(pa.float16(), 0.5, -2.25, 7.0, 0.5, 1024.0),
    "float": numbers(pa.float32(), 0.5, -2.25, 7.0, 0.5, 1024.0),
    "double": numbers(pa.float64(), 0.5, -2.25, 7.0, 0.5, 1e300),
    "decimal32": decimals(pa.decimal32(5, 2)),
    "decimal64": decimals(pa.decimal64(12, 3)),
    "decimal128": decimals(pa.decimal128(20, 4)),
    "decimal256": decimals(pa.decimal256(30, 2)),
    "decimal_negative": decimals(pa.decimal128(5, -2)),
    "string": texts(pa.string()),
    "large_string": texts(pa.large_string()),
    "string_view": texts(pa.string_view()),
    "json": texts(pa.json_()),
    "dictionary": texts(pa.dictionary(pa.int8(), pa.string())),
    "dictionary_large": texts(pa.dictionary(pa.uint32(), pa.large_string())),
    "dictionary_numbers": numbers(pa.dictionary(pa.int16(), pa.int64()), 5, -100, 7, 5, 0),
    "run_ends": numbers(pa.run_end_encoded(pa.int32(), pa.int64()), 5, -100, 7, 5, 0),
    "run_ends_text": texts(pa.run_end_encoded(pa.int16(), pa.string())),
    "binary": blobs(pa.binary()),
    "large_binary": blobs(pa.large_binary()),
    "binary_view": blobs(pa.binary_view()),
    "fixed_binary": blobs(pa.binary(2)),
    "date32": days(pa.date32()),
    "date64": days(pa.date64()),
    **{f"timestamp_{unit}": moments(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"instant_{unit}": moments(pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")},
    "instant_berlin": moments(pa.timestamp("us", "Europe/Berlin")),
    **{f"time_{unit}": clocks(pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time_{unit}": clocks(pa.time64(unit)) for unit in ("us", "ns")},
    **{f"duration_{unit}": spans(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "uuid": Column(
        pa.uuid(),
        [IDS[at].bytes for at in (0, 1, 2, 0, 4)],
        f"'{IDS[0]}'",
        lambda value: str(UUID(bytes=value)),
    ),
}

ROWS = {1: 0, 2: 1, 3: 2, 4: 3, 5: -1}
"""By the number of a row in the relation, which of the values it has; -1 is NULL in all columns."""

JOINED = (0, 1, 2)
"""The values that the other relation has, the first twice."""


def facts(rows: dict[int, int]) -> pa.Table:
    columns = {name: column.array(list(rows.values())) for name, column in COLUMNS.items()}
    return pa.table({"id": list(rows), **columns})


def dims(columns: list[str]) -> pa.Table:
    values = [JOINED[0], *JOINED]
    return pa.table({"w": [10, 20, 30, 40], **{n: COLUMNS[n].array(values) for n in columns}})


def graph(engine: Any) -> ct.JoinGraph:
    """All columns of facts joined with those of dims, at once."""
    result = ct.JoinGraph(engine)
    result.add_relation("facts", facts(ROWS))
    result.add_relation("dims", dims(list(COLUMNS)))
    result.add_join("facts", "dims", on=list(COLUMNS))
    return result


def value_of(name: str, row: int) -> Any:
    column = COLUMNS[name]
    return None if row < 0 else column.answered(column.values[row])


def comparable(value: Any) -> Any:
    """An answer as Python has it, and instants in UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC)
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def check(wide: WideTable, rows: dict[int, int]) -> None:
    """All that is asked of the columns, against what is in these rows."""
    check_extremes(wide, rows)
    check_groups(wide, rows)
    check_join(wide, rows)


def check_extremes(wide: WideTable, rows: dict[int, int]) -> None:
    kept = [name for name in COLUMNS if not name.startswith("bool") and name != "uint64"]
    measures = {f"{f} {name}": f'{f}(facts."{name}")' for name in kept for f in ("min", "max")}
    (answer,) = wide.query(measures=measures, relations=["facts"]).rows()
    for name in kept:
        values = [value_of(name, row) for row in rows.values() if row >= 0]
        for function in (min, max):
            answered = comparable(answer[f"{function.__name__} {name}"])
            assert answered == function(values), f"{function.__name__}({name}): {answered!r}"
            assert isinstance(answered, int) or type(answered) is type(function(values)), (
                name,
                answered,
            )


def check_filters(wide: WideTable, rows: dict[int, int]) -> None:
    measures, expected = {}, {}
    for name, column in COLUMNS.items():
        first = value_of(name, 0)
        own = f'facts."{name}"'
        for sign, holds in {
            "=": lambda value, first=first: value == first,
            "<=": lambda value, first=first: value <= first,
            ">": lambda value, first=first: value > first,
        }.items():
            key = f"{name} {sign}"
            measures[key] = f"count(*) filter (where {own} {sign} {column.literal})"
            expected[key] = sum(row >= 0 and holds(value_of(name, row)) for row in rows.values())
        measures[f"{name} null"] = f"count(*) filter (where {own} is null)"
        expected[f"{name} null"] = sum(row < 0 for row in rows.values())
    (answer,) = wide.query(measures=measures, relations=["facts"]).rows()
    assert answer == expected
    for name in ("time_us", "duration_us"):
        where = f'facts."{name}" = {COLUMNS[name].literal}'
        (answer,) = wide.query(where=where, measures={"n": "count(*)"}, relations=["facts"]).rows()
        assert answer == {"n": expected[f"{name} ="]}


def check_groups(wide: WideTable, rows: dict[int, int]) -> None:
    columns = [f"facts.{name}" for name in COLUMNS]
    counted = Counter(tuple(value_of(n, row) for n in COLUMNS) for row in rows.values())
    answer = wide.query(columns, measures={"n": "count(*)"}, relations=["facts"]).rows()
    groups = {tuple(comparable(row[column]) for column in columns): row["n"] for row in answer}
    assert groups == dict(counted)


def check_join(wide: WideTable, rows: dict[int, int]) -> None:
    """All values of row 3 are those of row 0, so they join too."""
    weights = {0: 30, 3: 30, 1: 30, 2: 40}
    (answer,) = wide.query(measures={"w": "sum(w)"}).rows()
    assert answer == {"w": sum(weights.get(row, 0) for row in rows.values()) or None}


def update_and_check(wide: WideTable) -> dict[int, int]:
    """Insert, delete by a condition and by rows, upsert; what is there in the end."""
    wide.update("facts", insert=facts({6: 4, 7: -1}))
    rows = {**ROWS, 6: 4, 7: -1}
    check(wide, rows)
    wide.update("facts", delete=facts({6: 4, 7: -1}))
    wide.update("facts", delete="id = 3")
    rows = {1: 0, 2: 1, 4: 3, 5: -1}
    check(wide, rows)
    wide.update("facts", upsert=facts({2: 4, 9: 2}), key="id")
    rows = {1: 0, 2: 4, 4: 3, 5: -1, 9: 2}
    check(wide, rows)
    return rows


def everything(engine: Any, directory: Path, reopened: Any) -> None:
    live = graph(engine).calibrate({"n": "count(*)"})
    check(live, ROWS)
    check_filters(live, ROWS)
    supposed = live.what_if(delete={"facts": "id = 2"}, insert={"facts": facts({6: 4})})
    check(supposed, {1: 0, 3: 2, 4: 3, 5: -1, 6: 4})
    rows = update_and_check(live)
    live.save(directory / "tree")
    opened = ct.open(directory / "tree", engine=reopened)
    check(opened, rows)
    opened.update("facts", insert=facts({10: 1}), delete=facts({1: 0}))
    rows = {2: 4, 4: 3, 5: -1, 9: 2, 10: 1}
    check(opened, rows)
    check_filters(opened, rows)


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_every_type(engine: str, tmp_path: Path) -> None:
    if engine == "reference":
        live = graph(engine).calibrate({"n": "count(*)"})
        check(live, ROWS)
        check_filters(live, update_and_check(live))
    else:
        everything(engine_named(engine), tmp_path, "local")


@pytest.mark.spark
def test_every_type_with_the_hybrid_engine(tmp_path: Path) -> None:
    """What is in this process stays there."""
    everything("hybrid", tmp_path, "hybrid")


INSIDE = (
    *("bool", "int32", "uint64", "float", "double", "decimal128", "string", "binary", "uuid"),
    *("date32", "timestamp_us", "timestamp_ns", "instant_berlin", "time_us", "duration_us"),
)
"""One column for each type that relations have inside."""


@pytest.fixture
def fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.COLUMNS", {name: COLUMNS[name] for name in INSIDE})


def on_spark(engine: Any, reopened: Any, directory: Path, filters: bool = True) -> None:
    """The same with fewer questions, as each takes Spark some tenths of a second."""
    live = graph(engine).calibrate({"n": "count(*)"})
    live.update("facts", delete=facts({3: 2}), insert=facts({6: 4}))
    live.update("facts", upsert=facts({2: 2}), key="id")
    rows = {1: 0, 2: 2, 4: 3, 5: -1, 6: 4}
    check(live, rows)
    if filters:
        check_filters(live, rows)
    live.save(directory / "tree")
    opened = ct.open(directory / "tree", engine=reopened)
    opened.update("facts", delete="id = 1")
    check_extremes(opened, {2: 2, 4: 3, 5: -1, 6: 4})


@pytest.mark.usefixtures("fewer_columns")
def test_types_on_spark(spark: Any, tmp_path: Path) -> None:
    from calitree.engines.spark import SparkEngine

    on_spark(SparkEngine(spark), SparkEngine(spark), tmp_path)


@pytest.mark.usefixtures("fewer_columns")
def test_types_of_files_with_the_hybrid_engine(spark: Any, tmp_path: Path) -> None:
    """Tasks read the files, also for Spark's own SQL, which cannot read all of these types."""
    engine = spark_engine_named("hybrid, files", spark, tmp_path)
    on_spark(engine, spark, tmp_path, filters=False)


IN_NO_FILE = ("run_ends", "run_ends_text", "decimal_negative")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["spark", "hybrid, files", "hybrid, SQL"])
def test_every_type_on_spark(
    engine: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {name: column for name, column in COLUMNS.items() if name not in IN_NO_FILE}
    if engine != "spark":
        monkeypatch.setattr(f"{__name__}.COLUMNS", kept)
    created = spark_engine_named(engine, spark, tmp_path)
    everything(created, tmp_path, spark_engine_named(engine, spark, tmp_path))


# -- types that cannot be used ---------------------------------------------------------------------

UNUSED = {
    "list": pa.array([[1], None]),
    "large_list": pa.array([[1], None], pa.large_list(pa.int8())),
    "fixed_list": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    "list_view": pa.array([[1], None], pa.list_view(pa.int8())),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "union": pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["a"])]
    ),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2], None], pa.list_(pa.int8(), 2))
    ),
    "opaque": pa.ExtensionArray.from_storage(
        pa.opaque(pa.binary(), "geometry", "someone"), pa.array([b"a", None])
    ),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([[1]])),
    "digits": pa.array([Decimal(10) ** 50, None], pa.decimal256(60, 2)),
    "scale": pa.array([Decimal(1), None], pa.decimal256(60, 50)),
    "years": pa.array([2**60, None], pa.timestamp("s")),
}


def refusals(engine: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every way to use a column that cannot be used."""
    graph = ct.JoinGraph(engine)
    graph.add_relation("facts", pa.table({"id": [1, 2], "x": [3, 4], **UNUSED}))
    graph.add_relation("dims", pa.table({"id": [1, 2], **UNUSED}))
    for name in UNUSED:
        yield name, lambda name=name: graph.add_join("facts", "dims", on=name)
    graph.add_join("facts", "dims", on="id")
    wide = graph.calibrate({"x": "sum(x)"})
    assert wide.query().rows() == [{"x": 7}]
    wide.update("facts", insert=pa.table({"id": [2], "x": [5], "list": [[7]]}))
    wide.update("facts", delete=pa.table({"id": [2], "x": [5], "list": [[7]]}))
    wide.update("facts", delete="x = 4")
    assert wide.query(["facts.id"]).rows() == [{"facts.id": 1, "x": 3}]
    for name in UNUSED:
        own = f"facts.{name}"
        yield name, lambda own=own: wide.query([own])
        yield name, lambda own=own: wide.query(where=f"{own} is null")
        yield name, lambda own=own: wide.query(measures={"m": f"max({own})"})
        yield name, lambda own=own: wide.query(measures={"m": f"count({own})"})
        yield name, lambda own=own: wide.update("facts", delete=f"{own} is null")
        yield name, lambda own=own: wide.what_if(update={"facts": {own.partition(".")[2]: "x"}})


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_a_column_of_another_type_is_refused_by_name(engine: str) -> None:
    for name, use in refusals(engine):
        with pytest.raises(CalitreeError) as refused:
            use()
        dtype = str(UNUSED[name].type)
        assert f"facts.{name} is {dtype}" in str(
            refused.value
        ) or f"facts has no column {name!r}" in str(refused.value)


def test_a_relation_needs_a_column_that_can_be_used() -> None:
    with pytest.raises(SchemaError) as refused:
        ct.JoinGraph("local").add_relation("tags", {"tag": [["a"]]})
    assert str(refused.value) == (
        "tags has no column that can be used: tag is list<item: string>, which cannot be used here: give "
        "its elements as rows of a relation of their own."
    )


def test_columns_that_spark_cannot_use(spark: Any, tmp_path: Path) -> None:
    """Of a file some that it cannot read, and of a frame some that nobody can."""
    from calitree.engines.spark import SparkEngine

    table = pa.table({"x": [1, 2], "half": pa.array([1, 2], pa.float16()), "list": [[1], [2]]})
    pq.write_table(table, tmp_path / "a.parquet")
    for engine, usable in ((SparkEngine(spark), False), ("local", True)):
        graph = ct.JoinGraph(engine)
        graph.add_relation("a", tmp_path / "a.parquet")
        wide = graph.calibrate({"x": "sum(x)"})
        assert wide.query().rows() == [{"x": 3}]
        with pytest.raises(SchemaError, match=r"^a\.list is (list|array)<.*, which cannot be used"):
            wide.query(["list"])
        if usable:
            assert wide.query(measures={"m": "max(half)"}).rows() == [{"m": 2.0}]
            continue
        with pytest.raises(SchemaError, match=r"^a\.half is halffloat, which Spark cannot read"):
            wide.query(measures={"m": "max(half)"})


def test_what_cannot_be_used_is_known_to_a_saved_tree(tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("facts", pa.table({"x": [3, 4], **UNUSED}))
    graph.calibrate({"x": "sum(x)"}).save(tmp_path)
    opened = ct.open(tmp_path, engine="local")
    assert opened.query().rows() == [{"x": 7}]
    with pytest.raises(SchemaError, match=r"^facts\.struct is struct<a: int64>, which cannot"):
        opened.query(["struct"])


# -- frames ----------------------------------------------------------------------------------------


def pandas_frame() -> Any:
    import pandas as pd

    days = pd.to_datetime(["2024-01-31", "2024-02-29"])
    return pd.DataFrame(
        {
            "category": pd.Categorical(["b", "a"]),
            "number": pd.Categorical([2, 1]),
            "text": pd.array(["b", "a"], "string"),
            "whole": pd.array([2, 1], "Int64"),
            "flag": pd.array([True, False], "boolean"),
            "day": days,
            "zoned": days.tz_localize("Europe/Berlin"),
            "span": pd.to_timedelta(["1h", "2h"]),
            "money": [Decimal("1.5"), Decimal("2.5")],
            "clock": [dt.time(1), dt.time(2)],
            "sparse": pd.arrays.SparseArray([2, 1]),
            "arrow": pd.array(["b", "a"], pd.ArrowDtype(pa.large_string())),
            "id": [UUID(int=2), UUID(int=1)],
            "period": pd.period_range("2024-01", periods=2, freq="M"),
            "interval": pd.interval_range(0, periods=2),
            "lists": [[1], [2]],
        }
    )


def polars_frame() -> Any:
    import polars as pl

    data = {
        "category": pl.Series(["b", "a"], dtype=pl.Categorical),
        "enum": pl.Series(["b", "a"], dtype=pl.Enum(["a", "b"])),
        "text": ["b", "a"],
        "bytes": [b"b", b"a"],
        "money": pl.Series([Decimal("1.5"), Decimal("2.5")], dtype=pl.Decimal(10, 2)),
        "clock": [dt.time(1), dt.time(2)],
        "span": [HOUR, 2 * HOUR],
        "day": [DAY, DAY],
        "zoned": pl.Series([NOON, NOON], dtype=pl.Datetime("ns", "UTC")),
        "nothing": pl.Series([None, None], dtype=pl.Null),
        "lists": [[1], [2]],
        "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
        "struct": [{"a": 1}, {"a": 2}],
    }
    return pl.DataFrame(data)


REFUSED = {
    "period": "extension<pandas.period",
    "interval": "extension<pandas.interval",
    "lists": "(large_)?list<",
    "array": "fixed_size_list<",
    "struct": "struct<",
}


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame], ids=["pandas", "polars"])
@pytest.mark.parametrize("engine", ["reference", "local"])
def test_columns_of_frames(engine: str, frame: Callable[[], Any]) -> None:
    given = frame()
    graph = ct.JoinGraph(engine)
    graph.add_relation("f", given)
    graph.add_relation("g", given)
    used = [name for name in given.columns if name not in REFUSED]
    graph.add_join("f", "g", on=[name for name in used if name != "nothing"])
    wide = graph.calibrate({"n": "count(*)"})
    measures = {name: f"max(f.{name})" for name in used if name != "flag"}
    (extremes,) = wide.query(measures=measures).rows()
    for name in used:
        (groups, nothing) = wide.query([f"f.{name}"]).rows(), name == "nothing"
        assert sorted(group["n"] for group in groups) == ([2] if len(groups) == 1 else [1, 1])
        if name not in ("flag", "nothing", "span", "zoned", "day"):
            values = [str(v) if isinstance(v, UUID) else v for v in given[name].to_list()]
            assert extremes[name] == max(values), name
        assert wide.query(where=f"f.{name} is not null").rows() == [{"n": 0 if nothing else 2}]
    for name in set(given.columns) - set(used):
        with pytest.raises(SchemaError, match=f"^f\\.{name} is {REFUSED[name]}"):
            wide.query([f"f.{name}"])


# -- what updates take -----------------------------------------------------------------------------

TAKEN: list[tuple[pa.DataType, Any, Any]] = [
    (pa.decimal128(10, 2), pa.array([7]), Decimal(7)),
    (pa.decimal128(10, 2), pa.array([12.34]), Decimal("12.34")),
    (pa.decimal128(38, 2), pa.array([2**64 - 1], pa.uint64()), Decimal(2**64 - 1)),
    (pa.int32(), pa.array([3.0]), 3),
    (pa.int32(), pa.array([Decimal("3.00")]), 3),
    (pa.float64(), pa.array([Decimal("0.1")]), 0.1),
    (pa.float64(), pa.array([2**53]), 2.0**53),
    (pa.float32(), pa.array([0.1]), struct.unpack("f", struct.pack("f", 0.1))[0]),
    (pa.date32(), pa.array([dt.datetime(2024, 2, 29)]), DAY),
    (pa.date32(), pa.array(["2024-02-29"]), DAY),
    (pa.timestamp("us"), pa.array([DAY]), dt.datetime(2024, 2, 29)),
    (pa.timestamp("s"), pa.array([NOON], pa.timestamp("ns")), NOON),
    (pa.timestamp("us", "UTC"), pa.array([UTC_NOON], pa.timestamp("s", "Asia/Tokyo")), UTC_NOON),
    (pa.time32("s"), pa.array([dt.time(1, 2, 3, 4)]), dt.time(1, 2, 3, 4)),
    (pa.duration("us"), pa.array([HOUR], pa.duration("ns")), HOUR),
    (pa.large_string(), pa.array(["x"], pa.string_view()), "x"),
    (pa.string_view(), pa.array(["x"]).dictionary_encode(), "x"),
    (pa.binary(2), pa.array([b"xyz"]), b"xyz"),
    (pa.uuid(), pa.array([str(IDS[0])]), str(IDS[0])),
    (pa.int64(), pa.array(["12"]), 12),
    (pa.int64(), pa.nulls(1), None),
]

NOT_TAKEN: list[tuple[pa.DataType, pa.Array, str]] = [
    (pa.date32(), pa.array([NOON]), f"date32[day] / timestamp[us]: {NOON!r}"),
    (pa.timestamp("us"), pa.array([UTC_NOON]), "timestamp[us] / timestamp[us, tz=UTC]: "),
    (pa.timestamp("us", "UTC"), pa.array([NOON]), "timestamp[us, tz=UTC] / timestamp[us]: "),
    (pa.timestamp("us"), pa.array([1001], pa.timestamp("ns")), "timestamp[us] / timestamp[ns]: "),
    (pa.decimal128(4, 2), pa.array([100]), "decimal128(4, 2) / int64: 100 "),
    (pa.decimal128(4, 2), pa.array([1.234]), "decimal128(4, 2) / double: 1.234 "),
    (pa.decimal128(4, 2), pa.array([Decimal("1.234")]), "decimal128(4, 2) / decimal128(4, 3): "),
    (pa.int8(), pa.array([300]), "int8 / int64: 300 "),
    (pa.uint64(), pa.array([-1]), "uint64 / int64: -1 "),
    (pa.int64(), pa.array([1, 2.5]), "int64 / double: 2.5 "),
    (pa.int64(), pa.array([math.nan]), "int64 / double: nan "),
    (pa.float64(), pa.array([2**53 + 1]), "double / int64: 9007199254740993 "),
    (pa.float32(), pa.array([1e300]), "float / double: 1e+300 "),
    (pa.string(), pa.array([501]), "string / int64: 501 "),
    (pa.string(), pa.array([b"a"]), "string / binary: b'a' "),
    (pa.bool_(), pa.array([1]), "bool / int64: 1 "),
    (pa.int64(), pa.array([True]), "int64 / bool: True "),
    (pa.int64(), pa.array([[1]]), "int64 / list<item: int64>: [1] "),
    (pa.time64("us"), pa.array([NOON]), "time64[us] / timestamp[us]: "),
    (pa.duration("us"), pa.array([5]), "duration[us] / int64: 5 "),
]


def of_type(engine: str, dtype: pa.DataType) -> WideTable:
    graph = ct.JoinGraph(engine)
    graph.add_relation("t", pa.table({"v": pa.nulls(1, dtype)}))
    return graph.calibrate({"n": "count(*)"})


@pytest.mark.parametrize("engine", ["reference", "local"])
@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    TAKEN,
    ids=[f"{given.type} into {dtype}" for dtype, given, _ in TAKEN],
)
def test_an_update_takes_what_fits(
    engine: str, dtype: pa.DataType, given: pa.Array, expected: Any
) -> None:
    wide = of_type(engine, dtype)
    wide.update("t", insert={"v": given})
    answer = {group["v"]: group["n"] for group in wide.query(["v"]).rows()}
    assert answer == ({None: 1, expected: 1} if expected is not None else {None: 2})
    wide.update("t", delete={"v": given})
    assert wide.query().rows() == [{"n": 1}]


@pytest.mark.parametrize(
    ("dtype", "given", "message"),
    NOT_TAKEN,
    ids=[f"{given.type} into {dtype}" for dtype, given, _ in NOT_TAKEN],
)
def test_an_update_refuses_what_does_not_fit(
    dtype: pa.DataType, given: pa.Array, message: str
) -> None:
    wide = of_type("local", dtype)
    message = message.replace(" / ", ", and what is given is ")
    for change in ({"insert": {"v": given}}, {"upsert": {"v": given}, "key": "v"}):
        with pytest.raises(UpdateError) as refused:
            wide.update("t", **change)
        assert str(refused.value).startswith(f"t.v is {message}"), str(refused.value)
    assert wide.query().rows() == [{"n": 1}]


def test_text_that_looks_like_numbers_is_taken_from_csv(tmp_path: Path) -> None:
    graph = ct.JoinGraph("local")
    graph.add_relation("places", {"zip": ["99501"], "open": [True]})
    wide = graph.calibrate({"n": "count(*)"})
    (tmp_path / "more.csv").write_text("zip,open\n00501,1\n")
    wide.update("places", insert=tmp_path / "more.csv")
    assert wide.query(["zip", "open"], where="zip = '00501'").rows() == [
        {"zip": "00501", "open": True, "n": 1}
    ]


@pytest.mark.parametrize("engine", ["reference", "local"])
def test_large_integers_of_python(engine: str) -> None:
    graph = ct.JoinGraph(engine)
    graph.add_relation("t", {"u": [2**64 - 1, 1], "d": [2**100, -1]})
    wide = graph.calibrate({"n": "count(*)"})
    wide.update("t", insert=[{"u": 2**64 - 2, "d": 10**37}])
    assert {row["u"] for row in wide.query(["u"]).rows()} == {2**64 - 1, 2**64 - 2, 1}
    assert {row["d"] for row in wide.query(["d"]).rows()} == {2**100, 10**37, -1}


def test_python_objects_of_polars_are_refused() -> None:
    import polars as pl

    frame = pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(SchemaError, match=r"^t: 'x' cannot be a column: it holds Python objects"):
        ct.JoinGraph("local").add_relation("t", frame)
