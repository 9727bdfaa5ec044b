"""Rows of a relation that equal given rows, by codes, by an index of values, or by looking at all.

Here NULL equals NULL and NaN equals NaN, and there is one zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.annotation.columns import take_rows
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.tables.encoded import Key
from calitree.engines.local.tables.filters import read
from calitree.engines.local.tables.selection import ConcatenatedColumns, SelectedRelation
from calitree.engines.local.tables.tables import EncodedRelation
from calitree.engines.local.tables.value_index import comparable
from calitree.interrupts import run
from calitree.types import Kind

Array = np.ndarray[Any, Any]

MAX_KEY_COLUMNS = 3
"""So many columns that have codes are looked up together."""

_QUICK = frozenset(
    dtype.id
    for dtype in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_()),
        *(pa.date32(), pa.decimal128(1)),
    )
)
"""Ids of types of which Arrow calls two values equal if we do, but for NaN."""

MAX_CANDIDATES_PER_ROW = 4
"""So many candidates for each row that is looked up are compared on all columns at once."""


def equal_rows(table: EncodedRelation, rows: pa.Table) -> Array:
    """The numbers of the rows that equal some row of `rows` on its columns, in order."""
    if not rows.num_rows or not table.rows:
        return np.empty(0, np.intp)
    known = table.lookup_keys and table.lookup_keys.get(tuple(rows.column_names))
    if known:
        ids = _ids_of(table, known, rows)
        if ids is not None and _determines(table, known, ids):
            return table.rows_of(known, ids)
    indexed = by_index(table, rows, lambda: rows)
    if indexed is not None:
        return indexed
    candidates, compared = _by_codes(table, rows)
    if candidates is not None and compared == set(rows.column_names):
        return candidates
    candidates = _by_values(table, rows, candidates)
    if candidates is None:  # there are no columns to differ in
        return np.arange(table.rows)
    return _equal_among(table, candidates, rows)


def _equal_among(table: EncodedRelation, candidates: Array, rows: pa.Table) -> Array:
    """Those of some rows that equal some row of `rows` on all its columns."""
    if rows.num_rows == 1:
        for label, column in zip(rows.column_names, rows.columns, strict=True):
            if not len(candidates):
                break
            if len(candidates) <= MAX_CANDIDATES_PER_ROW and column.type.id in _QUICK:
                candidates = _equal_to(table, label, rows, candidates)
            else:
                candidates = _having(table, label, rows, candidates)
        return candidates
    ours, theirs, count = numbered(ConcatenatedColumns([(table.columns, candidates)]), rows)
    wanted = np.zeros(count, bool)
    wanted[theirs] = True
    return candidates[wanted[ours]]


def _by_codes(table: EncodedRelation, rows: pa.Table) -> tuple[Array | None, set[str]]:
    """Rows that may be equal, by codes or ids that the table has, and the columns in which they are."""
    for key in _keys(table, set(rows.column_names)):
        # First, as the table's own ids have to be known before others are found among them.
        can_look_up = _prepare_look_up(table, key)
        ids = _ids_of(table, key, rows) if can_look_up or len(key) == 1 else None
        if ids is None:
            continue
        compared = {column for _, column in key} if _determines(table, key, ids) else set()
        if can_look_up:
            if compared == set(rows.column_names):
                table.lookup_keys[tuple(rows.column_names)] = key
            return table.rows_of(key, ids), compared
        own = table.codes(key[0][0], dict(key))
        wanted = np.zeros(table.book.dictionary(key[0][0]).size, bool)
        wanted[ids] = True
        return np.flatnonzero(wanted[own]), compared
    return None, set()


def _keys(table: EncodedRelation, labels: set[str]) -> list[Key]:
    """Keys among these columns of which the table has codes or ids, the longest first."""
    coded = sorted((part for part in table.coded if part[1] in labels), key=lambda part: part[0])
    keys = [key for key in table.indexed_keys if all(column in labels for _, column in key)]
    if 1 < len(coded) <= MAX_KEY_COLUMNS and len(dict(coded)) == len(coded):
        keys.append(tuple(coded))
    keys += [(part,) for part in coded]
    return sorted(dict.fromkeys(keys), key=len, reverse=True)


def _prepare_look_up(table: EncodedRelation, key: Key) -> bool:
    """Whether rows can be looked up by this key; the look-up is built when it is asked for again."""
    if key in table.indexed_keys:
        return True
    space, names = table.book.space(tuple(a for a, _ in key)), dict(key)
    if not table.is_wanted(space, names):
        return False
    if table.places(space, names, None) is None:
        table.index(space, names)
    return True


def _by_values(table: EncodedRelation, rows: pa.Table, candidates: Array | None) -> Array | None:
    """The candidates (None: all) that have a value of `rows` in each column, until they are few."""
    for label in sorted(rows.column_names, key=lambda n: _effort(rows.schema.field(n).type)):
        if candidates is not None and len(candidates) <= MAX_CANDIDATES_PER_ROW * rows.num_rows:
            break
        candidates = _having(table, label, rows, candidates)
    return candidates


def _having(table: EncodedRelation, label: str, rows: pa.Table, candidates: Array | None) -> Array:
    """The candidates (None: all) that have a value of `rows` in a column."""
    column = read(table.columns, label, table.book)
    column = comparable(column if candidates is None else take_rows(column, candidates))
    there = pc.is_in(column, value_set=comparable(rows.column(label)))
    positions = np.flatnonzero(there.to_numpy(zero_copy_only=False))
    return positions if candidates is None else candidates[positions]


def _equal_to(table: EncodedRelation, label: str, rows: pa.Table, candidates: Array) -> Array:
    """The candidates, which are few, that have the value of the only row of `rows` in a column."""
    column, value = read(table.columns, label, table.book), rows.column(label)
    is_equal = [column.slice(at, 1).equals(value) for at in candidates.tolist()]
    if all(is_equal):
        return candidates
    if pa.types.is_floating(value.type):  # one may be NaN, as the other is
        return _having(table, label, rows, candidates)
    return candidates[is_equal]


def by_index(
    table: EncodedRelation, asked: object, wanted: Callable[[], pa.Table | None]
) -> Array | None:
    """The rows that equal some that are wanted, by an index of values; None if there is none yet.

    Rows that are selected of other rows are looked up among these, once for the same object `asked`.
    """
    base = table.base if isinstance(table, SelectedRelation) else table
    positions = base.value_indexes.answer(asked)
    if positions is None:
        rows = wanted()
        index = None if rows is None else base.value_indexes.of(rows.column_names)
        if rows is None or index is None:
            return None
        positions = _equal_among(base, index.candidates(rows), rows)
        base.value_indexes.remember(asked, rows, positions)
    if not isinstance(table, SelectedRelation) or not len(positions):
        return positions
    start, stop = (table.positions.searchsorted(positions, side) for side in ("left", "right"))
    if start.tobytes() == stop.tobytes():  # nearly always
        return start[:0]
    ranges = zip(start.tolist(), stop.tolist(), strict=True)
    return np.concatenate([np.arange(a, b) for a, b in ranges])


def _determines(table: EncodedRelation, key: Key, ids: Codes) -> bool:
    """Whether rows that have one of these ids have equal values too.

    That is not so if a NULL is among several columns, nor if a code may stand for several values:
    decimals that were joined with doubles.
    """
    return (len(key) == 1 or bool(ids.all())) and not any(
        table.kinds[column] is not Kind.FLOAT
        and pa.types.is_floating(table.book.dictionary(attribute).values.type)
        for attribute, column in key
    )


def _ids_of(table: EncodedRelation, key: Key, rows: pa.Table) -> Codes | None:
    """The ids of these rows, without those that nobody has; 0 if one has a NULL."""
    codes: list[Codes] = []
    for attribute, label in key:
        column = table.book.dictionary(attribute).find(rows.column(label))
        if column is None:
            return None
        codes.append(column)
    if len(codes) == 1:
        return codes[0][codes[0] >= 0]
    space = table.book.space(tuple(a for a, _ in key))
    if all(column.min(initial=1) > 0 for column in codes):  # the quick way for the usual case
        ids: Codes = space.find(codes)
        return ids if ids.all() else ids[ids > 0]
    known = np.logical_and.reduce([column >= 0 for column in codes])
    codes = [column[known] for column in codes]
    ids = space.find(codes)
    has_null: Array = np.logical_or.reduce([column == 0 for column in codes])
    return ids[(ids > 0) | has_null]


def numbered(candidates: ConcatenatedColumns, rows: pa.Table) -> tuple[Array, Array, int]:
    """Number the rows by the columns of `rows`: of both sides, and how many numbers there are.

    Equal rows have equal numbers.
    """
    codes, sizes = [], []
    for name in rows.column_names:
        column = candidates.column(name)
        if pa.types.is_null(column.type):
            continue
        chunks = [*column.chunks, *rows.column(name).chunks]
        every = pa.chunked_array(chunks, column.type)
        encoded = run(partial(_encoded, every), len(every))
        index = encoded.indices
        if index.null_count:
            index = index.fill_null(len(encoded.dictionary))
        codes.append(index.to_numpy(zero_copy_only=False))
        sizes.append(len(encoded.dictionary) + 1)
    groups, distinct = number_rows(codes, sizes, candidates.rows + rows.num_rows)
    count = len(distinct[0]) if distinct else 1
    return groups[: candidates.rows], groups[candidates.rows :], count


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return comparable(column).dictionary_encode()


def _effort(dtype: pa.DataType) -> int:
    """What it takes to compare values of a type: whole numbers first."""
    if pa.types.is_integer(dtype) or pa.types.is_temporal(dtype):
        return 0
    return 2 if pa.types.is_nested(dtype) or pa.types.is_null(dtype) else 1
