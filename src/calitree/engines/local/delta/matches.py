"""Rows of relations, found by their values: those that pass a condition, those that equal given
rows, and what is left of a relation when some rows have gone.

Here NULL equals NULL and NaN equals NaN, and there is one zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.tables.encoded import Key, Names
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.selection import ConcatenatedColumns, SelectedRelation, take_rows
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.errors import EngineError
from calitree.grouping import canonical_array
from calitree.sql.parser import Expression
from calitree.types import Kind

Array = np.ndarray[Any, Any]

AT_ONCE = 100_000
"""So many rows are put together in memory; more stay pieces of the tables that they came from."""

TOGETHER = 3
"""So many columns that have codes are looked up together."""

FEW = 4
"""Candidates for each row that is looked for that are not worth narrowing further."""


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
    late = []
    for table in gone:
        at = next((i for i, p in enumerate(tables) if p is getattr(table, "base", None)), None)
        if at is None or not isinstance(table, SelectedRelation):
            late.append(table)
            continue
        mask = kept.setdefault(at, np.ones(tables[at].rows, bool))
        again = np.flatnonzero(~mask[table.positions])
        if len(again):
            late.append(SelectedRelation(table, again))
        mask[table.positions] = False
    if late:
        _remove(
            tables, kept, ConcatenatedColumns([(table.columns, None) for table in late]).table()
        )
    left = {at: np.flatnonzero(mask).astype(np.uint32) for at, mask in kept.items()}
    return _together([(table, left.get(at)) for at, table in enumerate(tables)])


def _together(parts: Sequence[tuple[EncodedRelation, Array | None]]) -> EncodedRelation:
    """One relation. Codes that its largest part has are taken from the parts."""
    columns = ConcatenatedColumns([(table.columns, rows) for table, rows in parts])
    book = parts[0][0].book
    if columns.rows <= AT_ONCE:
        made = EncodedRelation(book, ArrowColumns(columns.table().combine_chunks()))
    else:
        made = EncodedRelation(book, columns)
    largest = max((table for table, _ in parts), key=lambda table: table.rows)
    for key in largest.encoded:
        space, names = book.space(tuple(a for a, _ in key)), dict(key)
        found = [(table.ids(space, names), rows) for table, rows in parts]
        ids = np.concatenate([ids if rows is None else ids[rows] for ids, rows in found])
        made.remember(key, ids)
    return made


def _remove(tables: Sequence[EncodedRelation], kept: dict[int, Array], rows: pa.Table) -> None:
    """Mark one row as gone for each of `rows`."""
    found = []
    for at, table in enumerate(tables):
        here = equal_rows(table, rows)
        found.append(here[kept[at][here]] if at in kept else here)
    candidates = ConcatenatedColumns([(t.columns, f) for t, f in zip(tables, found, strict=True)])
    columns = [[candidates.column(n), rows.column(n)] for n in rows.column_names]
    groups, count = _numbered(columns, candidates.rows + rows.num_rows)
    ours, theirs = groups[: candidates.rows], groups[candidates.rows :]
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
    for at, here in enumerate(found):
        mine = here[gone[start : start + len(here)]]
        start += len(here)
        if len(mine):
            kept.setdefault(at, np.ones(tables[at].rows, bool))[mine] = False


# -- equal rows ------------------------------------------------------------------------------------


def equal_rows(table: EncodedRelation, rows: pa.Table) -> Array:
    """The numbers of the rows that equal some row of `rows` on its columns, in order."""
    if not rows.num_rows or not table.rows:
        return np.empty(0, np.intp)
    known = table.lookup_keys.get(tuple(rows.column_names))
    if known is not None and not _is_rounded(table, known):
        ids = _ids_of(table, known, rows)
        if ids is not None and (len(known) == 1 or ids.all()):
            return table.rows_of(known, ids)
    here, told = _by_codes(table, rows)
    if here is not None and told == set(rows.column_names):
        return here
    for label in sorted(rows.column_names, key=lambda n: _effort(rows.schema.field(n).type)):
        if here is not None and len(here) <= FEW * rows.num_rows:
            break
        column = table.columns.column(label)
        column = _comparable(column if here is None else take_rows(column, here))
        there = pc.is_in(column, value_set=_comparable(rows.column(label)))
        found = np.flatnonzero(there.to_numpy(zero_copy_only=False))
        here = found if here is None else here[found]
    if here is None:  # there are no columns to differ in
        return np.arange(table.rows)
    candidates = ConcatenatedColumns([(table.columns, here)])
    columns = [[candidates.column(n), rows.column(n)] for n in rows.column_names]
    groups, count = _numbered(columns, len(here) + rows.num_rows)
    wanted = np.zeros(count, bool)
    wanted[groups[len(here) :]] = True
    return here[wanted[groups[: len(here)]]]


def _by_codes(table: EncodedRelation, rows: pa.Table) -> tuple[Array | None, set[str]]:
    """Rows that may be equal, by codes or ids that the table has, and the columns in which they are."""
    labels = set(rows.column_names)
    coded = sorted((each for each in table.coded if each[1] in labels), key=lambda each: each[0])
    keys = [key for key in table.indexed_keys if all(column in labels for _, column in key)]
    if 1 < len(coded) <= TOGETHER and len(dict(coded)) == len(coded):
        keys.append(tuple(coded))
    keys += [(each,) for each in coded]
    for key in sorted(dict.fromkeys(keys), key=len, reverse=True):
        space, names = table.book.space(tuple(a for a, _ in key)), dict(key)
        asked_again = key not in table.indexed_keys and table.is_wanted(space, names)
        # Their ids have to be known before others can be found among them.
        if asked_again and table.places(space, names, None) is None:
            table.index(space, names)
        is_found = key in table.indexed_keys
        ids = _ids_of(table, key, rows) if is_found or len(key) == 1 else None
        if ids is None:
            continue
        sure = (len(key) == 1 or ids.all()) and not _is_rounded(table, key)
        told = {column for _, column in key} if sure else set()
        if is_found:
            if told == labels:
                table.lookup_keys[tuple(rows.column_names)] = key
            return table.rows_of(key, ids), told
        own = table.ids(space, names)
        wanted = np.zeros(space.size, bool)
        wanted[ids] = True
        return np.flatnonzero(wanted[own]), told
    return None, set()


def _is_rounded(table: EncodedRelation, key: Key) -> bool:
    """Whether a code may stand for several values: decimals that met doubles in a join."""
    return any(
        table.kinds[column] is not Kind.FLOAT
        and pa.types.is_floating(table.book.dictionary(attribute).values.type)
        for attribute, column in key
    )


def _ids_of(table: EncodedRelation, key: Key, rows: pa.Table) -> Codes | None:
    """The ids of these rows, without those that nobody has; 0 if one has a NULL."""
    codes: list[Codes] = []
    for attribute, label in key:
        found = table.book.dictionary(attribute).find(rows.column(label))
        if found is None:
            return None
        codes.append(found)
    if len(codes) == 1:
        return codes[0][codes[0] >= 0]
    space = table.book.space(tuple(a for a, _ in key))
    if all(each.min(initial=1) > 0 for each in codes):
        all_known: Codes = space.find(codes)
        return all_known if all_known.all() else all_known[all_known > 0]
    known = np.logical_and.reduce([each >= 0 for each in codes])
    codes = [each[known] for each in codes]
    ids: Codes = space.find(codes)
    has_null = np.logical_or.reduce([each == 0 for each in codes])
    known = (ids > 0) | has_null
    return ids[known]


def _numbered(columns: Sequence[Sequence[pa.ChunkedArray]], length: int) -> tuple[Array, int]:
    """Equal rows have equal numbers: each of `length` rows, and how many there are. A column is
    given in parts, one after the other.
    """
    codes, sizes = [], []
    for parts in columns:
        dtype = parts[0].type
        if pa.types.is_null(dtype):
            continue
        chunks = [c for part in parts for c in part.chunks]
        encoded = _comparable(pa.chunked_array(chunks, dtype)).dictionary_encode()
        index = encoded.indices
        if index.null_count:
            index = index.fill_null(len(encoded.dictionary))
        codes.append(index.to_numpy(zero_copy_only=False))
        sizes.append(len(encoded.dictionary) + 1)
    groups, distinct = number_rows(codes, sizes, length)
    return groups, len(distinct[0]) if distinct else 1


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """Values that are equal if their bits are; what Arrow cannot compare, as text."""
    if pa.types.is_nested(column.type):
        texts = [None if each is None else repr(each) for each in column.to_pylist()]
        return pa.array(texts, pa.string())
    return canonical_array(column)


def _effort(dtype: pa.DataType) -> int:
    """What it takes to compare values of a type: whole numbers first."""
    if pa.types.is_integer(dtype) or pa.types.is_temporal(dtype):
        return 0
    return 2 if pa.types.is_nested(dtype) or pa.types.is_null(dtype) else 1
