"""CAST: to which kinds, from which kinds, and which texts."""

from __future__ import annotations

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.sql.analysis import Analysis, Pair
from calitree.sql.constants import EXAMPLES
from calitree.sql.nodes import cast, kind_of, quoted_sql
from calitree.types import Kind

CASTS = {
    exp.DataType.Type.TINYINT: Kind.INTEGER,
    exp.DataType.Type.SMALLINT: Kind.INTEGER,
    exp.DataType.Type.INT: Kind.INTEGER,
    exp.DataType.Type.BIGINT: Kind.INTEGER,
    exp.DataType.Type.FLOAT: Kind.FLOAT,
    exp.DataType.Type.DOUBLE: Kind.FLOAT,
    exp.DataType.Type.TEXT: Kind.STRING,
    exp.DataType.Type.VARCHAR: Kind.STRING,
    exp.DataType.Type.BOOLEAN: Kind.BOOLEAN,
    exp.DataType.Type.DATE: Kind.DATE,
    exp.DataType.Type.TIMESTAMP: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DataType.Type.DATETIME: Kind.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: Kind.TIMESTAMP_TZ,
    exp.DataType.Type.TIME: Kind.TIME,
    exp.DataType.Type.INTERVAL: Kind.DURATION,
    exp.DataType.Type.VARBINARY: Kind.BINARY,
}
"""The types that a value can be cast to, and their kinds."""

BITS = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.FLOAT: 32,
}
"""Types with fewer bits than those that expressions are computed in. A value that such a type cannot
hold is not cast, and one that it holds goes on in 64 bits."""

_CASTABLE = (
    {Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.BOOLEAN, Kind.STRING},
    {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.STRING},
)
"""Kinds that can be cast to each other; a number of seconds is no timestamp."""

WHITESPACE = " \t\n\v\f\r"
"""What text may have at both ends."""

TRUE, FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")
NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
TIMESTAMP = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?:[ T](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-5]?[0-9])(?:\.(?P<micro>[0-9]{1,6})[0-9]*)?)?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?"
)
TEXTS = {
    Kind.INTEGER: NUMBER,
    Kind.FLOAT: rf"{NUMBER}|[+-]?(?i:nan|inf|infinity)",
    Kind.BOOLEAN: rf"(?i:{'|'.join(TRUE + FALSE)})",
    Kind.DATE: TIMESTAMP,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMP_TZ: TIMESTAMP,
}
"""The texts that can be cast to a kind: regular expressions for Python and for Arrow, and without the
names of groups for Spark. Not all of them convert: there is no 30th of February."""


def cast_(analysis: Analysis, node: exp.Expr) -> Pair:
    """CAST and TRY_CAST."""
    to = node.args["to"]
    kind = CASTS.get(to.this)
    if kind is None:
        raise analysis.fail(f"casting to {quoted_sql(to)} is not supported")
    if node.args.get("default"):
        raise analysis.fail("DEFAULT in a CAST is not supported")
    inner, source = analysis.normal(node.this)
    if kind in EXAMPLES and isinstance(inner, exp.Literal) and inner.is_string:
        return analysis.constant(inner.name, kind), kind
    if not is_castable(source, kind):
        raise analysis.fail(f"{source.phrase} cannot be cast to {kind.phrase}")
    result = cast(inner, kind)
    if to.this in BITS:
        result.set("to", exp.DataType(this=to.this))
    return exp.TryCast(**result.args, safe=True) if isinstance(node, exp.TryCast) else result, kind


def is_castable(source: Kind, target: Kind) -> bool:
    """Whether values of one kind can be cast to another."""
    return source in (target, Kind.NULL) or any({source, target} <= kinds for kinds in _CASTABLE)


def bits_of(node: exp.Expr) -> int:
    """The bits of the type that a CAST or TRY_CAST names."""
    return BITS.get(node.args["to"].this, 64)


def is_widened(node: exp.Expr) -> bool:
    """Whether a CAST is of an integer to 64 bits, which changes no value, not even a larger one."""
    return bits_of(node) == 64 and kind_of(node.this) is target_of(node) is Kind.INTEGER


def target_of(node: exp.Expr) -> Kind:
    """The kind that a CAST or TRY_CAST gives."""
    kind = CASTS.get(node.args["to"].this)
    if kind is None:
        raise ExpressionError(f"{quoted_sql(node)} cannot be evaluated.")
    return kind
