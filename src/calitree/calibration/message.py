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
from typing import Any

from calitree.cache import cached_property
from calitree.engines.api.contraction import Table
from calitree.query.annotation import Aggregate, Annotation, Augment, Exclude, Lift, Select, Update
from calitree.storage.table_format import SavedMessage


@dataclass(frozen=True)
class MessageKey:
    """What the rows of the message source → target depend on.

    `annotations` are the γ, σ, R̄, R⁺ and R* in effect behind the edge. γ_A is left out where A is in the
    separator: there it is kept in any case.
    """

    source: str
    target: str
    annotations: frozenset[Annotation] = frozenset()

    @cached_property
    def text(self) -> str:
        return _text([self.source, self.target, sorted(map(_annotation, self.annotations))])

    @cached_property
    def versions(self) -> dict[str, int]:
        """The versions of the relations behind that are not as they were first."""
        return {
            each.relation: each.version for each in self.annotations if isinstance(each, Update)
        }

    @property
    def edge(self) -> tuple[str, str]:
        return self.source, self.target

    @cached_property
    def excluded(self) -> frozenset[str]:
        """The relations behind that are left out."""
        return frozenset(each.relation for each in self.annotations if isinstance(each, Exclude))

    @cached_property
    def added(self) -> frozenset[str]:
        """The relations behind that the tree did not have at first."""
        return frozenset(each.relation for each in self.annotations if isinstance(each, Augment))

    @cached_property
    def timeless(self) -> MessageKey:
        """The same message, whatever the versions behind it."""
        if not self.versions:
            return self
        rest = frozenset(each for each in self.annotations if not isinstance(each, Update))
        return MessageKey(self.source, self.target, rest)

    def at(self, versions: Mapping[str, int]) -> MessageKey:
        """The same message at these versions of the relations behind it; 0 is as first loaded."""
        updates = frozenset(Update(name, version) for name, version in versions.items() if version)
        return MessageKey(self.source, self.target, self.timeless.annotations | updates)

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
        case Exclude() | Augment():
            parts = (each.relation,)
        case Select():
            parts = (each.predicate.sql,)
        case Lift():
            sqls = [expression.sql for expression in each.expressions]
            parts = (each.relation, astuple(each.semiring), sqls)
        case _:
            parts = (each.attribute,)
    return _text([type(each).__name__, *parts])


_UPDATE = '["Update",'
_EXCLUDE = '["Exclude",'
_AUGMENT = '["Augment",'


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

    def covers(self, other: Message) -> bool:
        """Whether it has all columns of another message."""
        ours, theirs = self.columns, other.columns
        if isinstance(ours, ColumnsByText) or isinstance(theirs, ColumnsByText):
            return other.column_texts.keys() <= self.column_texts.keys()
        return theirs.keys() <= ours.keys()

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

    @cached_property
    def _parts(self) -> tuple[tuple[str, str], list[str]]:
        source, target, annotations = json.loads(self.text)
        return (source, target), annotations

    @property
    def edge(self) -> tuple[str, str]:
        return self._parts[0]

    @cached_property
    def timeless(self) -> str:
        """The text of the key of the same message, whatever the versions behind it."""
        edge, annotations = self._parts
        return _text([*edge, [each for each in annotations if not each.startswith(_UPDATE)]])

    @cached_property
    def versions(self) -> dict[str, int]:
        updates = [json.loads(each) for each in self._parts[1] if each.startswith(_UPDATE)]
        return {name: version for _, name, version in updates}

    @property
    def excluded(self) -> frozenset[str]:
        """The relations behind that are left out."""
        return self._named(_EXCLUDE)

    @property
    def added(self) -> frozenset[str]:
        """The relations behind that the tree did not have at first."""
        return self._named(_AUGMENT)

    def _named(self, annotation: str) -> frozenset[str]:
        _, annotations = self._parts
        return frozenset(json.loads(each)[1] for each in annotations if each.startswith(annotation))


def column_names(aggregates: Iterable[Aggregate]) -> dict[Aggregate, str]:
    """The column that each aggregate gets in a contraction's result."""
    return {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates)}
