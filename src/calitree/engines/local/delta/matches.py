"""Looking up rows of relations by their values.

They are those that pass a condition, those that equal given rows, and those that are left of a
relation when some have gone.

Here NULL equals NULL and NaN equals NaN, and there is one zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.annotation.columns import take_rows
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.tables.encoded import Key, Names
from calitree.engines.local.tables.filters import Columns
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.selection import ConcatenatedColumns, SelectedRelation
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.errors import EngineError
from calitree.grouping import canonical_array
from calitree.sql.parser import Expression
from calitree.types import Kind

Array = np.ndarray[Any, Any]

MAX_COPIED_ROWS = 100_000
"""So many rows are put together in memory; more stay pieces of the tables that they came from."""

MAX_KEY_COLUMNS = 3
"""So many columns that have codes are looked up together."""

MAX_CANDIDATES_PER_ROW = 4
"""So many candidates for each row that is looked up are compared on all columns at once."""


def select(table: EncodedRelation, names: Names, where: Expression) -> EncodedRelation:
    """The rows for which a condition is true."""
    mask = Leg(table, names).passing([where])
    assert mask is not None
    return SelectedRelation(table, np.flatnonzero(mask))


def matching(table: EncodedRelation, rows: pa.Table) -> EncodedRelation:
    """The rows that equal some row of `rows` on its columns."""
    return SelectedRelation(table, equal_rows(table, rows))


def settle(plus: Sequence[EncodedRelation], minus: Sequence[EncodedRelation]) -> EncodedRelation:
    """All rows of `plus`, less those of `minus`, one for one."""
    tables = [table for table in plus if table.rows] or list(plus[:1])
    gone = [table for table in minus if table.rows]
    if not gone and len(tables) == 1:
        return tables[0]
    kept: dict[int, Array] = {}
    by_value = []
    for table in gone:
        at = next((i for i, p in enumerate(tables) if p is getattr(table, "base", None)), None)
        if at is None or not isinstance(table, SelectedRelation):
            by_value.append(table)
            continue
        mask = kept.setdefault(at, np.ones(tables[at].rows, bool))
        again = np.flatnonzero(~mask[table.positions])
        if len(again):
            by_value.append(SelectedRelation(table, again))
        mask[table.positions] = False
    if by_value:
        _remove(
            tables, kept, ConcatenatedColumns([(table.columns, None) for table in by_value]).table()
        )
    left = {at: np.flatnonzero(mask).astype(np.uint32) for at, mask in kept.items()}
    return _together([(table, left.get(at)) for at, table in enumerate(tables)])


def _together(parts: Sequence[tuple[EncodedRelation, Array | None]]) -> EncodedRelation:
    """One relation. Codes that its largest part has are taken from the parts."""
    columns: Columns = ConcatenatedColumns([(table.columns, rows) for table, rows in parts])
    book = parts[0][0].book
    if columns.rows <= MAX_COPIED_ROWS:
        columns = ArrowColumns(columns.table().combine_chunks())
    relation = EncodedRelation(book, columns)
    largest = max((table for table, _ in parts), key=lambda table: table.rows)
    for key in largest.encoded:
        space, names = book.space(tuple(a for a, _ in key)), dict(key)
        ids = [
            table.ids(space, names)[slice(None) if rows is None else rows] for table, rows in parts
        ]
        relation.remember(key, np.concatenate(ids))
    return relation


def _remove(tables: Sequence[EncodedRelation], kept: dict[int, Array], rows: pa.Table) -> None:
    """Mark one row as gone for each of `rows`."""
    matches = []
    for at, table in enumerate(tables):
        positions = equal_rows(table, rows)
        matches.append(positions[kept[at][positions]] if at in kept else positions)
    candidates = ConcatenatedColumns([(t.columns, m) for t, m in zip(tables, matches, strict=True)])
    ours, theirs, count = _numbered(candidates, rows)
    wanted, there = np.bincount(theirs, minlength=count), np.bincount(ours, minlength=count)
    lacking = np.flatnonzero(there < wanted)
    if len(lacking):
        (row,) = rows.slice(int(np.flatnonzero(theirs == lacking[0])[0]), 1).to_pylist()
        raise EngineError(f"A row that is to be deleted is not there: {row}.")
    order = np.argsort(ours, kind="stable")
    rank = np.arange(len(order)) - (np.cumsum(there) - there)[ours[order]]
    gone = np.zeros(len(order), bool)
    gone[order] = rank < wanted[ours[order]]
    start = 0
    for at, positions in enumerate(matches):
        removed = positions[gone[start : start + len(positions)]]
        start += len(positions)
        if len(removed):
            kept.setdefault(at, np.ones(tables[at].rows, bool))[removed] = False


# -- equal rows ------------------------------------------------------------------------------------


def equal_rows(table: EncodedRelation, rows: pa.Table) -> Array:
    """The numbers of the rows that equal some row of `rows` on its columns, in order."""
    if not rows.num_rows or not table.rows:
        return np.empty(0, np.intp)
    known = table.lookup_keys.get(tuple(rows.column_names))
    if known is not None:
        ids = _ids_of(table, known, rows)
        if ids is not None and _determines(table, known, ids):
            return table.rows_of(known, ids)
    candidates, compared = _by_codes(table, rows)
    if candidates is not None and compared == set(rows.column_names):
        return candidates
    candidates = _by_values(table, rows, candidates)
    if candidates is None:  # there are no columns to differ in
        return np.arange(table.rows)
    ours, theirs, count = _numbered(ConcatenatedColumns([(table.columns, candidates)]), rows)
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
        column = table.columns.column(label)
        column = _comparable(column if candidates is None else take_rows(column, candidates))
        there = pc.is_in(column, value_set=_comparable(rows.column(label)))
        positions = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        candidates = positions if candidates is None else candidates[positions]
    return candidates


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


def _numbered(candidates: ConcatenatedColumns, rows: pa.Table) -> tuple[Array, Array, int]:
    """Number the rows by the columns of `rows`: of both sides, and how many numbers there are.

    Equal rows have equal numbers.
    """
    codes, sizes = [], []
    for name in rows.column_names:
        column = candidates.column(name)
        if pa.types.is_null(column.type):
            continue
        chunks = [*column.chunks, *rows.column(name).chunks]
        encoded = _comparable(pa.chunked_array(chunks, column.type)).dictionary_encode()
        index = encoded.indices
        if index.null_count:
            index = index.fill_null(len(encoded.dictionary))
        codes.append(index.to_numpy(zero_copy_only=False))
        sizes.append(len(encoded.dictionary) + 1)
    groups, distinct = number_rows(codes, sizes, candidates.rows + rows.num_rows)
    count = len(distinct[0]) if distinct else 1
    return groups[: candidates.rows], groups[candidates.rows :], count


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """Values that are equal if their bits are; what Arrow cannot compare, as text."""
    if pa.types.is_nested(column.type):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return canonical_array(column)


def _effort(dtype: pa.DataType) -> int:
    """What it takes to compare values of a type: whole numbers first."""
    if pa.types.is_integer(dtype) or pa.types.is_temporal(dtype):
        return 0
    return 2 if pa.types.is_nested(dtype) or pa.types.is_null(dtype) else 1
