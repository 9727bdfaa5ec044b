"""Functions that are other ones, written out: bins, CONCAT, MOD, DATE."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import cast, combined, display, marked, quoted_sql
from calitree.sql.rules.conversions import is_castable
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind


def bin_(analysis: Analysis, node: exp.Expr) -> Pair:
    """BIN(x, w): the start of the bin of this width that x is in, floor(x / w) * w.

    Of integers and decimals it is exact.
    """
    arguments = node.expressions
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
    """CONCAT of any values as text: NULL counts as an empty text, as in PostgreSQL and DuckDB."""
    parts: list[exp.Expr] = []
    for given in node.expressions:
        value, kind = analysis.normal(given)
        if kind is not Kind.STRING:
            if not is_castable(kind, Kind.STRING):
                raise analysis.fail(f"CONCAT needs text, but {quoted_sql(given)} is {kind.phrase}")
            value = cast(value, Kind.STRING)
        empty = marked(exp.Literal.string(""), Kind.STRING)
        parts.append(marked(exp.Coalesce(this=value, expressions=[empty]), Kind.STRING))
    if not parts:
        raise analysis.fail("CONCAT needs text")
    return combined(exp.DPipe, parts) if len(parts) > 1 else parts[0], Kind.STRING


def position(analysis: Analysis, node: exp.Expr) -> Pair:
    """POSITION(part IN text), which is STRPOS(text, part)."""
    arguments = [node.this.copy(), node.args["substr"].copy()]
    return analysis.normal(exp.Anonymous(this="STRPOS", expressions=arguments))


def mod(analysis: Analysis, node: exp.Expr) -> Pair:
    """MOD(a, b), which is a % b."""
    return analysis.normal(_operator(analysis, exp.Mod, node))


def added(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE_ADD(d, interval), which is d + interval."""
    return analysis.normal(_operator(analysis, exp.Add, node))


def _operator(analysis: Analysis, operator: type[exp.Binary], node: exp.Expr) -> exp.Expr:
    check_count(analysis, node, 2, 2)
    left, right = (_copy(argument) for argument in node.expressions)
    return operator(this=left, expression=right)


def date(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE(x), which is CAST(x AS DATE)."""
    if node.expressions or node.args.get("zone") or node.this is None:
        raise analysis.fail("DATE takes one argument")
    return analysis.normal(exp.Cast(this=node.this.copy(), to=exp.DataType.build("DATE")))


def canonical_only(analysis: Analysis, node: exp.Expr) -> Pair:
    """Of a class that only rules make: it is spelled otherwise."""
    raise analysis.fail(f"{quoted_sql(node)} is not supported here")
