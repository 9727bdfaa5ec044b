"""What relations, messages and joined rows have in common: their attributes as codes and ids.

These are computed when first asked for and then kept while there is room, and so are indexes of rows by them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.cache import cached_property
from calitree.engines.api.contraction import Input
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import RowIndex, Space, padded_size, place
from calitree.engines.local.join.trie import Tries
from calitree.engines.local.tables.filters import computed, evaluated, passing_codes
from calitree.errors import ExpressionError
from calitree.interrupts import run
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.sql.evaluator import evaluate
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
Names = Mapping[str, str]
"""The column of a table that holds each attribute."""

Key = tuple[tuple[str, str], ...]
"""Some attributes, and the columns that hold them."""


NBYTES = attrgetter("nbytes")

SEVERAL = np.empty(0, np.uint32)
"""Stands for a look-up by ids of which several rows have the same."""

MAX_SIZE_PER_NUMBER = 16
"""With so few bits for each number it is quicker to mark numbers than to sort them."""


def key_of(attributes: Iterable[str], names: Names) -> Key:
    """Some attributes with their columns."""
    return tuple((attribute, names[attribute]) for attribute in attributes)


def distinct(numbers: Array, size: int) -> Array:
    """Numbers below a size, each once and in order; marked if there are many, else sorted."""
    if len(numbers) * MAX_SIZE_PER_NUMBER > size:
        there = np.zeros(size, np.bool_)
        there[numbers] = True
        return np.flatnonzero(there)
    numbers = np.sort(numbers)
    if not (numbers[1:] > numbers[:-1]).all():
        numbers = numbers[np.append(np.True_, numbers[1:] > numbers[:-1])]
    return numbers.astype(np.intp)


_DERIVED: dict[str, Callable[[Any], Key]] = {
    "_codes": lambda part: (part,),
    **dict.fromkeys(("_ids", "_indexes", "_tries", "_places"), lambda key: key),
    "matched_places": lambda known: known[0],
}
"""The caches of what is derived from codes, and the attributes and columns in a key of each."""


class EncodedTable:
    """Codes and ids of a table's rows, and the indexes on them.

    What is derived is kept while the codebook's budget has room. Two threads may compute the same, and both
    are right; but codes, which are large, are computed under the lock of the codebook.
    """

    def __init__(self, book: Codebook, rows: int) -> None:
        self.book, self.rows = book, rows
        self.unsupported: Mapping[str, str] = {}
        self._asked: set[Key] = set()
        self.lookup_keys: dict[tuple[str, ...], Key] = {}
        """For some columns, the key by whose ids rows with given values were found."""
        self.computed: dict[str, tuple[Expression, Key]] = {}
        """By the label that stands for its column, how a derived attribute is computed."""

    @cached_property
    def _codes(self) -> BudgetedCache[tuple[str, str], Codes]:
        self.book.eviction.note_codes(self)
        return BudgetedCache(self.book.budget, "codes", NBYTES)

    @cached_property
    def _ids(self) -> BudgetedCache[Key, Codes]:
        self.book.eviction.note_codes(self)
        return BudgetedCache(self.book.budget, "codes", NBYTES)

    @cached_property
    def _indexes(self) -> BudgetedCache[Key, RowIndex]:
        return BudgetedCache(self.book.budget, "look-ups", NBYTES)

    @cached_property
    def _tries(self) -> BudgetedCache[Key, Tries]:
        return BudgetedCache(self.book.budget, "look-ups", NBYTES)

    @cached_property
    def _places(self) -> BudgetedCache[Key, Array]:
        """Where several rows have the same id, that is all that is kept: `SEVERAL`."""
        return BudgetedCache(self.book.budget, "look-ups", NBYTES)

    @cached_property
    def matched_places(self) -> BudgetedCache[tuple[Key, object], Array]:
        """The same across an outer join, by the table of the keys that have a partner."""
        return BudgetedCache(self.book.budget, "look-ups", NBYTES)

    def forget(self, attributes: Collection[str]) -> set[str]:
        """Drop what was derived from codes of these; the columns of which there still is something."""
        columns = set[str]()
        for name, key_in in _DERIVED.items():
            if name not in self.__dict__:
                continue
            cache: BudgetedCache[Any, Any] = self.__dict__[name]
            for known, _ in cache.items():
                key = key_in(known)
                if any(attribute in attributes for attribute, _ in key):
                    cache.drop(known)
                else:
                    columns |= {column for _, column in key}
        self._asked = {key for key in self._asked if all(a not in attributes for a, _ in key)}
        return columns

    def keep_computed(self, columns: Collection[str]) -> None:
        """Forget how columns other than these are computed."""
        for label in self.computed.keys() - columns:
            self.computed.pop(label, None)

    def names_of(self, given: Input) -> Names:
        """The column of each attribute of an input of this table; a label for one that is derived."""
        if not given.derived:
            return given.attributes
        names = dict(given.attributes)
        for attribute, expression in given.derived.items():
            key = key_of(sorted(expression.attributes), given.attributes)
            label = "\0".join(("", expression.sql, *(column for _, column in key)))
            self.computed[label] = expression, key
            names[attribute] = label
        return names

    def _encode(self, attribute: str, column: str) -> Codes:
        raise NotImplementedError

    def _derive(self, attribute: str, label: str) -> Codes:
        """The codes of a derived attribute; of one that has codes, each value is looked at once."""
        (expression, key), dictionary = self.computed[label], self.book.dictionary(attribute)
        if len(key) == 1 and self._is_derived_by_value(*key[0]):
            ((of, _),) = key
            codes, domain = self.codes(of, dict(key)), self.book.dictionary(of).domain
            with suppress(ExpressionError):  # of a value that other rows have, perhaps
                values = run(
                    lambda: evaluate(expression.node, {of: domain}, len(domain)), len(domain)
                )
                return dictionary.encode(values)[codes]
        columns = {a: self._column(a, c) for a, c in key}
        values = run(lambda: computed(expression, columns, self.rows, self.book.threads), self.rows)
        return dictionary.encode(values)

    def _is_derived_by_value(self, attribute: str, column: str) -> bool:
        """Whether there are codes to derive others from, and fewer values than rows."""
        return self.book.dictionary(attribute).size <= self.rows

    def _column(self, attribute: str, column: str) -> pa.Array | pa.ChunkedArray:
        """What a derived attribute is computed from."""
        return self.values(attribute, {attribute: column})

    def codes(self, attribute: str, names: Names) -> Codes:
        """The code of an attribute in every row."""
        key = (attribute, names[attribute])
        codes = self._codes.get(key)
        if codes is None:
            with self.book.lock:
                codes = self._codes.of(key, lambda: self._encode(*key))
        return codes

    def ids(self, space: Space, names: Names) -> Codes:
        """The id of some attributes in every row."""
        if not space.attributes:
            return np.ones(self.rows, np.int32)
        if len(space.attributes) == 1:
            return self.codes(space.attributes[0], names)
        key = key_of(space.attributes, names)
        ids = self._ids.get(key)
        if ids is None:
            with self.book.lock:
                ids = self._ids.of(
                    key, lambda: space.ids([self.codes(a, names) for a in space.attributes])
                )
        return ids

    def places(self, space: Space, names: Names, mask: Array | None) -> Array | None:
        """One more than the row that has each id, 0 if none has; None if several have the same.

        With a mask, only of the rows where it is true.
        """
        if mask is not None:
            places = self._new_places(np.where(mask, self.ids(space, names), np.int32(0)), space)
        else:
            key = key_of(space.attributes, names)
            places = self._places.of(key, lambda: self._new_places(self.ids(space, names), space))
            if (
                places is not SEVERAL and len(places) < space.size
            ):  # no row has one of the newer ids
                newer = np.zeros(padded_size(space.size) - len(places), np.uint32)
                places = np.append(places, newer)
                self._places.put(key, places)
        return None if places is SEVERAL else places[: space.size]

    def _new_places(self, ids: Codes, space: Space) -> Array:
        places = np.zeros(padded_size(space.size), np.uint32)
        return places if run(lambda: place(ids, places), len(ids)) else SEVERAL

    def index(self, space: Space, names: Names) -> RowIndex:
        """Its rows by id."""

        def new() -> RowIndex:
            ids, size = self.ids(space, names), space.size
            return run(lambda: RowIndex(ids, size), len(ids))

        return self._indexes.of(key_of(space.attributes, names), new)

    def tries(self, attributes: tuple[str, ...], names: Names) -> Tries:
        """Its rows sorted for worst-case optimal joins on these attributes."""

        def new() -> Tries:
            codes = {a: self.codes(a, names) for a in attributes}
            return Tries(codes, self.rows, self.book.budget)

        return self._tries.of(key_of(attributes, names), new)

    @property
    def indexed_keys(self) -> list[Key]:
        """The keys by whose ids rows can be looked up."""
        unique = [key for key, places in self._places.items() if places is not SEVERAL]
        return [*unique, *(key for key, _ in self._indexes.items())]

    def rows_of(self, key: Key, ids: Array) -> Array:
        """The rows that have one of these ids, by a look-up, in order."""
        space, names = self.book.space(tuple(a for a, _ in key)), dict(key)
        index = self._indexes.get(key)
        places = self.places(space, names, None) if index is None else None
        if places is None:
            index = self.index(space, names) if index is None else index
            return distinct(index.rows(distinct(ids, space.size)), self.rows)
        places = places[ids if int(ids.max(initial=0)) < len(places) else ids[ids < len(places)]]
        rows = distinct(places, self.rows + 1) - 1
        rows = rows[1:] if len(rows) and rows[0] < 0 else rows
        if ids.all():
            return rows
        # NULL has no place
        return np.sort(np.append(rows, np.flatnonzero(self.ids(space, names) == 0)))

    def is_wanted(self, space: Space, names: Names) -> bool:
        """Whether an index on these attributes was asked for before; now it has been."""
        key = key_of(space.attributes, names)
        if key in self._asked:
            return True
        self._asked.add(key)
        return False

    def values(self, attribute: str, names: Names) -> pa.Array:
        """An attribute's values in every row."""
        return self.book.dictionary(attribute).decode(self.codes(attribute, names))

    def passing(self, predicate: Expression, names: Names) -> Array:
        """Which rows a predicate is true for; of one attribute, each value is looked at once."""
        if len(predicate.attributes) == 1:
            (attribute,) = predicate.attributes
            codes = self.codes(attribute, names)
            passed: Array = passing_codes(predicate, attribute, self.book)[codes]
            return passed
        columns = {a: self.values(a, names) for a in predicate.attributes}
        return evaluated(predicate, columns, self.rows, self.book.threads)

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row."""
        raise NotImplementedError

    def stored(self, part: str) -> Value:
        """A physical column of annotations."""
        raise NotImplementedError
