"""Operators, conditions, choices and conversions: what has a class of nodes of its own."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql import spark_text as spark
from calitree.sql.functions.function import BINARY, VARIADIC, Function
from calitree.sql.rules import arithmetic, choices, conditions, conversions, intervals, regex, text
from calitree.sql.rules.signatures import operator
from calitree.types import Kind

_of_texts = operator(Kind.STRING, Kind.STRING, result=Kind.STRING)
_of_bits = operator(Kind.INTEGER, Kind.INTEGER, result=Kind.INTEGER)
_not = operator(Kind.BOOLEAN, result=Kind.BOOLEAN)
_connective = operator(Kind.BOOLEAN, Kind.BOOLEAN, result=Kind.BOOLEAN)

_addition, _product = arithmetic.addition, arithmetic.multiplication
_comparison, _several = conditions.comparison, choices.several
_like, _pattern = text.like, (text.pattern_of,)
_cast, _target = conversions.cast_, (conversions.target_of, conversions.bits_of)

_BITS = "(CAST({{0}} AS BIGINT) {} CAST({{1}} AS BIGINT))"
_SHIFTED = (
    "CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL WHEN {0} < 0 OR {1} < 0 OR {0} <> 0 AND ({1} > 62"
    " OR {0} > SHIFTRIGHT(9223372036854775807L, {1:int})) THEN RAISE_ERROR('a left shift overflows')"
    " ELSE SHIFTLEFT(CAST({0} AS BIGINT), {1:int}) END"
)
_RIGHT = (
    "IF({1} BETWEEN 0 AND 63, SHIFTRIGHT(CAST({0} AS BIGINT), {1:int}),"
    " IF({1} IS NULL OR {0} IS NULL, NULL, 0L))"
)

ARITHMETIC: dict[type[exp.Expr] | str, Function] = {
    exp.Add: Function("a + b", "Sum; also a date and days or an interval", _addition, "arithmetic.add", BINARY),
    exp.Sub: Function(
        "a - b", "Difference; also of dates and timestamps", _addition, "arithmetic.subtract", BINARY
    ),
    exp.Mul: Function("a * b", "Product; also of an interval", _product, "arithmetic.multiply", BINARY),
    exp.Mod: Function(
        "a % b", "Remainder with the sign of a, NULL if b is 0", _product, "arithmetic.remainder", BINARY
    ),
    exp.Div: Function(
        "a / b", "Quotient of doubles, NULL if b is 0", arithmetic.division, "arithmetic.divide", BINARY,
        spark=spark.quotient, result=Kind.FLOAT,
    ),
    exp.IntDiv: Function(
        "a // b", "Quotient of integers towards zero, NULL if b is 0", arithmetic.whole_division,
        "arithmetic.whole_quotient", BINARY, can_fail=True, spark="({0} DIV {1})", result=Kind.INTEGER,
    ),
    exp.Neg: Function("-a", "The other sign; also of an interval", arithmetic.negation, "arithmetic.negate"),
    exp.BitwiseAnd: Function(
        "a & b", "Bits of both", _of_bits, "bits.both", BINARY, spark=_BITS.format("&"), result=Kind.INTEGER,
    ),
    exp.BitwiseOr: Function(
        "a | b", "Bits of either", _of_bits, "bits.either", BINARY, spark=_BITS.format("|"),
        result=Kind.INTEGER,
    ),
    exp.BitwiseNot: Function(
        "~a", "All other bits", operator(Kind.INTEGER, result=Kind.INTEGER), "bits.inverse",
        spark="(~ CAST({0} AS BIGINT))", result=Kind.INTEGER,
    ),
    exp.BitwiseLeftShift: Function(
        "a << n", "Bits moved up; an error where they do not fit", _of_bits, "bits.shift_left", BINARY,
        can_fail=True, spark=_SHIFTED, result=Kind.INTEGER,
    ),
    exp.BitwiseRightShift: Function(
        "a >> n", "Bits moved down; 0 where n is negative, or more than 63", _of_bits, "bits.shift_right",
        BINARY,
        spark=_RIGHT, result=Kind.INTEGER,
    ),
    exp.DPipe: Function("a || b", "Texts joined", _of_texts, "text.concatenate", BINARY, result=Kind.STRING),
}  # fmt: skip

CONDITIONS: dict[type[exp.Expr] | str, Function] = {
    exp.EQ: Function(
        "a = b", "Equal; NaN equals NaN", _comparison, "comparison.equal", BINARY, result=Kind.BOOLEAN,
    ),
    exp.NEQ: Function("a <> b", "Not equal", _comparison, "comparison.not_equal", BINARY, result=Kind.BOOLEAN),
    exp.LT: Function(
        "a < b", "Less; NaN is the greatest number", _comparison, "comparison.less", BINARY,
        result=Kind.BOOLEAN,
    ),
    exp.LTE: Function(
        "a <= b", "Less or equal", _comparison, "comparison.less_equal", BINARY, result=Kind.BOOLEAN,
    ),
    exp.GT: Function("a > b", "Greater", _comparison, "comparison.greater", BINARY, result=Kind.BOOLEAN),
    exp.GTE: Function(
        "a >= b", "Greater or equal", _comparison, "comparison.greater_equal", BINARY, result=Kind.BOOLEAN,
    ),
    exp.NullSafeEQ: Function(
        "a IS NOT DISTINCT FROM b", "Equal, where NULL equals NULL", _comparison, "comparison.not_distinct",
        BINARY, strict=False, result=Kind.BOOLEAN,
    ),
    exp.NullSafeNEQ: Function(
        "a IS DISTINCT FROM b", "Not equal, where NULL equals NULL", _comparison, "comparison.distinct",
        BINARY, strict=False, result=Kind.BOOLEAN,
    ),
    exp.And: Function(
        "a AND b", "Both", _connective, "comparison.both", BINARY, strict=False, result=Kind.BOOLEAN,
    ),
    exp.Or: Function(
        "a OR b", "Either", _connective, "comparison.either", BINARY, strict=False, result=Kind.BOOLEAN,
    ),
    exp.Not: Function("NOT a", "The opposite", _not, "comparison.inverse", result=Kind.BOOLEAN),
    exp.Is: Function(
        "a IS [NOT] NULL, TRUE, FALSE, UNKNOWN", "What it is, never NULL", conditions.is_, "comparison.is_",
        options=(conditions.truth_of,), strict=False, result=Kind.BOOLEAN,
    ),
    exp.In: Function(
        "a [NOT] IN (b, …), (a, b) IN ((c, d), …)", "One of several values, or tuples", conditions.in_,
        "comparison.is_in", VARIADIC, strict=False, result=Kind.BOOLEAN,
    ),
    exp.Between: Function(
        "a [NOT] BETWEEN b AND c", "Not outside of two bounds", conditions.between, result=Kind.BOOLEAN,
    ),
    exp.Like: Function(
        "text [NOT] LIKE pattern [ESCAPE char]", "% is any text, _ any character", _like, "text.like",
        options=_pattern, spark=spark.like, result=Kind.BOOLEAN,
    ),
    exp.ILike: Function(
        "text [NOT] ILIKE pattern [ESCAPE char]", "LIKE without case", _like, "text.ilike",
        options=_pattern, spark=spark.like, result=Kind.BOOLEAN,
    ),
    exp.Escape: Function("", "", text.escaped),
    exp.SimilarTo: Function(
        "text [NOT] SIMILAR TO pattern", "A regular expression for the whole text", regex.similar,
        result=Kind.BOOLEAN,
    ),
}  # fmt: skip

CHOICES: dict[type[exp.Expr] | str, Function] = {
    exp.Case: Function(
        "CASE [a] WHEN b THEN c … [ELSE d] END", "The value of the first branch that holds", choices.case
    ),
    exp.If: Function("if(condition, a, b)", "One of two values", choices.if_, spark=spark.branch),
    exp.Coalesce: Function("coalesce(a, b, …)", "The first that is not NULL; ifnull too", _several),
    exp.Greatest: Function(
        "greatest(a, b, …)", "The greatest that is not NULL", _several, "comparison.greatest", VARIADIC,
        strict=False, spark=spark.single,
    ),
    exp.Least: Function(
        "least(a, b, …)", "The least that is not NULL", _several, "comparison.least", VARIADIC,
        strict=False, spark=spark.single,
    ),
    exp.Nullif: Function(
        "nullif(a, b)", "NULL where a = b, else a", choices.nullif, "comparison.null_if", BINARY,
        strict=False, spark=spark.null_if,
    ),
    exp.Cast: Function(
        "cast(a AS type), a::type", "As another type; an error where it does not convert", _cast, "casts.cast",
        options=_target, spark=spark.cast,
    ),
    exp.TryCast: Function(
        "try_cast(a AS type)", "As another type, NULL where it does not convert", _cast, "casts.try_cast",
        options=_target, spark=spark.cast,
    ),
    exp.Interval: Function(
        "INTERVAL '1' DAY, INTERVAL '2 months 1 day'", "What dates and timestamps are moved by",
        intervals.constant_interval, result=Kind.DURATION,
    ),
}  # fmt: skip
