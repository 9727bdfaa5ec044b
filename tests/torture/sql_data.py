"""One relation with a column of every kind: the values that break things, and NULLs."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")

TYPES = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "u8": pa.uint8(),
    "u32": pa.uint32(),
    "u64": pa.uint64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "g64": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "big": pa.decimal128(18, 4),
    "s": pa.string(),
    "s2": pa.string(),
    "digits": pa.string(),
    "b": pa.bool_(),
    "c": pa.bool_(),
    "d": pa.date32(),
    "d2": pa.date32(),
    "ts": pa.timestamp("us"),
    "ts2": pa.timestamp("us"),
    "tz": pa.timestamp("us", "UTC"),
}

_STRINGS = ["", "a", "A", "ab", "a_b", "b", "é", "É", "Straße", "STRASSE", "ﬁn", "İ", "ı", "😀"]
_STRINGS += [" pad ", "\u00a0x", "a%b", "a\\b", "two\nlines", "10", "-1.5", "true", "2020-02-29"]
_DAYS = [
    date(2020, 2, 29),
    date(2021, 1, 1),
    date(1969, 12, 31),
    date(2000, 1, 3),
    date(1900, 3, 1),
]
_TIMES = [
    datetime(2020, 2, 29, 12, 30),
    datetime(2021, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2000, 1, 3, 1, 2, 3, 450000),
    datetime(2020, 2, 29),
]
_FLOATS = [0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 0.1, 2.675, 1e-5, 1e16, 123456.789, NAN, INF, -INF, 7.0]

SMALL: dict[str, list[Any]] = {
    "i8": [0, 1, -1, 2, 3, -7, 10],
    "i16": [0, 1, -1, 2, 100, -7],
    "i32": [0, 1, -1, 2, 3, 100, -100],
    "i64": [0, 1, -1, 2, 3, 7, 100],
    "u8": [0, 1, 2, 3, 10],
    "u32": [0, 1, 2, 7, 100],
    "u64": [0, 1, 2, 3, 100],
    "f32": [0.0, -0.0, 0.5, 1.5, -2.5, 3.0, 0.1, NAN, INF],
    "f64": _FLOATS,
    "g64": [0.0, 1.0, -1.0, 0.5, 2.0, 0.1, 3.5, NAN],
    "dec": [Decimal(v) for v in ("0.00", "1.00", "-1.25", "2.50", "0.10", "99.99")],
    "big": [Decimal(v) for v in ("0.0000", "1.0000", "2.5000", "-0.0001", "7.1234")],
    "s": _STRINGS,
    "s2": _STRINGS,
    "digits": ["0", "1", "-7", "12", " 3 ", "100"],
    "b": [True, False],
    "c": [True, False],
    "d": _DAYS,
    "d2": _DAYS,
    "ts": _TIMES,
    "ts2": _TIMES,
    "tz": [time.replace(tzinfo=UTC) for time in _TIMES],
}
EDGES: dict[str, list[Any]] = SMALL | {
    "i8": [-128, 127, 0, 1],
    "i16": [-32768, 32767, 0, 1],
    "i32": [-(2**31), 2**31 - 1, 0, 1],
    "i64": [-(2**63), 2**63 - 1, 2**53 + 1, 0, 1],
    "u8": [0, 255, 1],
    "u32": [0, 2**32 - 1, 1],
    "u64": [0, 2**64 - 1, 2**63, 1],
    "f32": [0.10000000149011612, 3.4028234663852886e38, 16777216.0, NAN, -INF, 0.0],
    "f64": [*_FLOATS, 1e300, 9007199254740993.0, 2.0**63, -(2.0**63), 5e-324],
    "dec": [Decimal(v) for v in ("99999999.99", "-99999999.99", "0.01", "0.00")],
    "big": [Decimal(v) for v in ("99999999999999.9999", "-0.0001", "0.5000")],
}


def table(seed: int, values: dict[str, list[Any]], rows: int = 24) -> pa.Table:
    """Random rows of these values, each row with its `id`."""
    random = Random(seed)
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
    for name, dtype in TYPES.items():
        column = [
            None if random.random() < 0.12 else random.choice(values[name]) for _ in range(rows)
        ]
        columns[name] = pa.array(column, dtype)
    return pa.table(columns)
