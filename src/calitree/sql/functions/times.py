"""Functions of dates, timestamps and times."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql import spark_text as spark
from calitree.sql.functions import spark_times
from calitree.sql.functions.function import BINARY, CALL, Function, named, rewritten
from calitree.sql.rules import dates, formats, intervals, rewrites
from calitree.types import Kind

_PART = Function("", "", dates.date_part)
_PARTS = (
    "ISODOW",
    "ISOYEAR",
    "YEARWEEK",
    "DECADE",
    "CENTURY",
    "MILLENNIUM",
    "ERA",
    "EPOCH",
    "JULIAN",
)

TIMES: dict[type[exp.Expr] | str, Function] = {
    exp.Extract: Function(
        "extract(part FROM t), year(t), month(t), weekday(t), …",
        f"A part of a date, timestamp, time or difference: {', '.join(dates.DATE_PARTS).lower()}",
        dates.date_part, "dates.part", ("expression",), options=(dates.part_of,), bound=1 << 31,
        spark=spark_times.date_part,
    ),
    "DATE_PART": rewritten("date_part('part', t)", "The same", dates.named_part),
    **dict.fromkeys(dates.PART_FUNCTIONS, _PART),
    **dict.fromkeys((*_PARTS, "MILLISECOND", "MICROSECOND", "WEEKDAY"), _PART),
    "DATE_TRUNC": rewritten(
        "date_trunc('unit', t)", "The start of the millennium … microsecond, as a timestamp", dates.truncation
    ),
    exp.TimestampTrunc: Function(
        "", "", rewrites.canonical_only, "dates.truncate", options=(dates.unit_of,), spark=spark.truncated
    ),
    "DATE_DIFF": rewritten(
        "date_diff('unit', from, to)", "How many units begin between the two; whole weeks", dates.difference,
        result=Kind.INTEGER,
    ),
    exp.DateDiff: Function(
        "", "", rewrites.canonical_only, "dates.days_between", BINARY, bound=1 << 31,
        spark=spark_times.days_between, result=Kind.INTEGER,
    ),
    "DATE_ADD": rewritten("date_add(t, interval)", "t + interval", rewrites.added),
    exp.DateAdd: Function(
        "", "", rewrites.canonical_only, "dates.moved", BINARY, options=(dates.unit_of,), can_fail=True,
        spark=spark_times.moved,
    ),
    "SUBTRACT": named(
        "", "", (Kind.OTHER, Kind.OTHER), Kind.DURATION, "dates.elapsed", spark="({0} - {1})"
    ),
    "LAST_DAY": rewritten("last_day(t)", "The last day of the month", dates.last_day, result=Kind.DATE),
    "DAYNAME": rewritten("dayname(t)", "Sunday … Saturday", formats.name_of_day, result=Kind.STRING),
    "MONTHNAME": rewritten("monthname(t)", "January … December", formats.name_of_month, result=Kind.STRING),
    "STRFTIME": rewritten(
        "strftime(t, format)", "As text, by a format like '%Y-%m-%d'", formats.strftime, result=Kind.STRING,
    ),
    "EPOCH_MS": rewritten(
        "epoch_ms(t)", "Milliseconds since 1970, or of a time or difference", dates.epoch, result=Kind.INTEGER,
    ),
    "EPOCH_US": Function(
        "epoch_us(t)", "The same in microseconds", dates.epoch, "dates.microseconds", CALL,
        bound=1 << 60, spark=spark_times.microseconds, result=Kind.INTEGER,
    ),
    **{
        f"TO_{unit}": rewritten(
            f"to_{unit.lower()}(n)", "An interval of n of these", intervals.constant_interval
        )
        for unit in (
            *("MILLENNIA", "CENTURIES", "DECADES", "YEARS", "QUARTERS", "MONTHS", "WEEKS", "DAYS"),
            *("HOURS", "MINUTES", "SECONDS", "MILLISECONDS", "MICROSECONDS"),
        )
    },
    exp.Date: Function("date(t)", "The day of a timestamp, or of a text", rewrites.date, result=Kind.DATE),
}  # fmt: skip
