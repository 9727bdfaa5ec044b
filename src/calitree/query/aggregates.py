"""SQL's aggregates, each as a formula over sums of products of lifts.

NULLs: a row counts for `sum(e)` if e is not NULL. Beside Σe the measure has the number of rows where
it is not, and the sum is NULL where that is zero. If e cannot be NULL that number is COUNT, which is
there anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce

from sqlglot import exp

from calitree.engines.api.semiring import MAX, MIN, Semiring
from calitree.errors import ExpressionError
from calitree.query.annotation import Aggregate
from calitree.query.lifting import Lifting, Monomial, bare, monomials, terms
from calitree.sql.nodes import (
    binary,
    cast,
    column,
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

Center = Callable[[str, exp.Expr], float]
"""Given a relation and an expression over it, a value near its mean."""


@dataclass(frozen=True)
class AggregateCall:
    """One call of an aggregate inside a measure.

    A row counts for it if no argument is NULL and all filters hold. `aggregates` are those of the
    measure so far, to which the call adds what it needs.
    """

    lifting: Lifting
    center: Center
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
        return reduce(partial(binary, exp.Add), parts)

    def centred(self, node: exp.Expr) -> exp.Expr:
        """The values less a number c near their mean, so that Σ(x-c)² - (Σ(x-c))²/n does not cancel.

        Spread does not depend on c. Where x is a sum of columns of several relations each gets its
        own c; a product across relations is left as it is.
        """
        relation = self.lifting.owner(node)
        if relation is not None:
            node = bare(node)
            return binary(exp.Sub, cast(node, Kind.FLOAT), number(self.center(relation, node)))
        if isinstance(node, exp.Paren):
            return self.centred(node.this)
        if isinstance(node, exp.Add | exp.Sub):
            return binary(type(node), self.centred(node.left), self.centred(node.right))
        return node

    def spread(self, i: int, j: int) -> exp.Expr:
        """Σ(x-x̄)(y-ȳ) of two arguments, over the rows that count."""
        x, y = self.centred(self.arguments[i]), self.centred(self.arguments[j])
        sums = [cast(self.total(factor), Kind.FLOAT) for factor in (x, y)]
        square = cast(self.total(binary(exp.Mul, x, y)), Kind.FLOAT)
        spread = binary(exp.Sub, square, ratio(binary(exp.Mul, *sums), self.rows()))
        if i != j:
            return spread
        # What is left of equal values is rounding, a few units in the last place of the square.
        more = exp.GT(this=paren(spread.copy()), expression=binary(exp.Mul, number(1e-14), square))
        case = exp.Case(ifs=[exp.If(this=more, true=spread)], default=number(0.0))
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
        result = _per_row(call.spread(0, count - 1), call.rows(), sample)
        return marked(exp.Sqrt(this=result), Kind.FLOAT) if name == "STDDEV" else result

    return rule


def _correlation(call: AggregateCall) -> exp.Expr:
    call.numbers("CORR", 2)
    both, *own = (call.spread(i, j) for i, j in ((0, 1), (0, 0), (1, 1)))
    roots = [marked(exp.Sqrt(this=spread), Kind.FLOAT) for spread in own]
    return ratio(both, binary(exp.Mul, *roots))


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
