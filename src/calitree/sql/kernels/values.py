"""Values while an expression is evaluated: an array, or a scalar that stands for a constant column.

Arrow has many types for one SQL type (dictionary, views, large strings, narrow integers). `column`
brings a column to the few the kernels know: bool, int64, float64, decimal128, string or
large_string, date32, timestamp (any unit; time zones as UTC). Only unsigned numbers that do not fit
stay uint64.

A NULL without a type is always a scalar: kernels that propagate NULL need not know which type it
would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce, wraps
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.types import Kind, common_kind, kind_of_arrow

Datum: TypeAlias = pa.Array | pa.Scalar

NULL = pa.scalar(None)
MAX_DIGITS = 38
"""Of a decimal in 128 bits."""
_EXACT_DIGITS, _EXACT_INTEGERS, _EXACT_POWERS = 15, 2.0**53, 22
"""So many digits, integers up to this, and 10 to this power are doubles without being rounded."""
_MAX_STRING_BYTES = 2**31 - 1
"""Of one array of strings with 32-bit offsets."""
MAX_BYTES, MAX_BYTES_PER_ROW = 1 << 27, 1 << 12
"""Of all texts that a function makes: so many, or so many for each row if that is more."""


def kind_of(datum: Datum) -> Kind:
    """The kind of a datum's type."""
    return kind_of_arrow(datum.type)


def is_null(datum: Datum) -> bool:
    """Whether a datum is the constant NULL, whatever its type."""
    return isinstance(datum, pa.Scalar) and not datum.is_valid


