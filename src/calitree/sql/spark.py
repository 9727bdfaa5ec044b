"""Expressions as Spark SQL that gives the values `calitree.sql.evaluator` gives.

sqlglot writes most nodes as they should be. The rules below rewrite the rest: Spark's FLOOR of a
double is a whole number that may not fit, its integers are 32 bits wide where they can be, a
backslash in LIKE is an escape, casts truncate where others round, text like '2020' counts as a
date, and so on.

This holds for a session in UTC and in ANSI mode; `spark_zone` and `spark_numbers` see to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from calitree.sql.nodes import kind_of
from calitree.sql.rules.conversions import CASTS
from calitree.sql.rules.text import SPACES
from calitree.types import Kind


def to_spark(node: exp.Expr) -> str:
    """`node` as text for Spark.

    >>> to_spark(exp.Length(this=exp.Literal.string("x")))
    "CAST(LENGTH('x') AS BIGINT)"
    """
    root = exp.Paren(this=node.copy())
    for each in reversed(list(root.this.walk())):
        rule = _RULES.get(type(each))
        text = rule(each) if rule else None
        if text is not None:
            each.replace(_verbatim(text, kind_of(each)))
    return _sql(root.this)


def _sql(node: exp.Expr) -> str:
    return node.sql(dialect="spark")


def _verbatim(text: str, kind: Kind) -> exp.Expr:
    result = exp.var(text)
    result.meta["kind"] = kind
    return result


def _quoted(text: str) -> str:
    return _sql(exp.Literal.string(text))


def _column(node: exp.Expr) -> str | None:
    """Numbers of 32 bits are computed with in 64; the cast costs nothing where they have 64."""
    return f"CAST({_sql(node)} AS DOUBLE)" if kind_of(node) is Kind.FLOAT else None


def _literal(node: exp.Expr) -> str | None:
    """A whole number among whole numbers has 64 bits; among decimals it keeps its few digits."""
    parent = node.parent
    whole = not node.args.get("is_string") and node.name.isdigit() and int(node.name) < 2**63
    if whole and isinstance(parent, _ARITHMETIC) and kind_of(parent) is Kind.INTEGER:
        return f"{node.name}L"
    return None


_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Neg, exp.Abs)


def _wide(node: exp.Expr) -> str:
    return f"CAST({_sql(node)} AS BIGINT)"


def _mean(node: exp.Expr) -> str | None:
    """A double; of decimals Spark would give a decimal, rounded after four more digits."""
    return f"AVG(CAST({_sql(node.this)} AS DOUBLE))" if kind_of(node.this) is Kind.DECIMAL else None


def _whole(node: exp.Expr) -> str:
    """FLOOR and CEIL as doubles; from 2^52 on, every double is whole."""
    x, function = _sql(node.this), type(node).__name__.upper()
    small = f"ABS({x}) < 4503599627370496D"
    return f"CASE WHEN {small} THEN CAST({function}({x}) AS DOUBLE) ELSE {x} END"


def _round(node: exp.Expr) -> str:
    """On the double times 10^decimals; Spark would round the decimal digits that it prints."""
    x, decimals = _sql(node.this), node.args.get("decimals")
    power = f"{10 ** (int(decimals.name) if decimals is not None else 0)}D"
    small = f"ABS({x} * {power}) < 9007199254740992D"
    return f"CASE WHEN {small} THEN ROUND({x} * {power}) / {power} ELSE {x} END"


def _ln(node: exp.Expr) -> str:
    x = _sql(node.this)
    return (
        f"CASE WHEN {x} = 0 THEN DOUBLE('-Infinity') WHEN {x} < 0 THEN DOUBLE('NaN')"
        f" ELSE LN({x}) END"
    )


def _like(node: exp.Expr) -> str:
    operator = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
    pattern = node.expression.name.replace("\\", "\\\\")
    return f"{_sql(node.this)} {operator} {_quoted(pattern)}"


def _upper(node: exp.Expr) -> str:
    """One letter for one, as elsewhere; Spark would make two of the German ß."""
    return f"UPPER(REPLACE({_sql(node.this)}, 'ß', 'ẞ'))"


def _trim(node: exp.Expr) -> str:
    return f"TRIM(BOTH {_quoted(SPACES)} FROM {_sql(node.this)})"


def _truncated(node: exp.Expr) -> str:
    """Spark gives a timestamp with time zone, whatever it is given."""
    text = f"DATE_TRUNC('{node.text('unit').upper()}', {_sql(node.this)})"
    return text if kind_of(node) is Kind.TIMESTAMP_TZ else f"CAST({text} AS TIMESTAMP_NTZ)"


def _branch(node: exp.Expr) -> None:
    """A condition must be a Boolean, even if it is NULL."""
    if isinstance(node.this, exp.Null):
        node.set("this", exp.false())


def _alone(node: exp.Expr) -> str | None:
    """GREATEST and LEAST want two arguments."""
    return None if node.expressions else _sql(node.this)


_DATE = r"\d{4}-\d{1,2}-\d{1,2}"
_TIME = rf"{_DATE}([ T]\d{{1,2}}:\d{{1,2}}(:[0-5]?\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?"
_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_TEXTS = {
    Kind.INTEGER: _NUMBER,
    Kind.FLOAT: rf"{_NUMBER}|(?i)[+-]?(nan|inf|infinity)",
    Kind.BOOLEAN: "(?i)(true|t|1|yes|y|false|f|0|no|n)",
    Kind.DATE: _TIME,
    Kind.TIMESTAMP: _TIME,
    Kind.TIMESTAMP_TZ: _TIME,
}
"""The texts that may be cast to a kind; Spark takes more."""

_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STRING: "STRING",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMP",
}


def _cast(node: exp.Expr) -> str:
    source, kind, x = kind_of(node.this), CASTS[node.args["to"].this], _sql(node.this)
    word = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    if source is Kind.STRING and kind in _TEXTS:
        x = _vetted(node.this, _TEXTS[kind])
    if kind is Kind.INTEGER and source is Kind.STRING:
        x, source = f"{word}({x} AS DECIMAL(38, 18))", Kind.DECIMAL
    if kind is Kind.INTEGER and source in _ROUND:
        x = f"{_ROUND[source]}({x})"
    if kind is Kind.STRING and source is Kind.FLOAT:
        return _digits(x)
    if kind is Kind.STRING and source is Kind.TIMESTAMP_TZ:
        return f"CONCAT(CAST({x} AS STRING), '+00')"
    return f"{word}({x} AS {_TYPES[kind]})"


_ROUND = {Kind.FLOAT: "RINT", Kind.DECIMAL: "ROUND"}
"""Doubles go to the even neighbour, decimals away from zero; Spark's casts would truncate."""


