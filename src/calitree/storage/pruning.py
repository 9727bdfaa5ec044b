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
from calitree.sql.parsing.literal_lists import list_of
from calitree.storage.statistics import Bounds, Mask
from calitree.types import Kind

Lookup: TypeAlias = Callable[[str], Sequence[Bounds]]
"""Bounds of an attribute, of which each row keeps to one; none if nothing is known of it."""

MAX_FLOAT_ATTRIBUTES = 4
"""Attributes of several bounds that are considered, since all combinations of bounds are."""

MAX_VALUES = 32
"""Values after IN that are compared one by one; of more only the least and the greatest."""

_COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)


class Outcomes(NamedTuple):
    """What a condition may be in some row of each row group."""

    true: Mask
    false: Mask
    null: Mask

    def negated(self) -> Outcomes:
        """NOT."""
        return Outcomes(self.false, self.true, self.null)

    def both(self, other: Outcomes) -> Outcomes:
        """AND, as if any row of the one could be any row of the other."""
        null = self.null & (other.true | other.null) | other.null & self.true
        return Outcomes(self.true & other.true, self.false | other.false, null)

    def either(self, other: Outcomes) -> Outcomes:
        """OR, likewise."""
        return self.negated().both(other.negated()).negated()

    def union(self, other: Outcomes) -> Outcomes:
        """What is possible here or there."""
        return Outcomes(*(a | b for a, b in zip(self, other, strict=True)))


