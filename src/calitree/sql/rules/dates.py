"""Parts of dates and timestamps."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import cast, quoted_sql
from calitree.types import Kind

TRUNC_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
DATE_PARTS = (*TRUNC_UNITS[:5], "DOY", "DOW", "ISODOW", *TRUNC_UNITS[5:])

PART_FUNCTIONS = (
    *(exp.Year, exp.Quarter, exp.Month, exp.Week, exp.Day, exp.Hour, exp.Minute),
    *(exp.Second, exp.WeekOfYear, exp.DayOfMonth, exp.DayOfYear),
    *(exp.DayOfWeek, exp.DayOfWeekIso),
)
_SYNONYMS = {
    "WEEKOFYEAR": "WEEK",
    "DAYOFMONTH": "DAY",
    "DAYOFYEAR": "DOY",
    "DAYOFWEEK": "DOW",
    "DAYOFWEEKISO": "ISODOW",
    "DAYOFWEEK_ISO": "ISODOW",
}


def date_part(analysis: Analysis, node: exp.Expr) -> Pair:
    """EXTRACT, and YEAR(…) … SECOND(…), which become one."""
    if isinstance(node, exp.Extract):
        name, source = node.this.name.upper(), node.expression
    else:
        name, source = type(node).__name__.upper(), node.this
    part = _SYNONYMS.get(name, name)
    while isinstance(source, exp.TsOrDsToDate):
        source = source.this
    if part not in DATE_PARTS:
        raise analysis.fail(f"there is no date part {part}; there are {', '.join(DATE_PARTS)}")
    inner, kind = _temporal(analysis, source, part)
    if kind is Kind.DATE and part in ("HOUR", "MINUTE", "SECOND"):
        raise analysis.fail(f"{part} needs a timestamp, but {quoted_sql(source)} is a date")
    return exp.Extract(this=exp.var(part), expression=inner), Kind.INTEGER


def part_of(node: exp.Expr) -> str:
    """The part that EXTRACT takes."""
    return node.name.upper()


def truncation(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE_TRUNC: a timestamp, also of a date."""
    unit = node.args["unit"].name.upper()
    if unit not in TRUNC_UNITS:
        raise analysis.fail(f"DATE_TRUNC knows {', '.join(TRUNC_UNITS)}, not {unit}")
    inner, kind = _temporal(analysis, node.this, "DATE_TRUNC")
    if kind is Kind.DATE:
        inner, kind = cast(inner, Kind.TIMESTAMP), Kind.TIMESTAMP
    return exp.TimestampTrunc(this=inner, unit=exp.var(unit)), kind


def unit_of(node: exp.Expr) -> str:
    """The unit that DATE_TRUNC rounds down to."""
    return node.text("unit").upper()


def _temporal(analysis: Analysis, node: exp.Expr, name: str) -> Pair:
    inner, kind = analysis.normal(node)
    if not kind.is_temporal:
        raise analysis.fail(
            f"{name} needs a date or timestamp, but {quoted_sql(node)} is {kind.phrase}"
        )
    return inner, kind
