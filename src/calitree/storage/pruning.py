"""Which row groups may hold a row that passes a filter, as far as their bounds tell.

A condition is true, false or NULL in a row. For each row group this finds which of the three it
*may* be in some row; a group is needed if the filter may be true. `x < 5` is monotone in x, so it
is computed, by the engine's own kernels, for the least and the greatest x. What is not understood
may be anything, so nothing is ever left out that could pass.

    x between 1 and 9:   x < 5 may be true or false
    x between 6 and 9:   x < 5 is false, NOT x < 5 is true
    only NULLs:          both are NULL
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.evaluator import evaluate
from calitree.sql.nodes import kind_of
from calitree.sql.parser import Expression
from calitree.storage.statistics import Bounds, Mask
from calitree.types import Kind

Lookup: TypeAlias = Callable[[str], Sequence[Bounds]]
"""Bounds of an attribute, of which each row keeps to one; none if nothing is known of it."""

MOST = 4
"""Attributes of several bounds that are looked at, since all combinations are."""

MANY = 32
"""Values after IN that are looked at one by one; of more only the least and the greatest."""

_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)


class Outcomes(NamedTuple):
    """What a condition may be in some row of each row group."""

    true: Mask
    false: Mask
    null: Mask

    def negated(self) -> Outcomes:
        return Outcomes(self.false, self.true, self.null)

    def both(self, other: Outcomes) -> Outcomes:
        """AND, as if any row of the one could be any row of the other."""
        null = self.null & (other.true | other.null) | other.null & self.true
        return Outcomes(self.true & other.true, self.false | other.false, null)

    def either(self, other: Outcomes) -> Outcomes:
        return self.negated().both(other.negated()).negated()

    def union(self, other: Outcomes) -> Outcomes:
        """What is possible here or there."""
        return Outcomes(*(a | b for a, b in zip(self, other, strict=True)))


def may_meet(values: pa.Array, bounds: Sequence[Bounds], groups: int) -> Mask:
    """Which of so many row groups may hold one of these values, none of which is NULL."""
    if len(bounds) != 1:  # nothing is known, or NaN may be there
        return np.ones(groups, bool)
    (found,) = bounds
    try:
        values = values.cast(found.low.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.ones(groups, bool)
    if len(values) > MANY:
        ends = pc.min_max(values)
        ranges = [(ends["min"], ends["max"])]
    else:
        ranges = [(each, each) for each in values]
    met = np.zeros(groups, bool)
    for least, greatest in ranges:
        within = pc.and_(pc.less_equal(found.low, greatest), pc.greater_equal(found.high, least))
        met |= np.asarray(pc.fill_null(within, False), bool)
    return found.values & (met | ~found.known)


def may_pass(where: Sequence[Expression], bounds: Lookup, groups: int) -> Mask:
    """Which of so many row groups may hold a row that passes all of `where`."""
    attributes = sorted(frozenset().union(*(each.attributes for each in where)))
    found = {each: bounds(each) for each in attributes}
    several = [each for each in attributes if len(found[each]) > 1]
    known = {each: found[each] for each in attributes if found[each] and each not in several[MOST:]}
    needed = np.zeros(groups, bool)
    for each in product(*known.values()):
        conditions = _Conditions(dict(zip(known, each, strict=True)), groups)
        here = [conditions.outcomes(expression.node).true for expression in where]
        needed |= np.logical_and.reduce([np.ones(groups, bool), *here])
    return needed


class _Conditions:
    """Conditions on rows whose attributes have these bounds; of others nothing is known."""

    def __init__(self, bounds: Mapping[str, Bounds], groups: int) -> None:
        self.bounds, self.groups = bounds, groups

    def outcomes(self, node: exp.Expr) -> Outcomes:
        try:
            return self._outcomes(node)
        except ExpressionError:  # which is for the engine to tell, if it ever comes to such a row
            return self._anything()

    def _outcomes(self, node: exp.Expr) -> Outcomes:
        if isinstance(node, exp.Paren):
            return self.outcomes(node.this)
        if isinstance(node, exp.And):
            return self.outcomes(node.left).both(self.outcomes(node.right))
        if isinstance(node, exp.Or):
            return self.outcomes(node.left).either(self.outcomes(node.right))
        if isinstance(node, exp.Not):
            return self.outcomes(node.this).negated()
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, (*_ORDERED, exp.EQ, exp.NEQ)):
            return self._comparison(node)
        if isinstance(node, exp.Column) and kind_of(node) is Kind.BOOLEAN:
            return self._comparison(node)
        return self._anything()

    def _is(self, node: exp.Is) -> Outcomes:
        never = np.zeros(self.groups, bool)
        inner = node.this.unnest()
        if isinstance(node.expression, exp.Null) and isinstance(inner, exp.Column):
            found = self.bounds.get(inner.name)
            return Outcomes(found.nulls, found.values, never) if found else self._anything()
        true, false, null = self.outcomes(inner)
        if isinstance(node.expression, exp.Null):
            return Outcomes(null, true | false, never)
        if node.expression.this:
            return Outcomes(true, false | null, never)
        return Outcomes(false, true | null, never)

    def _in(self, node: exp.In) -> Outcomes:
        items = [each.copy() for each in node.expressions]
        if len(items) <= MANY:
            equal = (_compared(exp.EQ, node.this, each) for each in items)
            return reduce(Outcomes.either, map(self.outcomes, equal))
        least, greatest = (
            each(this=items[0], expressions=items[1:]) for each in (exp.Least, exp.Greatest)
        )
        above = self.outcomes(_compared(exp.GTE, node.this, least))
        below = self.outcomes(_compared(exp.LTE, node.this, greatest))
        return self._anything()._replace(true=above.true & below.true)

    def _comparison(self, node: exp.Expr) -> Outcomes:
        """A column, or what grows with it, compared with a constant; or a column that is a flag."""
        if isinstance(node, exp.NEQ):
            return self._comparison(_compared(exp.EQ, node.left, node.right)).negated()
        columns = list(node.find_all(exp.Column))
        found = self.bounds.get(columns[0].name) if len(columns) == 1 else None
        sides = [node.left, node.right] if isinstance(node, exp.Binary) else [node]
        value = next((side for side in sides if side.find(exp.Column)), node)
        if found is None or not _grows(value):
            return self._anything()
        column = columns[0].name
        if isinstance(node, exp.EQ):
            (other,) = (side for side in sides if side is not value)
            between = self._equal(value, other, column, found)
        else:  # it changes at most once on the way from the least to the greatest value
            between = self._at(node, column, found.low).union(self._at(node, column, found.high))
        true, false, null = (found.values & (~found.known | each) for each in between)
        return Outcomes(true, false, null | found.nulls)

    def _equal(self, value: exp.Expr, other: exp.Expr, column: str, found: Bounds) -> Outcomes:
        """Whether a value between the bounds may be another, or must be."""
        below = self._at(_compared(exp.LTE, value, other), column, found.low)
        above = self._at(_compared(exp.GTE, value, other), column, found.high)
        least, greatest = (
            self._at(_compared(exp.EQ, value, other), column, each)
            for each in (found.low, found.high)
        )
        true, only = below.true & above.true, least.true & greatest.true
        return Outcomes(true, ~only & ~least.null, least.null)

    def _at(self, node: exp.Expr, column: str, values: pa.Array) -> Outcomes:
        """What a condition is for one value in each row group."""
        truth = evaluate(node, {column: values}, self.groups)
        true, false = (_mask(pc.equal(truth, each)) for each in (True, False))
        return Outcomes(true, false, ~true & ~false)

    def _anything(self) -> Outcomes:
        always = np.ones(self.groups, bool)
        return Outcomes(always, always, always)


def _compared(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return operator(this=left.copy(), expression=right.copy())


def _grows(node: exp.Expr) -> bool:
    """Whether a value is a column, or never falls where that column rises."""
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        source, target = kind_of(node.this.unnest()), kind_of(node)
        number = source.is_number and target is Kind.FLOAT
        time = source.is_temporal and target.is_temporal
        return (number or time) and _grows(node.this)
    if isinstance(node, exp.Extract):
        return node.name.upper() == "YEAR" and _grows(node.expression)
    if isinstance(node, exp.Paren | exp.TimestampTrunc):
        return _grows(node.this)
    return isinstance(node, exp.Column)


def _mask(array: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(array, False), bool)
