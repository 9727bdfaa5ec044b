"""The one type of two columns, as Arrow has it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calitree.errors import ExpressionError
from calitree.sql.kernels.values import common_type


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        (pa.int64(), pa.null(), pa.int64()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(9, 4), pa.decimal128(9, 4)),
        (pa.decimal128(5, 2), pa.int64(), pa.decimal128(21, 2)),
        (pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 38)),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.date32(), pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC")),
        (pa.time32("s"), pa.time64("us"), pa.time64("ns")),
    ],
)
def test_two_types(left: pa.DataType, right: pa.DataType, common: pa.DataType) -> None:
    assert common_type(left, right) == common
    assert common_type(right, left) == common


def test_digits_of_decimals_can_be_given() -> None:
    assert common_type(pa.decimal128(5, 2), pa.int64(), digits=38) == pa.decimal128(38, 2)
    assert common_type(pa.decimal128(38, 2), pa.decimal128(38, 4), 38) == pa.decimal128(38, 4)


def test_types_that_do_not_mix() -> None:
    with pytest.raises(ExpressionError, match="cannot mix values of type int64 and string"):
        common_type(pa.int64(), pa.string())
