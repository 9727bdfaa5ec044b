"""Functions of text as Spark SQL; its regular expressions are Java's."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from calitree.sql.rules.regex import with_ends
from calitree.sql.rules.text import SPACES
from calitree.sql.spark_text import formatted, sql


def _quoted(text: str) -> str:
    return sql(exp.Literal.string(text))


def trimmed(side: str) -> Callable[[exp.Expr], str]:
    """TRIM of all characters that Unicode calls spaces, or of given ones."""

    def text(node: exp.Expr) -> str:
        value, *characters = map(sql, node.expressions)
        return f"TRIM({side} {characters[0] if characters else _quoted(SPACES)} FROM {value})"

    return text


def substring(node: exp.Expr) -> str:
    """SUBSTRING, of which Spark takes 0 for 1, and no negative length."""
    start, length = node.args["start"], node.args.get("length")
    if all(
        isinstance(bound, exp.Literal) and int(bound.name) > 0 for bound in (start, length) if bound
    ):
        return formatted("SUBSTRING({0}, {1:int})" if length is None else _PLAIN, node)
    if length is None:
        return formatted("SUBSTRING({0}, {1:int})", node)
    return formatted(_ANY, node)


_PLAIN = "SUBSTRING({0}, {1:int}, {2:int})"
_FIRST = "IF({1} > 0, {1}, IF({1} < 0, LENGTH({0}) + 1 + {1}, 0))"
_BELOW, _ABOVE = "IF({2} < 0, {2}, 0)", "IF({2} > 0, {2}, 0)"
_ANY = (
    "IF({1} IS NULL OR {2} IS NULL, NULL, SUBSTRING({0},"
    f" CAST(LEAST(GREATEST({_FIRST} + {_BELOW}, 1), 2147483647) AS INT),"
    f" CAST(LEAST(GREATEST({_FIRST} + {_ABOVE}, 1) - GREATEST({_FIRST} + {_BELOW}, 1), 2147483647) AS INT)))"
)
"""From the lower place to the higher one; the first character's is 1."""


def _java(pattern: str) -> str:
    """A pattern for Java, where `.` stops at line feeds only."""
    flags = re.match(r"\(\?([is]+)\)", pattern)
    given = flags[1] if flags else ""
    rest = pattern[len(flags[0]) :] if flags else pattern
    return f"(?d{given}{'u' if 'i' in given else ''}){with_ends(rest, chr(92) + 'z')}"


def call(node: exp.Expr) -> str:
    """The four functions as Spark SQL."""
    x, pattern, name = sql(node.expressions[0]), _java(node.expressions[1].name), node.name.upper()
    if name == "REGEXP_MATCHES":
        return f"({x} RLIKE {_quoted(pattern)})"
    flags, body = re.match(r"(\(\?[^)]*\))(.*)", pattern, re.DOTALL).groups()  # type: ignore[union-attr]
    if name == "REGEXP_FULL_MATCH":
        whole = rf"{flags}\A(?:{body})\z"
        return f"({x} RLIKE {_quoted(whole)})"
    if name == "REGEXP_EXTRACT":
        return f"REGEXP_EXTRACT({x}, {_quoted(pattern)}, {node.expressions[2].name})"
    everywhere = len(node.expressions) > 3
    shift = (
        0 if everywhere else 2
    )  # of the groups, after one before the first match, and one around it
    by = re.sub(
        r"\\\\|\\(\d)|\$",
        lambda m: f"${int(m[1]) + shift}" if m[1] else {"$": r"\$"}.get(m[0], r"\\\\"),
        node.expressions[2].name,
    )
    if everywhere:
        return f"REGEXP_REPLACE({x}, {_quoted(pattern)}, {_quoted(by)})"
    first = rf"{flags}\A([\s\S]*?)({body})"
    return f"REGEXP_REPLACE({x}, {_quoted(first)}, {_quoted(f'$1{by}')})"