def may_contain(values: pa.Array, bounds: Sequence[Bounds], groups: int) -> Mask:
    """Which of so many row groups may hold one of these values, none of which is NULL."""
    if len(bounds) != 1:  # nothing is known, or NaN may be there
        return np.ones(groups, bool)
    (known,) = bounds
    try:
        values = values.cast(known.low.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return np.ones(groups, bool)
    if len(values) > MAX_VALUES:
        ends = pc.min_max(values)
        ranges = [(ends["min"], ends["max"])]
    else:
        ranges = [(value, value) for value in values]
    overlap = np.zeros(groups, bool)
    for least, greatest in ranges:
        overlap |= _mask(
            pc.and_(pc.less_equal(known.low, greatest), pc.greater_equal(known.high, least))
        )
    return known.values & (overlap | ~known.known)


def may_pass(where: Sequence[Expression], bounds: Lookup, groups: int) -> Mask:
    """Which of so many row groups may hold a row that passes all of `where`."""
    attributes = sorted(frozenset().union(*(condition.attributes for condition in where)))
    known = {name: alternatives for name in attributes if (alternatives := bounds(name))}
    several = [name for name, alternatives in known.items() if len(alternatives) > 1]
    for name in several[MAX_FLOAT_ATTRIBUTES:]:
        del known[name]
    needed = np.zeros(groups, bool)
    for combination in product(*known.values()):
        conditions = _Conditions(dict(zip(known, combination, strict=True)), groups)
        true = [conditions.outcomes(condition.node).true for condition in where]
        needed |= np.logical_and.reduce([np.ones(groups, bool), *true])
    return needed


class _Conditions:
    """Conditions on rows whose attributes have these bounds; of others nothing is known."""

    def __init__(self, bounds: Mapping[str, Bounds], groups: int) -> None:
        self.bounds, self.groups = bounds, groups

    def outcomes(self, node: exp.Expr) -> Outcomes:
        """What a condition may be."""
        try:
            return self._outcomes(node)
        except ExpressionError:  # the engine raises it, if it evaluates such a row
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
        is_flag = isinstance(node, exp.Column) and kind_of(node) is Kind.BOOLEAN
        if is_flag or isinstance(node, _COMPARISONS):
            return self._comparison(node)
        return self._anything()

    def _is(self, node: exp.Is) -> Outcomes:
        never = np.zeros(self.groups, bool)
        inner = node.this.unnest()
        if isinstance(node.expression, exp.Null) and isinstance(inner, exp.Column):
            known = self.bounds.get(inner.name)
            return Outcomes(known.nulls, known.values, never) if known else self._anything()
        true, false, null = self.outcomes(inner)
        if isinstance(node.expression, exp.Null):
            return Outcomes(null, true | false, never)
        if node.expression.this:
            return Outcomes(true, false | null, never)
        return Outcomes(false, true | null, never)

    def _in(self, node: exp.In) -> Outcomes:
        listed = list_of(node)
        items = listed.ends if listed else [item.copy() for item in node.expressions]
        if listed is None and len(items) <= MAX_VALUES:
            equal = (_compared(exp.EQ, node.this, item) for item in items)
            return reduce(Outcomes.either, map(self.outcomes, equal))
        least = exp.Least(this=items[0], expressions=items[1:])
        greatest = exp.Greatest(this=items[0], expressions=items[1:])
        above = self.outcomes(_compared(exp.GTE, node.this, least))
        below = self.outcomes(_compared(exp.LTE, node.this, greatest))
        return self._anything()._replace(true=above.true & below.true)

    def _comparison(self, node: exp.Expr) -> Outcomes:
        """A column, or what grows with it, compared with a constant; or a boolean column."""
        if isinstance(node, exp.NEQ):
            return self._comparison(_compared(exp.EQ, node.left, node.right)).negated()
        columns = list(node.find_all(exp.Column))
        known = self.bounds.get(columns[0].name) if len(columns) == 1 else None
        sides = [node.left, node.right] if isinstance(node, exp.Binary) else [node]
        value = next((side for side in sides if side.find(exp.Column)), node)
        if known is None or not _is_monotone(value):
            return self._anything()
        column = columns[0].name
        if isinstance(node, exp.EQ):
            (other,) = (side for side in sides if side is not value)
            between = self._equal(value, other, column, known)
        else:  # it changes at most once on the way from the least to the greatest value
            between = self._at(node, column, known.low).union(self._at(node, column, known.high))
        true, false, null = (known.values & (~known.known | mask) for mask in between)
        return Outcomes(true, false, null | known.nulls)

    def _equal(self, value: exp.Expr, other: exp.Expr, column: str, known: Bounds) -> Outcomes:
        """Whether a value between the bounds may be another, or must be."""
        below = self._at(_compared(exp.LTE, value, other), column, known.low)
        above = self._at(_compared(exp.GTE, value, other), column, known.high)
        equal = _compared(exp.EQ, value, other)
        least, greatest = self._at(equal, column, known.low), self._at(equal, column, known.high)
        true, only = below.true & above.true, least.true & greatest.true
        return Outcomes(true, ~only & ~least.null, least.null)

    def _at(self, node: exp.Expr, column: str, values: pa.Array) -> Outcomes:
        """What a condition is for one value in each row group."""
        truth = evaluate(node, {column: values}, self.groups)
        true, false = _mask(pc.equal(truth, True)), _mask(pc.equal(truth, False))
        return Outcomes(true, false, ~true & ~false)

    def _anything(self) -> Outcomes:
        always = np.ones(self.groups, bool)
        return Outcomes(always, always, always)


def _compared(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return operator(this=left.copy(), expression=right.copy())


def _is_monotone(node: exp.Expr) -> bool:
    """Whether a value is a column, or never falls where that column rises."""
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        source, target = kind_of(node.this.unnest()), kind_of(node)
        number = source.is_number and target is Kind.FLOAT
        time = source.is_temporal and target.is_temporal
        return (number or time) and _is_monotone(node.this)
    if isinstance(node, exp.Extract):
        return node.name.upper() == "YEAR" and _is_monotone(node.expression)
    if isinstance(node, exp.Paren | exp.TimestampTrunc):
        return _is_monotone(node.this)
    return isinstance(node, exp.Column)


def _mask(array: pa.Array) -> Mask:
    return np.asarray(pc.fill_null(array, False), bool)
