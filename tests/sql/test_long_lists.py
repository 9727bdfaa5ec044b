"""Columns of every type, compared with long lists, against DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calitree.engines.reference.rowwise import evaluate_row
from calitree.sql.analysis import Resolved
from calitree.sql.evaluator import evaluate
from calitree.sql.kernels.casts import printed_timestamps, try_cast
from calitree.sql.kernels.membership import ValueSet
from calitree.sql.parser import Expression, parse
from calitree.types import Kind, kind_of_arrow
from tests.support.scale import examples

DAY = date(2020, 2, 27)
WHOLE = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**40, -(2**40), 127])
SMALL = st.integers(-3, 3)
CENTS = st.builds(lambda n: Decimal(n) / 100, st.integers(-350, 350).map(lambda n: n // 50 * 50))
DOUBLES = st.sampled_from([0.0, -0.0, 0.5, -1.5, 2.0, 1e300, float("nan"), float("inf")])
MOMENTS = st.builds(
    lambda days, micros: datetime(2020, 2, 27) + timedelta(days, microseconds=micros),
    st.integers(0, 3),
    st.sampled_from([0, 0, 500_000, 1]),
)
SECONDS = MOMENTS.map(lambda time: time.replace(microsecond=0))
SHORT_TEXTS = st.text("aé'", max_size=9) | st.sampled_from(["", "aaaaaaaa", "aaaaaaaab", "NULL"])

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), SMALL),
    "int64": (pa.int64(), WHOLE),
    "uint64": (pa.uint64(), st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])),
    "decimal": (pa.decimal128(10, 2), CENTS),
    "long decimal": (pa.decimal128(30, 6), CENTS | st.just(Decimal(10**20))),
    "double": (pa.float64(), DOUBLES),
    "float": (pa.float32(), DOUBLES.filter(lambda x: x != 1e300)),
    "date": (pa.date32(), st.integers(0, 3).map(lambda n: DAY + timedelta(n))),
    "second": (pa.timestamp("s"), SECONDS),
    "microsecond": (pa.timestamp("us"), MOMENTS),
    "nanosecond": (pa.timestamp("ns"), MOMENTS),
    "text": (pa.string(), SHORT_TEXTS),
    "large text": (pa.large_string(), SHORT_TEXTS),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), SHORT_TEXTS),
}


def quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


NUMBERS = (
    WHOLE.map(str),
    CENTS.map(lambda x: format(x, "f")),
    (WHOLE | CENTS).map(lambda x: format(x, "f")),
    st.sampled_from(["0e0", "-1.5e0", "0.5", "2", "1e300"]),
    st.sampled_from(["1.500", "-0.50", "2.000000000", "123456789012345678901234567890", "0.0"]),
)
TIMES = (MOMENTS.map(quoted), SECONDS.map(lambda s: quoted(s.isoformat())))
LISTS = {
    Kind.DATE: (*TIMES, st.integers(0, 3).map(lambda n: quoted(DAY + timedelta(n)))),
    Kind.TIMESTAMP: TIMES,
    Kind.STRING: (SHORT_TEXTS.map(quoted),),
}


def filler(name: str, spread: int) -> list[str]:
    """Values that make a list long, close together or not."""
    kind = kind_of_arrow(COLUMNS[name][0])
    if kind is Kind.STRING:
        return [quoted(f"filler {i}") for i in range(120)]
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        return [quoted(date(1990, 1, 1) + timedelta(i * spread % 9000)) for i in range(120)]
    return [str(1000 + i * spread) for i in range(120)]


@st.composite
def cases(draw: Any, name: str) -> tuple[pa.Array, str]:
    dtype, values = COLUMNS[name]
    column = draw(st.lists(values | st.none(), max_size=12))
    literals = draw(st.sampled_from(LISTS.get(kind_of_arrow(dtype), NUMBERS)))
    listed = draw(st.lists(literals, max_size=5)) + filler(name, draw(st.sampled_from([1, 10**9])))
    listed += draw(st.sampled_from([[], [], ["NULL"]]))
    negated = draw(st.sampled_from(["", "NOT "]))
    array = pa.array([None, *column, None], dtype)[1:-1]  # which begins in the midst of its buffers
    return array, f"x {negated}IN ({', '.join(listed)})"


def expression(text: str, array: pa.Array) -> Expression:
    kind = kind_of_arrow(array.type)
    return parse(text, lambda table, name: Resolved(name, ("t",), kind))


@pytest.fixture(scope="module")
def duck() -> Any:
    return duckdb.connect()


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_of_column(name: str, duck: Any) -> None:
    @settings(max_examples=examples(25))
    @given(cases(name))
    def check(case: tuple[pa.Array, str]) -> None:
        array, text = case
        duck.register("t", pa.table({"x": array}))
        expected = duck.sql(f"SELECT {text} AS r FROM t").to_arrow_table()["r"].to_pylist()
        node = expression(text, array).node
        assert evaluate(node, {"x": array}, len(array)).to_pylist() == expected, text
        rows: Sequence[Any] = array.to_pylist()
        if not pa.types.is_floating(array.type):  # a NaN is no constant here
            assert [evaluate_row(node, {"x": x}) for x in rows] == expected, text

    check()


@pytest.mark.parametrize("step", [1, 10**6 + 3], ids=["close together", "far apart"])
@pytest.mark.parametrize("dtype", [pa.int64(), pa.string()], ids=["numbers", "texts"])
def test_many_values(step: int, dtype: pa.DataType) -> None:
    """Tables in which values collide, and every value is there twice."""
    numbers = np.random.default_rng(1).permutation(40_000)
    listed = np.append(numbers[:9_000], numbers[:9_000])
    values, column = (pa.array(part * step).cast(dtype) for part in (listed, numbers))
    contained = ValueSet(values, dtype).find(column)
    assert contained.to_pylist() == [True] * 9_000 + [False] * 31_000


def test_the_ends_of_all_integers() -> None:
    ends = [-(2**63), 2**63 - 1]
    column = pa.array([*ends, 0, -(2**63) + 1, None])
    contained = ValueSet(pa.array(ends), column.type).find(column)
    assert contained.to_pylist() == [True, True, False, False, None]


@pytest.mark.parametrize(
    "text",
    [
        *("2020-02-29", "2020-02-29 10:00:00", "2020-02-29T10:00:00.000001", "0001-01-01"),
        *("2020-02-30", "2020-2-3", "2020-02-03 10", "2020-02-03 10:00", "0000-01-01", "20200203"),
        *(" 2020-02-03", "2020-02-03Z", "2020-02-03 10:00:00.5", "2020-02-03 24:00:00", "", "T"),
    ],
)
def test_printed_timestamps(text: str) -> None:
    """What the quick way reads, it reads as the other does."""
    texts = pa.array([text, "2020-02-29 10:00:00.123456"], pa.large_string())
    quick = printed_timestamps(texts)
    assert quick is None or quick.equals(try_cast(texts, Kind.TIMESTAMP))
    is_canonical = text[:7] in ("2020-02", "0001-01") and len(text) in (10, 19, 26)
    assert (quick is not None) == (is_canonical and text[8:] not in ("30", "03 24:00:00"))