def constant(value: int | float | Decimal | str | bool) -> pa.Scalar:
    """A literal. Whole numbers beyond 64 bits are decimals while they fit, then floats."""
    if isinstance(value, Decimal):
        return _decimal_scalar(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _decimal_scalar(Decimal(value))
    return pa.scalar(value)


def _decimal_scalar(value: Decimal) -> pa.Scalar:
    exponent = value.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    digits = max(len(value.as_tuple().digits), scale, 1)
    if digits > MAX_DIGITS:
        return pa.scalar(float(value))
    return pa.scalar(value, pa.decimal128(digits, scale))


def column(data: pa.Array | pa.ChunkedArray) -> Datum:
    """A column as the kernels want it."""
    array = _plain(_one_chunk(data))
    kind = kind_of_arrow(array.type)
    if kind is Kind.NULL:
        return NULL
    if kind is Kind.INTEGER:
        return _signed(array)
    if kind is Kind.DECIMAL:
        return narrow(array)
    if kind is Kind.TIMESTAMP_TZ:
        return pc.cast(array, pa.timestamp(array.type.unit, "UTC"))
    dtype = {Kind.FLOAT: pa.float64(), Kind.DATE: pa.date32()}.get(kind)
    return array if dtype is None else pc.cast(array, dtype)


def _one_chunk(data: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(data, pa.ChunkedArray):
        return data
    if data.num_chunks == 1:
        return data.chunk(0)
    if pa.types.is_string(data.type) and data.nbytes > _MAX_STRING_BYTES:
        data = data.cast(pa.large_string())  # the offsets of one plain string array would overflow
    return data.combine_chunks()


def _plain(array: pa.Array) -> pa.Array:
    """Without the encoding: dictionaries, run ends, views and extension types."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type):
        return pc.take(_plain(array.dictionary), array.indices)
    if pa.types.is_string_view(array.type):
        wide = array.nbytes > _MAX_STRING_BYTES
        return pc.cast(array, pa.large_string() if wide else pa.string())
    if pa.types.is_binary_view(array.type):
        return pc.cast(array, pa.large_binary())
    return array


def _signed(array: pa.Array) -> pa.Array:
    try:
        return pc.cast(array, pa.int64())
    except pa.ArrowInvalid:
        return array


def narrow(datum: Datum) -> Datum:
    """A decimal in 128 bits; a float where its digits do not fit."""
    if pa.types.is_decimal128(datum.type):
        return datum
    if datum.type.scale <= MAX_DIGITS:
        digits = min(datum.type.precision, MAX_DIGITS)
        try:
            return pc.cast(datum, pa.decimal128(digits, datum.type.scale))
        except pa.ArrowInvalid:
            pass
    return double(datum)


def number(datum: Datum) -> Datum:
    """An operand of arithmetic or comparison; what int64 cannot hold is a decimal."""
    if pa.types.is_uint64(datum.type):
        return pc.cast(datum, pa.decimal128(20, 0))
    return datum


def zero_of(datum: Datum) -> pa.Scalar:
    """Zero in the type of `datum`."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(datum.type) else 0, datum.type)


def where(mask: Datum, datum: Datum) -> Datum:
    """`datum` where the mask is true, NULL elsewhere."""
    return pc.if_else(mask, datum, pa.scalar(None, datum.type))


def double(datum: Datum) -> Datum:
    """A number as float64."""
    return _double_of_decimal(datum) if pa.types.is_decimal(datum.type) else _double(datum)


def _double(datum: Datum) -> Datum:
    return pc.cast(datum, pa.float64(), safe=False)


def _double_of_decimal(datum: Datum) -> Datum:
    """The nearest double: one division of whole numbers (Arrow multiplies with an inexact 0.01).

    Where these have more digits than a double, by way of text.
    """
    if isinstance(datum, pa.Scalar):
        return _double_of_decimal(pa.repeat(datum, 1))[0]
    make = pa.decimal128 if pa.types.is_decimal128(datum.type) else pa.decimal256
    scale = datum.type.scale
    digits = _double(datum.view(make(datum.type.precision, 0)))
    if scale == 0:
        return digits
    result = pc.divide(digits, 10.0**scale)
    if datum.type.precision <= _EXACT_DIGITS and scale <= _EXACT_POWERS:
        return result
    limit = _EXACT_INTEGERS if scale <= _EXACT_POWERS else 0.0
    long = pc.fill_null(pc.greater(pc.abs(digits), limit), False)
    exact = pc.cast(pc.cast(datum.filter(long), pa.string()), pa.float64())
    return pc.replace_with_mask(result, long, exact)


def decimal(datum: Datum) -> Datum:
    """An integer as a decimal: a constant with its own digits, a column with those of int64."""
    if pa.types.is_decimal(datum.type):
        return datum
    if isinstance(datum, pa.Scalar) and datum.is_valid:
        return _decimal_scalar(Decimal(datum.as_py()))
    return pc.cast(datum, pa.decimal128(19, 0))


def unify(data: Sequence[Datum]) -> list[Datum]:
    """The same values in one type, so that they can be compared or stand in one column."""
    common = reduce(common_type, (number(datum).type for datum in data))
    try:
        return [to_type(datum, common) for datum in data]
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(common):
            raise
        # Nanoseconds end in 2262. A timestamp beyond is far from all of them: microseconds will do.
        coarse = pa.timestamp("us", common.tz)
        return [to_type(datum, coarse) for datum in data]


def to_type(datum: Datum, dtype: pa.DataType) -> Datum:
    """A cast between types that `unify` found to be one family."""
    if datum.type == dtype:
        return datum
    if pa.types.is_null(datum.type):
        return pa.scalar(None, dtype)
    if pa.types.is_timestamp(dtype) and pa.types.is_timestamp(datum.type):
        return _to_unit(datum, dtype)
    return double(datum) if pa.types.is_floating(dtype) else pc.cast(datum, dtype)


_UNITS = {"s": 0, "ms": 1, "us": 2, "ns": 3}


def _to_unit(datum: Datum, dtype: pa.DataType) -> Datum:
    if _UNITS[dtype.unit] < _UNITS[datum.type.unit]:
        names = {"s": "second", "ms": "millisecond", "us": "microsecond"}
        datum = pc.floor_temporal(datum, unit=names[dtype.unit])
    return pc.cast(datum, dtype)


def common_type(left: pa.DataType, right: pa.DataType, digits: int | None = None) -> pa.DataType:
    """The type that holds the values of two types.

    Common decimals have this many digits, or by default as many as both need, perhaps 256 bits.
    """
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    kind = common_kind(kind_of_arrow(left), kind_of_arrow(right))
    if kind is Kind.DECIMAL:
        return _common_decimal(_as_decimal(left), _as_decimal(right), digits)
    if kind is not None and kind.is_temporal:
        units = [getattr(dtype, "unit", "us") for dtype in (left, right)]
        finer = max((unit if unit in _UNITS else "us" for unit in units), key=_UNITS.__getitem__)
        return pa.timestamp(finer, "UTC" if kind is Kind.TIMESTAMP_TZ else None)
    if kind not in _WIDEST:
        raise ExpressionError(f"cannot mix values of type {left} and {right}")
    return _WIDEST[kind]


_WIDEST = {
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.large_string(),
    Kind.TIME: pa.time64("ns"),
    Kind.DURATION: pa.duration("ns"),
    Kind.BINARY: pa.large_binary(),
}


def _as_decimal(dtype: pa.DataType) -> pa.DataType:
    return dtype if pa.types.is_decimal(dtype) else pa.decimal128(19, 0)


def _common_decimal(left: pa.DataType, right: pa.DataType, digits: int | None) -> pa.DataType:
    scale = max(left.scale, right.scale)
    if digits is None:
        digits = scale + max(left.precision - left.scale, right.precision - right.scale)
    return pa.decimal128(digits, scale) if digits <= MAX_DIGITS else pa.decimal256(digits, scale)


def on_arrays(kernel: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """Let a kernel that needs an array as its first argument take a constant too."""

    @wraps(kernel)
    def either(datum: Datum, *rest: object) -> Datum:
        if isinstance(datum, pa.Scalar):
            return kernel(pa.repeat(datum, 1), *rest)[0]
        return kernel(datum, *rest)

    return either


def broadcast(datum: Datum, length: int) -> pa.Array:
    """A constant as a column."""
    if not isinstance(datum, pa.Scalar):
        return datum
    if is_text(datum):
        check_bytes("A constant in every row", bytes_of(datum, length), length)
    return pa.repeat(datum, length)


def check_bytes(name: str, nbytes: float, rows: int) -> None:
    """Refuse texts that would have so many bytes in so many rows, before they are made."""
    if nbytes > max(MAX_BYTES, rows * MAX_BYTES_PER_ROW):
        raise ExpressionError(f"{name} makes texts of more than {MAX_BYTES:,} bytes together")


def bytes_of(datum: Datum, rows: int = 1) -> int:
    """The bytes of a column of texts, or of a text in so many rows."""
    if isinstance(datum, pa.Scalar):
        return rows * int(datum.as_buffer().size) if datum.is_valid else 0
    return total(pc.binary_length(datum))


def is_text(datum: Datum) -> bool:
    """Whether these are texts."""
    return bool(pa.types.is_string(datum.type) or pa.types.is_large_string(datum.type))


def total(counts: Datum) -> int:
    """The sum of numbers, or the number itself; NULL is 0."""
    return int((counts if isinstance(counts, pa.Scalar) else pc.sum(counts)).as_py() or 0)
