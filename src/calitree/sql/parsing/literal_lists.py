"""Long lists of constants after IN: one node instead of one for each constant.

Parsing, typing and printing a node takes microseconds; a list of a million would take minutes. So long
lists of numbers, or of quoted texts, are taken out before a text is parsed, and stand in its tree as one
node. It is printed as the number of its values and their digest. What is neither (a cast, a column) leaves
a list as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.cache import cached_property
from calitree.sql.nodes import cast, marked, number
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

MIN_VALUES = 100
"""Shorter lists are parsed like everything else."""

_TEXT = r"'[^']*+(?:''[^']*+)*+'"
_NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
_LISTS = "|".join(
    rf"(?:{item}|NULL\b)(?:\s*+,\s*+(?:{item}|NULL\b)){{{MIN_VALUES - 1},}}+(?=\s*+\))"
    for item in (_TEXT, _NUMBER)
)
_TOKEN = re.compile(
    rf"(?P<before>\bIN\s*\(\s*)(?P<list>{_LISTS})|{_TEXT}|\"[^\"]*\"|--[^\n]*|/\*.*?\*/",
    re.IGNORECASE | re.DOTALL,
)
_PLACE = "\ue000"
"""A letter of nobody's alphabet, with which the texts begin that stand for lists."""
_OTHER_QUOTES = re.compile(r"[$`\\]|\b[eE]'")
_MAX_DIGITS = 38
"""Of a decimal in 128 bits."""


class LiteralList:
    """Constants of one kind in an Arrow array, and perhaps NULL. It is never changed, nor copied."""

    def __init__(self, array: pa.Array, kind: Kind, has_null: bool) -> None:
        self.array, self.kind, self.has_null = array, kind, has_null

    @cached_property
    def known(self) -> frozenset[Any]:
        """The values as a set."""
        return frozenset(self.array.to_pylist())

    @cached_property
    def name(self) -> str:
        """How the list is printed: the same for the same values in the same order."""
        digest = sha256(str(self.array.type).encode())
        for buffer in self.array.buffers():
            digest.update(b"" if buffer is None else buffer)
        null = " OR NULL" if self.has_null else ""
        return f"{len(self.array)} {self.kind.name} VALUES{null} {digest.hexdigest()}"

    @property
    def node(self) -> exp.Expr:
        """One node for all."""
        node = marked(exp.var(self.name), self.kind)
        node.meta["values"] = self
        return node

    def as_kind(self, kind: Kind) -> LiteralList | None:
        """The list as it is compared with values of a kind; None if that needs a node for each."""
        if self.kind is Kind.STRING and kind in (Kind.DATE, Kind.TIMESTAMP):
            return self._temporal(kind)
        if kind is Kind.NULL:  # NULL is in no list and outside of none
            return self
        if self.kind is Kind.STRING or not kind.is_number:
            return self if self.kind is kind else None
        if kind is Kind.FLOAT and self.kind is not Kind.FLOAT:
            from calitree.sql.kernels.values import double

            return LiteralList(double(self.array), Kind.FLOAT, self.has_null)
        return self

    def _temporal(self, kind: Kind) -> LiteralList | None:
        from calitree.sql.kernels.casts import printed_timestamps, try_cast

        printed = printed_timestamps(self.array)
        try:
            for text in self.array.to_pylist() if printed is None else ():
                datetime.fromisoformat(text.strip())
        except ValueError:
            return None
        values = try_cast(self.array if printed is None else printed, kind)
        return None if values.null_count else LiteralList(values, kind, self.has_null)

    @property
    def ends(self) -> list[exp.Expr]:
        """The least and the greatest value."""
        import pyarrow.compute as pc

        ends = pc.min_max(self.array)
        return [self._literal(ends[end].as_py()) for end in ("min", "max")]

    @property
    def literals(self) -> Iterator[exp.Expr]:
        """A node for each."""
        yield from (self._literal(value.as_py()) for value in self.array)
        if self.has_null:
            yield marked(exp.Null(), Kind.NULL)

    def _literal(self, value: Any) -> exp.Expr:
        if self.kind is Kind.STRING:
            return marked(exp.Literal.string(value), self.kind)
        if self.kind is Kind.FLOAT:
            return number(value)
        if self.kind.is_temporal:
            return cast(marked(exp.Literal.string(str(value)), Kind.STRING), self.kind)
        size = marked(exp.Literal.number(format(abs(value), "f")), self.kind)
        return marked(exp.Neg(this=size), self.kind) if value < 0 else size

    def __deepcopy__(self, memo: Any) -> LiteralList:
        return self