def _vetted(node: exp.Expr, pattern: str) -> str:
    """Text that no cast takes, where it is not one of those we take."""
    x = _sql(node)
    if isinstance(node, exp.Literal) and re.fullmatch(rf"\s*(?:{_inner(pattern)})\s*", node.name):
        return x
    accepted = _quoted(rf"^\s*(?:{pattern})\s*$")
    return f"CASE WHEN {x} RLIKE {accepted} THEN {x} ELSE CONCAT('?', {x}) END"


def _inner(pattern: str) -> str:
    """Python wants flags for a part of a pattern as a group."""
    return re.sub(r"\(\?i\)(.*)$", r"(?i:\1)", pattern)


def _digits(x: str) -> str:
    """A double as others write it: 0.0001, 1e-05, 1e+16, nan."""
    text = f"CAST({x} AS STRING)"
    exact = f"CAST(CAST({x} AS DECIMAL(38, 21)) AS STRING)"
    plain = f"REGEXP_REPLACE({exact}, {_quoted(_ZEROS)}, '$1')"
    mantissa = f"REGEXP_REPLACE({text}, {_quoted(_EXPONENT)}, '')"
    exponent = f"CAST(REGEXP_EXTRACT({text}, 'E(.*)$', 1) AS INT)"
    digits = f"IF(ABS({exponent}) < 10, '0', ''), ABS({exponent})"
    return (
        f"CASE WHEN ISNAN({x}) THEN 'nan' WHEN {x} = DOUBLE('Infinity') THEN 'inf'"
        f" WHEN {x} = DOUBLE('-Infinity') THEN '-inf' WHEN {x} = 0 THEN {text}"
        f" WHEN ABS({x}) >= 1e-4 AND ABS({x}) < 1e16 THEN {plain}"
        f" ELSE CONCAT({mantissa}, IF({exponent} < 0, 'e-', 'e+'), {digits}) END"
    )


_ZEROS, _EXPONENT = r"(\.\d+?)0+$", r"(\.0)?E.*$"


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], str | None]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Length: _wide,
    exp.Extract: _wide,
    exp.Avg: _mean,
    exp.Floor: _whole,
    exp.Ceil: _whole,
    exp.Round: _round,
    exp.Ln: _ln,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Upper: _upper,
    exp.Trim: _trim,
    exp.TimestampTrunc: _truncated,
    exp.If: _branch,
    exp.Greatest: _alone,
    exp.Least: _alone,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
