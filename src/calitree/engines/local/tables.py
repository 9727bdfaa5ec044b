"""Tables of the local engine: relations, messages, and rows of several tables joined.

All three give their attributes as codes or ids, made when first asked for and then kept, and their
annotations as `Value`s. That is all a contraction needs to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from calitree.engines import Column, Stored, stored_parts
from calitree.engines.local import values as v
from calitree.engines.local.codebook import Codebook
from calitree.engines.local.dictionary import Codes
from calitree.engines.local.generic_join import GenericJoin
from calitree.engines.local.spaces import RowIndex, Space, place
from calitree.engines.local.trie import Tries
from calitree.engines.local.values import Value
from calitree.errors import EngineError
from calitree.evaluate import evaluate
from calitree.expressions import Expression
from calitree.types import Kind, kind_of_arrow

Array = np.ndarray[Any, Any]
Names = Mapping[str, str]
"""Which column of a table carries which attribute."""


MOST_ROWS = 1 << 31
"""Joined rows that can be held: their numbers have 32 bits."""

REPEATING = (Kind.INTEGER, Kind.STRING, Kind.DATE, Kind.BOOLEAN, Kind.BINARY)
"""Kinds of columns that are worth encoding for a filter alone: their values tend to repeat."""


class Columns(Protocol):
    """Where a relation's columns come from: an Arrow table, or files that are read when needed."""

    schema: pa.Schema
    rows: int

    @property
    def null_free(self) -> frozenset[str]: ...

    @property
    def nbytes(self) -> int: ...

    def column(self, label: str) -> pa.ChunkedArray: ...

    def table(self) -> pa.Table: ...


class ArrowColumns:
    """Columns in memory."""

    def __init__(self, data: pa.Table) -> None:
        self.data, self.schema, self.rows = data, data.schema, int(data.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes)

    @property
    def null_free(self) -> frozenset[str]:
        return frozenset(n for n in self.schema.names if self.data.column(n).null_count == 0)

    def column(self, label: str) -> pa.ChunkedArray:
        return self.data.column(label)

    def table(self) -> pa.Table:
        return self.data


