"""What is to be explained: a measure over two slices of the rows, and the gap between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from calitree.apps.explain.noise import Number, spread_measures, standard_error
from calitree.cache import cached_property
from calitree.errors import ExpressionError, QueryError, did_you_mean
from calitree.query.binder import MeasureLike, Query
from calitree.results.result import Result
from calitree.results.rollup import Groups
from calitree.results.summands import Array
from calitree.wide_table import WideTable

VALUE, ROWS = "value", "rows"
"""What is asked of a slice."""
NO_MORE: Mapping[str, str] = {}


@dataclass(frozen=True)
class NamedMeasure:
    """A measure and the name that explanations call it by."""

    name: str
    given: MeasureLike

    @classmethod
    def of(cls, wide: WideTable, measure: MeasureLike) -> NamedMeasure:
        """One of the tree's measures by its name, or a new one."""
        if not isinstance(measure, str):
            return cls(getattr(measure, "text", "the measure"), measure)
        if measure in wide.measures:
            return cls(measure, wide.measures[measure])
        if "(" not in measure:
            hint = did_you_mean(measure, wide.measures)
            raise QueryError(
                f"There is no measure {measure!r}.{hint} A new one is an expression like avg(price)."
            )
        return cls(measure, measure)


@dataclass(frozen=True)
class Slice:
    """The rows of a tree where a condition holds, and the measure over them."""

    wide: WideTable
    where: str | None
    measure: NamedMeasure
    phrase: str
    """Which rows, as part of a sentence: `where city = 'Quito'`."""
    parts: tuple[str, ...] = ()
    """Disjoint conditions whose union is `where`, if they are easier to answer."""

    @property
    def label(self) -> str:
        """Which rows: `city = 'Quito'`."""
        return self.phrase.partition(" ")[2]

    def ask(self, group_by: Sequence[str] = (), more: Mapping[str, str] = NO_MORE) -> Groups:
        """The measure and the number of rows by some columns, and perhaps more measures."""
        parts = self.parts or (self.where,)
        first, *others = (self._asked(group_by, part, more) for part in parts)
        groups = first.groups
        for other in others:
            groups = groups.plus(other.groups)
        return groups

    def without(self, predicate: str) -> Number | None:
        """The measure when the rows of a predicate are really left out, and it is asked again."""
        kept = f"({predicate}) is not true"
        where = kept if self.where is None else f"({self.where}) and ({kept})"
        return self.counted(self._asked((), where).rows()[0][VALUE])

    def _asked(
        self, group_by: Sequence[str], where: str | None, more: Mapping[str, str] = NO_MORE
    ) -> Result:
        measures = {VALUE: self.measure.given, ROWS: "count(*)", **more}
        return self.wide.query(list(group_by), where, measures)

    @cached_property
    def query(self) -> Query:
        """The question without groups, resolved."""
        return self._asked((), self.parts[0] if self.parts else self.where).query

    @cached_property
    def _total(self) -> dict[str, Any]:
        ((_, measure), _) = self.query.measures
        more = spread_measures(measure)
        if more:
            try:
                return self.ask((), more).rows()[0]
            except ExpressionError:  # the measure can be split by relation, but not its variance
                pass
        return self.ask().rows()[0]

    @property
    def error(self) -> float | None:
        """The standard error of the measure, if that is known."""
        ((_, measure), _) = self.query.measures
        return standard_error(measure, self.value, self._total)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self._total[ROWS])

    @property
    def value(self) -> Number | None:
        """The measure over them."""
        return self.counted(self._total[VALUE])

    def counted(self, value: Number | None) -> Number | None:
        """A sum over nothing counts as 0."""
        return 0 if value is None and self.additive else value

    @cached_property
    def additive(self) -> bool:
        """Whether the measure of two sets of rows together is the sum of theirs."""
        ((_, measure), _) = self.query.measures
        return measure.plain is not None and _is_additive(measure.plain)

    @cached_property
    def rest(self) -> Slice:
        """All other rows.

        The negation of a conjunction over several relations belongs to none of them. So it is split
        into disjoint conditions, each a conjunction: not the first, or the first but not the second.
        """
        schema = self.wide.schema
        conjuncts: list[tuple[set[str], str]] = []
        for predicate in self.query.filters:
            owners = [set(schema.attributes[name].relations) for name in predicate.attributes]
            holders = set.intersection(*owners) if owners else set(schema.relations)
            text = f"({predicate.text})"
            if conjuncts and conjuncts[-1][0] & holders:
                relations, before = conjuncts.pop()
                holders, text = relations & holders, f"{before} and {text}"
            conjuncts.append((holders, text))
        texts = [text for _, text in conjuncts]
        parts = [
            " and ".join([*texts[:i], f"({text}) is not true"]) for i, text in enumerate(texts)
        ]
        phrase = f"where {self.where} does not hold"
        return Slice(self.wide, f"({self.where}) is not true", self.measure, phrase, tuple(parts))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that the condition and the measure refer to."""
        ((_, measure), _) = self.query.measures
        lifts = [lift for aggregate in measure.aggregates for lift in aggregate.lifts]
        lifted = [expression.attributes for lift in lifts for expression in lift.expressions]
        return frozenset().union(*(p.attributes for p in self.query.filters), *lifted)

    def numbers(self, column: pa.ChunkedArray) -> Array:
        """Values of the measure for arithmetic: NULL is NaN, or 0 of a sum."""
        floats = column.cast(pa.float64(), safe=False)
        return np.asarray(floats.fill_null(0.0 if self.additive else math.nan))

    def check(self) -> Number:
        """The value, if it is a number to be explained."""
        if not self.rows:
            raise QueryError(f"There is no row {self.phrase}, so there is nothing to explain.")
        value, clause = self.value, f"{self.measure.name} is {self.value} {self.phrase}"
        if value is None:
            raise QueryError(f"{self.measure.name} is NULL {self.phrase}: nothing to explain.")
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise QueryError(f"{clause}; only numbers can be explained.")
        if not math.isfinite(value):
            raise QueryError(f"{clause}; filter the rows that make it so.")
        return value


@dataclass(frozen=True)
class Gap:
    """The difference of a measure from its reference: `scale` times that of the other slice, plus `fixed`.

    `phrase` describes the reference.
    """

    scale: float
    fixed: float
    phrase: str

    def reference(self, other: Any) -> Any:
        """The reference, given the measure over the other slice; it may not depend on that."""
        return self.scale * other + self.fixed if self.scale else self.fixed

    def of(self, value: Any, other: Any) -> Any:
        """The gap, given the measure over both slices."""
        return value - self.reference(other)


def fixed_columns(query: Query) -> list[str] | None:
    """The attributes that a condition gives one value each; None if it says anything else."""
    names = []
    for predicate in query.filters:
        node = predicate.node.unnest()
        if isinstance(node, exp.Not):
            node = node.this.unnest()
            if not isinstance(node, exp.Column):
                return None
        sides = [node.left, node.right] if isinstance(node, exp.EQ | exp.Is) else [node]
        columns = [side for side in sides if isinstance(side.unnest(), exp.Column)]
        if len(columns) != 1 or any(s.find(exp.Column) for s in sides if s is not columns[0]):
            return None
        names.append(columns[0].unnest().name)
    return names


def _is_additive(node: exp.Expr) -> bool:
    """Whether plain SQL is a sum or a count, or such with factors, or a sum or difference of such."""
    if isinstance(node, exp.Filter | exp.Paren | exp.Neg | exp.Cast):
        return _is_additive(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _is_additive(node.left) and _is_additive(node.right)
    if isinstance(node, exp.Mul | exp.Div):
        parts = [part for part in (node.left, node.right) if part.find(exp.AggFunc)]
        return parts == [node.left] and _is_additive(node.left)
    return isinstance(node, exp.Sum | exp.Count)
