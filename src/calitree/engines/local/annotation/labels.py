"""Columns that are no numbers as values, of which the least and the greatest are computed.

Texts that repeat are numbered in their order, as `values` does. Texts of many values stay where they
are (`Texts`): a number is a position, and compared is what stands there. Dates and times are the
numbers that they are stored as.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.columns import repeats
from calitree.engines.local.annotation.texts import MAX_CHUNKS, NO_ROW, Goal, Texts, is_text
from calitree.engines.local.annotation.values import Array, Value
from calitree.grouping import contiguous

MAX_SORTED_TEXTS = 1 << 13
"""So few texts are sorted, so that from then on they are compared by their numbers."""


class TextColumn(Value):
    """The texts of all rows, each at the position of its row: the positions are not written out."""

    def __init__(self, texts: Texts, valid: Array | None) -> None:
        super().__init__(np.empty(0, np.int64), valid, labels=texts)
        self.texts = texts
        self.is_own = False
        """Whether the texts are not the column of a relation in memory."""
        del self.data  # it is computed if it is asked for

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(name)
        self.data = np.arange(len(self.texts))
        return self.data

    @property
    def nbytes(self) -> int:
        """Bytes in memory, without texts that are a relation's."""
        valid = 0 if self.valid is None else int(self.valid.nbytes)
        return valid + (self.texts.nbytes if self.is_own else 0)

    def take(self, index: Array | None) -> Value:
        """The texts of some rows."""
        if index is None:
            return self
        rows = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64, copy=False)
        return Value(rows, None if self.valid is None else self.valid[rows], labels=self.texts)


def from_column(column: pa.Array | pa.ChunkedArray, threads: int = 1) -> Value:
    """A column as a value."""
    if pa.types.is_temporal(column.type) and not pa.types.is_interval(column.type):
        return _from_ticks(contiguous(column))
    if not is_text(column.type):
        return v.from_arrow(contiguous(column))
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if not repeats(column):
        return TextColumn(Texts(column, threads), valid)
    encoded = contiguous(column).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.zeros(len(order) + 1, np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    data = ranks[encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)]
    return Value(data, valid, labels=encoded.dictionary.take(order))


def _from_ticks(array: pa.Array) -> Value:
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    stored = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    if valid is not None:
        stored = stored.fill_null(0)
    data = stored.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return Value(data, valid, labels=array.type)


def best_texts(value: Value, groups: Array | None, goal: Goal) -> Value:
    """The least or the greatest text of each group, of which there are hardly as many as rows."""
    assert isinstance(value.labels, Texts)
    texts, rows = value.labels, value.valid
    if rows is not None:
        value, groups = value.take(rows), None if groups is None else groups[rows]
    positions = None if isinstance(value, TextColumn) else value.data
    best = texts.best(positions, groups, goal)
    return compacted(Value(best, best != NO_ROW, labels=texts))


def compacted(value: Value) -> Value:
    """The same texts without those that no row has; sorted, if they are few."""
    assert isinstance(value.labels, Texts)
    valid = None if value.valid is None or value.valid.all() else value.valid
    positions = value.data if valid is None else value.data[valid]
    texts = value.labels.take(positions)
    if len(texts) <= MAX_SORTED_TEXTS:
        few = v.from_arrow(texts)
        numbers, labels = few.data, few.labels
    else:
        numbers, labels = np.arange(len(texts)), Texts(texts, value.labels.threads)
    if valid is not None:
        numbers, there = np.zeros(len(value.data), np.int64), numbers
        numbers[valid] = there
    return Value(numbers, valid, labels=labels, exact=value.exact)


def has_leftovers(value: Value) -> bool:
    """Whether most of its texts are of no use any more, or they are in many pieces."""
    texts = value.labels
    return isinstance(texts, Texts) and (
        len(texts) > 2 * len(value.data) or texts.column.num_chunks > MAX_CHUNKS
    )


def better(texts: Texts, left: Array, right: Array, largest: bool) -> Array:
    """The position of the lesser or the greater of each two texts."""
    groups = np.arange(len(left))
    both, twice = np.concatenate([left, right]), np.concatenate([groups, groups])
    return texts.best(both, twice, Goal(len(left), largest))


def with_common_labels(values: Sequence[Value]) -> list[Value]:
    """The same values by the labels of all; one that has none has no rows, or only NULL."""
    labels: list[Any] = [value.labels for value in values if value.labels is not None]
    if all(isinstance(other, pa.DataType) and other == labels[0] for other in labels):
        return [Value(x.data, x.valid, labels=labels[0], exact=x.exact) for x in values]
    if any(isinstance(other, pa.DataType) for other in labels):
        return _by_values(values)
    if any(isinstance(other, Texts) for other in labels):
        return _side_by_side(values)
    return _in_order(values, labels)


def _in_order(values: Sequence[Value], labels: Sequence[pa.Array]) -> list[Value]:
    """Positions in sorted labels as positions in the sorted labels of all."""
    if all(other is labels[0] or other.equals(labels[0]) for other in labels):
        every = labels[0]
    else:
        every = pa.concat_arrays(labels).unique()
        every = every.take(pc.sort_indices(every))
    relabelled = []
    for value in values:
        data = np.zeros(len(value.data), np.int64)
        if value.labels is not None and len(value.labels) and len(data):
            position = pc.index_in(value.labels, value_set=every).to_numpy(zero_copy_only=False)
            data = position.astype(np.int64)[value.data]
        relabelled.append(Value(data, value.valid, labels=every, exact=value.exact))
    return relabelled


def _side_by_side(values: Sequence[Value]) -> list[Value]:
    """Texts of many values: all labels one after the other, none of them copied."""
    texts = next(value.labels for value in values if isinstance(value.labels, Texts))
    every, starts = Texts(texts.column[:0], texts.threads), []
    for value in values:
        starts.append(len(every))
        if value.labels is not None:
            own = value.labels.column if isinstance(value.labels, Texts) else value.labels
            every = every.extend(own)
    return [
        Value(value.data + start, value.valid, labels=every, exact=value.exact)
        for value, start in zip(values, starts, strict=True)
    ]


def _by_values(values: Sequence[Value]) -> list[Value]:
    """Labels of different types: those that the first one has."""
    arrays = [v.to_arrow(value) for value in values]
    dtype = next(a.type for a, x in zip(arrays, values, strict=True) if x.labels is not None)
    whole = from_column(pa.concat_arrays([array.cast(dtype) for array in arrays]))
    starts = np.cumsum([0, *map(len, arrays)])
    parts = (whole.take(np.arange(*ends)) for ends in pairwise(starts))
    return [part.with_exact(value.exact) for part, value in zip(parts, values, strict=True)]
