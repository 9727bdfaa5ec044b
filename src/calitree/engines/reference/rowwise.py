"""One expression on one row of Python values: slow, short, and meant to be obviously right.

None is NULL. Integers have no bounds and decimals are exact, so what a faster engine must round or
widen can be checked against this. The rules are those of `calitree.sql.evaluator`; nothing is shared
with it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
from sqlglot import exp

from calitree.engines.reference.dates import (
    days_between,
    extract,
    microseconds,
    moved,
    truncate,
)
from calitree.engines.reference.functions import FUNCTIONS, OPERATORS
from calitree.errors import ExpressionError
from calitree.sql.nodes import key_of, kind_of, quoted_sql
from calitree.sql.parsing.literal_lists import list_of
from calitree.sql.rules.arithmetic import decimals_of
from calitree.sql.rules.conversions import CASTS, bits_of
from calitree.sql.rules.text import lower, upper
from calitree.sql.scalar_casts import CONVERSIONS, EXACT, double, timestamp, zoned
from calitree.types import Kind

Row = Mapping[str, Any]


def evaluate_row(node: exp.Expr, row: Row) -> Any:
    """The value of `node`, whose columns are the keys of `row`."""
    form = _FORMS.get(type(node))
    if form is not None:
        value = form(node, row)
        # Where one branch of a CASE is a double, all are.
        return value if value is None or kind_of(node) is not Kind.FLOAT else double(value)
    function = _OPERATORS.get(key_of(node))
    if function is None:
        raise ExpressionError(f"{quoted_sql(node)} ({type(node).__name__}) cannot be evaluated.")
    operands = [evaluate_row(operand, row) for operand in _operands(node)]
    if any(value is None for value in operands):
        return None
    return function(*operands) if isinstance(node, exp.Anonymous) else function(node, *operands)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Extract):
        return [node.expression]
    if isinstance(node, exp.Anonymous):
        return node.expressions
    if isinstance(node, exp.Substring):
        return [node.args[key] for key in ("this", "start", "length") if node.args.get(key)]
    if isinstance(node, exp.Binary | exp.DateAdd | exp.DateDiff) and not isinstance(
        node, exp.Like | exp.ILike
    ):
        return [node.this, node.expression]
    return [node.this]


def common(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values in a common type: doubles if one is a double, timestamps if one is a timestamp.

    Decimals and integers are compared exactly, as they are.
    """
    if isinstance(a, float) or isinstance(b, float):
        return double(a), double(b)
    if isinstance(a, datetime) or isinstance(b, datetime):
        a, b = timestamp(a), timestamp(b)
        if a.tzinfo or b.tzinfo:
            a, b = zoned(a), zoned(b)
    return a, b


def equal(a: Any, b: Any) -> bool:
    """SQL's equality of two values that are not NULL; NaN equals NaN."""
    a, b = common(a, b)
    return bool(a == b) or (a != a and b != b)


def less(a: Any, b: Any) -> bool:
    """SQL's order of two values that are not NULL; NaN is the greatest number."""
    a, b = common(a, b)
    return a == a if b != b else bool(a < b)


def arithmetic(name: str, plain: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, Any, Any], Any]:
    """An operator that is exact for decimals, and Python's own for other numbers."""
    exact = getattr(EXACT, name)

    def operate(node: exp.Expr, a: Any, b: Any) -> Any:
        a, b = common(a, b)
        return exact(a, b) if isinstance(a, Decimal) or isinstance(b, Decimal) else plain(a, b)

    return operate


def divide(node: exp.Expr, a: Any, b: Any) -> float | None:
    """The quotient of two doubles; NULL if the divisor is 0."""
    return double(a) / double(b) if double(b) != 0 else None


