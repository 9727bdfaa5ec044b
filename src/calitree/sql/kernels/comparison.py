"""Comparison and three-valued logic.

A NaN equals every other NaN and is greater than all other numbers, as in DuckDB, PostgreSQL and
Spark; Arrow, NumPy and Python have it unequal to itself. -0.0 equals 0.0. So NaN is one value
wherever values are compared: by operators, IN, NULLIF, GREATEST and LEAST here, and as a key of joins
and groups in the engines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import (
    NULL,
    Datum,
    bytes_of,
    check_bytes,
    is_null,
    is_text,
    kind_of,
    narrow,
    on_arrays,
    unify,
    where,
)
from calitree.types import Kind

if TYPE_CHECKING:
    from calitree.sql.kernels.membership import ValueSet

Comparison = Callable[[Datum, Datum], Datum]


MIN_COMPILED_ROWS = 1 << 10
"""In fewer rows Arrow compares texts with one text as quickly as a compiled loop."""


def _is_long(datum: Datum) -> bool:
    return isinstance(datum, pa.Array) and len(datum) >= MIN_COMPILED_ROWS


def _has_nan(datum: Datum) -> bool:
    nan = pc.is_nan(datum)
    return bool((nan if isinstance(nan, pa.Scalar) else pc.any(nan)).as_py())


def _comparison(name: str, with_nan: Comparison) -> Comparison:
    """Arrow's comparison of this name, or `with_nan` where a side has a NaN; most columns have none."""

    def compare(left: Datum, right: Datum) -> Datum:
        a, b = unify([left, right])
        kind = kind_of(a)
        if kind is Kind.STRING and _is_long(a) and isinstance(b, pa.Scalar) and b.is_valid:
            from calitree.sql.kernels import strings

            return strings.compare(name, a, b.as_py().encode())
        if kind is Kind.FLOAT and (_has_nan(a) or _has_nan(b)):
            return with_nan(a, b)
        return pc.call_function(name, [a, b])

    return compare


def _equal_nan(a: Datum, b: Datum) -> Datum:
    return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))


def _less_nan(a: Datum, b: Datum) -> Datum:
    return pc.or_(pc.less(a, b), pc.and_(pc.is_nan(b), pc.invert(pc.is_nan(a))))


equal = _comparison("equal", _equal_nan)
not_equal = _comparison("not_equal", lambda a, b: pc.invert(_equal_nan(a, b)))
less = _comparison("less", _less_nan)
less_equal = _comparison("less_equal", lambda a, b: pc.invert(_less_nan(b, a)))
greater = _comparison("greater", lambda a, b: _less_nan(b, a))
greater_equal = _comparison("greater_equal", lambda a, b: pc.invert(_less_nan(a, b)))


def _truth(datum: Datum) -> Datum:
    return pa.scalar(None, pa.bool_()) if is_null(datum) else datum


inverse = pc.invert


def both(left: Datum, right: Datum) -> Datum:
    """AND of three truth values."""
    return pc.and_kleene(_truth(left), _truth(right))


def either(left: Datum, right: Datum) -> Datum:
    """OR of three truth values."""
    return pc.or_kleene(_truth(left), _truth(right))


def is_true(datum: Datum) -> Datum:
    """IS TRUE: false where the datum is NULL."""
    return pc.coalesce(_truth(datum), False)


def is_(datum: Datum, truth: bool | None) -> Datum:
    """IS TRUE, IS FALSE, or IS NULL for None."""
    if truth is None:
        return pc.is_null(datum)
    return is_true(datum) if truth else pc.invert(pc.coalesce(_truth(datum), True))


def not_distinct(left: Datum, right: Datum) -> Datum:
    """IS NOT DISTINCT FROM: equality for which NULL is a value."""
    if is_null(left):
        return pc.is_null(right)
    if is_null(right):
        return pc.is_null(left)
    return pc.coalesce(equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))


def distinct(left: Datum, right: Datum) -> Datum:
    """IS DISTINCT FROM."""
    return pc.invert(not_distinct(left, right))


def is_in(needle: Datum, *items: Datum) -> Datum:
    """`needle IN (items)`: NULL where it is in none, and the needle or an item is NULL."""
    if is_null(needle):
        return NULL
    known = [item for item in items if not is_null(item)]
    contained = _contained(needle, known)
    return contained if len(known) == len(items) else either(contained, NULL)


def _contained(needle: Datum, items: Sequence[Datum]) -> Datum:
    if not items:
        return where(pc.is_valid(needle), pa.scalar(False))
    constants = isinstance(needle, pa.Array) and all(isinstance(item, pa.Scalar) for item in items)
    unified = unify([needle, *items])
    if not constants or kind_of(unified[0]) is Kind.FLOAT:
        return reduce(either, (equal(needle, item) for item in items))
    values = pa.concat_arrays([pa.repeat(item, 1) for item in unified[1:]])
    return where(pc.is_valid(needle), pc.is_in(unified[0], value_set=values))


class Among:
    """`needle IN (values)`, of which there are many, and NULL may be one.

    What finds them is built once for all pieces of a column; by two threads, perhaps, and both are right.
    """

    def __init__(self, values: pa.Array, has_null: bool) -> None:
        self._values, self._has_null = values, has_null
        self._sets: dict[pa.DataType, ValueSet] = {}

    def __call__(self, needle: Datum) -> Datum:
        """Whether it is among them, in every row."""
        if is_null(needle):
            return NULL
        contained = on_arrays(self._look_up)(needle)
        return either(contained, NULL) if self._has_null else contained

    def _look_up(self, column: pa.Array) -> pa.Array:
        from calitree.sql.kernels.membership import ValueSet

        known = self._sets.get(column.type)
        if known is None:
            known = self._sets.setdefault(column.type, ValueSet(self._values, column.type))
        return known.find(column)


def null_if(value: Datum, unwanted: Datum) -> Datum:
    """NULLIF: `value`, or NULL where it equals `unwanted`."""
    if is_null(value) or is_null(unwanted):
        return value
    return where(pc.invert(pc.coalesce(equal(value, unwanted), False)), value)


def _extreme(better: Comparison) -> Callable[..., Datum]:
    """GREATEST or LEAST: the best of those that are not NULL."""

    def better_of(left: Datum, right: Datum) -> Datum:
        if is_null(left) or is_null(right):
            return right if is_null(left) else left
        a, b = unify([left, right])
        rows = max(1 if isinstance(datum, pa.Scalar) else len(datum) for datum in (a, b))
        for datum in (a, b):
            if is_text(datum) and isinstance(datum, pa.Scalar):
                check_bytes("A choice", bytes_of(datum, rows), rows)
        return pc.coalesce(pc.if_else(better(a, b), a, b), a, b)

    def extreme(*data: Datum) -> Datum:
        best = reduce(better_of, data)
        # The type is common to all arguments, also to one that is a NULL of its type.
        best = unify([best, *data])[0]
        return narrow(best) if kind_of(best) is Kind.DECIMAL else best

    return extreme


greatest = _extreme(greater_equal)
least = _extreme(less_equal)
