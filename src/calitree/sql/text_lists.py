"""Long lists of texts after IN: one node instead of one for each text.

Parsing, typing and printing a node takes microseconds; a list of 100,000 would take a minute. So long
lists of plain texts are taken out before a text is parsed, and stand in its tree as one node, which is
printed as the list. What is no plain text (a number, a cast, NULL) leaves a list as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.cache import cached_property
from calitree.sql.nodes import marked
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

MIN_TEXTS = 100
"""Shorter lists are parsed like everything else."""

_TEXT = r"'[^']*+(?:''[^']*+)*+'"
_TOKEN = re.compile(
    rf"(?P<before>\bIN\s*\(\s*)(?P<list>{_TEXT}(?:\s*,\s*{_TEXT}){{{MIN_TEXTS - 1},}}+)(?=\s*\))"
    rf"|{_TEXT}|\"[^\"]*\"|--[^\n]*|/\*.*?\*/",
    re.IGNORECASE | re.DOTALL,
)
_PLACE = "\ue000"
"""A letter of nobody's alphabet, with which the texts begin that stand for lists."""
_OTHER_QUOTES = re.compile(r"[$`\\]|\b[eE]'")


class TextList:
    """Different texts, in the order of their SQL. It never changes, so it is never copied."""

    def __init__(self, quoted: Sequence[str]) -> None:
        self.quoted = sorted(set(quoted))

    @cached_property
    def values(self) -> list[str]:
        """The texts themselves."""
        return [text[1:-1].replace("''", "'") for text in self.quoted]

    @cached_property
    def array(self) -> pa.Array:
        """The texts as an Arrow array."""
        import pyarrow as pa

        return pa.array(self.values, pa.string())

    @cached_property
    def known(self) -> frozenset[str]:
        """The texts as a set."""
        return frozenset(self.values)

    @property
    def node(self) -> exp.Expr:
        """One node for all; its text is the list without parentheses."""
        node = marked(exp.var(", ".join(self.quoted)), Kind.STRING)
        node.meta["texts"] = self
        return node

    @property
    def literals(self) -> list[exp.Expr]:
        """A node for each."""
        return [exp.Literal.string(text) for text in self.values]

    def __deepcopy__(self, memo: Any) -> TextList:
        return self


def texts_of(node: exp.Expr) -> TextList | None:
    """The list of an IN that has a long one."""
    (first, *others) = node.expressions or [None]
    return None if others or first is None else first.meta.get("texts")


def without_lists(text: str) -> tuple[str, list[TextList]]:
    """A text of which each long list is replaced by a text that tells its number, and the lists."""
    lists: list[TextList] = []
    if len(text) < 3 * MIN_TEXTS or _PLACE in text:
        return text, lists
    short = _TOKEN.sub(partial(_replaced, lists), text)
    if not lists or _OTHER_QUOTES.search(short):
        return text, []
    return short, lists


def _replaced(lists: list[TextList], token: re.Match[str]) -> str:
    if token["list"] is None:
        return token[0]
    lists.append(TextList(re.findall(_TEXT, token["list"])))
    return f"{token['before']}'{_PLACE}{len(lists) - 1}'"


def with_lists(node: exp.Expr, lists: Sequence[TextList]) -> exp.Expr:
    """A parsed node, with its lists again."""
    for literal in list(node.find_all(exp.Literal)) if lists else ():
        if literal.is_string and literal.name.startswith(_PLACE):
            literal.replace(lists[int(literal.name[1:])].node)
    return node
