"""Functions that are other ones, written out: bins, CONCAT, LEFT, DATE, and names that sqlglot lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import display, quoted_sql
from calitree.types import Kind


def bin_(analysis: Analysis, arguments: Sequence[exp.Expr]) -> Pair:
    """BIN(x, w): the start of the bin of this width that x is in, floor(x / w) * w.

    Of integers and decimals it is exact.
    """
    if len(arguments) != 2:
        raise analysis.fail("BIN takes a number and the width of bins")
    value, width = arguments
    size = _constant(analysis, width, "the width of a bin")
    if size <= 0:
        raise analysis.fail(f"the width of a bin is more than 0, not {quoted_sql(width)}")
    kinds = {analysis.number(side, "BIN")[1] for side in arguments}
    if Kind.FLOAT in kinds:
        number = exp.Floor(this=exp.Div(this=_copy(value), expression=_copy(width)))
        return analysis.normal(exp.Mul(this=number, expression=_copy(width)))
    rest = exp.Mod(this=_copy(value), expression=_copy(width))
    rest = exp.Mod(
        this=exp.Paren(this=exp.Add(this=rest, expression=_copy(width))), expression=_copy(width)
    )
    return analysis.normal(exp.Sub(this=_copy(value), expression=exp.Paren(this=rest)))


def width_bucket(analysis: Analysis, node: exp.Expr) -> Pair:
    """WIDTH_BUCKET(x, low, high, n): the number of one of n equal bins, 0 below and n + 1 above them.

    If `low` is the greater one, bins are counted downwards. NaN is above.
    """
    given = [node.args.get(key) for key in ("this", "min_value", "max_value", "num_buckets")]
    value, low, high, count = given
    if value is None or low is None or high is None or count is None:
        raise analysis.fail("WIDTH_BUCKET takes a number, two bounds and the number of bins")
    ends = [_constant(analysis, bound, "a bound of WIDTH_BUCKET") for bound in (low, high)]
    bins = _constant(analysis, count, "the number of bins")
    if bins < 1 or bins != int(bins) or bins >= 1 << 31:
        raise analysis.fail(f"WIDTH_BUCKET has a whole number of bins, not {quoted_sql(count)}")
    if ends[0] == ends[1]:
        raise analysis.fail("the bounds of WIDTH_BUCKET are two different numbers")
    analysis.number(value, "WIDTH_BUCKET")
    upward = ends[0] < ends[1]
    before, after = (exp.LT, exp.GTE) if upward else (exp.GT, exp.LTE)
    way = exp.Sub(this=_copy(value), expression=_copy(low))
    span = exp.Sub(this=_copy(high), expression=_copy(low))
    share = exp.Div(
        this=exp.Mul(this=exp.Paren(this=way), expression=_copy(count)),
        expression=exp.Paren(this=span),
    )
    number = exp.Cast(this=exp.Floor(this=share), to=exp.DataType.build("BIGINT"))
    last, one = exp.Literal.number(int(bins)), exp.Literal.number(1)
    within = exp.Case(
        ifs=[_when(exp.GTE(this=number.copy(), expression=last.copy()), last.copy())],
        default=exp.Add(this=number, expression=one),
    )
    beyond = exp.Literal.number(int(bins) + 1)
    return analysis.normal(
        exp.Case(
            ifs=[
                _when(before(this=_copy(value), expression=_copy(low)), exp.Literal.number(0)),
                _when(after(this=_copy(value), expression=_copy(high)), beyond),
            ],
            default=within,
        )
    )


def _when(condition: exp.Expr, value: exp.Expr) -> exp.If:
    return exp.If(this=condition, true=value)


def _copy(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy())


def _constant(analysis: Analysis, node: exp.Expr, what: str) -> Decimal:
    """The value of a number that is written out, perhaps with a sign."""
    sign, digits = 1, node
    while isinstance(digits, exp.Paren | exp.Neg):
        sign = -sign if isinstance(digits, exp.Neg) else sign
        digits = digits.this
    if not isinstance(digits, exp.Literal) or digits.is_string:
        raise analysis.fail(f"{what} is a number, not {display(node)}")
    return sign * Decimal(digits.name)


def concat(analysis: Analysis, node: exp.Expr) -> Pair:
    """CONCAT of texts and integers: NULL counts as an empty text, as in PostgreSQL and DuckDB."""
    parts: list[exp.Expr] = []
    for given in node.expressions:
        _, kind = analysis.normal(given)
        if kind not in (Kind.STRING, Kind.INTEGER, Kind.NULL):
            raise analysis.fail(f"CONCAT needs text, but {quoted_sql(given)} is {kind.phrase}")
        text = exp.Cast(this=given.copy(), to=exp.DataType.build("VARCHAR"))
        parts.append(exp.Coalesce(this=text, expressions=[exp.Literal.string("")]))
    if not parts:
        raise analysis.fail("CONCAT needs text")
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return analysis.normal(joined)


def left(analysis: Analysis, node: exp.Expr) -> Pair:
    """LEFT(text, n): the first n characters."""
    start = exp.Literal.number(1)
    return analysis.normal(
        exp.Substring(this=node.this.copy(), start=start, length=node.expression.copy())
    )


def date(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE(x), which is CAST(x AS DATE)."""
    if node.expressions or node.args.get("zone") or node.this is None:
        raise analysis.fail("DATE takes one argument")
    return analysis.normal(exp.Cast(this=node.this.copy(), to=exp.DataType.build("DATE")))


def _date_part(analysis: Analysis, arguments: Sequence[exp.Expr]) -> Pair:
    if len(arguments) != 2 or not isinstance(arguments[0], exp.Literal):
        raise analysis.fail("DATE_PART takes the name of a part in quotes, and a date or timestamp")
    part, value = arguments
    return analysis.normal(exp.Extract(this=exp.var(part.name), expression=value.copy()))


def _weekday(analysis: Analysis, arguments: Sequence[exp.Expr]) -> Pair:
    return _date_part(analysis, [exp.Literal.string("dow"), *arguments])


_NAMED: dict[str, Callable[[Analysis, Sequence[exp.Expr]], Pair]] = {
    "BIN": bin_,
    "DATE_PART": _date_part,
    "WEEKDAY": _weekday,
}


def named(analysis: Analysis, node: exp.Expr) -> Pair:
    """A function that sqlglot has no class for."""
    rewrite = _NAMED.get(node.name.upper())
    if rewrite is None:
        raise analysis.fail(f"there is no function {node.name}")
    return rewrite(analysis, node.expressions)
