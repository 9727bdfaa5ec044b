"""Aggregates that no sum of products gives: distinct values, quantiles, the most frequent value, lists.

Their arguments are carried inside the tree, as one more group-by. What comes back is, for each group and
each value, the number of rows that have it; this is folded into one value a group. Where the argument is a
dimension's column the fact table is not read for it, as messages are reused like those of any group-by.
Approximate aggregates carry a function of the value that has fewer values.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.query.carried.approximate import COUNT_DISTINCT, QUANTILE, STATED, carried_text
from calitree.query.carried.fold import Fold, Option
from calitree.query.carried.holistic_call import Holistic, HolisticCall, Rule, text_of
from calitree.query.formula import AggregateFunction
from calitree.sql.nodes import quoted_sql
from calitree.types import Kind


def _count(call: HolisticCall) -> Holistic:
    arguments = call.arguments
    if len(arguments) == 1 and isinstance(arguments[0], exp.Tuple):
        # A tuple is never NULL, whatever is in it.
        call = call._replace(arguments=list(arguments[0].expressions))
        return Holistic(call.fold("count", len(call.arguments), (True,)), Kind.INTEGER)
    return Holistic(call.fold("count", max(1, len(arguments)), (False,)), Kind.INTEGER)


def _sum(call: HolisticCall) -> Holistic:
    kind = call.kind()
    if not kind.is_number:
        raise ExpressionError(
            f"{call.name} needs a number, but {quoted_sql(call.arguments[0])} is {kind.phrase}"
        )
    return Holistic(call.fold("sum"), kind)


def _extreme(function: str) -> Rule:
    return lambda call: Holistic(call.fold(function), call.kind())


_INTERPOLATED = {
    Kind.INTEGER: Kind.FLOAT,
    Kind.FLOAT: Kind.FLOAT,
    Kind.DECIMAL: Kind.DECIMAL,
    Kind.DATE: Kind.TIMESTAMP,
    Kind.TIMESTAMP: Kind.TIMESTAMP,
    Kind.TIMESTAMP_TZ: Kind.TIMESTAMP_TZ,
}
"""Between two values of a kind is one of this kind."""


def _median(call: HolisticCall) -> Holistic:
    if call.kind() in _INTERPOLATED:
        return _interpolated(call, 0.5)
    return Holistic(call.fold("quantile_disc", options=(0.5,)), call.kind())


def _quantile_cont(call: HolisticCall) -> Holistic:
    return _interpolated(call, _share(call))


def _quantile_disc(call: HolisticCall) -> Holistic:
    return Holistic(call.fold("quantile_disc", options=(_share(call),)), call.kind())


def _interpolated(call: HolisticCall, share: float) -> Holistic:
    kind = call.kind()
    if kind not in _INTERPOLATED:
        raise ExpressionError(
            f"between values of {quoted_sql(call.arguments[0])}, which is {kind.phrase}, there are no "
            "others; use quantile_disc"
        )
    return Holistic(call.fold("quantile_cont", options=(share,)), _INTERPOLATED[kind])


def _share(call: HolisticCall) -> float:
    given = call.arguments[1] if len(call.arguments) > 1 else None
    share = float(given.name) if isinstance(given, exp.Literal) and not given.is_string else -1.0
    if not 0 <= share <= 1:
        raise ExpressionError(f"{call.name} takes a number from 0 to 1, as in {call.name}(x, 0.9)")
    return share


def _mode(call: HolisticCall) -> Holistic:
    return Holistic(call.fold("mode"), call.kind())


def _argument_of(function: str) -> Rule:
    def rule(call: HolisticCall) -> Holistic:
        if len(call.arguments) != 2:
            raise ExpressionError(f"{call.name} takes 2 arguments")
        return Holistic(call.fold(function, 2), call.kind())

    return rule


MAX_TOP = 1_000
"""Values that TOP_K may return a group."""


def _top(call: HolisticCall) -> Holistic:
    call.kind()
    given = call.arguments[1] if len(call.arguments) in (2, 3) else None
    size = int(given.name) if isinstance(given, exp.Literal) and given.is_int else 0
    if not 1 <= size <= MAX_TOP:
        raise ExpressionError(
            f"TOP_K takes a column and how many of its values, at most {MAX_TOP:,}: top_k(x, 3), and "
            "top_k(x, 3, y) for those with the largest sum of y"
        )
    fold = call.fold("top_k", options=(size,))
    if len(call.arguments) == 3:
        weight = f"sum({text_of(call.arguments[2])})"
        fold = Fold("top_k", fold.carried, weight, distinct=False, options=(size,))
    return Holistic(fold, Kind.OTHER)


def _histogram(call: HolisticCall) -> Holistic:
    return Holistic(call.fold("histogram"), Kind.OTHER)


def _list(call: HolisticCall) -> Holistic:
    return Holistic(call.fold("list", options=(call.descending,)), Kind.OTHER)


def _joined(call: HolisticCall) -> Holistic:
    if call.kind() is not Kind.STRING:
        text = quoted_sql(call.arguments[0])
        raise ExpressionError(
            f"STRING_AGG needs text, but {text} is {call.kind().phrase}; cast it to varchar"
        )
    separator = call.arguments[1] if len(call.arguments) > 1 else exp.Literal.string(",")
    if not (isinstance(separator, exp.Literal) and separator.is_string):
        raise ExpressionError("STRING_AGG takes a quoted text to put between values")
    fold = call.fold("string_agg", options=(separator.name, call.descending))
    return Holistic(fold, Kind.STRING)


def _approx_count(call: HolisticCall) -> Holistic:
    if len(call.arguments) != 1 or isinstance(call.arguments[0], exp.Tuple):
        raise ExpressionError(f"{call.name} takes 1 argument, and has a {STATED[COUNT_DISTINCT]}")
    return Holistic(_approximate(call, COUNT_DISTINCT, ()), Kind.INTEGER)


def _approx_quantile(call: HolisticCall) -> Holistic:
    kind, share, text = call.kind(), _share(call), quoted_sql(call.arguments[0])
    if call.distinct or len(call.arguments) != 2:
        raise ExpressionError(f"{call.name} takes a number and a share, without DISTINCT")
    if kind.is_temporal:
        raise ExpressionError(
            f"{call.name} is within a part of the value, which {text} has none of, as it is {kind.phrase}; use "
            f"quantile_disc, of fewer values as in quantile_disc(date_trunc('hour', {text}), {share})"
        )
    if not kind.is_number:
        raise ExpressionError(
            f"{call.name} needs a number, but {text} is {kind.phrase}; use quantile_disc"
        )
    is_whole = kind is Kind.INTEGER
    fold = _approximate(call, QUANTILE, (share, is_whole))
    return Holistic(fold, Kind.INTEGER if is_whole else Kind.FLOAT)


def _approximate(call: HolisticCall, function: str, options: tuple[Option, ...]) -> Fold:
    (argument,) = call.arguments[:1]
    if not call.scalar(argument).attributes:
        raise ExpressionError(f"{quoted_sql(argument)} has no column")
    carried = (carried_text(function, text_of(argument)),)
    return Fold(function, carried, options=options, error=STATED[function])


_Function = AggregateFunction[Rule]

HOLISTIC: dict[str, _Function] = {
    "Median": _Function("median(x)", "The value in the middle, or between the two there", _median),
    "PercentileCont": _Function(
        "quantile_cont(x, q)", "The value at a share q of the rows, between two", _quantile_cont
    ),
    "PercentileDisc": _Function(
        "quantile_disc(x, q)", "The first value that a share q of the rows reach", _quantile_disc
    ),
    "Quantile": _Function("quantile(x, q)", "The same as quantile_disc", _quantile_disc),
    "Mode": _Function("mode(x)", "The most frequent value, of several the smallest", _mode),
    "ArgMin": _Function("arg_min(x, y)", "x where y is smallest", _argument_of("arg_min")),
    "ArgMax": _Function("arg_max(x, y)", "x where y is largest", _argument_of("arg_max")),
    "histogram": _Function("histogram(x)", "A map from values to their rows", _histogram),
    "top_k": _Function(
        "top_k(x, k)", "The k values of most rows; top_k(x, k, y) of the largest sum of y", _top
    ),
    "ArrayAgg": _Function("list(x)", "All values in their order, bounded", _list),
    "GroupConcat": _Function(
        "string_agg(x, separator)", "All texts in their order as one, bounded", _joined
    ),
    "ApproxDistinct": _Function(
        "approx_count_distinct(x)",
        f"About how many values, {STATED[COUNT_DISTINCT]}",
        _approx_count,
    ),
    "ApproxQuantile": _Function(
        "approx_quantile(x, q)", f"About quantile_disc, {STATED[QUANTILE]}", _approx_quantile
    ),
}
"""By the class of the call, or its name if the parser has no class for it."""

CARRIED: dict[str, tuple[str, Rule]] = {
    "Count": ("count", _count),
    "Sum": ("sum", _sum),
    "Min": ("min", _extreme("min")),
    "Max": ("max", _extreme("max")),
    "LogicalAnd": ("bool_and", _extreme("min")),
    "LogicalOr": ("bool_or", _extreme("max")),
}
"""Aggregates that are folded too where their argument is distinct, or of several relations."""
