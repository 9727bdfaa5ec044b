"""Comparison and three-valued logic. NaN equals NaN and is greater than every other number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.values import NULL, Datum, is_null, kind_of, narrow, unify
from calitree.types import Kind

Comparison = Callable[[Datum, Datum], Datum]


def _has_nan(datum: Datum) -> bool:
    nan = pc.is_nan(datum)
    return bool((nan if isinstance(nan, pa.Scalar) else pc.any(nan)).as_py())


def _comparison(name: str, with_nan: Comparison) -> Comparison:
    """`with_nan` is used only where a NaN is present: all but a few columns have none."""

    def compare(left: Datum, right: Datum) -> Datum:
        a, b = unify([left, right])
        if kind_of(a) is Kind.FLOAT and (_has_nan(a) or _has_nan(b)):
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


def both(left: Datum, right: Datum) -> Datum:
    return pc.and_kleene(_truth(left), _truth(right))


def either(left: Datum, right: Datum) -> Datum:
    return pc.or_kleene(_truth(left), _truth(right))


def missing(datum: Datum) -> Datum:
    return pc.is_null(datum)


def is_true(datum: Datum) -> Datum:
    return pc.coalesce(_truth(datum), False)


def is_false(datum: Datum) -> Datum:
    return pc.invert(pc.coalesce(_truth(datum), True))


def not_distinct(left: Datum, right: Datum) -> Datum:
    """Equality for which NULL is a value."""
    if is_null(left):
        return missing(right)
    if is_null(right):
        return missing(left)
    return pc.coalesce(equal(left, right), pc.and_(missing(left), missing(right)))


def distinct(left: Datum, right: Datum) -> Datum:
    return pc.invert(not_distinct(left, right))


def is_in(needle: Datum, items: Sequence[Datum]) -> Datum:
    """`needle IN (items)`: NULL unless found, where the needle or an item is NULL."""
    if is_null(needle):
        return NULL
    known = [item for item in items if not is_null(item)]
    found = _found(needle, known)
    if len(known) < len(items):
        return either(found, NULL)
    return found


def _found(needle: Datum, items: Sequence[Datum]) -> Datum:
    if not items:
        return pc.if_else(missing(needle), pa.scalar(None, pa.bool_()), False)
    constants = isinstance(needle, pa.Array) and all(isinstance(item, pa.Scalar) for item in items)
    unified = unify([needle, *items])
    if not constants or kind_of(unified[0]) is Kind.FLOAT:
        return reduce(either, (equal(needle, item) for item in items))
    values = pa.concat_arrays([pa.repeat(item, 1) for item in unified[1:]])
    hit = pc.is_in(unified[0], value_set=values)
    return pc.if_else(missing(needle), pa.scalar(None, pa.bool_()), hit)


def null_if(value: Datum, unwanted: Datum) -> Datum:
    """`value`, or NULL where it equals `unwanted`."""
    if is_null(value) or is_null(unwanted):
        return value
    same = pc.coalesce(equal(value, unwanted), False)
    return pc.if_else(same, pa.scalar(None, value.type), value)


def _extreme(better: Comparison) -> Callable[[Sequence[Datum]], Datum]:
    """GREATEST or LEAST: the best of those that are not NULL."""

    def pick(left: Datum, right: Datum) -> Datum:
        if is_null(left) or is_null(right):
            return right if is_null(left) else left
        a, b = unify([left, right])
        return pc.coalesce(pc.if_else(better(a, b), a, b), a, b)

    def extreme(data: Sequence[Datum]) -> Datum:
        best = reduce(pick, data)
        # Every argument has a say in the type, also one that is a NULL of that type.
        best = unify([best, *data])[0]
        return narrow(best) if kind_of(best) is Kind.DECIMAL else best

    return extreme


greatest = _extreme(greater_equal)
least = _extreme(less_equal)
