"""Functions of numbers."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql import spark_text as spark
from calitree.sql.functions.function import BINARY, CALL, Function, named, rewritten
from calitree.sql.rules import arithmetic, rewrites
from calitree.sql.rules.signatures import function
from calitree.types import Kind

_X, _FLOAT = (Kind.FLOAT,), Kind.FLOAT
_of_double = function(Kind.FLOAT, result=Kind.FLOAT)
_of_doubles = function(Kind.FLOAT, Kind.FLOAT, result=Kind.FLOAT)
_rounding, _decimals = arithmetic.rounding, (arithmetic.decimals_of,)
_LOG = "CASE WHEN {{0}} = 0 THEN DOUBLE('-Infinity') WHEN {{0}} < 0 THEN DOUBLE('NaN') ELSE {}({{0}}) END"
_INFINITE = "ABS({0}) = DOUBLE('Infinity')"

NUMBERS: dict[type[exp.Expr] | str, Function] = {
    exp.Abs: Function("abs(x)", "Without its sign", arithmetic.absolute, "arithmetic.absolute"),
    "SIGN": named(
        "sign(x)", "-1, 0 or 1; 0 of NaN", _X, Kind.INTEGER, "numbers.sign", bound=1,
        spark="CAST(IF(ISNAN({0}), 0, SIGNUM({0})) AS BIGINT)",
    ),
    exp.Floor: Function(
        "floor(x)", "The next whole number below", _rounding, "arithmetic.floor", spark=spark.whole,
    ),
    exp.Ceil: Function(
        "ceil(x)", "The next whole number above", _rounding, "arithmetic.ceil", spark=spark.whole,
    ),
    exp.Round: Function(
        "round(x, [decimals])", "Rounded, halves away from zero", _rounding, "arithmetic.round_half_away",
        options=_decimals, spark=spark.rounded,
    ),
    "TRUNC": Function(
        "trunc(x)", "Without what is behind the point", arithmetic.truncation, "arithmetic.truncate", CALL,
        spark=spark.towards_zero,
    ),
    "MOD": rewritten("mod(a, b)", "a % b", rewrites.mod),
    exp.Sqrt: Function(
        "sqrt(x)", "Square root, NaN of negative numbers", _of_double, "arithmetic.sqrt", result=Kind.FLOAT,
    ),
    exp.Exp: Function("exp(x)", "e to this power", _of_double, "arithmetic.exp", result=Kind.FLOAT),
    exp.Ln: Function(
        "ln(x)", "Natural logarithm, -inf of 0, NaN below", _of_double, "arithmetic.ln", spark=spark.ln,
        result=Kind.FLOAT,
    ),
    "LOG": rewritten(
        "log([base,] x)", "Logarithm, to the base 10 if none is given", arithmetic.logarithm, result=Kind.FLOAT,
    ),
    "LOG10": named(
        "log10(x)", "Logarithm to the base 10", _X, _FLOAT, "numbers.log10", spark=_LOG.format("LOG10"),
    ),
    "LOG2": named("log2(x)", "Logarithm to the base 2", _X, _FLOAT, "numbers.log2", spark=_LOG.format("LOG2")),
    exp.Pow: Function(
        "pow(x, y), x ^ y", "x to the power y", _of_doubles, "arithmetic.power", BINARY, spark=spark.power,
        result=Kind.FLOAT,
    ),
    "SIN": named("sin(x)", "Sine of radians", _X, _FLOAT, "numbers.sin"),
    "COS": named("cos(x)", "Cosine of radians", _X, _FLOAT, "numbers.cos"),
    "TAN": named("tan(x)", "Tangent of radians", _X, _FLOAT, "numbers.tan"),
    "ASIN": named("asin(x)", "Inverse sine, NaN beyond 1", _X, _FLOAT, "numbers.asin"),
    "ACOS": named("acos(x)", "Inverse cosine, NaN beyond 1", _X, _FLOAT, "numbers.acos"),
    "ATAN": named("atan(x)", "Inverse tangent", _X, _FLOAT, "numbers.atan"),
    "ATAN2": named("atan2(y, x)", "Angle of a point", _X * 2, _FLOAT, "numbers.atan2"),
    "DEGREES": named("degrees(x)", "Radians as degrees", _X, _FLOAT, "numbers.degrees"),
    "RADIANS": named("radians(x)", "Degrees as radians", _X, _FLOAT, "numbers.radians"),
    "PI": rewritten("pi()", "3.141592653589793", arithmetic.pi, result=Kind.FLOAT),
    "ISNAN": named(
        "isnan(x)", "Whether it is NaN", _X, Kind.BOOLEAN, "numbers.is_nan", spark="({0} = DOUBLE('NaN'))"
    ),
    "ISINF": named(
        "isinf(x)", "Whether it is infinite", _X, Kind.BOOLEAN, "numbers.is_inf", spark=f"({_INFINITE})",
    ),
    "ISFINITE": named(
        "isfinite(x)", "Whether it is neither infinite nor NaN", _X, Kind.BOOLEAN, "numbers.is_finite",
        spark="(ABS({0}) < DOUBLE('Infinity'))",
    ),
    "XOR": named(
        "xor(a, b)", "Bits of one of both", (Kind.INTEGER,) * 2, Kind.INTEGER, "bits.one_of",
        spark="(CAST({0} AS BIGINT) ^ CAST({1} AS BIGINT))",
    ),
    "BIN": rewritten("bin(x, width)", "The start of the bin of this width that x is in", rewrites.bin_),
    exp.WidthBucket: Function(
        "width_bucket(x, low, high, n)", "Which of n equal bins x is in", rewrites.width_bucket,
        result=Kind.INTEGER,
    ),
}  # fmt: skip
