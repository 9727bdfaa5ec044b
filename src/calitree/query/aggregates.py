"""SQL's aggregates, each as a formula over sums of products of lifts.

NULLs: a row counts for `sum(e)` if e is not NULL. Beside Σe the measure has the number of rows where
it is not, and the sum is NULL where that is zero. If e cannot be NULL that number is COUNT, which is
there anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

from sqlglot import exp

from calitree.engines.api.semiring import MAX, MIN, Semiring
from calitree.errors import ExpressionError, MixedRelationsError
from calitree.query.aggregate_call import AggregateCall
from calitree.query.carried.folds import HOLISTIC
from calitree.query.formula import AggregateFunction
from calitree.query.monomials import terms
from calitree.query.pieces import RowPiece
from calitree.sql.nodes import (
    binary,
    display,
    kind_of,
    marked,
    number,
    owners,
    paren,
    quoted_sql,
    ratio,
    when,
)
from calitree.types import Kind

Rule = Callable[[AggregateCall], exp.Expr]
"""The formula for a call."""


def _count(call: AggregateCall) -> exp.Expr:
    if len(call.arguments) > 1:
        raise ExpressionError("COUNT takes 1 argument")
    return call.rows()


def _count_if(call: AggregateCall) -> exp.Expr:
    """NULL where the condition is neither true nor false on any row, as in DuckDB."""
    (condition,) = call.arguments if len(call.arguments) == 1 else (None,)
    if condition is None or kind_of(condition) not in (Kind.BOOLEAN, Kind.NULL):
        raise ExpressionError("COUNT_IF takes 1 condition")
    inverse = marked(exp.Not(this=paren(condition.copy())), Kind.BOOLEAN)
    is_true, is_false = (
        replace(call, arguments=[], filters=[*call.filters, holds]).rows()
        for holds in (condition, inverse)
    )
    rows = exp.GT(this=paren(binary(exp.Add, is_true, is_false)), expression=number(0))
    return when(rows, is_true)


def _sum(call: AggregateCall) -> exp.Expr:
    call.numbers("SUM")
    total = call.total()
    return when(exp.GT(this=call.rows(), expression=number(0)), total)


def _avg(call: AggregateCall) -> exp.Expr:
    call.numbers("AVG")
    return ratio(call.total(), call.rows())


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
    rows = exp.GT(this=spread.rows.copy(), expression=number(0))
    return when(rows, _or_nan(ratio(both, binary(exp.Mul, *roots))))


def _regression(formula: Callable[[AggregateCall], exp.Expr]) -> Rule:
    """A formula of the line through the points (x, y), for a call with y and x."""

    def rule(call: AggregateCall) -> exp.Expr:
        call.numbers("REGR", 2)
        return formula(call)

    return rule


def _mean(at: int) -> Callable[[AggregateCall], exp.Expr]:
    return lambda call: ratio(call.total(at), call.rows())


def _deviations(i: int, j: int) -> Callable[[AggregateCall], exp.Expr]:
    """Σ(x-x̄)(y-ȳ), NULL over no rows."""

    def formula(call: AggregateCall) -> exp.Expr:
        spread = call.spread()
        rows = exp.GT(this=spread.rows.copy(), expression=number(0))
        return when(rows, marked(spread.deviations(i, j), Kind.FLOAT))

    return formula


def _slope(call: AggregateCall) -> exp.Expr:
    spread = call.spread()
    return ratio(spread.deviations(0, 1), spread.deviations(1, 1))


def _slope_or_nan(call: AggregateCall) -> exp.Expr:
    """NaN where x does not vary."""
    rows = exp.GT(this=call.spread().rows.copy(), expression=number(0))
    return when(rows, _or_nan(_slope(call)))


def _or_nan(value: exp.Expr) -> exp.Expr:
    return marked(exp.Coalesce(this=value, expressions=[number(math.nan)]), Kind.FLOAT)


def _intercept(call: AggregateCall) -> exp.Expr:
    y, x = (_mean(at)(call) for at in (0, 1))
    return binary(exp.Sub, y, binary(exp.Mul, _slope(call), x))


def _r2(call: AggregateCall) -> exp.Expr:
    """NULL where x does not vary, and 1 where y does not."""
    spread = call.spread()
    both, y, x = (spread.deviations(i, j) for i, j in ((0, 1), (0, 0), (1, 1)))
    level = exp.EQ(this=paren(y.copy()), expression=number(0.0))
    share = binary(exp.Mul, ratio(both, x), ratio(both, y))
    case = exp.Case(ifs=[exp.If(this=level, true=number(1.0))], default=share)
    varies = exp.GT(this=paren(x.copy()), expression=number(0.0))
    return when(varies, marked(case, Kind.FLOAT))


def _extreme(semiring: Semiring, only: Kind | None = None) -> Rule:
    def rule(call: AggregateCall) -> exp.Expr:
        if len(call.arguments) != 1:
            raise ExpressionError(f"{semiring.name.upper()} takes 1 argument")
        (argument,) = call.arguments
        kind = kind_of(argument)
        if only is not None and kind is not only:
            raise ExpressionError(f"{display(argument)} is {kind.phrase}, not a condition")
        if owners(argument) is None:
            raise ExpressionError(f"{display(argument)} has no column")
        first, *others = (_extreme_of(piece, call, semiring) for piece in call.pieces)
        if not others:
            return first
        operator = exp.Least if semiring == MIN else exp.Greatest
        return marked(operator(this=first, expressions=others, ignore_nulls=True), kind)

    return rule


def _extreme_of(piece: RowPiece, call: AggregateCall, semiring: Semiring) -> exp.Expr:
    """The smallest or largest value in one piece of the rows; NULL if that has none."""
    (argument,) = piece.arguments
    kind = kind_of(argument)
    parts = terms(argument)
    columns = [part for part in parts if owners(part) is not None]
    if not columns:
        rows = exp.GT(this=call.rows_of(piece), expression=number(0))
        return when(rows, marked(argument.copy(), kind))
    aggregate = call.lifting.sum_of_terms(semiring, columns, piece.filters)
    if len(aggregate.lifts) > 1 and not kind.is_number:
        raise MixedRelationsError(
            f"{kind.phrase} cannot be combined with a filter on another relation; filter with where="
        )
    constants = [part for part in parts if owners(part) is None]
    value = call.value(aggregate, kind)
    if not constants:
        value.meta["stored"] = call.lifting.stored(aggregate, columns)
    return reduce(partial(binary, exp.Add), constants, value)


_Function = AggregateFunction[Rule]
_STDDEV = _Function(
    "stddev_samp(x)",
    "Standard deviation of a sample; also stddev",
    _spread("STDDEV", 1, sample=True),
)

AGGREGATES: dict[type[exp.Expr], _Function] = {
    exp.Count: _Function("count(x)", "Values that are not NULL; of * all rows", _count),
    exp.Sum: _Function("sum(x)", "Sum", _sum),
    exp.Avg: _Function("avg(x)", "Mean; also mean", _avg),
    exp.Min: _Function("min(x)", "Smallest value", _extreme(MIN)),
    exp.Max: _Function("max(x)", "Largest value", _extreme(MAX)),
    exp.Variance: _Function(
        "var_samp(x)", "Variance of a sample; also var", _spread("VARIANCE", 1, sample=True)
    ),
    exp.VariancePop: _Function(
        "var_pop(x)", "Variance of all there are", _spread("VARIANCE", 1, sample=False)
    ),
    exp.Stddev: _STDDEV,
    exp.StddevSamp: _STDDEV,
    exp.StddevPop: _Function(
        "stddev_pop(x)",
        "Standard deviation of all there are",
        _spread("STDDEV", 1, sample=False),
    ),
    exp.CovarSamp: _Function(
        "covar_samp(y, x)", "Covariance of a sample; also covar", _spread("COVAR", 2, sample=True)
    ),
    exp.CovarPop: _Function(
        "covar_pop(y, x)", "Covariance of all there are", _spread("COVAR", 2, sample=False)
    ),
    exp.Corr: _Function("corr(y, x)", "Correlation", _correlation),
    exp.CountIf: _Function("count_if(condition)", "Rows for which it is true", _count_if),
    exp.RegrCount: _Function(
        "regr_count(y, x)", "Rows that have both", _regression(AggregateCall.rows)
    ),
    exp.RegrAvgx: _Function("regr_avgx(y, x)", "Mean of x where y is there", _regression(_mean(1))),
    exp.RegrAvgy: _Function("regr_avgy(y, x)", "Mean of y where x is there", _regression(_mean(0))),
    exp.RegrSxx: _Function(
        "regr_sxx(y, x)", "Squared deviations of x, summed", _regression(_deviations(1, 1))
    ),
    exp.RegrSyy: _Function(
        "regr_syy(y, x)", "Squared deviations of y, summed", _regression(_deviations(0, 0))
    ),
    exp.RegrSxy: _Function(
        "regr_sxy(y, x)", "Products of deviations, summed", _regression(_deviations(0, 1))
    ),
    exp.RegrSlope: _Function(
        "regr_slope(y, x)", "Slope of the line of least squares", _regression(_slope_or_nan)
    ),
    exp.RegrIntercept: _Function(
        "regr_intercept(y, x)", "Where that line is at x = 0", _regression(_intercept)
    ),
    exp.RegrR2: _Function(
        "regr_r2(y, x)", "Share of the variance of y that the line explains", _regression(_r2)
    ),
    exp.LogicalOr: _Function(
        "bool_or(condition)", "Whether it is true for a row", _extreme(MAX, Kind.BOOLEAN)
    ),
    exp.LogicalAnd: _Function(
        "bool_and(condition)",
        "Whether it is true for all rows where it is not NULL",
        _extreme(MIN, Kind.BOOLEAN),
    ),
}
"""The aggregates that are sums of products, by the class of the call."""

EXTREMES = (exp.Min, exp.Max, exp.LogicalOr, exp.LogicalAnd)
"""Those for which it does not matter how often a row counts."""

_SHORT_NAMES: dict[str, type[exp.Func]] = {
    "var": exp.Variance,
    "covar": exp.CovarSamp,
    "mean": exp.Avg,
}
"""Those that the parser does not know."""


def with_names(node: exp.Expr) -> exp.Expr:
    """A parsed formula with its aggregates under their own names."""
    return node.transform(_named)


def _named(part: exp.Expr) -> exp.Expr:
    if isinstance(part, exp.Anonymous):
        name = part.name.lower()
        if name in _SHORT_NAMES:
            named: exp.Expr = _SHORT_NAMES[name].from_arg_list(part.expressions)
            return named
        if name in HOLISTIC:
            return exp.AnonymousAggFunc(this=name, expressions=part.expressions)
    if isinstance(part, exp.WithinGroup):
        (key, *others) = part.expression.expressions
        if others or key.args.get("desc"):
            raise ExpressionError(
                f"{quoted_sql(part)} is ordered by one value, from the smallest on"
            )
        return type(part.this)(this=key.this, expression=part.this.this)  # type: ignore[no-any-return]
    return part
