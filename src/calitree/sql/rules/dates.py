"""Parts of dates and timestamps, and what is computed of them.

The engines know the parts in `ENGINE_PARTS`, the units in `TRUNC_UNITS`, and EPOCH_US. All other parts and
units are written out in these.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from calitree.sql.analysis import Analysis, Pair
from calitree.sql.constants import UNIT_NAMES, UNITS
from calitree.sql.nodes import cast, marked, number, paren, quoted_sql
from calitree.sql.rules.intervals import negative, shift
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind

TRUNC_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""That the engines truncate to."""
_YEARS = {"DECADE": 10, "CENTURY": 100, "MILLENNIUM": 1000}
_BELOW_SECONDS = {"MILLISECOND": 1000, "MICROSECOND": 1}
_CLOCK = ("HOUR", "MINUTE", "SECOND", "MICROSECOND")
ENGINE_PARTS = (*TRUNC_UNITS[:5], "DOY", "DOW", "ISODOW", "ISOYEAR", *_CLOCK)
"""That the engines extract. MICROSECOND has the seconds too, as in DuckDB."""

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
    "WEEKDAY": "DOW",
    "DAYOFWEEKISO": "ISODOW",
    "DAYOFWEEK_ISO": "ISODOW",
}

_DAY = 86_400_000_000
_JULIAN_OF_1970 = 2_440_588


def _integer(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr | int) -> exp.Expr:
    """Arithmetic on two integers in canonical form."""
    other = number(right) if isinstance(right, int) else right
    node = operator(this=paren(left.copy()), expression=paren(other.copy()))
    return marked(node, Kind.INTEGER)


def extracted(at: exp.Expr, part: str) -> exp.Expr:
    """A part that the engines know, of a date, timestamp or time in canonical form."""
    return marked(exp.Extract(this=exp.var(part), expression=at.copy()), Kind.INTEGER)


def microseconds(at: exp.Expr) -> exp.Expr:
    """EPOCH_US of something in canonical form: microseconds since 1970, or of a time or duration."""
    return marked(exp.Anonymous(this="EPOCH_US", expressions=[at.copy()]), Kind.INTEGER)


def _real(at: exp.Expr, divisor: int) -> exp.Expr:
    share = exp.Div(this=cast(microseconds(at), Kind.FLOAT), expression=number(float(divisor)))
    return marked(share, Kind.FLOAT)


_WRITTEN_OUT: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "DECADE": lambda at: _integer(exp.IntDiv, extracted(at, "YEAR"), 10),
    "CENTURY": lambda at: _integer(exp.IntDiv, _integer(exp.Add, extracted(at, "YEAR"), 99), 100),
    "MILLENNIUM": lambda at: _integer(
        exp.IntDiv, _integer(exp.Add, extracted(at, "YEAR"), 999), 1000
    ),
    "YEARWEEK": lambda at: _integer(
        exp.Add, _integer(exp.Mul, extracted(at, "ISOYEAR"), 100), extracted(at, "WEEK")
    ),
    "ERA": lambda at: _integer(exp.Add, _integer(exp.Mul, extracted(at, "YEAR"), 0), 1),
    "MILLISECOND": lambda at: _integer(exp.IntDiv, extracted(at, "MICROSECOND"), 1000),
    "EPOCH": lambda at: _real(at, 1_000_000),
    "JULIAN": lambda at: marked(
        exp.Add(this=paren(_real(at, _DAY)), expression=number(float(_JULIAN_OF_1970))), Kind.FLOAT
    ),
}
_OF_DURATION = {"DAY": (_DAY, 1 << 62), "HOUR": (3_600_000_000, 24), "MINUTE": (60_000_000, 60)}
_OF_TIME = (*_CLOCK, "MILLISECOND", "EPOCH")
DATE_PARTS = (*ENGINE_PARTS, *_WRITTEN_OUT)


def date_part(analysis: Analysis, node: exp.Expr) -> Pair:
    """EXTRACT, and YEAR(…) … SECOND(…), which become one."""
    if isinstance(node, exp.Extract):
        name, source = node.this.name.upper(), node.expression
    elif isinstance(node, exp.Anonymous):
        check_count(analysis, node, 1, 1)
        name, source = node.name.upper(), node.expressions[0]
    else:
        name, source = type(node).__name__.upper(), node.this
    return _part(analysis, name, source)


