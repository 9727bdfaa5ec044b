r"""Regular expressions, in the syntax of RE2, as far as Arrow, Java and Python can read them alike.

`$` is the end of the text, `.` no line end, `\d`, `\w`, `\s` and `\b` know ASCII only. There is neither
look-around nor a reference back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from sqlglot import exp

from calitree.errors import ExpressionError, shortened
from calitree.sql.analysis import Analysis, Pair
from calitree.sql.nodes import marked, number
from calitree.sql.rules.signatures import check_count
from calitree.types import Kind

FLAGS = "cigslm"
"""c and i: with or without case; s: a dot is also a line end; g: all places, not the first."""
MAX_GROUP = 9


def _pieces(pattern: str) -> Iterator[str]:
    """A pattern in pieces: escapes, sets of characters, openings of groups, and single characters."""
    yield from re.findall(
        r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?P?<\w+>|.",
        pattern,
        re.DOTALL,
    )


CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\x0b\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""What is written as `[[:alpha:]]`: Java and Python have no such names."""


def portable(pattern: str) -> str:
    """A pattern in whose sets each character is itself, as Java and Python would nest or intersect them."""
    return "".join(_portable_set(piece) if len(piece) > 1 else piece for piece in _pieces(pattern))


def _portable_set(piece: str) -> str:
    if not piece.startswith("["):
        return piece
    opening = "[^" if piece.startswith("[^") else "["

    def read(match: re.Match[str]) -> str:
        part = match[0]
        if part.startswith("[:"):
            return CLASSES[match[1]]
        return part if part.startswith("\\") else f"\\{part}"

    body = re.sub(r"\\.|\[:(\w+):\]|[]\[&|~]", read, piece[len(opening) : -1], flags=re.DOTALL)
    return f"{opening}{body}]"


def _is_group(piece: str, following: str) -> bool:
    return piece.startswith(("(?P<", "(?<")) or (piece == "(" and following != "?")


def groups(pattern: str) -> int:
    """How many groups a pattern has."""
    pieces = [*_pieces(pattern), ""]
    return sum(_is_group(a, b) for a, b in itertools.pairwise(pieces))


def with_one_group(pattern: str, group: int) -> str:
    """A pattern in which this group is the only one, called `g`; group 0 is the whole match."""
    if group == 0:
        return f"(?P<g>{_renamed(pattern, 0)})"
    return _renamed(pattern, group)


def _renamed(pattern: str, group: int) -> str:
    pieces, result, count = [*_pieces(pattern), ""], "", 0
    for piece, following in itertools.pairwise(pieces):
        if _is_group(piece, following):
            count += 1
            piece = "(?P<g>" if count == group else "(?:"
        result += piece
    return result


def with_ends(pattern: str, end: str) -> str:
    """A pattern in which `$` is written as the end of the text."""
    return "".join(end if piece == "$" else piece for piece in _pieces(pattern))


def python_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern for Python, from one with its flags in front."""
    pattern = with_ends(pattern, r"\Z").replace(r"\z", r"\Z")
    return re.compile(pattern, re.ASCII)


def _checked(pattern: str) -> str:
    """A pattern that all engines can read; an error says why one is not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if "[:^" in pattern:
        raise ExpressionError(f"{shortened(pattern)} has a negated class; write it as [^[:alpha:]]")
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        read = portable(pattern)
        python_pattern(read)
    except (pa.ArrowInvalid, re.error) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ExpressionError(f"{shortened(pattern)} is no regular expression: {reason}") from None
    return read


def _constant(analysis: Analysis, node: exp.Expr, what: str) -> str:
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise analysis.fail(f"{what} of a regular expression is a quoted text")
    return str(node.name)


def _with_flags(analysis: Analysis, pattern: exp.Expr, flags: exp.Expr | None) -> tuple[str, str]:
    """The pattern with its flags in front, and the flags."""
    given = "" if flags is None else _constant(analysis, flags, "an option")
    unknown = set(given) - set(FLAGS)
    if unknown:
        raise analysis.fail(
            f"a regular expression has the options c, g, i and s, not {unknown.pop()}"
        )
    kept = "".join(sorted({"i", "s"} & set(given)))
    text = _constant(analysis, pattern, "the pattern")
    return _checked(f"(?{kept}){text}" if kept else text), given


