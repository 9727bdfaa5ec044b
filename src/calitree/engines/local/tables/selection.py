"""Rows of other relations by selection vectors: no column is copied before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.cache import cached_property
from calitree.engines.local.annotation.columns import take_rows
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.tables.encoded import EncodedTable, Names, key_of
from calitree.engines.local.tables.filters import Columns
from calitree.engines.local.tables.tables import EncodedRelation
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
SelectedColumns = tuple[Columns, Array | None]
"""Columns and a selection vector, the numbers of some rows in order; without one, all rows."""


class ConcatenatedColumns:
    """Rows of other columns, one after the other."""

    def __init__(self, parts: Sequence[SelectedColumns]) -> None:
        self.parts = [flat for part in parts for flat in _flat(*part)]
        self.schema, self.unsupported = parts[0][0].schema, parts[0][0].unsupported
        self.rows = sum(c.rows if rows is None else len(rows) for c, rows in self.parts)

    @cached_property
    def null_free(self) -> frozenset[str]:
        """Columns without a NULL in any part."""
        return reduce(frozenset.intersection, (columns.null_free for columns, _ in self.parts))

    @property
    def nbytes(self) -> int:
        """Its share of the bytes of the columns."""
        total = 0
        for columns, rows in self.parts:
            share = 1.0 if rows is None else len(rows) / max(1, columns.rows)
            total += int(columns.nbytes * share) + (0 if rows is None else int(rows.nbytes))
        return total

    def column(self, label: str) -> pa.ChunkedArray:
        """One column."""
        dtype = self.schema.field(label).type
        chunks: list[pa.Array] = []
        for columns, rows in self.parts:
            column = columns.column(label)
            chunks += column.chunks if rows is None else take_rows(column, rows).chunks
        return pa.chunked_array([c if c.type == dtype else c.cast(dtype) for c in chunks], dtype)

    def table(self) -> pa.Table:
        """All columns."""
        columns = {label: self.column(label) for label in self.schema.names}
        if not columns:
            return pa.table({"": pa.nulls(self.rows)}).select([])
        return pa.table(columns, schema=self.schema)


def _flat(columns: Columns, rows: Array | None) -> Iterator[SelectedColumns]:
    """Rows of concatenated columns as rows of the parts of these."""
    if not isinstance(columns, ConcatenatedColumns):
        yield columns, rows
        return
    start = 0
    for inner, chosen in columns.parts:
        length = inner.rows if chosen is None else len(chosen)
        if rows is None:
            yield inner, chosen
        else:
            low, high = np.searchsorted(rows, (start, start + length))
            here = rows[low:high] - start
            yield inner, here if chosen is None else chosen[here]
        start += length


class SelectedRelation(EncodedRelation):
    """Rows of another relation, by a selection vector; what that has derived serves these too."""

    def __init__(self, of: EncodedRelation, positions: Array) -> None:
        EncodedTable.__init__(self, of.book, len(positions))
        self.base: EncodedRelation = of.base if isinstance(of, SelectedRelation) else of
        self.positions: Array = (
            of.positions[positions] if isinstance(of, SelectedRelation) else positions
        )
        self.kinds, self.computed = of.kinds, of.computed

    @cached_property
    def columns(self) -> Columns:
        """The selected rows of the other relation's columns."""
        return ConcatenatedColumns([(self.base.columns, self.positions)])

    @property
    def null_free(self) -> frozenset[str]:
        """Columns without a NULL."""
        return self.base.null_free

    @property
    def nbytes(self) -> int:
        """Bytes in memory beside those of the other relation."""
        return int(self.positions.nbytes)

    def _encode(self, attribute: str, column: str) -> Codes:
        known = self.base.known_codes(attribute, column, self.positions)
        return super()._encode(attribute, column) if known is None else known

    def ids(self, space: Space, names: Names) -> Codes:
        """The id of some attributes in every row."""
        key = key_of(space.attributes, names)
        if key not in self._ids:
            known = self.base._ids.get(key)
            if known is not None:
                self._ids.put(key, known[self.positions])
        return super().ids(space, names)

    def has_codes(self, attribute: str, names: Names) -> bool:
        """Whether there are codes, of these rows or of all."""
        key = (attribute, names[attribute])
        return key in self._codes or key in self.base._codes

    def is_worth_codes(self, attribute: str, names: Names) -> bool:
        """Never: to look at a few values is quicker than to encode them."""
        return False

    def lift(self, expression: Expression, names: Names) -> Value:
        """An expression over attributes, in every row."""
        key = self._lift_key(expression, names)
        if key not in self._lifts:
            known = self.base._lifts.get(key)
            if known is not None:
                self._lifts.put(key, known.take(self.positions))
        return super().lift(expression, names)
