"""Functions of dates and times as Spark SQL; all operands are dates, or timestamps without time zone."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.nodes import kind_of
from calitree.sql.rules.dates import unit_of
from calitree.sql.spark_text import sql
from calitree.types import Kind

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_MICROSECONDS = {
    Kind.TIMESTAMP: f"TIMESTAMPDIFF(MICROSECOND, {_EPOCH}, {{x}})",
    Kind.TIME: "TIME_DIFF('MICROSECOND', TIME'00:00:00', {x})",
    Kind.DURATION: "CAST(EXTRACT(DAY FROM {x}) AS BIGINT) * 86400000000L"
    " + EXTRACT(HOUR FROM {x}) * 3600000000L + EXTRACT(MINUTE FROM {x}) * 60000000L"
    " + CAST(EXTRACT(SECOND FROM {x}) * 1000000 AS BIGINT)",
}


def moved(node: exp.Expr) -> str:
    """A timestamp moved by months, days or microseconds."""
    at, size, unit = sql(node.this), sql(node.expression), unit_of(node)
    size = size if unit == "MICROSECOND" else f"CAST({size} AS INT)"
    return f"TIMESTAMPADD({unit}, {size}, {at})"


def days_between(node: exp.Expr) -> str:
    """Days from one date to another."""
    return f"CAST(DATEDIFF({sql(node.this)}, {sql(node.expression)}) AS BIGINT)"


def microseconds(node: exp.Expr) -> str:
    """Microseconds since 1970, or of a time or duration."""
    x = node.expressions[0]
    return f"({_MICROSECONDS.get(kind_of(x), _MICROSECONDS[Kind.TIMESTAMP]).format(x=sql(x))})"


def date_part(node: exp.Expr) -> str:
    """EXTRACT as an integer; Spark's seconds have fractions, and its Sunday is 1."""
    part, at = node.name.upper(), sql(node.expression)
    texts = {
        "SECOND": f"SECOND({at})",
        "MICROSECOND": f"EXTRACT(SECOND FROM {at}) * 1000000",
        "DOW": f"DAYOFWEEK({at}) - 1",
        "ISODOW": f"WEEKDAY({at}) + 1",
        "ISOYEAR": f"EXTRACT(YEAROFWEEK FROM {at})",
    }
    return f"CAST({texts.get(part, sql(node))} AS BIGINT)"
