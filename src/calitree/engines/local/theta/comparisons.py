"""Which parts of a condition compare an expression over one leg with one over another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from calitree.grouping import contiguous
from calitree.sql.kernels.values import unify
from calitree.sql.parser import Expression, conjuncts, expression_of

Array = np.ndarray[Any, Any]

OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "<>",
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}


@dataclass(frozen=True)
class ThetaComparison:
    """`theirs operator ours`, of a leg that is looked up and the one that looks it up."""

    theirs: Expression
    operator: str
    ours: Expression


@dataclass(frozen=True)
class Condition:
    """A conjunction: comparisons, and the rest."""

    comparisons: tuple[ThetaComparison, ...]
    rest: tuple[Expression, ...]

    @property
    def is_on_one_column(self) -> bool:
        """Whether rows that match are neighbours, if those looked up are sorted: or two ranges of them."""
        one = len({c.theirs for c in self.comparisons}) == 1
        return one and not self.rest and (len(self.comparisons) == 1 or self._is_convex)

    @property
    def is_interval(self) -> bool:
        """Whether rows that match are neighbours, if those that look up are sorted."""
        one = len({c.ours for c in self.comparisons}) == 1
        return one and not self.rest and self._is_convex

    @property
    def _is_convex(self) -> bool:
        return all(c.operator != "<>" for c in self.comparisons)


def condition_of(
    predicates: Iterable[Expression], theirs: Iterable[str], ours: Iterable[str]
) -> Condition:
    """Predicates over the attributes of two legs."""
    comparisons, rest = list[ThetaComparison](), list[Expression]()
    for predicate in predicates:
        for node in conjuncts(predicate.node):
            comparison = _comparison(node, frozenset(theirs), frozenset(ours))
            if comparison is None:
                rest.append(expression_of(node))
            else:
                comparisons.append(comparison)
    return Condition(tuple(comparisons), tuple(rest))


def _comparison(
    node: exp.Expr, theirs: frozenset[str], ours: frozenset[str]
) -> ThetaComparison | None:
    operator = OPERATORS.get(type(node))
    if operator is None:
        return None
    left, right = expression_of(node.this), expression_of(node.args["expression"])
    if not left.attributes or not right.attributes:
        return None
    if left.attributes <= theirs and right.attributes <= ours:
        return ThetaComparison(left, operator, right)
    if right.attributes <= theirs and left.attributes <= ours:
        return ThetaComparison(right, MIRRORED[operator], left)
    return None


@dataclass(frozen=True)
class Ordered:
    """Values as numbers with the same order, and where they are not NULL."""

    data: Array
    valid: Array | None

    def take(self, rows: Array) -> Ordered:
        """Those at some positions."""
        return Ordered(self.data[rows], None if self.valid is None else self.valid[rows])


def ordered(columns: Sequence[pa.Array]) -> list[Ordered] | None:
    """Columns as numbers that compare as their values do, the first with each other; NaN is the greatest.

    None if the others are compared with the first in different types: integers as such, and as doubles.
    """
    first, *others = map(contiguous, columns)
    if any(pa.types.is_null(column.type) for column in (first, *others)):
        return [
            Ordered(np.zeros(len(c), np.int64), np.zeros(len(c), bool)) for c in (first, *others)
        ]
    pairs = [unify([first, other]) for other in others]
    dtype = pairs[0][0].type
    if any(pair[0].type != dtype for pair in pairs):
        return None
    unified = [pairs[0][0], *(pair[1] for pair in pairs)]
    valid = [None if not c.null_count else c.is_valid().to_numpy(False) for c in unified]
    ticks = _ticks(dtype)
    if pa.types.is_floating(dtype):
        data = [_numpy(c.cast(pa.float64()), 0.0) + 0.0 for c in unified]
    elif ticks is not None:
        data = [_numpy(c.view(ticks), 0).astype(np.int64, copy=False) for c in unified]
    else:
        ends = np.cumsum([len(c) for c in unified])
        data = np.split(_ranks(pa.concat_arrays(unified)), ends[:-1])
    return [Ordered(*parts) for parts in zip(data, valid, strict=True)]


def _ticks(dtype: pa.DataType) -> pa.DataType | None:
    """The integers that values of a type are stored as."""
    t = pa.types
    if t.is_signed_integer(dtype):
        return dtype
    if t.is_temporal(dtype) and dtype.bit_width in (32, 64):
        return pa.int32() if dtype.bit_width == 32 else pa.int64()
    return None


def _ranks(column: pa.Array) -> Array:
    """The place of each value among all."""
    distinct = column.unique().drop_null()
    distinct = distinct.take(pc.sort_indices(distinct))
    return _numpy(pc.index_in(column, value_set=distinct), 0).astype(np.int64)


def _numpy(column: pa.Array, zero: Any) -> Array:
    filled = column.fill_null(zero) if column.null_count else column
    array: Array = filled.to_numpy(zero_copy_only=False)
    return array
