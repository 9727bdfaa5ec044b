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
from sqlglot import exp

from calitree.engines.local.delta.equal_rows import by_index, equal_rows, numbered
from calitree.engines.local.tables.encoded import Names
from calitree.engines.local.tables.filters import Columns
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.selection import ConcatenatedColumns, SelectedRelation
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.errors import EngineError
from calitree.interrupts import run
from calitree.sql.evaluator import evaluate
from calitree.sql.nodes import kind_of, owners
from calitree.sql.parser import Expression
from calitree.types import Kind

Array = np.ndarray[Any, Any]

MAX_COPIED_ROWS = 100_000
"""So many rows are put together in memory; more stay pieces of the tables that they came from."""

INDEXED_KINDS = (Kind.INTEGER, Kind.STRING, Kind.DATE, Kind.TIMESTAMP)
"""Kinds of which a constant is a column's value if and only if SQL calls them equal."""


def select(table: EncodedRelation, names: Names, where: Expression) -> EncodedRelation:
    """The rows for which a condition is true."""
    rows = by_index(table, where, lambda: _constant(table, names, where))
    if rows is not None:
        return SelectedRelation(table, rows)
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
    united = None if gone else _united(tables)
    if united is not None:
        return united
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


def _united(tables: Sequence[EncodedRelation]) -> EncodedRelation | None:
    """A single table, or selections of different rows of one relation as one."""
    if len(tables) == 1:
        return tables[0]
    selected = [table for table in tables if isinstance(table, SelectedRelation)]
    if len(selected) < len(tables) or len({id(table.base) for table in selected}) > 1:
        return None
    positions = np.sort(np.concatenate([table.positions for table in selected]))
    is_once = bool((positions[1:] > positions[:-1]).all())
    return SelectedRelation(selected[0].base, positions) if is_once else None


def _together(parts: Sequence[tuple[EncodedRelation, Array | None]]) -> EncodedRelation:
    """One relation. Codes that its largest part has are taken from the parts."""
    columns: Columns = ConcatenatedColumns([(table.columns, rows) for table, rows in parts])
    book = parts[0][0].book
    if columns.rows <= MAX_COPIED_ROWS:
        columns = ArrowColumns(columns.table().combine_chunks())
    relation = EncodedRelation(book, columns)
    largest = max((table for table, _ in parts), key=lambda table: table.rows)
    for table in (relation, *(table for table, _ in parts)):
        table.computed |= largest.computed
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
    ours, theirs, count = numbered(candidates, rows)
    wanted, there = np.bincount(theirs, minlength=count), np.bincount(ours, minlength=count)
    lacking = np.flatnonzero(there < wanted)
    if len(lacking):
        (row,) = rows.slice(int(np.flatnonzero(theirs == lacking[0])[0]), 1).to_pylist()
        raise EngineError(f"A row that is to be deleted is not there: {row}.")
    order = run(lambda: np.argsort(ours, kind="stable"), len(ours))
    rank = np.arange(len(order)) - (np.cumsum(there) - there)[ours[order]]
    gone = np.zeros(len(order), bool)
    gone[order] = rank < wanted[ours[order]]
    start = 0
    for at, positions in enumerate(matches):
        removed = positions[gone[start : start + len(positions)]]
        start += len(positions)
        if len(removed):
            kept.setdefault(at, np.ones(tables[at].rows, bool))[removed] = False


def _constant(table: EncodedRelation, names: Names, where: Expression) -> pa.Table | None:
    """The value that a column must have, if that is what a condition says."""
    node = where.node
    if not isinstance(node, exp.EQ) or not isinstance(node.left, exp.Column):
        return None
    label, value = names[node.left.name], node.right
    if owners(value) is not None or kind_of(value) is not table.kinds[label]:
        return None
    if table.kinds[label] not in INDEXED_KINDS:
        return None
    dtype = table.columns.schema.field(label).type
    try:
        if isinstance(value, exp.Literal):
            known = pa.array([value.name if value.is_string else int(value.name)], dtype)
        else:
            known = evaluate(value, {}, 1).cast(dtype)
        return pa.Table.from_arrays([known], [label])
    except (pa.ArrowException, OverflowError):  # it is none of the column's values
        return None
