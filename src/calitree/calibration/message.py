"""Messages and their keys: Proposition 1 as a type, by which equal keys have equal messages.

The message u → v is the sum, over everything on u's side of the edge, of the product of everything there.
So its rows depend on the *set* of annotations in effect on that side, not on which of its bags each one
stands, and each of its columns on the lifts on that side. That is a little more than the paper's
proposition, which compares the annotated subtrees bag by bag, and it makes Σ_A cancel γ_A by
construction.

Keys and aggregates also have a *text*, which is equal exactly where they are: a saved message is found by
it in another process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any, Literal, TypeAlias

from calitree.cache import cached_property
from calitree.engines.api.contraction import Table, parts_of_column
from calitree.engines.api.python_semiring import PythonSemiring
from calitree.engines.api.semiring import Scalar, Semiring
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.query.annotation import Aggregate, Annotation, Augment, Exclude, Select, Update
from calitree.sql.parser import Expression
from calitree.storage.json_codec import MalformedError, parse, reader
from calitree.storage.table_format import SavedMessage

COLUMN_BYTES = 2_000
"""About what the aggregate of a column takes."""
TEXTS_CACHED = 1_000
"""Aggregates of which a saved message remembers the column."""

AnnotationText = (
    tuple[Literal["GroupBy", "SumOut", "Exclude", "Require", "Augment", "Select"], str]
    | tuple[Literal["Update"], str, int]
    | tuple[Literal["Detach"], str, tuple[str, ...]]
)
"""An annotation in the text of a key: the name of its class, and its fields."""

_KEY_TEXT = reader(tuple[str, str, tuple[str, ...]])
_ANNOTATION = reader(AnnotationText)
_Texts: TypeAlias = tuple[str, ...]
_Scalars: TypeAlias = tuple[Scalar, ...]
_SemiringText: TypeAlias = tuple[str, _Texts, _Texts, _Texts, _Scalars, _Scalars, bool]
_AGGREGATE_TEXT = reader(tuple[_SemiringText, _Texts] | tuple[_SemiringText, _Texts, _Texts])


@dataclass(frozen=True)
class MessageKey:
    """What the rows of the message source → target depend on.

    Attributes:
        source: The bag that sends it.
        target: The neighbour that it is sent to.
        annotations: The γ, σ, R̄, R⁺ and R* in effect on the source's side of the edge. γ_A is left out
            where A is in the separator: there it is kept in any case.

    Example:
        >>> print(wide.plan(group_by=["city"]).reused[0])
        sales→stores
    """

    source: str
    target: str
    annotations: frozenset[Annotation] = frozenset()

    @cached_property
    def text(self) -> str:
        """The key as JSON."""
        return _text([self.source, self.target, sorted(map(_annotation, self.annotations))])

    @cached_property
    def revisions(self) -> dict[str, int]:
        """The revisions of the relations joined that are not as they were first loaded."""
        return {a.relation: a.revision for a in self.annotations if isinstance(a, Update)}

    @property
    def edge(self) -> tuple[str, str]:
        """Its source and its target."""
        return self.source, self.target

    @cached_property
    def excluded(self) -> frozenset[str]:
        """The relations on the source's side that are left out."""
        return frozenset(a.relation for a in self.annotations if isinstance(a, Exclude))

    @cached_property
    def added(self) -> frozenset[str]:
        """The relations joined that the tree did not have at first."""
        return frozenset(a.relation for a in self.annotations if isinstance(a, Augment))

    @cached_property
    def timeless(self) -> MessageKey:
        """The key of the same message, whatever the revisions of its relations."""
        if not self.revisions:
            return self
        rest = frozenset(a for a in self.annotations if not isinstance(a, Update))
        return MessageKey(self.source, self.target, rest)

    def at(self, revisions: Mapping[str, int]) -> MessageKey:
        """The key of the same message at other revisions of its relations.

        Args:
            revisions: The revision of each relation that is joined; 0 is as first loaded.

        Returns:
            A key that has these revisions and all other annotations of this one.

        Example:
            >>> MessageKey("sales", "stores").at({"sales": 7}).revisions
            {'sales': 7}
        """
        updates = frozenset(
            Update(name, revision) for name, revision in revisions.items() if revision
        )
        return MessageKey(self.source, self.target, self.timeless.annotations | updates)

    @cached_property
    def digest(self) -> str:
        """A hash of its text, by which files are named."""
        return digest_of(self.text)

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"


def digest_of(text: str) -> str:
    """The hash of the text of a key."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def aggregate_text(aggregate: Aggregate) -> str:
    """The text of a message's column."""
    grain = [sorted(aggregate.grain)] if aggregate.grain else []
    return _text([aggregate.semiring, sorted(map(_annotation, aggregate.lifts)), *grain])


def _annotation(annotation: Annotation) -> str:
    parts = (getattr(annotation, part.name) for part in fields(annotation))
    return _text([type(annotation).__name__, *parts])


def _text(parts: list[Any]) -> str:
    return json.dumps(parts, ensure_ascii=False, default=_encoded)