def named_part(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE_PART('year', d), which is EXTRACT(year FROM d)."""
    check_count(analysis, node, 2, 2)
    part, source = node.expressions
    return _part(analysis, _unit(analysis, part, "DATE_PART"), source)


def _part(analysis: Analysis, name: str, source: exp.Expr) -> Pair:
    part = _SYNONYMS.get(name) or UNIT_NAMES.get(name, name)
    while isinstance(source, exp.TsOrDsToDate):
        source = source.this
    if part not in DATE_PARTS:
        raise analysis.fail(f"there is no date part {part}; there are {', '.join(DATE_PARTS)}")
    at, kind = analysis.normal(source)
    if kind is Kind.DURATION:
        return _of_duration(analysis, at, part)
    if kind is Kind.TIME and part not in _OF_TIME:
        raise analysis.fail(f"{part} needs a date or timestamp, but {quoted_sql(source)} is a time")
    if kind is not Kind.TIME:
        _check_temporal(analysis, source, kind, part)
    in_days = kind is Kind.DATE and part in (*_CLOCK, "MILLISECOND")
    if in_days or (part in ("EPOCH", "JULIAN") and kind in (Kind.DATE, Kind.TIMESTAMP_TZ)):
        at = cast(at, Kind.TIMESTAMP)
    result = _WRITTEN_OUT[part](at) if part in _WRITTEN_OUT else extracted(at, part)
    return result, Kind.FLOAT if part in ("EPOCH", "JULIAN") else Kind.INTEGER


def _of_duration(analysis: Analysis, at: exp.Expr, part: str) -> Pair:
    """DAY, HOUR, MINUTE and so on of what lies between two timestamps."""
    if part == "EPOCH":
        return _real(at, 1_000_000), Kind.FLOAT
    if part in _OF_DURATION:
        size, most = _OF_DURATION[part]
        return _integer(exp.Mod, _integer(exp.IntDiv, microseconds(at), size), most), Kind.INTEGER
    sizes = {"SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}
    if part not in sizes:
        raise analysis.fail(f"a duration has no {part}")
    rest = _integer(exp.Mod, microseconds(at), 60_000_000)
    return _integer(exp.IntDiv, rest, sizes[part]), Kind.INTEGER


def part_of(node: exp.Expr) -> str:
    """The part that EXTRACT takes."""
    return node.name.upper()


def truncation(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE_TRUNC: a timestamp, also of a date."""
    check_count(analysis, node, 2, 2)
    given, source = node.expressions
    unit = _unit(analysis, given, "DATE_TRUNC")
    at, kind = analysis.normal(source)
    _check_temporal(analysis, source, kind, "DATE_TRUNC")
    if kind is Kind.DATE:
        at, kind = cast(at, Kind.TIMESTAMP), Kind.TIMESTAMP
    if unit in TRUNC_UNITS:
        return truncated(at, unit, kind), kind
    naive = at if kind is Kind.TIMESTAMP else cast(at, Kind.TIMESTAMP)
    if unit in _YEARS:
        past = _integer(exp.Mod, extracted(naive, "YEAR"), _YEARS[unit])
        start = truncated(naive, "YEAR", Kind.TIMESTAMP)
        result = shift(start, negative(_integer(exp.Mul, past, 12)), "MONTH", Kind.TIMESTAMP)
    elif unit in _BELOW_SECONDS:
        result = _start(naive, unit)
    else:
        units = ", ".join((*_YEARS, *TRUNC_UNITS, *_BELOW_SECONDS))
        raise analysis.fail(f"DATE_TRUNC knows {units}, not {unit}")
    return (result if kind is Kind.TIMESTAMP else cast(result, kind)), kind


def truncated(at: exp.Expr, unit: str, kind: Kind) -> exp.Expr:
    """A timestamp in canonical form, at the start of a unit that the engines know."""
    return marked(exp.TimestampTrunc(this=at.copy(), unit=exp.var(unit)), kind)


def unit_of(node: exp.Expr) -> str:
    """The unit that DATE_TRUNC rounds down to, or the part that DATE_ADD adds."""
    return node.text("unit").upper()


def difference(analysis: Analysis, node: exp.Expr) -> Pair:
    """DATE_DIFF(unit, from, to): how many times a unit begins between the two; of weeks the whole ones."""
    check_count(analysis, node, 3, 3)
    unit = _unit(analysis, node.expressions[0], "DATE_DIFF")
    ends = []
    for side in node.expressions[1:]:
        at, kind = analysis.normal(side)
        if kind is not Kind.NULL:
            _check_temporal(analysis, side, kind, "DATE_DIFF")
        ends.append(at if kind in (Kind.DATE, Kind.TIMESTAMP) else cast(at, Kind.TIMESTAMP))
    before, after = ends
    if unit in ("DAY", "WEEK"):
        days = [marked(cast(at, Kind.DATE), Kind.DATE) for at in (after, before)]
        result = exp.DateDiff(this=days[0], expression=days[1], unit=exp.var("DAY"))
        whole = marked(result, Kind.INTEGER)
        return whole if unit == "DAY" else _integer(exp.IntDiv, whole, 7), Kind.INTEGER
    count = _ORDINALS.get(unit)
    if count is not None:
        return _integer(exp.Sub, count(after), count(before)), Kind.INTEGER
    if unit not in UNITS:
        raise analysis.fail(f"DATE_DIFF knows no {unit}; there are {', '.join(_LISTED)}")
    starts = [microseconds(_start(at, unit)) for at in (after, before)]
    return _integer(exp.IntDiv, _integer(exp.Sub, *starts), UNITS[unit][1]), Kind.INTEGER


def _start(at: exp.Expr, unit: str) -> exp.Expr:
    """Where a unit of time starts that is not longer than an hour."""
    at = cast(at, Kind.TIMESTAMP)
    if unit in TRUNC_UNITS:
        return truncated(at, unit, Kind.TIMESTAMP)
    past = _integer(exp.Mod, extracted(at, "MICROSECOND"), _BELOW_SECONDS[unit])
    return shift(at, negative(past), "MICROSECOND", Kind.TIMESTAMP)


def _months(months: int, part: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda at: _integer(
        exp.Add, _integer(exp.Mul, extracted(at, "YEAR"), months), extracted(at, part)
    )


_ORDINALS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "YEAR": lambda at: extracted(at, "YEAR"),
    "ISOYEAR": lambda at: extracted(at, "ISOYEAR"),
    "QUARTER": _months(4, "QUARTER"),
    "MONTH": _months(12, "MONTH"),
    "DECADE": lambda at: _integer(exp.IntDiv, extracted(at, "YEAR"), 10),
    "CENTURY": lambda at: _integer(exp.IntDiv, extracted(at, "YEAR"), 100),
    "MILLENNIUM": lambda at: _integer(exp.IntDiv, extracted(at, "YEAR"), 1000),
}
"""Units by which DATE_DIFF counts how many have begun, and the number of the one that a time is in."""
_LISTED = (*_ORDINALS, "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", *_BELOW_SECONDS)


def last_day(analysis: Analysis, node: exp.Expr) -> Pair:
    """LAST_DAY: the last day of the month."""
    at = temporal(analysis, node)
    first = truncated(at, "MONTH", Kind.TIMESTAMP)
    following = shift(first, number(1), "MONTH", Kind.TIMESTAMP)
    return cast(shift(following, number(-1), "DAY", Kind.TIMESTAMP), Kind.DATE), Kind.DATE


def epoch(analysis: Analysis, node: exp.Expr) -> Pair:
    """EPOCH_US and EPOCH_MS: microseconds, or milliseconds, since 1970, or of a time or duration.

    Milliseconds of timestamps are rounded, the others cut, as in DuckDB.
    """
    check_count(analysis, node, 1, 1)
    source = node.expressions[0]
    at, kind = analysis.normal(source)
    is_instant = kind not in (Kind.TIME, Kind.DURATION)
    if is_instant:
        _check_temporal(analysis, source, kind, node.name.upper())
        at = at if kind is Kind.TIMESTAMP else cast(at, Kind.TIMESTAMP)
    result = microseconds(at)
    if node.name.upper() == "EPOCH_US":
        return result, Kind.INTEGER
    cut = _integer(exp.IntDiv, result, 1000)
    if not is_instant:
        return cut, Kind.INTEGER
    more = _integer(exp.IntDiv, _integer(exp.Mod, result, 1000), 500)
    return _integer(exp.Add, cut, more), Kind.INTEGER


def temporal(analysis: Analysis, node: exp.Expr) -> exp.Expr:
    """The one argument of a function, as a timestamp without time zone."""
    check_count(analysis, node, 1, 1)
    return naive_operand(analysis, node.expressions[0], node.name.upper())


def naive_operand(analysis: Analysis, source: exp.Expr, name: str) -> exp.Expr:
    """An operand that is a date or timestamp, as a timestamp without time zone."""
    at, kind = analysis.normal(source)
    if kind is not Kind.NULL:
        _check_temporal(analysis, source, kind, name)
    return at if kind is Kind.TIMESTAMP else cast(at, Kind.TIMESTAMP)


def _unit(analysis: Analysis, node: exp.Expr, name: str) -> str:
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise analysis.fail(f"{name} takes the name of a unit in quotes, not {quoted_sql(node)}")
    return UNIT_NAMES.get(node.name.upper(), node.name.upper())


def _check_temporal(analysis: Analysis, node: exp.Expr, kind: Kind, name: str) -> None:
    if not kind.is_temporal:
        raise analysis.fail(
            f"{name} needs a date or timestamp, but {quoted_sql(node)} is {kind.phrase}"
        )