def _is_null(node: exp.Expr) -> bool:
    return any(isinstance(argument, exp.Null) for argument in node.expressions[1:])


def matching(name: str) -> Callable[[Analysis, exp.Expr], Pair]:
    """The rule of REGEXP_MATCHES or REGEXP_FULL_MATCH(text, pattern, options)."""

    def rule(analysis: Analysis, node: exp.Expr) -> Pair:
        check_count(analysis, node, 2, 3)
        if _is_null(node):
            return exp.Null(), Kind.NULL
        text, pattern, *flags = node.expressions
        read, _ = _with_flags(analysis, pattern, flags[0] if flags else None)
        return _call(name, analysis.operand(text, Kind.STRING, name), read), Kind.BOOLEAN

    return rule


def similar(analysis: Analysis, node: exp.Expr) -> Pair:
    """SIMILAR TO, which is a match of the whole text, as in DuckDB."""
    arguments = [node.this.copy(), node.expression.copy()]
    return analysis.normal(exp.Anonymous(this="REGEXP_FULL_MATCH", expressions=arguments))


def replacing(analysis: Analysis, node: exp.Expr) -> Pair:
    r"""REGEXP_REPLACE(text, pattern, replacement, options): the first match, or all with `g`; \1 is a group."""
    check_count(analysis, node, 3, 4)
    if _is_null(node):
        return exp.Null(), Kind.NULL
    text, pattern, replacement, *flags = node.expressions
    read, given = _with_flags(analysis, pattern, flags[0] if flags else None)
    by = _constant(analysis, replacement, "the replacement")
    for escape in re.findall(r"\\(.?)", by):
        if not (escape == "\\" or escape.isdigit()) or (
            escape.isdigit() and int(escape) > groups(read)
        ):
            raise analysis.fail(f"{shortened(by)} is no replacement: there is no \\{escape} in it")
    value = analysis.operand(text, Kind.STRING, "REGEXP_REPLACE")
    result = _call("REGEXP_REPLACE", value, read, by)
    if "g" in given:
        result.append("expressions", exp.Literal.string("g"))
    return result, Kind.STRING


def extracting(analysis: Analysis, node: exp.Expr) -> Pair:
    """REGEXP_EXTRACT(text, pattern, group, options): the first match, or a group of it; '' if there is none."""
    check_count(analysis, node, 2, 4)
    text, pattern, *rest = node.expressions
    if any(isinstance(given, exp.Null) for given in (pattern, *rest[1:])):
        return exp.Null(), Kind.NULL
    read, _ = _with_flags(analysis, pattern, rest[1] if len(rest) > 1 else None)
    group = rest[0] if rest else exp.Literal.number(0)
    if isinstance(group, exp.Null):  # which is none, in DuckDB
        group = exp.Literal.number(groups(read) + 1)
    elif not (
        isinstance(group, exp.Literal) and group.is_int and 0 <= int(group.name) <= MAX_GROUP
    ):
        raise analysis.fail(f"a group of a regular expression is a number from 0 to {MAX_GROUP}")
    value = analysis.operand(text, Kind.STRING, "REGEXP_EXTRACT")
    if int(group.name) > groups(read):  # there is none, as if it had not matched
        return exp.Anonymous(this="LEFT", expressions=[value, number(0)]), Kind.STRING
    result = _call("REGEXP_EXTRACT", value, read)
    result.append("expressions", number(int(group.name)))
    return result, Kind.STRING


def _call(name: str, value: exp.Expr, *texts: str) -> exp.Anonymous:
    literals = [marked(exp.Literal.string(text), Kind.STRING) for text in texts]
    return exp.Anonymous(this=name, expressions=[value, *literals])


def text_of(position: int) -> Callable[[exp.Expr], str | None]:
    """Reads a constant argument of a call; None if there is none."""

    def read(node: exp.Expr) -> str | None:
        given = node.expressions
        return str(given[position].name) if position < len(given) else None

    return read
