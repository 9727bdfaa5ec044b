"""Where values go in sketches: cells of their hashes, and buckets of their sizes.

A sketch is a number of rows by a function of the value, so no engine knows of sketches: they group by these
functions. All engines give the same cells and buckets, as an answer may be put together of what several have
computed. The names begin with a `$`, as nobody is meant to write them in a question. Messages are kept under
these names: with other numbers of bits they would need others.
"""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import kind_of, quoted_sql
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind

CELL, BUCKET = "$HASH_CELL", "$SIZE_BUCKET"

REGISTER_BITS = 11
"""Of a hash: the lowest, which are the number of a register."""
RANKS = 32
"""That a register tells apart: how many zeros the other bits end with, or 31 if these are more."""

BUCKET_BITS = 7
"""Of the digits of a double behind the first: a bucket has those that agree in these, and in the exponent."""
DIGIT_BITS = 52
"""Of a double, behind the first."""


def cell(analysis: Analysis, node: exp.Expr) -> Pair:
    """The cell of a value of any type: register * RANKS + rank, by the XXH64 hash of the value."""
    check_count(analysis, node, 1, 1)
    (argument,) = node.expressions
    operand, kind = analysis.normal(argument)
    if kind in (Kind.NULL, Kind.OTHER):
        raise analysis.fail(f"{quoted_sql(argument)} is {kind.phrase}, which has no hash")
    return exp.Anonymous(this=CELL, expressions=[operand]), Kind.INTEGER


def spark_cell(node: exp.Expr) -> str:
    """The cell of a value as text for Spark."""
    (operand,) = node.expressions
    hashed = _spark_hash(operand.sql(dialect="spark"), kind_of(operand))
    others = f"(SHIFTRIGHT({hashed}, {REGISTER_BITS}) | {1 << RANKS - 1}L)"
    register = f"({hashed} & {(1 << REGISTER_BITS) - 1})"
    rank = f"BIT_COUNT({others} ^ ({others} - 1L)) - 1"
    code = f"CAST({register} * {RANKS} + {rank} AS BIGINT)"
    return f"CASE WHEN {operand.sql(dialect='spark')} IS NOT NULL THEN {code} END"


def _spark_hash(x: str, kind: Kind) -> str:
    """Spark's hash goes by types: so integers are hashed in 64 bits, and decimals too if they are whole."""
    if kind in (Kind.BOOLEAN, Kind.DATE):
        whole = x if kind is Kind.BOOLEAN else f"UNIX_DATE({x})"
        return f"XXHASH64(CAST({whole} AS BIGINT))"
    if kind in (Kind.INTEGER, Kind.DECIMAL):
        whole, text = f"TRY_CAST({x} AS BIGINT)", f"CAST({x} AS STRING)"
        digits = f"CONCAT({text}, IF(INSTR({text}, '.') = 0, '.', ''))"
        short = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {digits}))"
        return f"IF({whole} = {x}, XXHASH64({whole}), XXHASH64({short}))"
    return f"XXHASH64({x})"


def spark_bucket(node: exp.Expr) -> str:
    """The bucket of a double as text for Spark, which has no way to its bits.

    The logarithm may be rounded to a power of two, or away from it, and the exponent is then one too large or
    too small. Powers of two, and quotients by them, are exact.
    """
    x = node.expressions[0].sql(dialect="spark")
    per_octave = 1 << BUCKET_BITS
    size = f"ABS({x})"
    exponent = f"LEAST(1023, GREATEST(-1022, CAST(FLOOR(LOG2({size})) AS INT)))"
    digits = f"({size} / POWER(2D, {exponent}))"
    place = (
        f"CASE WHEN {digits} < 1 THEN FLOOR({digits} * {2 * per_octave}) - {2 * per_octave}"
        f" WHEN {digits} < 2 THEN FLOOR({digits} * {per_octave}) - {per_octave}"
        f" ELSE FLOOR({digits} * {per_octave // 2}) END"
    )
    infinite = 2047 * per_octave
    return (
        f"CAST(CASE WHEN ISNAN({x}) THEN {infinite + per_octave // 2}"
        f" WHEN {size} < 2.2250738585072014E-308D THEN 0"
        f" WHEN {size} = DOUBLE('Infinity') THEN SIGNUM({x}) * {infinite}"
        f" WHEN {x} IS NOT NULL THEN SIGNUM({x}) * (({exponent} + 1023) * {per_octave} + {place})"
        f" END AS BIGINT)"
    )
