"""What relations, messages and joined rows have in common: their attributes as codes and ids.

These are made when first asked for and then kept, and so are the ways to look rows up by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import RowIndex, Space, padded_size, place
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.join.trie import Tries
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
Names = Mapping[str, str]
"""Which column of a table carries which attribute."""

Key = tuple[tuple[str, str], ...]
"""Some attributes, and the columns that carry them."""


class EncodedTable:
    """What relations, messages and joined rows have in common: codes and ids, kept once made."""

    def __init__(self, book: Codebook, rows: int) -> None:
        self.book, self.rows = book, rows
        self._codes: dict[tuple[str, str], Codes] = {}
        self._ids: dict[Key, Codes] = {}
        self._indexes: dict[Key, RowIndex] = {}
        self._tries: dict[Key, Tries] = {}
        self._asked: set[Key] = set()
        self._places: dict[Key, Array | None] = {}
        self.lookup_keys: dict[tuple[str, ...], Key] = {}
        """For some columns, the attributes by whose ids rows with given values were found."""

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
        if mask is None and key in self._places:
            known = self._places[key]
            if known is None:
                return None
            if len(known) < space.size:  # none of its rows has one of the ids that came since
                known = np.append(known, np.zeros(padded_size(space.size) - len(known), np.uint32))
                self._places[key] = known
            return known[: space.size]
        ids = self.ids(space, names)
        if mask is not None:
            ids = np.where(mask, ids, np.int32(0))
        places = np.zeros(padded_size(space.size), np.uint32)
        found = places if place(ids, places) else None
        if mask is None:
            self._places[key] = found
        return None if found is None else found[: space.size]

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

    @property
    def indexed_keys(self) -> list[Key]:
        """The attributes by whose ids rows can be looked up."""
        unique = [key for key, places in self._places.items() if places is not None]
        return [*unique, *self._indexes]

    def rows_of(self, key: Key, ids: Array) -> Array:
        """The rows that have one of these ids, by a look-up, in order."""
        index = self._indexes.get(key)
        if index is not None:
            return np.sort(index.rows(np.unique(ids).astype(np.int64)).astype(np.intp))
        places = self._places[key]
        assert places is not None
        found = places[ids if int(ids.max(initial=0)) < len(places) else ids[ids < len(places)]]
        found.sort()
        if len(found) and not (found[0] and (found[1:] > found[:-1]).all()):
            found = np.unique(found[found > 0])
        rows: Array = found.astype(np.intp) - 1
        if ids.all():
            return rows
        space = self.book.space(tuple(a for a, _ in key))  # NULL has no place
        return np.sort(np.append(rows, np.flatnonzero(self.ids(space, dict(key)) == 0)))

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
