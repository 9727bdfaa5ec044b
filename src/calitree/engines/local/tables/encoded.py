"""What relations, messages and joined rows have in common: their attributes as codes and ids.

These are computed when first asked for and then kept, and so are indexes of rows by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import RowIndex, Space, padded_size, place
from calitree.engines.local.join.trie import Tries
from calitree.engines.local.tables.filters import evaluated
from calitree.interrupts import run
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
Names = Mapping[str, str]
"""The column of a table that holds each attribute."""

Key = tuple[tuple[str, str], ...]
"""Some attributes, and the columns that hold them."""


def key_of(attributes: Iterable[str], names: Names) -> Key:
    """Some attributes with their columns."""
    return tuple((attribute, names[attribute]) for attribute in attributes)


class EncodedTable:
    """Codes and ids of a table's rows, and the indexes on them.

    What is derived is kept in dictionaries without a bound: there are as many entries as there are
    sets of attributes to join or to group by. Two threads may compute the same, and both are right;
    but codes, which are large, are computed under the lock of the codebook.
    """

    def __init__(self, book: Codebook, rows: int) -> None:
        self.book, self.rows = book, rows
        self.unsupported: Mapping[str, str] = {}
        self._codes: dict[tuple[str, str], Codes] = {}
        self._ids: dict[Key, Codes] = {}
        self._indexes: dict[Key, RowIndex] = {}
        self._tries: dict[Key, Tries] = {}
        self._asked: set[Key] = set()
        self._places: dict[Key, Array | None] = {}
        self.lookup_keys: dict[tuple[str, ...], Key] = {}
        """For some columns, the key by whose ids rows with given values were found."""

    def _encode(self, attribute: str, column: str) -> Codes:
        raise NotImplementedError

    def codes(self, attribute: str, names: Names) -> Codes:
        """The code of an attribute in every row."""
        key = (attribute, names[attribute])
        codes = self._codes.get(key)
        if codes is None:
            with self.book.lock:
                codes = self._codes.get(key)
                if codes is None:
                    codes = self._codes[key] = self._encode(*key)
        return codes

    def ids(self, space: Space, names: Names) -> Codes:
        """The id of some attributes in every row."""
        if not space.attributes:
            return np.ones(self.rows, np.int32)
        if len(space.attributes) == 1:
            return self.codes(space.attributes[0], names)
        key = key_of(space.attributes, names)
        if key not in self._ids:
            with self.book.lock:
                if key not in self._ids:
                    self._ids[key] = space.ids([self.codes(a, names) for a in space.attributes])
        return self._ids[key]

    def places(self, space: Space, names: Names, mask: Array | None) -> Array | None:
        """One more than the row that has each id, 0 if none has; None if several have the same.

        With a mask, only of the rows where it is true.
        """
        if mask is not None:
            places = self._new_places(np.where(mask, self.ids(space, names), np.int32(0)), space)
        else:
            key = key_of(space.attributes, names)
            if key not in self._places:
                self._places[key] = self._new_places(self.ids(space, names), space)
            places = self._places[key]
            if places is not None and len(places) < space.size:  # no row has one of the newer ids
                newer = np.zeros(padded_size(space.size) - len(places), np.uint32)
                places = self._places[key] = np.append(places, newer)
        return None if places is None else places[: space.size]

    def _new_places(self, ids: Codes, space: Space) -> Array | None:
        places = np.zeros(padded_size(space.size), np.uint32)
        return places if run(lambda: place(ids, places), len(ids)) else None

    def index(self, space: Space, names: Names) -> RowIndex:
        """Its rows by id."""
        key = key_of(space.attributes, names)
        if key not in self._indexes:
            ids, size = self.ids(space, names), space.size
            self._indexes[key] = run(lambda: RowIndex(ids, size), len(ids))
        return self._indexes[key]

    def tries(self, attributes: tuple[str, ...], names: Names) -> Tries:
        """Its rows sorted for worst-case optimal joins on these attributes."""
        key = key_of(attributes, names)
        if key not in self._tries:
            self._tries[key] = Tries({a: self.codes(a, names) for a in attributes}, self.rows)
        return self._tries[key]

    @property
    def indexed_keys(self) -> list[Key]:
        """The keys by whose ids rows can be looked up."""
        unique = [key for key, places in list(self._places.items()) if places is not None]
        return [*unique, *self._indexes]

    def rows_of(self, key: Key, ids: Array) -> Array:
        """The rows that have one of these ids, by a look-up, in order."""
        index = self._indexes.get(key)
        if index is not None:
            return np.sort(index.rows(np.unique(ids).astype(np.int64)).astype(np.intp))
        places = self._places[key]
        assert places is not None
        places = places[ids if int(ids.max(initial=0)) < len(places) else ids[ids < len(places)]]
        places.sort()
        if len(places) and not (places[0] and (places[1:] > places[:-1]).all()):
            places = np.unique(places[places > 0])
        rows: Array = places.astype(np.intp) - 1
        if ids.all():
            return rows
        space = self.book.space(tuple(a for a, _ in key))  # NULL has no place
        return np.sort(np.append(rows, np.flatnonzero(self.ids(space, dict(key)) == 0)))

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
            domain = self.book.dictionary(attribute).domain
            columns = {attribute: domain}
            passed: Array = evaluated(predicate, columns, len(domain), self.book.threads)[codes]
            return passed
        columns = {a: self.values(a, names) for a in predicate.attributes}
        return evaluated(predicate, columns, self.rows, self.book.threads)

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row."""
        raise NotImplementedError

    def stored(self, part: str) -> Value:
        """A physical column of annotations."""
        raise NotImplementedError

    @property
    def _derived_bytes(self) -> int:
        arrays = sum(array.nbytes for array in (*self._codes.values(), *self._ids.values()))
        return int(arrays) + sum(index.nbytes for index in list(self._indexes.values()))
