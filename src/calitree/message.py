"""Proposition 1 as a type: two equal keys carry equal messages, whatever the root and the order.

The message u → v is the sum, over everything behind u, of the product of everything behind u. So
its rows depend on the *set* of annotations in effect behind u — not on which of the bags there each
one stands — and each of its columns on the lifts behind u. That is a little more than the paper's
proposition, which compares the annotated subtrees bag by bag, and it makes Σ_A cancel γ_A by
construction.

Keys and aggregates also have a *text*, equal exactly where they are: by it a message that was saved
is found again, in another process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

from calitree.annotation import Aggregate, Annotation, Exclude, Lift, Select, Update
from calitree.engines import Table
from calitree.saved_tables import SavedMessage


@dataclass(frozen=True)
class MessageKey:
    """What the rows of the message source → target depend on.

    `behind` holds the γ, σ, R̄ and R* in effect behind the edge. γ_A is left out where A is in the
    separator: there it is kept in any case.
    """

    source: str
    target: str
    behind: frozenset[Annotation] = frozenset()

    @cached_property
    def text(self) -> str:
        return _text([self.source, self.target, sorted(map(_annotation, self.behind))])

    @cached_property
    def digest(self) -> str:
        """What files are named by."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"


def aggregate_text(aggregate: Aggregate) -> str:
    """The text of a message's column."""
    return _text([astuple(aggregate.semiring), sorted(map(_annotation, aggregate.lifts))])


def _annotation(each: Annotation) -> str:
    parts: tuple[Any, ...]
    match each:
        case Update():
            parts = (each.relation, each.version)
        case Exclude():
            parts = (each.relation,)
        case Select():
            parts = (each.predicate.sql,)
        case Lift():
            sqls = [expression.sql for expression in each.expressions]
            parts = (each.relation, astuple(each.semiring), sqls)
        case _:
            parts = (each.attribute,)
    return _text([type(each).__name__, *parts])


def _text(parts: list[Any]) -> str:
    return json.dumps(parts, ensure_ascii=False)


class ColumnsByText(Mapping[Aggregate, str]):
    """The columns of a saved message, which knows its aggregates only by their text."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = dict(names)
        self._found: dict[Aggregate, str | None] = {}

    def __getitem__(self, aggregate: Aggregate) -> str:
        if aggregate not in self._found:
            self._found[aggregate] = self.names.get(aggregate_text(aggregate))
        name = self._found[aggregate]
        if name is None:
            raise KeyError(aggregate)
        return name

    def __iter__(self) -> Any:
        raise TypeError("The aggregates of a saved message can be asked for, not listed.")

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Message:
    """A computed message: its table, and under which name each aggregate's column is found there.

    `shelved` is what it was restored from, if it was.
    """

    key: MessageKey
    table: Table
    columns: Mapping[Aggregate, str]
    shelved: Shelved | None = None

    def carries(self, aggregates: Iterable[Aggregate]) -> bool:
        return all(aggregate in self.columns for aggregate in aggregates)

    @property
    def column_texts(self) -> dict[str, str]:
        """The name of each column by the text of its aggregate."""
        if isinstance(self.columns, ColumnsByText):
            return self.columns.names
        return {aggregate_text(aggregate): name for aggregate, name in self.columns.items()}


@dataclass(frozen=True)
class Shelved:
    """A message that is saved: `text` is its key's, `columns` have the texts of its aggregates."""

    digest: str
    text: str
    columns: Mapping[str, str]
    pinned: bool
    table: SavedMessage


def column_names(aggregates: Iterable[Aggregate]) -> dict[Aggregate, str]:
    """The column that each aggregate gets in a contraction's result."""
    return {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates)}
