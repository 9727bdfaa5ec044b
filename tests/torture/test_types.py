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


def moments(dtype: pa.DataType) -> Column:
    noon = UTC_NOON if dtype.tz else NOON
    values = [noon, noon - 400 * HOUR, noon + HOUR, noon, noon + 9999 * HOUR]
    literal = f"'{noon.isoformat(' ')}'"
    return Column(dtype, values, literal, lambda value: value.astimezone(dt.UTC) if dtype.tz else value)


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
    **{str(t): numbers(t, 5, -100, 7, 5, 0) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
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
    "date32": Column(pa.date32(), [DAY, dt.date(1, 1, 1), dt.date(2999, 1, 1), DAY, dt.date(2025, 1, 1)], f"'{DAY}'"),
    "date64": Column(pa.date64(), [DAY, dt.date(1900, 1, 1), dt.date(2999, 1, 1), DAY, dt.date(2025, 1, 1)], f"'{DAY}'"),
    **{f"timestamp_{unit}": moments(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    **{f"instant_{unit}": moments(pa.timestamp(unit, "UTC")) for unit in ("s", "ms", "us", "ns")},
    "instant_berlin": moments(pa.timestamp("us", "Europe/Berlin")),
    **{f"time_{t.unit}": clocks(t) for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))},
    **{f"duration_{unit}": spans(pa.duration(unit)) for unit in ("s", "ms", "us", "ns")},
    "uuid": Column(pa.uuid(), [u.bytes for u in (*IDS[:3], IDS[0], IDS[4])], f"'{IDS[0]}'", lambda b: str(UUID(bytes=b))),
}  # fmt: skip

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


def graph(engine: Any, given: pa.Table | None = None) -> ct.JoinGraph:
    """All columns of facts joined with those of dims, at once."""
    result = ct.JoinGraph(engine)
    result.add_relation("facts", facts(ROWS) if given is None else given)
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
    check_filters(wide, rows)
    check_groups(wide, rows)
    check_join(wide, rows)


def check_extremes(wide: WideTable, rows: dict[int, int]) -> None:
    kept = [name for name in COLUMNS if not name.startswith("bool") and name != "uint64"]
    measures = {f"{f} {name}": f'{f}(facts."{name}")' for name in kept for f in ("min", "max")}
    (answer,) = wide.query(measures=measures, relations=["facts"]).rows()
    for name in kept:
        values = [value_of(name, row) for row in rows.values() if row >= 0]
        for function in (min, max):
            found = comparable(answer[f"{function.__name__} {name}"])
            assert found == function(values), f"{function.__name__}({name}): {found!r}"
            assert isinstance(found, int) or type(found) is type(function(values)), (name, found)


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
    for name in ("string", "duration_us", "time_ns", "binary", "uuid", "instant_ns"):
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


def everything(engine: Any, directory: Path, reopened: Any, given: Any = None) -> None:
    live = graph(engine, given).calibrate({"n": "count(*)"})
    check(live, ROWS)
    supposed = live.what_if(delete={"facts": "id = 2"}, insert={"facts": facts({6: 4})})
    check(supposed, {1: 0, 3: 2, 4: 3, 5: -1, 6: 4})
    rows = update_and_check(live)
    live.save(directory / "tree")
    opened = ct.open(directory / "tree", engine=reopened)
    check(opened, rows)
    opened.update("facts", insert=facts({10: 1}), delete=facts({1: 0}))
    check(opened, {2: 4, 4: 3, 5: -1, 9: 2, 10: 1})


@pytest.mark.parametrize("engine", ["reference", *LOCAL])
def test_every_type(engine: str, tmp_path: Path) -> None:
    if engine == "reference":
        live = graph(engine).calibrate({"n": "count(*)"})
        check(live, ROWS)
        update_and_check(live)
    else:
        everything(engine_named(engine), tmp_path, "local")


@pytest.mark.parametrize("engine", ["spark", "hybrid"])
def test_every_type_on_spark(engine: str, spark: Any, tmp_path: Path) -> None:
    if engine == "hybrid":
        from calitree.engines.hybrid import HybridEngine

        everything(HybridEngine(spark), tmp_path, HybridEngine(spark))
    else:
        everything(spark_engine_named(engine, spark, tmp_path), tmp_path, spark)