def list_of(node: exp.Expr) -> LiteralList | None:
    """The list of an IN that has a long one."""
    (first, *others) = node.expressions or [None]
    return None if others or first is None else first.meta.get("values")


def without_lists(text: str) -> tuple[str, list[LiteralList]]:
    """A text of which each long list is replaced by a text that tells its number, and the lists."""
    lists: list[LiteralList] = []
    if len(text) < 2 * MIN_VALUES or _PLACE in text:
        return text, lists
    short = _TOKEN.sub(partial(_replaced, lists), text)
    if not lists or _OTHER_QUOTES.search(short):
        return text, []
    return short, lists


def _replaced(lists: list[LiteralList], token: re.Match[str]) -> str:
    listed = None if token["list"] is None else _list(token["list"])
    if listed is None:
        return token[0]
    lists.append(listed)
    return f"{token['before']}'{_PLACE}{len(lists) - 1}'"


def _list(text: str) -> LiteralList | None:
    """The list of this text; None if it has a number that no decimal holds."""
    if "'" not in text:
        return _numbers(text)
    import pyarrow as pa
    import pyarrow.compute as pc

    quoted = pa.array(re.findall(_TEXT, text), pa.large_string())
    values = pc.utf8_slice_codeunits(quoted, 1, -1)
    if "''" in text:
        values = pc.replace_substring(values, "''", "'")
    has_null = "NULL" in text.upper() and "NULL" in re.sub(_TEXT, "", text).upper()
    return LiteralList(values, Kind.STRING, has_null)


def _numbers(text: str) -> LiteralList | None:
    import numpy as np
    import pyarrow as pa

    parts = text.split(",")
    has_null = "U" in text or "u" in text
    if has_null:
        parts = [part for part in parts if "U" not in part and "u" not in part]
    if not parts:
        return None
    if "e" in text or "E" in text:
        return _doubles(parts, has_null)
    if "." not in text:
        try:
            values = np.fromiter(map(int, parts), np.int64, len(parts))
            return LiteralList(pa.array(values), Kind.INTEGER, has_null)
        except (OverflowError, ValueError):
            pass
    return _decimals(parts, has_null)


def _doubles(parts: Sequence[str], has_null: bool) -> LiteralList | None:
    import pyarrow as pa

    values = list(map(float, parts))
    infinite = max(map(abs, values)) == math.inf
    return None if infinite else LiteralList(pa.array(values), Kind.FLOAT, has_null)


def _decimals(parts: Sequence[str], has_null: bool) -> LiteralList | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = [part.strip().removeprefix("+") for part in parts]
    scale = max(len(text.partition(".")[2]) for text in texts)
    if max(map(len, texts)) > _MAX_DIGITS + 2 or scale > _MAX_DIGITS:
        return None
    try:
        values = pc.cast(pa.array(texts), pa.decimal128(_MAX_DIGITS, scale))
    except pa.ArrowInvalid:
        return None
    return LiteralList(values, Kind.DECIMAL, has_null)


def with_lists(node: exp.Expr, lists: Sequence[LiteralList]) -> exp.Expr:
    """A parsed node, with its lists again."""
    for literal in list(node.find_all(exp.Literal)) if lists else ():
        if literal.is_string and literal.name.startswith(_PLACE):
            literal.replace(lists[int(literal.name[1:])].node)
    return node


def with_values(node: exp.Expr) -> exp.Expr:
    """A node with all values of its lists, for a database that knows no digest."""
    if not any(map(_values, node.find_all(exp.Var))):
        return node
    root = exp.Paren(this=node.copy())
    for part in list(root.find_all(exp.In)):
        values = list_of(part)
        if values is not None:
            part.set("expressions", list(values.literals))
    expanded: exp.Expr = root.this
    return expanded


def _values(node: exp.Expr) -> bool:
    return "values" in node.meta
