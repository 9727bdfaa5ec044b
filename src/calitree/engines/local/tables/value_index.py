"""An index of a relation's rows by a hash of their values in some columns.

Rows to delete or to replace are given by values of columns that need not be joined, and so have no
codes. To look at all rows for the first few is quicker than an index; for thousands it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines.local.annotation.texts import is_text
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.spaces import RowIndex
from calitree.engines.local.tables.filters import Columns, read
from calitree.grouping import canonical_array, contiguous
from calitree.interrupts import run
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.process.compiled import compiled
from calitree.sql.kernels.strings import buffers

Array = np.ndarray[Any, Any]

MIN_LOOKUPS = 3
"""An index is worth it when rows were looked up by values of its columns more often than this."""

MAX_INDEXES = 2
"""How many indexes of a relation are kept."""

MAX_ANSWERS, MAX_ANSWER_ROWS = 4, 1_000
"""How many answers to the last questions are kept, and of how many rows."""

MAX_REPEATS = 2
"""A column whose values repeat no more often than this on average is enough for an index."""

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _NULL = np.uint64(29), np.uint64(0xA0761D6478BD642F)


class ValueIndex:
    """The rows that may have given values in some columns.

    If values of one of them hardly repeat, that column alone is hashed.
    """

    def __init__(self, columns: Columns, labels: Sequence[str], book: Codebook) -> None:
        bits = max(4, columns.rows.bit_length())
        self._shift, size = np.uint64(64 - bits), 1 << bits
        self._labels = list(labels)
        for label in labels:
            buckets = self._buckets([read(columns, label, book)], columns.rows)
            if np.count_nonzero(np.bincount(buckets)) * MAX_REPEATS >= columns.rows:
                self._labels = [label]
                break
        else:
            buckets = self._buckets([read(columns, name, book) for name in labels], columns.rows)
        self._index = RowIndex(buckets, size)

    def candidates(self, rows: pa.Table) -> Array:
        """In order, the rows that have the hash of one of these: they may be equal to it."""
        buckets = self._buckets([rows.column(label) for label in self._labels], rows.num_rows)
        buckets = np.unique(buckets) if len(buckets) > 1 else buckets
        positions: Array = self._index.rows(buckets.astype(np.int64)).astype(np.intp)
        positions.sort()
        return positions

    def _buckets(self, columns: Sequence[pa.ChunkedArray], rows: int) -> Array:
        buckets: Array = (_hashes(columns, rows) >> self._shift).astype(np.int32)
        return buckets

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._index.nbytes


class ValueIndexes:
    """The indexes of the columns of one relation, and the rows last looked up by them."""

    def __init__(self, columns: Columns, book: Codebook) -> None:
        self._columns, self._book = columns, book
        self._indexes = BudgetedCache[tuple[str, ...], ValueIndex](
            book.budget, "look-ups", attrgetter("nbytes"), limit=MAX_INDEXES
        )
        self._asked: Counter[tuple[str, ...]] = Counter()
        self._answers: tuple[tuple[object, Array], ...] = ()

    def of(self, labels: Sequence[str]) -> ValueIndex | None:
        """The index of some columns; None until it has been asked for often enough."""
        key = tuple(labels)
        index = self._indexes.get(key)
        if index is None:
            self._asked[key] += 1
            if self._asked[key] > MIN_LOOKUPS:
                index = run(lambda: ValueIndex(self._columns, key, self._book), self._columns.rows)
                self._indexes.put(key, index)
        return index

    def answer(self, asked: object) -> Array | None:
        """The rows that were the answer when this very object was asked for, if that was just now."""
        for known, rows in self._answers:
            if known is asked:
                return rows
        return None

    def remember(self, asked: object, wanted: pa.Table, rows: Array) -> None:
        """Keep an answer that is small: it will be asked for of every selection of the same rows."""
        if wanted.num_rows <= MAX_ANSWER_ROWS and len(rows) <= MAX_ANSWER_ROWS:
            self._answers = ((asked, rows), *self._answers[: MAX_ANSWERS - 1])


def comparable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values that are equal if their bits are; what Arrow cannot compare, as text."""
    if pa.types.is_nested(column.type):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return canonical_array(column)


def _hashes(columns: Sequence[pa.ChunkedArray], rows: int) -> Array:
    """A hash of each row, in which rows with equal values agree."""
    hashes = np.zeros(rows, np.uint64)
    for column in columns:
        for parts in _bits(contiguous(column)):
            hashes ^= parts
            hashes *= _FACTOR
            hashes ^= hashes >> _HALF
    return hashes * _FACTOR


def _bits(values: pa.Array) -> list[Array]:
    """The bits of all values in as many numbers as it takes; of text, a hash."""
    is_signed = pa.types.is_signed_integer(values.type)  # which NumPy makes 64 bits of
    values = values if is_signed else comparable(values)
    if pa.types.is_null(values.type):
        return []
    if is_text(values.type):
        hashes = np.empty(len(values), np.uint64)
        _hash_texts(*buffers(values), hashes)
        return [hashes]
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    dtype = np.dtype(f"{'i' if is_signed else 'u'}{min(8, values.type.bit_width // 8)}")
    width = values.type.bit_width // 8 // dtype.itemsize
    start = values.offset * width * dtype.itemsize
    bits = np.frombuffer(values.buffers()[1], dtype, len(values) * width, start)
    bits = bits.reshape(-1, width).astype(np.uint64)
    if values.null_count:
        bits[values.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return list(bits.T)


@compiled
def _hash_texts(offsets: Array, data: Array, hashes: Array) -> None:  # pragma: no cover (compiled)
    """FNV-1a of each text's bytes."""
    for i in range(len(hashes)):
        state = np.uint64(0xCBF29CE484222325)
        for at in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
        hashes[i] = state