def remainder(node: exp.Expr, a: Any, b: Any) -> Any:
    """The remainder with the sign of the dividend; NULL if the divisor is 0."""
    a, b = common(a, b)
    if b == 0:
        return None
    if isinstance(a, float):
        return _real(np.fmod, a, b)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return EXACT.remainder(a, b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _real(function: Callable[..., Any], *values: Any) -> float:
    """A function of doubles; out of its domain it is NaN or infinite."""
    with np.errstate(all="ignore"):
        return float(function(*map(double, values)))


def real(function: Callable[..., Any]) -> Callable[..., float]:
    """An operator that computes with doubles."""
    return lambda node, *values: _real(function, *values)


def whole(mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """FLOOR or CEIL: exact for decimals."""

    def operate(node: exp.Expr, value: Any) -> Any:
        if isinstance(value, Decimal):
            return value.to_integral_value(mode, EXACT)
        return _real(function, value)

    return operate


def round_half_away(node: exp.Expr, value: Any) -> Any:
    """ROUND: to so many decimals, halves away from zero."""
    decimals = decimals_of(node)
    if isinstance(value, Decimal):
        exact = value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, EXACT)
        return exact if -decimals > int(value.as_tuple().exponent) else value
    power = 10.0**decimals
    scaled = double(value) * power
    if not abs(scaled) < 2.0**53:
        return double(value)
    whole = math.trunc(scaled)
    up = abs(scaled - whole) >= 0.5
    return math.copysign(abs(whole) + up, scaled) / power


def like(node: exp.Expr, text: str) -> bool:
    """LIKE and ILIKE."""
    pattern = node.expression.name
    if isinstance(node, exp.ILike):
        text, pattern = lower(text), lower(pattern)
    ends = {0}  # where the pattern so far may end in the text
    for char in pattern:
        if char == "%":
            ends = set(range(min(ends, default=len(text) + 1), len(text) + 1))
        else:
            ends = {at + 1 for at in ends if at < len(text) and char in ("_", text[at])}
    return len(text) in ends


def cast(node: exp.Expr, value: Any) -> Any:
    """CAST; TRY_CAST gives NULL where the value does not convert."""
    try:
        return narrowed(CONVERSIONS[CASTS[node.args["to"].this]](value), node)
    except (ValueError, OverflowError):
        if isinstance(node, exp.TryCast):
            return None
        raise ExpressionError(f"In {quoted_sql(node)}: {value!r} does not convert.") from None


def narrowed(value: Any, node: exp.Expr) -> Any:
    """A number that the type of a CAST can hold, in 64 bits again."""
    bits = bits_of(node)
    if bits == 64 and not (isinstance(node, exp.TryCast) and type(value) is int):
        return value
    if isinstance(value, float):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        if math.isinf(rounded) and not math.isinf(value):
            raise OverflowError(value)
        return rounded
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowError(value)
    return value


_OPERATORS: dict[type[exp.Expr] | str, Callable[..., Any]] = {
    **FUNCTIONS,
    **OPERATORS,
    exp.Add: arithmetic("add", operator.add),
    exp.Sub: arithmetic("subtract", operator.sub),
    exp.Mul: arithmetic("multiply", operator.mul),
    exp.Div: divide,
    exp.Mod: remainder,
    exp.Neg: lambda node, a: a.copy_negate() if isinstance(a, Decimal) else -a,
    exp.Abs: lambda node, a: a.copy_abs() if isinstance(a, Decimal) else abs(a),
    exp.Pow: lambda node, a, b: _real(np.power, double(a) + 0.0, b),
    exp.Floor: whole(ROUND_FLOOR, np.floor),
    exp.Ceil: whole(ROUND_CEILING, np.ceil),
    exp.Sqrt: real(np.sqrt),
    exp.Ln: real(np.log),
    exp.Exp: real(np.exp),
    exp.Round: round_half_away,
    exp.EQ: lambda node, a, b: equal(a, b),
    exp.NEQ: lambda node, a, b: not equal(a, b),
    exp.LT: lambda node, a, b: less(a, b),
    exp.GT: lambda node, a, b: less(b, a),
    exp.LTE: lambda node, a, b: not less(b, a),
    exp.GTE: lambda node, a, b: not less(a, b),
    exp.Not: lambda node, a: not a,
    exp.Like: like,
    exp.ILike: like,
    exp.Lower: lambda node, text: lower(text),
    exp.Upper: lambda node, text: upper(text),
    exp.Length: lambda node, text: len(text),
    exp.DPipe: lambda node, a, b: a + b,
    exp.Extract: extract,
    exp.TimestampTrunc: truncate,
    exp.DateAdd: moved,
    exp.DateDiff: days_between,
    "SUBTRACT": operator.sub,
    "EPOCH_US": microseconds,
    exp.Cast: cast,
    exp.TryCast: cast,
}


def _literal(node: exp.Expr, row: Row) -> Any:
    text = node.name
    if node.args.get("is_string"):
        return text
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _sides(node: exp.Expr, row: Row) -> list[Any]:
    return [evaluate_row(side, row) for side in (node.this, node.expression)]


def _and(node: exp.Expr, row: Row) -> bool | None:
    sides = _sides(node, row)
    return False if False in sides else None if None in sides else True


def _or(node: exp.Expr, row: Row) -> bool | None:
    sides = _sides(node, row)
    return True if True in sides else None if None in sides else False


def _is(node: exp.Expr, row: Row) -> bool:
    value = evaluate_row(node.this, row)
    if isinstance(node.expression, exp.Null):
        return value is None
    return value is not None and value == node.expression.this


def _in(node: exp.Expr, row: Row) -> bool | None:
    value, listed = evaluate_row(node.this, row), list_of(node)
    if listed is not None:
        if value is None or value in listed.known:
            return None if value is None else True
        return None if listed.has_null else False
    items = [evaluate_row(item, row) for item in node.expressions]
    if value is None:
        return None
    if any(item is not None and equal(value, item) for item in items):
        return True
    return None if None in items else False


def _same(node: exp.Expr, row: Row) -> bool:
    a, b = _sides(node, row)
    return a is b if a is None or b is None else equal(a, b)


def _nullif(node: exp.Expr, row: Row) -> Any:
    a, b = _sides(node, row)
    return None if a is not None and b is not None and equal(a, b) else a


def _case(node: exp.Expr, row: Row) -> Any:
    subject = node.args.get("this")
    for branch in node.args["ifs"]:
        test = branch.this
        if subject is not None:
            test = exp.EQ(this=subject.copy(), expression=test.copy())
        if evaluate_row(test, row):
            return evaluate_row(branch.args["true"], row)
    default = node.args.get("default")
    return evaluate_row(default, row) if default is not None else None


def _coalesce(node: exp.Expr, row: Row) -> Any:
    values = (evaluate_row(argument, row) for argument in (node.this, *node.expressions))
    return next((value for value in values if value is not None), None)


def _extreme(node: exp.Expr, row: Row) -> Any:
    arguments = (evaluate_row(argument, row) for argument in (node.this, *node.expressions))
    best, *others = [value for value in arguments if value is not None] or [None]
    for value in others:
        worse = less(value, best) if isinstance(node, exp.Greatest) else less(best, value)
        best = best if worse else value
    return best


_FORMS: dict[type[exp.Expr], Callable[[exp.Expr, Row], Any]] = {
    exp.Column: lambda node, row: row[node.name],
    exp.Paren: lambda node, row: evaluate_row(node.this, row),
    exp.Literal: _literal,
    exp.Boolean: lambda node, row: bool(node.this),
    exp.Null: lambda node, row: None,
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.In: _in,
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: lambda node, row: not _same(node, row),
    exp.Nullif: _nullif,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
}
