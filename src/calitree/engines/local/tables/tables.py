"""Tables of the local engine: relations, messages, and rows of several tables joined.

All three give their attributes as codes or ids and their annotations as `Value`s. That is all a
contraction needs to know of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from calitree.cache import cached_property
from calitree.engines.api.contraction import Column, Stored, stored_parts
from calitree.engines.local.annotation.columns import MAX_SMALL, repeats
from calitree.engines.local.annotation.labels import TextColumn, from_column
from calitree.engines.local.annotation.values import Value, to_arrow
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.tables.encoded import (
    NBYTES,
    SEVERAL,
    EncodedTable,
    Key,
    Names,
    key_of,
)
from calitree.engines.local.tables.filters import (
    Columns,
    forget,
    is_kept,
    is_worth_codes,
    passing,
    read,
)
from calitree.engines.local.tables.value_index import ValueIndexes
from calitree.interrupts import run
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.sql.evaluator import compile, evaluate
from calitree.sql.parser import Expression
from calitree.types import Kind, kind_of_arrow

Array = np.ndarray[Any, Any]
REPEATING_KINDS = (Kind.INTEGER, Kind.STRING, Kind.DATE, Kind.BOOLEAN, Kind.BINARY)
"""Kinds of columns that are worth encoding for a filter alone, if their values do repeat."""

TEXTS = (Kind.STRING, Kind.BINARY)


class ArrowColumns:
    """Columns in memory."""

    def __init__(self, data: pa.Table, unsupported: Mapping[str, str] | None = None) -> None:
        self.data, self.schema, self.rows = data, data.schema, int(data.num_rows)
        self.unsupported = unsupported or {}

    @cached_property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.data.nbytes)

    @cached_property
    def null_free(self) -> frozenset[str]:
        """Columns without a NULL."""
        return frozenset(n for n in self.schema.names if self.data.column(n).null_count == 0)

    def column(self, label: str) -> pa.ChunkedArray:
        """One column."""
        return self.data.column(label)

    def table(self) -> pa.Table:
        """All columns."""
        return self.data


class EncodedRelation(EncodedTable):
    """A base relation: its columns, and what has been derived from them."""

    exact = True

    def __init__(self, book: Codebook, columns: Columns) -> None:
        super().__init__(book, columns.rows)
        self.columns = columns
        self.kinds = {f.name: kind_of_arrow(f.type) for f in columns.schema}
        self.unsupported = columns.unsupported

    @cached_property
    def value_indexes(self) -> ValueIndexes:
        """Its rows by their values."""
        return ValueIndexes(self.columns, self.book)

    @cached_property
    def _lifts(self) -> BudgetedCache[tuple[str, Key], Value]:
        return BudgetedCache(self.book.budget, "lifts", NBYTES)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns in memory."""
        return self.columns.nbytes

    @property
    def null_free(self) -> frozenset[str]:
        """Columns without a NULL."""
        return self.columns.null_free

    def _encode(self, attribute: str, column: str) -> Codes:
        known = self.known_codes(attribute, column, slice(None))
        if known is None and column in self.computed:
            return self._derive(attribute, column)
        if known is None:
            self.book.eviction.stored.add(attribute)
            values = read(self.columns, column, self.book)
            known = self.book.dictionary(attribute).encode(values)
            forget(self.columns, column)
        return known

    def _is_derived_by_value(self, attribute: str, column: str) -> bool:
        """Whether an attribute has codes, or is worth some: its values repeat in many rows."""
        names = {attribute: column}
        return self.rows > MAX_SMALL and (
            self.has_codes(attribute, names) or repeats(self._column(attribute, column))
        )

    def _column(self, attribute: str, column: str) -> pa.ChunkedArray:
        """What a derived attribute is computed from, as it is stored."""
        return read(self.columns, column, self.book)

    @property
    def coded(self) -> list[tuple[str, str]]:
        """Attributes whose codes are known, or follow from ids, with their columns."""
        every = [key for key, _ in self._codes.items()]
        every += [part for key, _ in self._ids.items() for part in key]
        return list(dict.fromkeys(every))

    @property
    def encoded(self) -> list[Key]:
        """The keys whose codes or ids are known."""
        codes = ((key,) for key, _ in self._codes.items())
        return [*codes, *(key for key, _ in self._ids.items())]

    def remember(self, key: Key, ids: Codes) -> None:
        """Keep ids that were derived from other tables; of one attribute these are its codes."""
        if len(key) == 1:
            self._codes.put(key[0], ids)
        else:
            self._ids.put(key, ids)

    def known_codes(self, attribute: str, column: str, rows: Array | slice) -> Codes | None:
        """The codes of an attribute in these rows, if its values need not be encoded."""
        codes = self._codes.get((attribute, column))
        if codes is not None:
            return codes[rows]
        for key, ids in self._ids.items():
            # The codes of several attributes follow from their id, unless one was NULL.
            if (attribute, column) in key and all(c in self.null_free for _, c in key):
                space = self.book.space(tuple(a for a, _ in key))
                return space.codes(attribute)[ids[rows]]
        return None

    def ids(self, space: Space, names: Names) -> Codes:
        """The id of some attributes in every row. Codes that follow from the ids are not kept."""
        parts = key_of(space.attributes, names)
        if len(parts) < 2 or not all(column in self.null_free for _, column in parts):
            return super().ids(space, names)
        with self.book.lock:
            fresh = [part for part in parts if part not in self._codes]
            ids = super().ids(space, names)
            for part in fresh:
                self._codes.drop(part)
        return ids

    def has_codes(self, attribute: str, names: Names) -> bool:
        """Whether there are codes by which an attribute may be filtered."""
        known = (attribute, names[attribute]) in self._codes
        return known and self.book.dictionary(attribute).size <= max(self.rows, MAX_SMALL)

    def is_worth_codes(self, attribute: str, names: Names) -> bool:
        """Whether an attribute should be encoded to be filtered: its values repeat, and not for once."""
        label = names[attribute]
        return self.kinds[label] in REPEATING_KINDS and is_worth_codes(
            self.columns, label, self.book
        )

    def passing(self, predicate: Expression, names: Names) -> Array:
        """Which rows a predicate is true for.

        By codes that are there; else by rows, unless values repeat: then each is looked at once.
        """
        attributes = tuple(predicate.attributes)
        if len(attributes) == 1 and (
            self.has_codes(attributes[0], names)
            or (
                not is_kept(self.columns, predicate, names)
                and self.is_worth_codes(attributes[0], names)
            )
        ):
            return super().passing(predicate, names)
        return passing(self.columns, predicate, names, self.book)

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row; kept while there is room."""
        key = self._lift_key(expression, names)
        return self._lifts.of(key, lambda: self._new_lift(expression, key[1]))

    def _new_lift(self, expression: Expression, names: Key) -> Value:
        columns = {a: self.columns.column(c) for a, c in names}
        value = run(lambda: self._lifted(expression, columns), self.rows)
        if isinstance(value, TextColumn):
            value.is_own = not (self.columns.nbytes and isinstance(expression.node, exp.Column))
        if expression.kind in (Kind.INTEGER, Kind.DECIMAL) and not value.is_integer:
            value = value.with_exact(False)
        return value

    def _lifted(self, expression: Expression, columns: Mapping[str, pa.ChunkedArray]) -> Value:
        if expression.kind in TEXTS and len(columns) == 1:
            return from_column(_chunks(expression, columns), self.book.threads)
        return from_column(evaluate(expression.node, columns, self.rows))

    def _lift_key(self, expression: Expression, names: Names) -> tuple[str, Key]:
        return expression.sql, key_of(sorted(expression.attributes), names)


def _chunks(expression: Expression, columns: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    """An expression of one column, chunk by chunk: a column itself is not copied."""
    ((attribute, column),) = columns.items()
    evaluate_chunk = compile(expression.node)
    chunks = [evaluate_chunk({attribute: chunk}, len(chunk)) for chunk in column.chunks]
    types = {chunk.type for chunk in chunks}
    if len(types) > 1:  # some are as large as only the larger type can be
        chunks = [chunk.cast(pa.large_string()) for chunk in chunks]
    return pa.chunked_array(chunks) if chunks else pa.chunked_array([evaluate_chunk(columns, 0)])


class EncodedMessage(EncodedTable):
    """A computed table: codes of its attributes, values of its annotations.

    A contraction may take an annotation as one more attribute, to filter or to group by it.
    """

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
        self._own_codes = dict(codes)
        self._annotations = dict(values)
        self.attributes = tuple(codes)
        book.eviction.note_message(self)
        self.kinds = {**kinds, **dict.fromkeys(values, Kind.OTHER)}

    @property
    def own_codes(self) -> Mapping[str, Codes]:
        """The codes of its attributes."""
        return self._own_codes

    @property
    def annotations(self) -> Mapping[str, Value]:
        """Its physical columns of annotations."""
        return self._annotations

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without what was derived from it."""
        codes = sum(int(column.nbytes) for column in self._own_codes.values())
        return codes + sum(value.nbytes for value in self.annotations.values())

    def codes(self, attribute: str, names: Names) -> Codes:
        """The code of an attribute in every row."""
        own = self.own_codes.get(names[attribute])
        return super().codes(attribute, names) if own is None else own

    def _encode(self, attribute: str, column: str) -> Codes:
        if column in self.computed:
            return self._derive(attribute, column)
        return self.book.dictionary(attribute).encode(to_arrow(self.annotations[column]))

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row."""
        columns = {a: self.values(a, names) for a in expression.attributes}
        return from_column(evaluate(expression.node, columns, self.rows))

    @property
    def exact(self) -> bool:
        """Whether no annotation was rounded."""
        return all(value.exact for value in self.annotations.values())

    def stored(self, part: str) -> Value:
        """A physical column of annotations."""
        return self.annotations[part]

    def take(self, rows: Array) -> EncodedMessage:
        """Some of its rows."""
        codes = {name: self.codes(name, {name: name})[rows] for name in self.attributes}
        values = {name: value.take(rows) for name, value in self.annotations.items()}
        taken = EncodedMessage(self.book, codes, values, len(rows), self.kinds)
        taken.computed = self.computed
        taken.remember({key: ids[rows] for key, ids in self._ids.items()}, {})
        return taken

    def inherit(self, other: EncodedMessage) -> None:
        """Take over all that is derived from the keys of a message with the same key in every row."""
        self._ids.take_over(other._ids)
        self._places.take_over(other._places)
        self._indexes.take_over(other._indexes)
        self._tries.take_over(other._tries)
        self._asked = set(other._asked)

    @property
    def known(self) -> tuple[dict[Key, Codes], dict[Key, Array]]:
        """The ids and the places that are known."""
        places = {key: rows for key, rows in self._places.items() if rows is not SEVERAL}
        return dict(self._ids.items()), places

    def remember(self, ids: Mapping[Key, Codes], places: Mapping[Key, Array]) -> None:
        """Keep ids and places that were derived from another message."""
        for key, known in ids.items():
            self._ids.put(key, known)
        for key, rows in places.items():
            self._places.put(key, rows)

    def distinct(self, attribute: str) -> pa.Array:
        """The values that an attribute has, NULL aside."""
        codes = np.unique(self.codes(attribute, {attribute: attribute}))
        return self.book.dictionary(attribute).decode(codes[codes > 0])

    def components(self, column: Column) -> list[Value]:
        """The components of one of its columns."""
        return [self.annotations[part] for part in column.parts]

    def renamed(self, keep: Sequence[str], columns: Sequence[Column]) -> EncodedMessage:
        """The same message as an output with these columns, each of which stores one of its own."""
        values: dict[str, Value] = {}
        for column in columns:
            (factor,) = column.factors
            assert isinstance(factor, Stored)
            ours = stored_parts(factor.name, column.semiring)
            for part, name in zip(column.parts, ours, strict=True):
                values[part] = self.annotations[name]
        codes = {name: self.codes(name, {name: name}) for name in keep}
        return EncodedMessage(self.book, codes, values, self.rows, {})
