"""What is done with the 64 bits of integers."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels.values import Datum, kind_of
from calitree.types import Kind

_MAX_SHIFT = 62
"""Bits that Arrow moves a number by, and that a positive one can be moved up by."""


def _integer(datum: Datum) -> Datum:
    if kind_of(datum) is not Kind.INTEGER or pa.types.is_uint64(datum.type):
        raise ExpressionError("only integers of 64 bits with a sign have bits")
    return datum


def _of_bits(name: str) -> Callable[..., Datum]:
    return lambda *data: pc.call_function(name, [_integer(datum) for datum in data])


both, either, one_of = map(_of_bits, ("bit_wise_and", "bit_wise_or", "bit_wise_xor"))
inverse = _of_bits("bit_wise_not")


def _clipped(count: Datum) -> Datum:
    fits = pc.and_(pc.greater_equal(count, 0), pc.less_equal(count, _MAX_SHIFT))
    return pc.if_else(fits, count, 0)


def shift_left(datum: Datum, count: Datum) -> Datum:
    """Bits moved up; an error if the number, or the count, is negative, or a bit would be lost."""
    value, by = _integer(datum), _integer(count)
    moved = pc.shift_left(value, _clipped(by))
    back = pc.equal(pc.shift_right(moved, _clipped(by)), value)
    fits = pc.and_(pc.and_(pc.greater_equal(value, 0), pc.greater_equal(by, 0)), back)
    small = pc.and_(fits, pc.or_(pc.less_equal(by, _MAX_SHIFT), pc.equal(value, 0)))
    whole = pc.fill_null(pc.and_(small, pc.greater_equal(moved, 0)), True)
    if not (
        whole.as_py() if isinstance(whole, pa.Scalar) else pc.all(whole).as_py() in (True, None)
    ):
        raise ExpressionError("a left shift takes positive numbers, and overflows otherwise")
    return moved


def shift_right(datum: Datum, count: Datum) -> Datum:
    """Bits moved down, with the sign; 0 for a negative count, or one of 64 and more."""
    value, by = _integer(datum), _integer(count)
    fits = pc.and_(pc.greater_equal(by, 0), pc.less_equal(by, _MAX_SHIFT))
    moved = pc.shift_right(value, _clipped(by))
    sign = pc.if_else(pc.equal(by, _MAX_SHIFT + 1), pc.shift_right(value, _MAX_SHIFT), 0)
    return pc.if_else(fits, moved, pc.shift_right(pc.if_else(pc.is_null(moved), moved, sign), 1))
