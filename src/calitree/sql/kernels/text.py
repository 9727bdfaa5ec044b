"""Functions of text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from calitree.sql.kernels.comparison import MIN_COMPILED_ROWS, equal
from calitree.sql.kernels.values import Datum, bytes_of, check_bytes, unify

MAX_REGEX_CHARACTERS = 1000
"""Characters of a pattern that Arrow matches."""

lower, upper = pc.utf8_lower, pc.utf8_upper


def like(datum: Datum, pattern: str) -> Datum:
    """LIKE: % is any text, _ any character, and nothing is an escape (for Arrow a backslash is)."""
    inner = pattern.strip("%")
    if "%" in inner or "_" in inner or not inner:
        return _like_regex(datum, pattern)
    before, after = pattern.startswith("%"), pattern.endswith("%")
    if before and after:
        return contains(datum, inner)
    if before or after:
        return (pc.ends_with if before else pc.starts_with)(datum, inner)
    return equal(datum, pa.scalar(pattern, datum.type))


def contains(datum: Datum, part: str) -> Datum:
    """Whether a text has a part."""
    if not part or not isinstance(datum, pa.Array) or len(datum) < MIN_COMPILED_ROWS:
        return pc.match_substring(datum, part)
    from calitree.sql.kernels.strings import find

    return find(datum, part.encode())


def _like_regex(datum: Datum, pattern: str) -> Datum:
    """A pattern of several parts: only texts that contain the two longest of them are looked at."""
    longest = sorted({*re.split("[%_]", pattern)} - {""}, key=len)[-2:]
    if not longest or not isinstance(datum, pa.Array):
        return _match(datum, pattern)
    perhaps = reduce(pc.and_, (contains(datum, part) for part in longest))
    there = pc.fill_null(perhaps, False)
    return pc.replace_with_mask(perhaps, there, _match(datum.filter(there), pattern))


def _match(datum: Datum, pattern: str) -> Datum:
    """Arrow's regular expressions refuse large patterns, and take long for those that are almost too large."""
    if len(pattern) <= MAX_REGEX_CHARACTERS:
        return pc.match_substring_regex(datum, _regex(pattern))
    fits = _matcher(pattern)
    if isinstance(datum, pa.Scalar):
        return pa.scalar(fits(datum.as_py()) if datum.is_valid else None, pa.bool_())
    texts = datum.to_pylist()
    return pa.array([None if text is None else fits(text) for text in texts], pa.bool_())


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text fits: the parts between % follow each other, each where it first stands."""
    parts = pattern.split("%")
    compiled = {
        part: re.compile("".join("." if c == "_" else re.escape(c) for c in part), re.DOTALL)
        for part in {*parts}
    }
    if len(parts) == 1:
        return lambda text: compiled[pattern].fullmatch(text) is not None
    first, *middle, last = parts

    def fits(text: str) -> bool:
        at, end = len(first), len(text) - len(last)
        if at > end or not (compiled[first].match(text) and compiled[last].match(text, end)):
            return False
        for part in middle:
            there = compiled[part].search(text, at, end)
            if there is None:
                return False
            at = there.end()
        return True

    return fits


def _regex(pattern: str) -> str:
    parts = {"%": ".*", "_": "."} | {char: f"\\{char}" for char in r"\.^$|?*+()[]{}"}
    return r"(?s)\A" + "".join(parts.get(char, char) for char in pattern) + r"\z"


def ilike(datum: Datum, pattern: str) -> Datum:
    """LIKE of lower-case text and pattern."""
    return like(lower(datum), lower(pa.scalar(pattern)).as_py())


def length(datum: Datum) -> Datum:
    """Characters, not bytes."""
    return pc.cast(pc.utf8_length(datum), pa.int64())


def concatenate(left: Datum, right: Datum) -> Datum:
    """One text after the other."""
    a, b = unify([left, right])
    rows = max(1 if isinstance(datum, pa.Scalar) else len(datum) for datum in (a, b))
    check_bytes("||", bytes_of(a, rows) + bytes_of(b, rows), rows)
    return pc.binary_join_element_wise(a, b, pa.scalar("", a.type))
