"""Functions of numbers and texts, value by value; none of the values is NULL."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from calitree.engines.reference import sketches
from calitree.errors import ExpressionError
from calitree.sql.rules.regex import python_pattern
from calitree.sql.rules.sketches import BUCKET, CELL
from calitree.sql.rules.text import SPACES
from calitree.sql.scalar_casts import EXACT

MAX_CHARACTERS = 1 << 24
"""That a text is padded to."""


def _real(function: Callable[..., Any]) -> Callable[..., float]:
    """A function of doubles; out of its domain it is NaN or infinite."""

    def compute(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*values))

    return compute


def _truncated(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) or math.isinf(value) else float(math.trunc(value))
    return value.to_integral_value("ROUND_DOWN", EXACT)


def _quotient(a: int, b: int) -> int | None:
    """Towards zero; NULL by 0."""
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shifted(a: int, count: int) -> int:
    if a < 0 or count < 0 or (a > 0 and (count > 62 or a << count >= 1 << 63)):
        raise ExpressionError(f"{a} << {count} is out of range.")
    return a << count if a else 0


def _left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def _right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


def substring(node: exp.Expr, text: str, start: int, length: int | None = None) -> str:
    """SUBSTRING: between two places, of which the first character's is 0."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    after = len(text) if length is None else first + length
    low, high = sorted((first, after)) if length is not None else (first, max(first, after))
    return text[max(low, 0) : max(high, 0)]


def _padded(text: str, width: int, padding: str) -> str:
    """What is missing of a text that is to have so many characters."""
    missing = max(width - len(text), 0)
    if missing > MAX_CHARACTERS:
        raise ExpressionError(f"A text is padded to at most {MAX_CHARACTERS:,} characters.")
    if missing and not padding:
        raise ExpressionError("There is nothing to pad with.")
    return (padding * missing)[:missing]


def _part(text: str, separator: str, number: int) -> str:
    parts = text.split(separator) if separator else list(text)
    index = number - 1 if number > 0 else len(parts) + number
    return parts[index] if number and 0 <= index < len(parts) else ""


def _replaced(text: str, pattern: str, other: str, flags: str = "") -> str:
    def by(match: re.Match[str]) -> str:
        return re.sub(
            r"\\(.)", lambda e: (match[int(e[1])] or "") if e[1].isdigit() else e[1], other
        )

    return python_pattern(pattern).sub(by, text, count=0 if flags else 1)


def _extracted(text: str, pattern: str, group: int) -> str:
    match = python_pattern(pattern).search(text)
    return (match[group] or "") if match else ""


FUNCTIONS: dict[type[exp.Expr] | str, Callable[..., Any]] = {
    "SIGN": lambda x: (x > 0) - (x < 0),
    "TRUNC": _truncated,
    "LOG10": _real(np.log10),
    "LOG2": _real(np.log2),
    "SIN": _real(np.sin),
    "COS": _real(np.cos),
    "TAN": _real(np.tan),
    "ASIN": _real(np.arcsin),
    "ACOS": _real(np.arccos),
    "ATAN": _real(np.arctan),
    "ATAN2": _real(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    "DEGREES": _real(np.degrees),
    "RADIANS": _real(np.radians),
    "ISNAN": math.isnan,
    "ISINF": math.isinf,
    "ISFINITE": math.isfinite,
    "XOR": lambda a, b: a ^ b,
    "LEFT": _left,
    "RIGHT": _right,
    "REPLACE": lambda text, part, other: text.replace(part, other) if part else text,
    "STARTS_WITH": str.startswith,
    "ENDS_WITH": str.endswith,
    "CONTAINS": lambda text, part: part in text,
    "STRPOS": lambda text, part: text.find(part) + 1,
    "TRIM": lambda text, characters=SPACES: text.strip(characters) if characters else text,
    "LTRIM": lambda text, characters=SPACES: text.lstrip(characters) if characters else text,
    "RTRIM": lambda text, characters=SPACES: text.rstrip(characters) if characters else text,
    "LPAD": lambda text, width, by: _padded(text, width, by) + text[: max(width, 0)],
    "RPAD": lambda text, width, by: text[: max(width, 0)] + _padded(text, width, by),
    "REPEAT": lambda text, count: text * count,
    "REVERSE": lambda text: text[::-1],
    "SPLIT_PART": _part,
    "REGEXP_MATCHES": lambda text, pattern: bool(python_pattern(pattern).search(text)),
    "REGEXP_FULL_MATCH": lambda text, pattern: bool(python_pattern(pattern).fullmatch(text)),
    "REGEXP_REPLACE": _replaced,
    "REGEXP_EXTRACT": _extracted,
    CELL: sketches.cell,
    BUCKET: sketches.bucket,
}
"""By name."""

OPERATORS: dict[type[exp.Expr] | str, Callable[..., Any]] = {
    exp.IntDiv: lambda node, a, b: _quotient(a, b),
    exp.BitwiseAnd: lambda node, a, b: a & b,
    exp.BitwiseOr: lambda node, a, b: a | b,
    exp.BitwiseNot: lambda node, a: ~a,
    exp.BitwiseLeftShift: lambda node, a, count: _shifted(a, count),
    exp.BitwiseRightShift: lambda node, a, count: a >> count if 0 <= count < 64 else 0,
    exp.Substring: substring,
}
"""By the class of the node."""
