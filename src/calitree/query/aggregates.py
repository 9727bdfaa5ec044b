"""SQL's aggregates, each as a formula over sums of products of lifts.

NULLs: a row counts for `sum(e)` if e is not NULL. Beside Σe the measure has the number of rows where
it is not, and the sum is NULL where that is zero. If e cannot be NULL that number is COUNT, which is
there anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce

from sqlglot import exp

from calitree.engines.api.contraction import stored_parts
from calitree.engines.api.semiring import MAX, MIN, Semiring
from calitree.errors import ExpressionError
from calitree.query.annotation import Aggregate
from calitree.query.lifting import Lifting
from calitree.query.monomials import Monomial, monomials, terms
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
    ratio,
    when,
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

    def rows(self) -> exp.Expr:
        """The number of rows that count."""
        product = self.lifting.product(Monomial(), self.arguments, self.filters)
        return self.value(product, Kind.INTEGER)

    def total(self, node: exp.Expr) -> exp.Expr:
        """Σ node over the rows that count: one aggregate for each monomial."""
        parts = []
        for monomial in monomials(node):
            product = self.lifting.product(monomial, self.arguments, self.filters)
            part = self.value(product, kind_of(node))
            for coefficient in monomial.coefficients:
                part = binary(exp.Mul, coefficient, part)
            parts.append(part)
        return combined(exp.Add, parts)

    def spread(self) -> Spread:
        """What is known of how the arguments vary over the rows that count."""
        split = SpreadValues()
        terms = [split.split(argument) for argument in self.arguments]
        if not split.values:
            return Spread(terms, self.rows(), {})
        aggregate = self.lifting.covariance(
            split.values, split.factors, self.arguments, self.filters
        )
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


Rule = Callable[[AggregateCall], exp.Expr]
"""The formula for a call."""


def _count(call: AggregateCall) -> exp.Expr:
    if len(call.arguments) > 1:
        raise ExpressionError("COUNT takes 1 argument")
    return call.rows()


def _sum(call: AggregateCall) -> exp.Expr:
    total = call.total(*call.numbers("SUM"))
    return when(exp.GT(this=call.rows(), expression=number(0)), total)


def _avg(call: AggregateCall) -> exp.Expr:
    total = call.total(*call.numbers("AVG"))
    return ratio(total, call.rows())


def _per_row(total: exp.Expr, rows: exp.Expr, sample: bool) -> exp.Expr:
    """Total / n over at least one row, or total / (n - 1) over at least two; NULL over fewer."""
    least = number(1 if sample else 0)
    divisor = binary(exp.Sub, rows, least) if sample else rows
    return when(exp.GT(this=rows.copy(), expression=least), ratio(total, divisor))


def _spread(name: str, count: int, sample: bool) -> Rule:
    """The variance of one argument, its root for STDDEV, or the covariance of two."""

    def rule(call: AggregateCall) -> exp.Expr:
        call.numbers(name, count)
        spread = call.spread()
        result = _per_row(spread.deviations(0, count - 1), spread.rows, sample)
        return marked(exp.Sqrt(this=result), Kind.FLOAT) if name == "STDDEV" else result

    return rule


def _correlation(call: AggregateCall) -> exp.Expr:
    """NaN where an argument does not vary."""
    call.numbers("CORR", 2)
    spread = call.spread()
    both, *own = (spread.deviations(i, j) for i, j in ((0, 1), (0, 0), (1, 1)))
    roots = [marked(exp.Sqrt(this=deviations), Kind.FLOAT) for deviations in own]
    result = exp.Coalesce(this=ratio(both, binary(exp.Mul, *roots)), expressions=[number(math.nan)])
    rows = exp.GT(this=spread.rows.copy(), expression=number(0))
    return when(rows, marked(result, Kind.FLOAT))


def _extreme(semiring: Semiring, only: Kind | None = None) -> Rule:
    def rule(call: AggregateCall) -> exp.Expr:
        if len(call.arguments) != 1:
            raise ExpressionError(f"{semiring.name.upper()} takes 1 argument")
        (argument,) = call.arguments
        kind = kind_of(argument)
        if only is not None and kind is not only:
            raise ExpressionError(f"{display(argument)} is {kind.phrase}, not a condition")
        parts = terms(argument)
        columns = [part for part in parts if owners(part) is not None]
        if not columns:
            raise ExpressionError(f"{display(argument)} has no column")
        aggregate = call.lifting.sum_of_terms(semiring, columns, call.filters)
        if len(aggregate.lifts) > 1 and not kind.is_number:
            raise ExpressionError(
                f"{kind.phrase} cannot be combined with a filter on another relation; filter with where="
            )
        constants = [part for part in parts if owners(part) is None]
        value = call.value(aggregate, kind)
        if not constants:
            value.meta["stored"] = call.lifting.stored(aggregate, columns)
        return reduce(partial(binary, exp.Add), constants, value)

    return rule


AGGREGATES: dict[type[exp.Expr], tuple[str, Rule]] = {
    exp.Count: ("count", _count),
    exp.Sum: ("sum", _sum),
    exp.Avg: ("avg", _avg),
    exp.Min: ("min", _extreme(MIN)),
    exp.Max: ("max", _extreme(MAX)),
    exp.Variance: ("var_samp", _spread("VARIANCE", 1, sample=True)),
    exp.VariancePop: ("var_pop", _spread("VARIANCE", 1, sample=False)),
    exp.Stddev: ("stddev_samp", _spread("STDDEV", 1, sample=True)),
    exp.StddevSamp: ("stddev_samp", _spread("STDDEV", 1, sample=True)),
    exp.StddevPop: ("stddev_pop", _spread("STDDEV", 1, sample=False)),
    exp.CovarSamp: ("covar_samp", _spread("COVAR", 2, sample=True)),
    exp.CovarPop: ("covar_pop", _spread("COVAR", 2, sample=False)),
    exp.Corr: ("corr", _correlation),
    exp.LogicalOr: ("bool_or", _extreme(MAX, Kind.BOOLEAN)),
    exp.LogicalAnd: ("bool_and", _extreme(MIN, Kind.BOOLEAN)),
}
"""The name and the rule of each aggregate, by the class of the call."""

AGGREGATE_NAMES = tuple(dict.fromkeys(name for name, _ in AGGREGATES.values()))
