"""Values with the number of rows that have them, by group: what a fold is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.cache import cached_property
from calitree.grouping import canonical_array, contiguous, row_keys
from calitree.interrupts import run

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Carried:
    """Distinct combinations of values in some groups.

    Attributes:
        numbers: The group of each, numbered from 0 on.
        groups: How many groups there are.
        values: The carried columns.
        weights: The number of rows of each, or what else was asked of it.
    """

    numbers: Array
    groups: int
    values: tuple[pa.Array, ...]
    weights: pa.Array

    def chosen(self, keep: Array) -> Carried:
        """Only some of them."""
        if keep.all():
            return self
        mask = pa.array(keep)
        values = tuple(column.filter(mask) for column in self.values)
        return Carried(self.numbers[keep], self.groups, values, self.weights.filter(mask))

    def known(self) -> Carried:
        """Those of which no value is NULL."""
        keep = np.ones(len(self.numbers), bool)
        for column in self.values:
            if column.null_count:
                keep &= np.asarray(column.is_valid())
        return self.chosen(keep)

    def counted(self) -> Carried:
        """Those that some rows have."""
        return self.chosen(np.asarray(pc.greater(self.weights.fill_null(0), 0)))

    def once(self) -> Carried:
        """Each as if one row had it."""
        return replace(self, weights=pa.array(np.ones(len(self.numbers), np.int64)))

    @property
    def rows(self) -> Array:
        """The weights, as whole numbers."""
        return np.asarray(contiguous(self.weights).cast(pa.int64()))

    @cached_property
    def ranked(self) -> tuple[Ranked, ...]:
        """Each column by the ranks of its values."""
        return tuple(map(Ranked.of, self.values))

    def order(self, *keys: Array) -> Array:
        """The positions sorted by group, then by the first key, then by the next."""
        return run(partial(np.lexsort, (*reversed(keys), self.numbers)), len(self.numbers))

    def firsts(self, order: Array) -> tuple[Array, Array]:
        """The groups that have something, and the first position of each in an order."""
        groups, first = np.unique(self.numbers[order], return_index=True)
        return groups, order[first]

    def offsets(self, sizes: Array) -> Array:
        """Where the lists of the groups begin and end, given the size of each."""
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def totals(self, weights: Array) -> Array:
        """Σ of whole numbers by group."""
        sums = np.zeros(self.groups, weights.dtype)
        np.add.at(sums, self.numbers, weights)
        return sums


@dataclass(frozen=True, eq=False)
class Ranked:
    """A column as ranks among its values, which are sorted; NULL has the last rank."""

    ranks: Array
    values: pa.Array

    @classmethod
    def of(cls, column: pa.Array) -> Ranked:
        """The ranks of a column. NaN is larger than all numbers."""
        encoded = run(contiguous(column).dictionary_encode, len(column))
        order = np.asarray(pc.array_sort_indices(encoded.dictionary))
        ranks = np.empty(len(order) + 1, np.int64)
        ranks[order] = np.arange(len(order))
        ranks[-1] = len(order)
        codes = np.asarray(encoded.indices.fill_null(len(order)))
        return cls(ranks[codes], encoded.dictionary.take(pa.array(order)))

    def at(self, ranks: Array) -> pa.Array:
        """The values of some ranks."""
        return self.values.take(pa.array(ranks, mask=ranks >= len(self.values)))


def group_numbers(keys: Sequence[Any], rows: Sequence[Any], count: int, size: int) -> Array:
    """For each of `size` rows the number of its group, given the keys of `count` groups and of the rows."""
    if not keys:
        return np.zeros(size, np.int64)
    codes, spans = [], []
    for own, theirs in zip(keys, rows, strict=True):
        a, b = canonical_array(own), canonical_array(theirs)
        b = b if b.type == a.type else b.cast(a.type)
        both = run(partial(_encoded, pa.concat_arrays([a, b])), count + size)
        codes.append(np.asarray(both.indices).astype(np.int64))
        spans.append(max(1, len(both.dictionary)))
    combined, span = row_keys(codes, spans)
    groups, asked = combined[:count], combined[count:]
    if span <= MAX_DENSE:
        position = np.full(span, -1, np.int64)
        position[groups] = np.arange(count)
        return position[asked]
    order = np.argsort(groups, kind="stable")
    return order[np.searchsorted(groups, asked, sorter=order)]


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column.dictionary_encode(null_encoding="encode")


MAX_DENSE = 1 << 24
"""Up to so many combinations of keys are looked up in a table of all possible ones."""
