"""One call of an aggregate: the rows that count for it, what it sums up of them, and how that spreads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce

from sqlglot import exp

from calitree.cache import cached_property
from calitree.engines.api.contraction import stored_parts
from calitree.errors import ExpressionError
from calitree.query.annotation import Aggregate
from calitree.query.lifting import Lifting
from calitree.query.monomials import Monomial, mixed, monomials
from calitree.query.pieces import RowPiece, pieces_of
from calitree.query.spread import SpreadValues, Term
from calitree.sql.nodes import (
    binary,
    column,
    combined,
    display,
    kind_of,
    marked,
    number,
    owners,
    paren,
)
from calitree.types import Kind


@dataclass(frozen=True)
class AggregateCall:
    """One call of an aggregate inside a measure.

    A row counts for it if no argument is NULL and all filters hold. `aggregates` are those of the
    measure so far, to which the call adds what it needs.
    """

    lifting: Lifting
    aggregates: list[Aggregate]
    arguments: list[exp.Expr]
    filters: list[exp.Expr]

    def numbers(self, name: str, count: int = 1) -> list[exp.Expr]:
        """The arguments, if they are this many numbers."""
        if len(self.arguments) != count:
            raise ExpressionError(f"{name} takes {count} argument{'s' if count > 1 else ''}")
        for node in self.arguments:
            kind = kind_of(node)
            if not (kind.is_number or kind is Kind.NULL):
                raise ExpressionError(
                    f"{name} needs a number, but {display(node)} is {kind.phrase}"
                )
        return self.arguments

    def value(self, aggregate: Aggregate, kind: Kind) -> exp.Expr:
        """The column under which the measure's formula has the value of an aggregate."""
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return marked(column(f"a{self.aggregates.index(aggregate)}"), kind)

    @cached_property
    def pieces(self) -> list[RowPiece]:
        """Disjoint parts of the rows, in each of which no argument chooses between relations."""
        return pieces_of(self.arguments, self.filters)

    def rows(self) -> exp.Expr:
        """The number of rows that count."""
        return self._summed([self.rows_of(piece) for piece in self.pieces])

    def rows_of(self, piece: RowPiece) -> exp.Expr:
        """The number of rows of a piece that count."""
        return self.value(self.lifting.product(Monomial(), *piece), Kind.INTEGER)

    def total(self, at: int = 0) -> exp.Expr:
        """Σ of an argument over the rows that count: one aggregate for each monomial."""
        parts = []
        for piece in self.pieces:
            node = piece.arguments[at]
            for monomial in monomials(node):
                part = self.value(self.lifting.product(monomial, *piece), kind_of(node))
                for coefficient in monomial.coefficients:
                    part = binary(exp.Mul, coefficient, part)
                parts.append(part)
        return self._summed(parts)

    def _summed(self, parts: list[exp.Expr]) -> exp.Expr:
        """The sum of what the pieces add. An engine may have NULL for a piece without rows."""
        if len(self.pieces) > 1:
            zero = [number(0)]
            parts = [
                marked(exp.Coalesce(this=part, expressions=zero), kind_of(part)) for part in parts
            ]
        return combined(exp.Add, parts)

    def spread(self) -> Spread:
        """What is known of how the arguments vary over the rows that count."""
        split = SpreadValues()
        (piece, *others) = self.pieces
        if others:
            raise mixed(next(node for node in self.arguments if owners(node) == frozenset()))
        terms = [split.split(argument) for argument in piece.arguments]
        if not split.values:
            return Spread(terms, self.rows(), {})
        aggregate = self.lifting.covariance(split.values, split.factors, *piece)
        name = self.value(aggregate, Kind.FLOAT).name
        parts = zip(
            aggregate.semiring.components, stored_parts(name, aggregate.semiring), strict=True
        )
        components = {part: marked(column(stored), Kind.FLOAT) for part, stored in parts}
        return Spread(terms, components["n"], components)


@dataclass(frozen=True)
class Spread:
    """The number of rows that count, and the components of a `covariance` over them."""

    terms: list[list[Term]]
    """Each argument as a combination of its values."""
    rows: exp.Expr
    components: Mapping[str, exp.Expr]

    def deviations(self, i: int, j: int) -> exp.Expr:
        """Σ(x-x̄)(y-ȳ) of two arguments."""
        products = [
            reduce(partial(binary, exp.Mul), (*a, *b), self._deviations(*sorted((u, v))))
            for a, u in self.terms[i]
            for b, v in self.terms[j]
        ]
        total = reduce(partial(binary, exp.Add), products, number(0.0))
        if len(products) == 1:
            (total,) = products
        # A combination may be a little less than zero by rounding.
        return _at_least(number(0.0), total) if i == j and len(products) > 1 else total

    def _deviations(self, u: int, v: int) -> exp.Expr:
        deviations = self.components[f"d{u}{v}"]
        if u != v:
            return deviations
        # Far less than the square of a unit in the last place of the mean: the values are equal.
        mean = self.components[f"m{u}"]
        least = binary(exp.Mul, number(1e-40), binary(exp.Mul, mean, mean))
        return _at_least(least, deviations)


def _at_least(least: exp.Expr, value: exp.Expr) -> exp.Expr:
    """The value, or zero if it is less than `least`; NaN, which is greater than every number, stays."""
    less = exp.LT(this=paren(value.copy()), expression=paren(least.copy()))
    case = exp.Case(ifs=[exp.If(this=less, true=number(0.0))], default=value.copy())
    return marked(case, Kind.FLOAT)
