"""Rows dealt into buckets: all are there, and a key is in one bucket, whichever process deals."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calitree.engines.local.encoding.buckets import buckets_of

VALUES: dict[str, Any] = {
    "int": (pa.int64(), st.integers(-5, 5) | st.sampled_from([-(2**63), 2**63 - 1])),
    "float": (pa.float64(), st.sampled_from([0.0, 1.5, -2.0, float("inf"), float("nan")])),
    "text": (pa.string(), st.text(max_size=2)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates(datetime.date(2024, 1, 1), datetime.date(2024, 1, 9))),
    "time": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    "decimal": (pa.decimal128(9, 2), st.sampled_from([Decimal("1.00"), Decimal("-3.21")])),
}


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data(), count=st.integers(1, 5))
def test_a_key_is_in_one_bucket(name: str, data: st.DataObject, count: int) -> None:
    dtype, values = VALUES[name]
    rows = data.draw(st.lists(st.tuples(st.none() | values, st.integers(0, 2)), max_size=30))
    table = pa.table(
        {"k": pa.array([k for k, _ in rows], dtype), "j": pa.array([j for _, j in rows], pa.int64()),
         "row": pa.array(range(len(rows)), pa.int64())}
    )  # fmt: skip
    buckets = buckets_of(table, ["k", "j"], count)
    assert sorted(i for _, part in buckets for i in part["row"].to_pylist()) == list(
        range(len(rows))
    )
    assert all(number < count for number, _ in buckets)
    homes: dict[str, int] = {}
    backward = table.take(pa.array(range(len(rows))[::-1], pa.int64()))
    for number, part in buckets + buckets_of(backward, ["k", "j"], count):
        for k, j in zip(part["k"].to_pylist(), part["j"].to_pylist(), strict=True):
            assert homes.setdefault(repr((k, j)), number) == number


def test_rows_spread() -> None:
    table = pa.table({"k": pa.array(range(10_000), pa.int64())})
    sizes = [part.num_rows for _, part in buckets_of(table, ["k"], 8)]
    assert len(sizes) == 8 and max(sizes) < 1.2 * min(sizes)


def test_without_a_key_there_is_one() -> None:
    assert [number for number, _ in buckets_of(pa.table({"v": [1, 2]}), [], 4)] == [0]