class Rows:
    """What relations, messages and joined rows have in common: codes and ids, kept once made."""

    def __init__(self, book: Codebook, rows: int) -> None:
        self.book, self.rows = book, rows
        self._codes: dict[tuple[str, str], Codes] = {}
        self._ids: dict[tuple[tuple[str, str], ...], Codes] = {}
        self._indexes: dict[tuple[tuple[str, str], ...], RowIndex] = {}
        self._tries: dict[tuple[tuple[str, str], ...], Tries] = {}
        self._asked: set[tuple[tuple[str, str], ...]] = set()
        self._places: dict[tuple[tuple[str, str], ...], Array | None] = {}

    def _encode(self, attribute: str, column: str) -> Codes:
        raise NotImplementedError

    def codes(self, attribute: str, names: Names) -> Codes:
        """The code of an attribute in every row."""
        key = (attribute, names[attribute])
        found = self._codes.get(key)
        if found is None:
            with self.book.lock:
                found = self._codes.get(key)
                if found is None:
                    found = self._codes[key] = self._encode(*key)
        return found

    def has_codes(self, attribute: str, names: Names) -> bool:
        """Whether a filter on this attribute alone should go by its codes."""
        return True

    def ids(self, space: Space, names: Names) -> Codes:
        """The id of some attributes in every row."""
        if not space.attributes:
            return np.ones(self.rows, np.int32)
        if len(space.attributes) == 1:
            return self.codes(space.attributes[0], names)
        key = tuple((a, names[a]) for a in space.attributes)
        if key not in self._ids:
            with self.book.lock:
                if key not in self._ids:
                    parts = [self.codes(a, names) for a in space.attributes]
                    self._ids[key] = space.ids(parts)
        return self._ids[key]

    def places(self, space: Space, names: Names, mask: Array | None) -> Array | None:
        """Where each id is found: one more than the row that has it, 0 if none has; or None if
        several rows may have the same.
        """
        key = tuple((a, names[a]) for a in space.attributes)
        ids = self.ids(space, names)
        known = self._places.get(key)
        if mask is None and key in self._places and (known is None or len(known) == space.size):
            return known
        if mask is not None:
            ids = np.where(mask, ids, np.int32(0))
        places = np.zeros(space.size, np.uint32)
        found = places if place(ids, places) else None
        if mask is None:
            self._places[key] = found
        return found

    def index(self, space: Space, names: Names) -> RowIndex:
        """Its rows by id."""
        key = tuple((a, names[a]) for a in space.attributes)
        if key not in self._indexes:
            self._indexes[key] = RowIndex(self.ids(space, names), space.size)
        return self._indexes[key]

    def tries(self, attributes: tuple[str, ...], names: Names) -> Tries:
        """Its rows sorted for worst-case optimal joins on these attributes."""
        key = tuple((a, names[a]) for a in attributes)
        if key not in self._tries:
            self._tries[key] = Tries({a: self.codes(a, names) for a in attributes}, self.rows)
        return self._tries[key]

    def is_wanted(self, space: Space, names: Names) -> bool:
        """Whether such an index is there, or was asked for before."""
        key = tuple((a, names[a]) for a in space.attributes)
        if key in self._asked:
            return True
        self._asked.add(key)
        return False

    def values(self, attribute: str, names: Names) -> pa.Array | pa.ChunkedArray:
        """An attribute's values in every row."""
        return self.book.dictionary(attribute).decode(self.codes(attribute, names))

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row."""
        raise NotImplementedError

    def stored(self, part: str) -> Value:
        """A physical column of annotations."""
        raise NotImplementedError

    @property
    def _held(self) -> int:
        held = sum(each.nbytes for each in (*self._codes.values(), *self._ids.values()))
        return int(held) + sum(each.nbytes for each in self._indexes.values())


class Relation(Rows):
    """A base relation: its columns, and what has been derived from them."""

    exact = True

    def __init__(self, book: Codebook, columns: Columns) -> None:
        super().__init__(book, columns.rows)
        self.columns = columns
        self.kinds = {f.name: kind_of_arrow(f.type) for f in columns.schema}
        self._values: dict[str, pa.ChunkedArray] = {}
        self._lifts: dict[tuple[str, tuple[tuple[str, str], ...]], Value] = {}

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes + self._held + sum(v.nbytes for v in self._lifts.values())

    @property
    def null_free(self) -> frozenset[str]:
        return self.columns.null_free

    def _encode(self, attribute: str, column: str) -> Codes:
        for key, ids in self._ids.items():
            # An id that stands for several attributes tells each of them, unless one was NULL.
            if (attribute, column) in key and all(c in self.null_free for _, c in key):
                space = self.book.space(tuple(a for a, _ in key))
                return space.codes(attribute)[ids]
        return self.book.dictionary(attribute).encode(self.columns.column(column))

    def ids(self, space: Space, names: Names) -> Codes:
        parts = [(a, names[a]) for a in space.attributes]
        if len(parts) < 2 or not all(column in self.null_free for _, column in parts):
            return super().ids(space, names)
        with self.book.lock:
            before = self._codes.keys() & parts
            found = super().ids(space, names)
            for key in set(parts) - before:  # made for the ids, and can be had from them again
                self._codes.pop(key, None)
        return found

    def has_codes(self, attribute: str, names: Names) -> bool:
        key = (attribute, names[attribute])
        return key in self._codes or self.kinds[key[1]] in REPEATING

    def values(self, attribute: str, names: Names) -> pa.ChunkedArray:
        """Kept: who filters by such a column once does so again."""
        label = names[attribute]
        if label not in self._values:
            self._values[label] = self.columns.column(label)
        return self._values[label]

    def lift(self, expression: Expression, names: Names) -> Value:
        used = tuple(sorted((a, names[a]) for a in expression.attributes))
        key = (expression.sql, used)
        if key not in self._lifts:
            columns = {a: self.columns.column(c) for a, c in used}
            value = v.from_arrow(evaluate(expression.node, columns, self.rows))
            if expression.kind in (Kind.INTEGER, Kind.DECIMAL) and not value.is_integer:
                value = value.with_exact(False)
            self._lifts[key] = value
        return self._lifts[key]


class Message(Rows):
    """A computed table: codes of its attributes, values of its annotations."""

    null_free: frozenset[str] = frozenset()

    def __init__(
        self,
        book: Codebook,
        codes: Mapping[str, Codes],
        values: Mapping[str, Value],
        rows: int,
        kinds: Mapping[str, Kind],
    ) -> None:
        super().__init__(book, rows)
        self._codes = {(name, name): each for name, each in codes.items()}
        self._annotations = dict(values)
        self.attributes = tuple(codes)
        self.kinds = {**kinds, **dict.fromkeys(values, Kind.OTHER)}

    @property
    def annotations(self) -> Mapping[str, Value]:
        return self._annotations

    @property
    def nbytes(self) -> int:
        return self._held + sum(value.nbytes for value in self.annotations.values())

    @property
    def exact(self) -> bool:
        return all(value.exact for value in self.annotations.values())

    def stored(self, part: str) -> Value:
        return self.annotations[part]

    def distinct(self, attribute: str) -> pa.Array:
        """The values that an attribute has, NULL aside."""
        codes = np.unique(self.codes(attribute, {attribute: attribute}))
        return self.book.dictionary(attribute).decode(codes[codes > 0])

    def renamed(self, keep: Sequence[str], columns: Sequence[Column]) -> Message:
        """The same as the output that has these columns, each of which is one of ours."""
        values: dict[str, Value] = {}
        for column in columns:
            (factor,) = column.factors
            assert isinstance(factor, Stored)
            ours = stored_parts(factor.name, column.semiring)
            for part, name in zip(column.parts, ours, strict=True):
                values[part] = self.annotations[name]
        codes = {name: self.codes(name, {name: name}) for name in keep}
        return Message(self.book, codes, values, self.rows, {})


class Joined(Rows):
    """Rows of several tables joined. They are counted first, and made when more is asked of them."""

    def __init__(
        self, book: Codebook, parts: Sequence[tuple[Rows, Names]], join: GenericJoin
    ) -> None:
        super().__init__(book, join.count(book.threads))
        self.parts, self.join = list(parts), join
        self.names = {a: a for _, names in parts for a in names}

    @cached_property
    def positions(self) -> list[Codes]:
        """For each table, which of its rows stands in each joined row."""
        if self.rows >= MOST_ROWS:
            raise EngineError(
                f"The relations of one bag join to {self.rows:,} rows, too many to hold. They can be "
                "counted, but not grouped, filtered or summed; filter them before they are added."
            )
        return self.join.rows(self.book.threads)

    def _encode(self, attribute: str, column: str) -> Codes:
        at = next(i for i, (_, names) in enumerate(self.parts) if attribute in names)
        table, names = self.parts[at]
        found: Codes = table.codes(attribute, names)[self.positions[at]]
        return found

    def part_lift(self, at: int, expression: Expression) -> Value:
        """A lift of one of the tables, on the joined rows."""
        table, names = self.parts[at]
        return table.lift(expression, names).take(self.positions[at])

    def part_stored(self, at: int, part: str) -> Value:
        return self.parts[at][0].stored(part).take(self.positions[at])
