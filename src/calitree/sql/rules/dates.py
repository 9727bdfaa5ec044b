"""Parts of dates and timestamps."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import cast
from calitree.types import Kind

DATE_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE")
TRUNC_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")

PART_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfYear: "DOY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}


def date_part(analysis: Analysis, node: exp.Expr) -> Pair:
    if isinstance(node, exp.Extract):
        part, source = node.this.name.upper(), node.expression
        part = {"DAYOFYEAR": "DOY", "DAYOFMONTH": "DAY"}.get(part, part)
    else:
        part, source = PART_FUNCTIONS[type(node)], node.this
    while isinstance(source, exp.TsOrDsToDate):
        source = source.this
    if part not in DATE_PARTS:
        raise analysis.fail(f"there is no date part {part}; there are {', '.join(DATE_PARTS)}")
    inner, kind = analysis.normal(source)
    if not kind.is_temporal:
        raise analysis.fail(
            f"{part} needs a date or timestamp, but {source.sql()} is {kind.phrase}"
        )
    if kind is Kind.DATE and part in ("HOUR", "MINUTE"):
        raise analysis.fail(f"{part} needs a timestamp, but {source.sql()} is a date")
    return exp.Extract(this=exp.var(part), expression=inner), Kind.INTEGER


def truncation(analysis: Analysis, node: exp.Expr) -> Pair:
    unit = node.args["unit"].name.upper()
    if unit not in TRUNC_UNITS:
        raise analysis.fail(f"DATE_TRUNC knows {', '.join(TRUNC_UNITS)}, not {unit}")
    inner, kind = analysis.normal(node.this)
    if not kind.is_temporal:
        raise analysis.fail(
            f"DATE_TRUNC needs a date or timestamp, but {node.this.sql()} is {kind.phrase}"
        )
    at = inner if kind is not Kind.DATE else cast(inner, Kind.TIMESTAMP)
    return exp.TimestampTrunc(this=at, unit=exp.var(unit)), (
        Kind.TIMESTAMP if kind is Kind.DATE else kind
    )