def _encoded(value: Expression | Semiring | Callable[..., Any]) -> Any:
    if isinstance(value, Expression):
        return value.sql
    if isinstance(value, PythonSemiring) or not isinstance(value, Semiring):
        return ["python", id(value)]  # which is never saved
    return astuple(value)


class ColumnsByText(Mapping[Aggregate, str]):
    """The columns of a saved message, which knows its aggregates only by their text."""

    def __init__(self, names: Mapping[str, str], budget: Budget) -> None:
        self.names = dict(names)
        self._by_aggregate = BudgetedCache[Aggregate, str](
            budget, "measures", lambda _: COLUMN_BYTES, limit=TEXTS_CACHED
        )

    def __getitem__(self, aggregate: Aggregate) -> str:
        def look_up() -> str:
            return self.names.get(aggregate_text(aggregate), "")

        name = self._by_aggregate.of(aggregate, look_up)
        if not name:
            raise KeyError(aggregate)
        return name

    def __iter__(self) -> Any:
        raise TypeError("The aggregates of a saved message can be asked for, not listed.")

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Message:
    """A computed message: its table, and the name of the column that each aggregate has there.

    `shelved` is what it was restored from, if it was.
    """

    key: MessageKey
    table: Table
    columns: Mapping[Aggregate, str]
    shelved: Shelved | None = None

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes: its rows, its columns, and its key."""
        filters = (a.predicate for a in self.key.annotations if isinstance(a, Select))
        parts = len(self.columns) + len(self.key.annotations)
        return 2_500 + 700 * parts + sum(part.nbytes for part in filters) + self.table.nbytes

    def has_columns(self, aggregates: Iterable[Aggregate]) -> bool:
        """Whether it has a column for each of these."""
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
    """A saved message: `text` is that of its key, `columns` have the texts of its aggregates."""

    digest: str
    text: str
    columns: Mapping[str, str]
    pinned: bool
    table: SavedMessage

    @cached_property
    def _parts(self) -> tuple[tuple[str, str], list[tuple[str, AnnotationText]]]:
        """The edge, and the text of each annotation with its class and its fields."""
        source, target, annotations = _KEY_TEXT(parse(self.text.encode()))
        return (source, target), [(text, _ANNOTATION(parse(text.encode()))) for text in annotations]

    def check(self, components: dict[str, tuple[str, ...]]) -> None:
        """A `ValueError` if it is not a message as they are saved, whatever the tree.

        `components` are those of the aggregates that other messages have, by their texts.
        """
        if digest_of(self.text) != self.digest:
            raise MalformedError("has a key that is not its own")
        names = [column.name for column in self.table.columns]
        if len(set(names)) < len(names):
            raise MalformedError("has two columns of one name")
        annotations = {column.name for column in self.table.columns if column.annotation}
        for text, name in self.columns.items():
            if text not in components:
                components[text] = _AGGREGATE_TEXT(parse(text.encode()))[0][1]
            if not annotations.issuperset(parts_of_column(name, components[text])):
                raise MalformedError(f"lacks the column {name[:40]!r}")
        if not names and self.table.rows > 1:
            raise MalformedError(f"has {self.table.rows} rows without a column")

    def check_attributes(self, implied: frozenset[str]) -> None:
        """A `ValueError` if it keeps other attributes than its key says; `implied` are those of its edge."""
        groups = {name for name, *_ in self._fields("GroupBy")}
        expected = (implied - {name for name, *_ in self._fields("SumOut")}) | groups
        kept = set(self.table.attributes)
        partly = any(map(self._fields, ("Exclude", "Augment", "Detach")))
        if not (groups <= kept <= expected if partly else kept == expected):
            raise MalformedError("keeps other attributes than its key says")

    @property
    def edge(self) -> tuple[str, str]:
        """Its source and its target."""
        return self._parts[0]

    @cached_property
    def timeless(self) -> str:
        """The text of the key of the same message, whatever the revisions of its relations."""
        edge, annotations = self._parts
        return _text([*edge, [text for text, (kind, *_) in annotations if kind != "Update"]])

    @cached_property
    def revisions(self) -> dict[str, int]:
        """The revisions of the relations joined that are not as they were first loaded."""
        return dict(self._fields("Update"))

    @property
    def excluded(self) -> frozenset[str]:
        """The relations on the source's side that are left out."""
        return frozenset(relation for (relation,) in self._fields("Exclude"))

    @property
    def added(self) -> frozenset[str]:
        """The relations joined that the tree did not have at first."""
        return frozenset(relation for (relation,) in self._fields("Augment"))

    def _fields(self, kind: str) -> list[Any]:
        return [fields for _, (name, *fields) in self._parts[1] if name == kind]


def rows_column(names: Mapping[Aggregate, str]) -> str | None:
    """The column that counts rows, if there is one."""
    return next((name for aggregate, name in names.items() if aggregate.is_count), None)


def column_names(aggregates: Iterable[Aggregate]) -> dict[Aggregate, str]:
    """The column that each aggregate gets in a contraction's result."""
    return {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates)}
