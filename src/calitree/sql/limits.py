"""How large an expression may be, and a stack that is deep enough for one.

The limits are listed in `docs/limits.md`. Text within them is answered on any thread: what recurses over
an expression runs again on a stack of its own where the caller's is used up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Thread
from typing import ParamSpec, TypeVar

from sqlglot.errors import TokenError

from calitree.errors import ExpressionError

MAX_CHARACTERS = 1 << 26
"""Of one text."""
MAX_OTHER_CHARACTERS = 1_000_000
"""Of one text, without the values in its long lists."""
MAX_TOKENS = 50_000
"""Names, values and operators of one condition, without the values in its long lists."""
MAX_MEASURE_TOKENS = 10_000
"""The same of a measure, of which more is made than of a condition."""
MAX_NODES = 50_000
"""Operators and operands of an expression once what it abbreviates is written out: BETWEEN, the subject
of a CASE, NULLIF."""
MAX_NESTING = 100
"""Operators, functions and CASEs inside each other. Parentheses do not count, nor do long chains."""
MAX_CHAIN = 16
"""Longer chains of one operator are a balanced tree of it, so that none is deep."""
MAX_DIGITS = 1_000
"""Of one number."""
MAX_DECIMALS = 300
"""That ROUND keeps; no double has more."""

MAX_SPARK_CHARACTERS = 1_000_000
"""Of an expression as Spark SQL, in which ROUND, CASTs of text and others repeat what they are given."""
MAX_NAME = 1_000
"""Characters of the name of a relation or a measure."""

P = ParamSpec("P")
R = TypeVar("R")


def checked_size(text: str) -> str:
    """A text for Spark, if it is not too long."""
    if len(text) > MAX_SPARK_CHARACTERS:
        raise ExpressionError(
            f"An expression has more than {MAX_SPARK_CHARACTERS:,} characters as Spark SQL; "
            "nest fewer functions."
        )
    return text


def flaw_of(text: str) -> str | None:
    """Why a text can be no name and no expression, whatever it says; None if it can."""
    if "\0" in text:
        return "it has a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"{text[error.start]!r} in it is half of a character"
    return None


def flaw_of_name(name: str) -> str | None:
    """Why a text can be no name; None if it can."""
    return f"it has more than {MAX_NAME:,} characters" if len(name) > MAX_NAME else flaw_of(name)


def on_deep_stack(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function without side effects run on a stack of its own where the caller's is used up."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (RecursionError, TokenError) as error:
            if isinstance(error, TokenError) and not isinstance(error.__cause__, RecursionError):
                raise
        return _in_thread(lambda: function(*args, **kwargs))

    return run


def _in_thread(function: Callable[[], R]) -> R:
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # raised again below, where somebody waits for it
            errors.append(error)

    thread = Thread(target=run, name="calitree-deep", daemon=True)
    thread.start()
    thread.join()
    if results:
        return results[0]
    if isinstance(errors[0], RecursionError):
        raise ExpressionError("An expression is nested too deeply.") from None
    raise errors[0]
