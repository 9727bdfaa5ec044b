"""Arithmetic. Nothing wraps: what 64 bits cannot hold is a decimal, what 38 digits cannot, float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels.values import (
    MAX_DIGITS,
    Datum,
    decimal,
    double,
    kind_of,
    narrow,
    number,
    unify,
    where,
    zero_of,
)
from calitree.types import Kind

_WHOLE_FLOATS = 2.0**53
"""From here on every double is an integer."""
_MAX_DECIMAL256_DIGITS = 76


def _binary(name: str, digits: Callable[[pa.DataType, pa.DataType], int]) -> Callable[..., Datum]:
    """+, - or *; `digits` is the precision that Arrow gives to the decimal result."""

    def operate(left: Datum, right: Datum) -> Datum:
        left, right = number(left), number(right)
        kinds = {kind_of(left), kind_of(right)}
        if Kind.FLOAT in kinds:
            return pc.call_function(name, [double(left), double(right)])
        if Kind.DECIMAL in kinds:
            return _decimals(name, digits, left, right)
        try:
            return pc.call_function(f"{name}_checked", [left, right])
        except pa.ArrowInvalid:
            return _decimals(name, digits, left, right)

    return operate


def _sum_digits(left: pa.DataType, right: pa.DataType) -> int:
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return int(max(left.scale, right.scale) + whole + 1)


def _product_digits(left: pa.DataType, right: pa.DataType) -> int:
    return int(left.precision + right.precision + 1)


def _decimals(
    name: str, digits: Callable[[pa.DataType, pa.DataType], int], left: Datum, right: Datum
) -> Datum:
    """Exact while the values fit 38 digits, even where by their declared type they might not."""
    a, b = decimal(left), decimal(right)
    if Kind.FLOAT in (kind_of(a), kind_of(b)):
        return pc.call_function(name, [double(a), double(b)])
    if digits(a.type, b.type) > MAX_DIGITS:
        a, b = _tight(a), _tight(b)
    needed = digits(a.type, b.type)
    if needed <= MAX_DIGITS:
        return pc.call_function(name, [a, b])
    if needed > _MAX_DECIMAL256_DIGITS:
        return pc.call_function(name, [double(a), double(b)])
    return narrow(pc.call_function(name, [_wide(a), _wide(b)]))


def _tight(datum: Datum) -> Datum:
    """A decimal declared with no more digits than its values have."""
    largest = datum if isinstance(datum, pa.Scalar) else pc.max(pc.abs(datum))
    value = largest.as_py()
    digits = 1 if value is None else len(value.as_tuple().digits)
    return pc.cast(datum, pa.decimal128(max(digits, datum.type.scale, 1), datum.type.scale))


def _wide(datum: Datum) -> Datum:
    return pc.cast(datum, pa.decimal256(datum.type.precision, datum.type.scale))


add = _binary("add", _sum_digits)
subtract = _binary("subtract", _sum_digits)
multiply = _binary("multiply", _product_digits)


def _unary(name: str) -> Callable[[Datum], Datum]:
    def operate(datum: Datum) -> Datum:
        datum = number(datum)
        if kind_of(datum) is not Kind.INTEGER:
            return pc.call_function(name, [datum])
        try:
            return pc.call_function(f"{name}_checked", [datum])
        except pa.ArrowInvalid:
            return pc.call_function(name, [decimal(datum)])

    return operate


negate = _unary("negate")
absolute = _unary("abs")


def _without_zero(datum: Datum) -> Datum:
    return where(pc.not_equal(datum, zero_of(datum)), datum)


def divide(left: Datum, right: Datum) -> Datum:
    """Division of doubles; NULL where the divisor is zero."""
    return pc.divide(double(left), _without_zero(double(right)))


def remainder(left: Datum, right: Datum) -> Datum:
    """What truncating division leaves: it has the sign of the dividend."""
    a, b = unify([left, right])
    b = _without_zero(b)
    if kind_of(a) is Kind.DECIMAL:
        return narrow(pc.call_function("remainder", [a, b]))
    if isinstance(a, pa.Array) or isinstance(b, pa.Array):
        return _fmod(a, b)
    return _fmod(pa.repeat(a, 1), b)[0]


def whole_quotient(left: Datum, right: Datum) -> Datum:
    """The quotient of integers without what is behind the point; NULL where the divisor is zero."""
    a, b = number(left), _without_zero(number(right))
    if kind_of(a) is kind_of(b) is Kind.INTEGER:
        return pc.divide_checked(a, b)
    raise ExpressionError("an integer does not fit 64 bits")


def _fmod(a: Datum, b: Datum) -> pa.Array:
    """C's remainder, which older versions of Arrow have no kernel for."""
    known = pc.and_(pc.is_valid(a), pc.is_valid(b))
    one = pa.scalar(1, a.type)
    with np.errstate(invalid="ignore"):
        values = np.fmod(_numpy(pc.coalesce(a, one)), _numpy(pc.coalesce(b, one)))
    return where(known, pa.array(values, a.type))


def _numpy(datum: Datum) -> Any:
    return datum.as_py() if isinstance(datum, pa.Scalar) else datum.to_numpy(zero_copy_only=False)


def power(base: Datum, exponent: Datum) -> Datum:
    """POWER of doubles; -0.0 is 0.0."""
    return pc.power(pc.add(double(base), 0.0), double(exponent))


def _floating(name: str) -> Callable[[Datum], Datum]:
    """A function of doubles: out of its domain the answer is NaN or infinite, never an error."""
    return lambda datum: pc.call_function(name, [double(datum)])


def _whole(name: str) -> Callable[[Datum], Datum]:
    """FLOOR or CEIL: of decimals without decimals, else of doubles."""
    floating = _floating(name)

    def operate(datum: Datum) -> Datum:
        if kind_of(datum) is not Kind.DECIMAL:
            return floating(datum)
        return _at_scale(pc.call_function(name, [_one_digit_more(datum)]), 0)

    return operate


def _one_digit_more(datum: Datum) -> Datum:
    """A decimal in whose type 9.9 can be rounded up."""
    return pc.cast(datum, pa.decimal256(datum.type.precision + 1, datum.type.scale))


def _at_scale(datum: Datum, scale: int) -> Datum:
    """A decimal with fewer places, of which the others are zero."""
    digits = max(datum.type.precision - datum.type.scale + scale, 1)
    return narrow(pc.cast(datum, pa.decimal256(digits, scale)))


floor, ceil, truncate = _whole("floor"), _whole("ceil"), _whole("trunc")
sqrt, ln, exp = _floating("sqrt"), _floating("ln"), _floating("exp")


def round_half_away(datum: Datum, decimals: int = 0) -> Datum:
    """ROUND half away from zero: of a decimal, or of the double times 10^decimals."""
    if kind_of(datum) is Kind.DECIMAL:
        if datum.type.scale <= decimals:
            return datum
        wide = _one_digit_more(datum)
        return _at_scale(pc.round(wide, decimals, round_mode="half_towards_infinity"), decimals)
    value = double(datum)
    large = pc.greater_equal(pc.abs(value), _WHOLE_FLOATS / 10.0**decimals)
    inner = pc.if_else(large, 0.0, value)
    rounded = pc.round(inner, ndigits=decimals, round_mode="half_towards_infinity")
    return pc.if_else(large, value, rounded)
