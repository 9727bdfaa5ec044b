"""Keys as SQL groups by them, as Python values, as Arrow arrays and as codes of several columns."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calitree.grouping import canonical, canonical_array, contiguous, row_keys

OTHER_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]


@pytest.mark.parametrize("value", [None, 3, "a", True, 1.5, -math.inf])
def test_other_values_stay_as_they_are(value: Any) -> None:
    assert canonical(value) is value or canonical(value) == value


def test_python_values_group_as_in_sql() -> None:
    values = [math.nan, -math.nan, OTHER_NAN, 0.0, -0.0, 0]
    assert len({canonical(value) for value in values}) == 2
    assert str(canonical(-0.0)) == "0.0"


@pytest.mark.parametrize("dtype", [pa.float64(), pa.float32(), pa.float16()])
def test_arrow_values_group_as_in_sql(dtype: pa.DataType) -> None:
    values = np.array([math.nan, -math.nan, OTHER_NAN, 0.0, -0.0], dtype.to_pandas_dtype())
    chunks = pa.chunked_array([pa.array(values, dtype), pa.array([None, 1.0]).cast(dtype)])
    encoded = canonical_array(chunks).dictionary_encode()
    assert encoded.indices.to_pylist() == [0, 0, 0, 1, 1, None, 2]


@pytest.mark.parametrize("chunks", [[], [[1]], [[1], [], [2, 3]]])
def test_a_column_as_one_array(chunks: list[list[int]]) -> None:
    column = pa.chunked_array([pa.array(chunk, pa.int64()) for chunk in chunks], pa.int64())
    assert contiguous(column).equals(pa.array([v for chunk in chunks for v in chunk], pa.int64()))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1),
    st.sampled_from([4, 2**21, 2**31]),
)
def test_rows_with_equal_codes_have_equal_keys(rows: list[tuple[int, ...]], size: int) -> None:
    """With sizes whose product passes 64 bits, too."""
    columns = [np.array(codes, np.int32) * (size // 4) for codes in zip(*rows, strict=True)]
    keys, span = row_keys(columns, [size] * 3)
    assert keys.min() >= 0 and keys.max() < span <= 2**62
    assert len(set(keys.tolist())) == len(set(rows))
    assert len({*zip(keys.tolist(), rows, strict=True)}) == len(set(rows))
