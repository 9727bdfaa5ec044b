"""What is to be explained: the rows on two sides, and how far a measure is apart between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from calitree.cache import cached_property
from calitree.errors import QueryError, did_you_mean
from calitree.query.binder import MeasureLike, Query
from calitree.results.result import Result
from calitree.results.rollup import Groups
from calitree.results.summands import Array
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    import pyarrow as pa

VALUE, ROWS = "value", "rows"
"""What is asked of a side."""
Number = int | float | Decimal


@dataclass(frozen=True)
class NamedMeasure:
    """A measure under the name it is spoken of by."""

    name: str
    given: MeasureLike

    @classmethod
    def of(cls, wide: WideTable, measure: MeasureLike) -> NamedMeasure:
        """One of the tree's by its name, or a new one."""
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
class Side:
    """The rows of a tree where a condition holds, and the measure over them."""

    wide: WideTable
    where: str | None
    measure: NamedMeasure
    phrase: str
    """Which rows, in a sentence."""
    parts: tuple[str, ...] = ()
    """Conditions of which always just one holds where ours does, if they are easier to ask."""

    @property
    def label(self) -> str:
        """Which rows, by themselves."""
        return self.phrase.partition(" ")[2]

    def ask(self, group_by: Sequence[str] = ()) -> Groups:
        first, *others = (self._asked(group_by, part) for part in self.parts or (self.where,))
        groups = first.groups
        for other in others:
            groups = groups.plus(other.groups)
        return groups

    def without(self, predicate: str) -> Number | None:
        """The measure when the rows of a predicate are really left out, and it is asked again."""
        kept = f"({predicate}) is not true"
        where = kept if self.where is None else f"({self.where}) and ({kept})"
        found: Number | None = self._asked((), where).rows()[0][VALUE]
        return self.counted(found)

    def _asked(self, group_by: Sequence[str], where: str | None) -> Result:
        measures = {VALUE: self.measure.given, ROWS: "count(*)"}
        return self.wide.query(list(group_by), where, measures)

    @cached_property
    def query(self) -> Query:
        """The question without groups, resolved."""
        return self._asked((), self.parts[0] if self.parts else self.where).query

    @cached_property
    def _total(self) -> dict[str, Any]:
        return self.ask().rows()[0]

    @property
    def rows(self) -> int:
        return int(self._total[ROWS])

    @property
    def value(self) -> Number | None:
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
    def rest(self) -> Side:
        """All other rows.

        Where the condition is about several relations, its opposite would have to be carried from
        one to the other; so they are asked for one after the other: not the first, or the first but
        not the second.
        """
        schema = self.wide.schema
        groups: list[tuple[set[str], str]] = []
        for predicate in self.query.where:
            owners = [set(schema.attributes[name].relations) for name in predicate.attributes]
            there = set.intersection(*owners) if owners else set(schema.relations)
            if groups and groups[-1][0] & there:
                relations, text = groups.pop()
                groups.append((relations & there, f"{text} and ({predicate.text})"))
            else:
                groups.append((there, f"({predicate.text})"))
        texts = [text for _, text in groups]
        parts = [
            " and ".join([*texts[:i], f"({text}) is not true"]) for i, text in enumerate(texts)
        ]
        phrase = f"where {self.where} does not hold"
        return Side(self.wide, f"({self.where}) is not true", self.measure, phrase, tuple(parts))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """What the condition and the measure look at."""
        ((_, measure), _) = self.query.measures
        found = [predicate.attributes for predicate in self.query.where]
        for aggregate in measure.aggregates:
            for lift in aggregate.lifts:
                found += [expression.attributes for expression in lift.expressions]
        return frozenset().union(*found)

    def numbers(self, column: pa.ChunkedArray) -> Array:
        """Values of the measure for arithmetic: NULL is NaN, or 0 of a sum."""
        import pyarrow as pa

        floats = column.cast(pa.float64(), safe=False)
        return np.asarray(floats.fill_null(0.0 if self.additive else math.nan))

    def check(self) -> Number:
        """The value, if it is a number to be explained."""
        if not self.rows:
            raise QueryError(f"There is no row {self.phrase}, so there is nothing to explain.")
        value, told = self.value, f"{self.measure.name} is {self.value} {self.phrase}"
        if value is None:
            raise QueryError(f"{self.measure.name} is NULL {self.phrase}: nothing to explain.")
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise QueryError(f"{told}; only numbers can be explained.")
        if not math.isfinite(value):
            raise QueryError(f"{told}; filter the rows that make it so.")
        return value


@dataclass(frozen=True)
class Gap:
    """How far the measure is from what it is compared with: `scale` times the other side's, and
    `fixed`. `phrase` tells it.
    """

    scale: float
    fixed: float
    phrase: str

    def reference(self, other: Any) -> Any:
        return self.scale * other + self.fixed

    def of(self, value: Any, other: Any) -> Any:
        return value - self.reference(other)


def fixed_columns(query: Query) -> list[str] | None:
    """The attributes that a condition gives one value each; None if it says anything else."""
    found = []
    for predicate in query.where:
        node = predicate.node.unnest()
        if isinstance(node, exp.Not):
            node = node.this.unnest()
            if not isinstance(node, exp.Column):
                return None
        sides = [node.left, node.right] if isinstance(node, exp.EQ | exp.Is) else [node]
        columns = [side for side in sides if isinstance(side.unnest(), exp.Column)]
        if len(columns) != 1 or any(s.find(exp.Column) for s in sides if s is not columns[0]):
            return None
        found.append(columns[0].unnest().name)
    return found


def _is_additive(node: exp.Expr) -> bool:
    """Whether plain SQL is a sum or a count, or such with factors, or a sum or difference of such."""
    if isinstance(node, exp.Filter | exp.Paren | exp.Neg | exp.Cast):
        return _is_additive(node.this)
    if isinstance(node, exp.Add | exp.Sub):
        return _is_additive(node.left) and _is_additive(node.right)
    if isinstance(node, exp.Mul | exp.Div):
        parts = [each for each in (node.left, node.right) if each.find(exp.AggFunc)]
        return parts == [node.left] and _is_additive(node.left)
    return isinstance(node, exp.Sum | exp.Count)
