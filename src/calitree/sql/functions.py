"""Every scalar function and operator: how it is typed, computed, and written for Spark.

`calitree.sql.analyzer` uses the rules, `calitree.sql.evaluator` the kernels and `calitree.sql.spark`
the texts. A new function is a row here and its kernel, and for the reference engine a line of
`calitree.engines.reference.rowwise`, which is independent of this table so that both can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from calitree.sql import spark_text as spark
from calitree.sql.analysis import Rule
from calitree.sql.rules import arithmetic, choices, conditions, conversions, dates, rewrites, text
from calitree.sql.rules.signatures import function, operator
from calitree.types import Kind


class Function(NamedTuple):
    """What is known of one class of nodes."""

    rule: Rule
    """Types a parsed node and gives its canonical form, which may be of another class."""
    kernel: str = ""
    """The Arrow kernel: a file in `sql/kernels/` and a function in it. Classes that no canonical form
    has need none, nor do those that `calitree.sql.evaluator` evaluates itself."""
    operands: tuple[str, ...] = ("this",)
    """The arguments of the node that are evaluated and passed to the kernel."""
    options: tuple[Callable[[exp.Expr], object], ...] = ()
    """The other parameters of the kernel: constants, each read from the node."""
    strict: bool = True
    """The value is NULL where an operand is NULL, and the kernel never gets the constant NULL."""
    spark: Callable[[exp.Expr], str | None] | None = None
    """The text for Spark; None, and a text that is None, is the one that sqlglot writes."""


BINARY = ("this", "expression")
VARIADIC = ("this", "expressions")

_of_double = function(Kind.FLOAT, result=Kind.FLOAT)
_of_doubles = function(Kind.FLOAT, Kind.FLOAT, result=Kind.FLOAT)
_of_text = function(Kind.STRING, result=Kind.STRING)
_of_texts = operator(Kind.STRING, Kind.STRING, result=Kind.STRING)
_length = function(Kind.STRING, result=Kind.INTEGER)
_not = operator(Kind.BOOLEAN, result=Kind.BOOLEAN)
_connective = operator(Kind.BOOLEAN, Kind.BOOLEAN, result=Kind.BOOLEAN)

_arithmetic, _comparison, _several = arithmetic.arithmetic, conditions.comparison, choices.several
_rounding, _decimals = arithmetic.rounding, (arithmetic.decimals_of,)
_like, _pattern = text.like, (text.pattern_of,)
_cast, _target = conversions.cast_, (conversions.target_of, conversions.bits_of)

FUNCTIONS: dict[type[exp.Expr], Function] = {
    # Arithmetic.
    exp.Add: Function(_arithmetic, "arithmetic.add", BINARY),
    exp.Sub: Function(_arithmetic, "arithmetic.subtract", BINARY),
    exp.Mul: Function(_arithmetic, "arithmetic.multiply", BINARY),
    exp.Mod: Function(_arithmetic, "arithmetic.remainder", BINARY),
    exp.Div: Function(arithmetic.division, "arithmetic.divide", BINARY, spark=spark.quotient),
    exp.Neg: Function(arithmetic.negation, "arithmetic.negate"),
    exp.Abs: Function(arithmetic.absolute, "arithmetic.absolute"),
    exp.Floor: Function(_rounding, "arithmetic.floor", spark=spark.whole),
    exp.Ceil: Function(_rounding, "arithmetic.ceil", spark=spark.whole),
    exp.Round: Function(
        _rounding, "arithmetic.round_half_away", options=_decimals, spark=spark.rounded
    ),
    exp.Sqrt: Function(_of_double, "arithmetic.sqrt"),
    exp.Ln: Function(_of_double, "arithmetic.ln", spark=spark.ln),
    exp.Exp: Function(_of_double, "arithmetic.exp"),
    exp.Pow: Function(_of_doubles, "arithmetic.power", BINARY, spark=spark.power),
    # Conditions.
    exp.EQ: Function(_comparison, "comparison.equal", BINARY),
    exp.NEQ: Function(_comparison, "comparison.not_equal", BINARY),
    exp.LT: Function(_comparison, "comparison.less", BINARY),
    exp.LTE: Function(_comparison, "comparison.less_equal", BINARY),
    exp.GT: Function(_comparison, "comparison.greater", BINARY),
    exp.GTE: Function(_comparison, "comparison.greater_equal", BINARY),
    exp.NullSafeEQ: Function(_comparison, "comparison.not_distinct", BINARY, strict=False),
    exp.NullSafeNEQ: Function(_comparison, "comparison.distinct", BINARY, strict=False),
    exp.And: Function(_connective, "comparison.both", BINARY, strict=False),
    exp.Or: Function(_connective, "comparison.either", BINARY, strict=False),
    exp.Not: Function(_not, "comparison.inverse"),
    exp.Is: Function(
        conditions.is_, "comparison.is_", options=(conditions.truth_of,), strict=False
    ),
    exp.In: Function(conditions.in_, "comparison.is_in", VARIADIC, strict=False),
    exp.Between: Function(conditions.between),
    # One of several values.
    exp.Case: Function(choices.case),
    exp.If: Function(choices.if_, spark=spark.branch),
    exp.Coalesce: Function(_several),
    exp.Greatest: Function(
        _several, "comparison.greatest", VARIADIC, strict=False, spark=spark.single
    ),
    exp.Least: Function(_several, "comparison.least", VARIADIC, strict=False, spark=spark.single),
    exp.Nullif: Function(
        choices.nullif, "comparison.null_if", BINARY, strict=False, spark=spark.null_if
    ),
    # Conversions.
    exp.Cast: Function(_cast, "casts.cast", options=_target, spark=spark.cast),
    exp.TryCast: Function(_cast, "casts.try_cast", options=_target, spark=spark.cast),
    exp.Interval: Function(conversions.interval),
    # Text.
    exp.Lower: Function(_of_text, "text.lower", spark=spark.lower),
    exp.Upper: Function(_of_text, "text.upper", spark=spark.upper),
    exp.Trim: Function(text.trim, "text.trim", spark=spark.trim),
    exp.Length: Function(_length, "text.length", spark=spark.wide),
    exp.Substring: Function(
        text.substring, "text.substring", options=(text.start_of, text.length_of)
    ),
    exp.DPipe: Function(_of_texts, "text.concatenate", BINARY),
    exp.Like: Function(_like, "text.like", options=_pattern, spark=spark.like),
    exp.ILike: Function(_like, "text.ilike", options=_pattern, spark=spark.like),
    # Dates and timestamps.
    exp.Extract: Function(
        dates.date_part, "dates.part", ("expression",), (dates.part_of,), spark=spark.date_part
    ),
    **dict.fromkeys(dates.PART_FUNCTIONS, Function(dates.date_part)),
    exp.TimestampTrunc: Function(
        dates.truncation, "dates.truncate", options=(dates.unit_of,), spark=spark.truncated
    ),
    exp.DateTrunc: Function(dates.truncation),
    # What is written out in others.
    exp.WidthBucket: Function(rewrites.width_bucket),
    exp.Concat: Function(rewrites.concat),
    exp.Left: Function(rewrites.left),
    exp.Date: Function(rewrites.date),
    exp.Anonymous: Function(rewrites.named),
}
"""By the class of the node."""
