"""STRFTIME and the names of days and months, written out as texts that are joined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from calitree.errors import cut
from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import cast, combined, marked, number, paren, quoted_sql
from calitree.sql.rules.dates import extracted, naive_operand, temporal
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind

DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"
MONTHS = "January February March April May June July August September October November December"


def _text(value: str) -> exp.Expr:
    return marked(exp.Literal.string(value), Kind.STRING)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return marked(exp.Anonymous(this=name, expressions=list(arguments)), Kind.STRING)


def _computed(operator: type[exp.Binary], left: exp.Expr, right: exp.Expr | int) -> exp.Expr:
    other = number(right) if isinstance(right, int) else right
    return marked(operator(this=paren(left), expression=paren(other)), Kind.INTEGER)


def _padded(value: exp.Expr, width: int) -> exp.Expr:
    text = cast(value, Kind.STRING)
    return text if width < 2 else _call("LPAD", text, number(width), _text("0"))


def _part(part: str, width: int, at: exp.Expr) -> exp.Expr:
    return _padded(extracted(at, part), width)


def _name(names: str, part: str, at: exp.Expr) -> exp.Expr:
    """The name of a day or a month, of which the first is number 1."""
    index = extracted(at, part)
    index = _computed(exp.Add, index, 1) if part == "DOW" else index
    return _call("SPLIT_PART", _text(names), _text(" "), index)


def _rest(part: str, modulus: int, divisor: int, width: int, at: exp.Expr) -> exp.Expr:
    value = _computed(exp.Mod, extracted(at, part), modulus)
    return _padded(_computed(exp.IntDiv, value, divisor) if divisor > 1 else value, width)


def _hour12(width: int, at: exp.Expr) -> exp.Expr:
    hour = _computed(exp.Mod, _computed(exp.Add, extracted(at, "HOUR"), 11), 12)
    return _padded(_computed(exp.Add, hour, 1), width)


def _half(at: exp.Expr) -> exp.Expr:
    index = _computed(exp.Add, _computed(exp.IntDiv, extracted(at, "HOUR"), 12), 1)
    return _call("SPLIT_PART", _text("AM PM"), _text(" "), index)


def _week(first: str, shift: int, at: exp.Expr) -> exp.Expr:
    """The number of the week in a year whose first week starts on its first Sunday or Monday."""
    days = _computed(exp.Add, extracted(at, "DOY"), shift)
    return _padded(_computed(exp.IntDiv, _computed(exp.Sub, days, extracted(at, first)), 7), 2)


def _nanoseconds(at: exp.Expr) -> exp.Expr:
    return combined(exp.DPipe, [_rest("MICROSECOND", 1_000_000, 1, 6, at), _text("000")])


_SHORT_DAYS, _SHORT_MONTHS = (
    " ".join(name[:3] for name in names.split()) for names in (DAYS, MONTHS)
)
_COMPOSED = {"c": "%Y-%m-%d %H:%M:%S", "x": "%Y-%m-%d", "X": "%H:%M:%S", "z": "+00", "Z": ""}
SPECIFIERS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "Y": partial(_part, "YEAR", 4),
    "G": partial(_part, "ISOYEAR", 4),
    "m": partial(_part, "MONTH", 2),
    "d": partial(_part, "DAY", 2),
    "H": partial(_part, "HOUR", 2),
    "M": partial(_part, "MINUTE", 2),
    "S": partial(_part, "SECOND", 2),
    "j": partial(_part, "DOY", 3),
    "V": partial(_part, "WEEK", 2),
    "u": partial(_part, "ISODOW", 1),
    "w": partial(_part, "DOW", 1),
    "y": partial(_rest, "YEAR", 100, 1, 2),
    "f": partial(_rest, "MICROSECOND", 1_000_000, 1, 6),
    "g": partial(_rest, "MICROSECOND", 1_000_000, 1_000, 3),
    "n": _nanoseconds,
    "I": partial(_hour12, 2),
    "p": _half,
    "U": partial(_week, "DOW", 6),
    "W": partial(_week, "ISODOW", 7),
    "a": partial(_name, _SHORT_DAYS, "DOW"),
    "A": partial(_name, DAYS, "DOW"),
    "b": partial(_name, _SHORT_MONTHS, "MONTH"),
    "B": partial(_name, MONTHS, "MONTH"),
    "%": lambda at: _text("%"),
    "-m": partial(_part, "MONTH", 1),
    "-d": partial(_part, "DAY", 1),
    "-H": partial(_part, "HOUR", 1),
    "-M": partial(_part, "MINUTE", 1),
    "-S": partial(_part, "SECOND", 1),
    "-j": partial(_part, "DOY", 1),
    "-y": partial(_rest, "YEAR", 100, 1, 1),
    "-I": partial(_hour12, 1),
}
"""What stands after a % in the format of STRFTIME, and what it becomes."""


def strftime(analysis: Analysis, node: exp.Expr) -> Pair:
    """STRFTIME(t, format); the format is a constant, and may also come first."""
    check_count(analysis, node, 2, 2)
    first, second = node.expressions
    at, form = (second, first) if isinstance(first, exp.Literal) else (first, second)
    if not (isinstance(form, exp.Literal) and form.is_string and form.name):
        raise analysis.fail(f"STRFTIME takes a format in quotes, not {quoted_sql(form)}")
    value = naive_operand(analysis, at, "STRFTIME")
    pieces = _pieces(analysis, form.name, value)
    if not any(piece.find(exp.Extract) for piece in pieces):  # NULL stays NULL
        pieces.append(_call("LEFT", cast(value, Kind.STRING), number(0)))
    return combined(exp.DPipe, pieces) if len(pieces) > 1 else pieces[0], Kind.STRING


def _pieces(analysis: Analysis, form: str, at: exp.Expr) -> list[exp.Expr]:
    pieces: list[exp.Expr] = []
    text, rest = "", form
    while rest:
        char, rest = rest[0], rest[1:]
        if char != "%":
            text += char
            continue
        size = 2 if rest.startswith("-") else 1
        key, rest = rest[:size], rest[size:]
        if key in _COMPOSED:
            rest = _COMPOSED[key] + rest
            continue
        if key not in SPECIFIERS:
            known = " ".join(f"%{name}" for name in (*SPECIFIERS, *_COMPOSED))
            raise analysis.fail(f"STRFTIME has no %{cut(key)}; there are {known}")
        pieces += [_text(text)] if text else []
        pieces.append(SPECIFIERS[key](at))
        text = ""
    return [*pieces, _text(text)] if text else pieces


def name_of_day(analysis: Analysis, node: exp.Expr) -> Pair:
    """DAYNAME."""
    return _name(DAYS, "DOW", temporal(analysis, node)), Kind.STRING


def name_of_month(analysis: Analysis, node: exp.Expr) -> Pair:
    """MONTHNAME."""
    return _name(MONTHS, "MONTH", temporal(analysis, node)), Kind.STRING
