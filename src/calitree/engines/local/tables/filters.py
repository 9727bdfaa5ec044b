"""Which rows of a relation pass a predicate: evaluated on their values, in pieces, and kept.

What is kept belongs to the columns that a relation was loaded with. After an update, or in a what-if,
its rows are still those, but for a few: only these are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from calitree.engines.local.annotation.columns import MAX_SMALL, repeats, take_rows
from calitree.engines.local.encoding.codebook import MAX_KEPT_MASKS, Codebook
from calitree.engines.local.vm import parallel
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.sql.evaluator import compile
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

Column: TypeAlias = pa.Array | pa.ChunkedArray

MIN_ROWS_AT_ONCE, MAX_ROWS_AT_ONCE = 1 << 14, 1 << 18
"""Of fewer rows a piece is not worth its calls; of more there are too few pieces for all threads."""

MIN_KEPT_ROWS = 1 << 12
"""The result of fewer rows is computed as quickly as it is looked up."""


class Columns(Protocol):
    """Where a relation's columns come from: an Arrow table, or files that are read when needed."""

    schema: pa.Schema
    rows: int

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Columns of the source that cannot be used, and why."""

    @property
    def null_free(self) -> frozenset[str]:
        """Columns without a NULL."""

    @property
    def nbytes(self) -> int:
        """Bytes that are in memory."""

    def column(self, label: str) -> pa.ChunkedArray:
        """One column."""

    def table(self) -> pa.Table:
        """All columns."""


@runtime_checkable
class SelectedParts(Protocol):
    """Columns that are rows of others, one after the other."""

    parts: list[tuple[Columns, Array | None]]
    """Columns and a selection vector, the numbers of some rows in order; without one, all rows."""


class KeptFilters:
    """What was evaluated on the rows of some columns: a bit a row, and columns read from files."""

    def __init__(self, budget: Budget) -> None:
        self.masks = BudgetedCache[object, Array](
            budget, "filters", attrgetter("nbytes"), limit=MAX_KEPT_MASKS
        )
        self.columns = BudgetedCache[str, pa.ChunkedArray](budget, "columns", attrgetter("nbytes"))
        self.repeating: dict[str, bool] = {}
        self.asked: set[str] = set()


_KEPT: WeakKeyDictionary[Columns, KeptFilters] = WeakKeyDictionary()


def is_worth_codes(columns: Columns, label: str, book: Codebook) -> bool:
    """Whether a column should be encoded to be filtered: it is small, or its values repeat.

    For one filter of many rows that is not worth it, only from the second on. Of several parts, the
    largest decides.
    """
    if isinstance(columns, SelectedParts):
        largest = max((part for part, _ in columns.parts), key=lambda part: part.rows)
        return is_worth_codes(largest, label, book)
    if columns.rows <= MAX_SMALL:
        return True
    kept = _kept(columns, book)
    if label not in kept.asked:
        kept.asked.add(label)
        return False
    if label not in kept.repeating:
        kept.repeating[label] = repeats(read(columns, label, book))
    return kept.repeating[label]


def is_kept(columns: Columns, predicate: Expression, names: Mapping[str, str]) -> bool:
    """Whether it is known which rows of all parts pass a predicate."""
    if isinstance(columns, SelectedParts):
        large = [part for part, _ in columns.parts if part.rows > MAX_SMALL]
        return bool(large) and all(is_kept(part, predicate, names) for part in large)
    kept = _KEPT.get(columns)
    return kept is not None and kept.masks.get(_key(predicate, names)) is not None


def read(columns: Columns, label: str, book: Codebook) -> pa.ChunkedArray:
    """One column; what is not in memory is kept there while there is room, as it may be asked for again."""
    if columns.nbytes or isinstance(columns, SelectedParts):
        return columns.column(label)
    return _kept(columns, book).columns.of(label, lambda: columns.column(label))


def forget(columns: Columns, label: str) -> None:
    """Keep a column no longer: from now on its codes will do."""
    if columns in _KEPT:
        _KEPT[columns].columns.drop(label)


def passing(
    columns: Columns, predicate: Expression, names: Mapping[str, str], book: Codebook
) -> Array:
    """Which rows pass a predicate; `names` tells the column of each of its attributes."""
    if isinstance(columns, SelectedParts):
        masks = [_of_part(*part, predicate, names, book) for part in columns.parts]
        return np.concatenate(masks) if len(masks) != 1 else masks[0]
    if columns.rows < MIN_KEPT_ROWS:
        return _evaluated(columns, None, predicate, names, book)
    kept, key = _kept(columns, book), _key(predicate, names)
    mask = kept.masks.get(key)
    if mask is not None:
        return _unpacked(mask, columns.rows)
    whole = _evaluated(columns, None, predicate, names, book)
    kept.masks.put(key, np.packbits(whole))
    return whole


def passing_codes(predicate: Expression, attribute: str, book: Codebook) -> Array:
    """Which codes of an attribute a predicate is true for: once for all tables that have the attribute."""
    dictionary = book.dictionary(attribute)
    size, dtype = dictionary.size, dictionary.values.type

    def evaluate() -> Array:
        return evaluated(predicate, {attribute: dictionary.domain[:size]}, size, book.threads)

    if size < MIN_KEPT_ROWS:
        return evaluate()
    key = predicate, attribute, size, dtype
    return _unpacked(book.filters.of(key, lambda: np.packbits(evaluate())), size)


def _kept(columns: Columns, book: Codebook) -> KeptFilters:
    kept = _KEPT.get(columns)
    return _KEPT.setdefault(columns, KeptFilters(book.budget)) if kept is None else kept


def _key(predicate: Expression, names: Mapping[str, str]) -> object:
    return predicate, tuple(names[a] for a in sorted(predicate.attributes))


def _unpacked(mask: Array, rows: int) -> Array:
    return np.unpackbits(mask, count=rows).view(bool)


def _of_part(
    columns: Columns,
    rows: Array | None,
    predicate: Expression,
    names: Mapping[str, str],
    book: Codebook,
) -> Array:
    """Which of some rows pass. If they are most of all, all are looked at, once for all selections."""
    if rows is None:
        return passing(columns, predicate, names, book)
    if is_kept(columns, predicate, names) or 2 * len(rows) > columns.rows:
        return passing(columns, predicate, names, book)[rows]
    return _evaluated(columns, rows, predicate, names, book)


def _evaluated(
    columns: Columns,
    rows: Array | None,
    predicate: Expression,
    names: Mapping[str, str],
    book: Codebook,
) -> Array:
    values = {}
    for attribute in predicate.attributes:
        column = read(columns, names[attribute], book)
        values[attribute] = column if rows is None else take_rows(column, rows)
    return evaluated(predicate, values, columns.rows if rows is None else len(rows), book.threads)


def evaluated(
    predicate: Expression, columns: Mapping[str, Column], rows: int, threads: int
) -> Array:
    """Where a predicate is true. Pieces of the columns are evaluated by several threads."""
    run, result = compile(predicate.node), np.empty(rows, bool)

    def write(piece: tuple[int, int]) -> None:
        start, stop = piece
        values = {a: column.slice(start, stop - start) for a, column in columns.items()}
        result[start:stop] = true(run(values, stop - start))

    parallel.map(write, _pieces(list(columns.values()), rows, threads), threads)
    return result


def computed(
    expression: Expression, columns: Mapping[str, Column], rows: int, threads: int
) -> Column:
    """An expression in every row, by pieces of the columns on several threads."""
    run = compile(expression.node)

    def compute(piece: tuple[int, int]) -> pa.Array:
        start, stop = piece
        values = {a: column.slice(start, stop - start) for a, column in columns.items()}
        return run(values, stop - start)

    pieces = _pieces(list(columns.values()), rows, threads)
    arrays = parallel.map(compute, pieces, threads)
    if len({array.type for array in arrays}) != 1:  # some have numbers that need more digits
        return run(dict(columns), rows)
    return pa.chunked_array(arrays)


def _pieces(columns: Sequence[Column], rows: int, threads: int) -> list[tuple[int, int]]:
    """Ranges of rows that lie in one chunk of every column, unless such a chunk is small."""
    ends = {rows} if rows else set()
    for column in columns:
        if isinstance(column, pa.ChunkedArray):
            ends.update(np.cumsum([len(chunk) for chunk in column.chunks]).tolist())
    size = min(MAX_ROWS_AT_ONCE, max(MIN_ROWS_AT_ONCE, -(-rows // threads)))
    cuts = [0]
    for end in sorted(ends - {0}):
        if end - cuts[-1] < MIN_ROWS_AT_ONCE and end < rows:
            continue
        parts = max(1, -(-(end - cuts[-1]) // size))
        first = cuts[-1]
        cuts += [first + (end - first) * part // parts for part in range(1, parts + 1)]
    return list(pairwise(cuts))


def true(array: pa.Array) -> Array:
    """Where a condition is true: neither false nor NULL."""
    array = array.cast(pa.bool_())
    if array.null_count:
        array = array.fill_null(False)
    if not len(array):
        return np.empty(0, bool)
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    end = array.offset + len(array)
    return np.unpackbits(bits, count=end, bitorder="little")[array.offset :].view(bool)
