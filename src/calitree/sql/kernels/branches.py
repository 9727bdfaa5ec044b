"""The rows that an expression is evaluated on, and choices that differ from row to row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError, did_you_mean
from calitree.sql.kernels.comparison import is_true
from calitree.sql.kernels.values import NULL, Datum, broadcast, column, kind_of, narrow, unify
from calitree.types import Kind

Columns: TypeAlias = Mapping[str, pa.Array | pa.ChunkedArray]


class Rows:
    """A batch of rows to evaluate on; a column is converted, or filtered, when first used."""

    def __init__(self, columns: Columns, length: int) -> None:
        self.length = length
        self._columns = columns
        self._converted: dict[str, Datum] = {}

    def column(self, name: str) -> Datum:
        """The values of a column."""
        if name not in self._converted:
            self._converted[name] = self._read(name)
        return self._converted[name]

    def _read(self, name: str) -> Datum:
        if name not in self._columns:
            raise ExpressionError(
                f"there is no column {name!r}.{did_you_mean(name, self._columns)}"
            )
        return column(self._columns[name])

    def where(self, mask: pa.Array) -> Rows:
        """The rows that a mask selects."""
        return FilteredRows(self, mask)


class FilteredRows(Rows):
    """The rows of another batch that a mask selects."""

    def __init__(self, rows: Rows, mask: pa.Array) -> None:
        super().__init__({}, pc.sum(mask).as_py() or 0)
        self._rows, self._mask = rows, mask

    def _read(self, name: str) -> Datum:
        whole = self._rows.column(name)
        return whole if isinstance(whole, pa.Scalar) else whole.filter(self._mask)


Run: TypeAlias = Callable[[Rows], Datum]
"""A compiled expression."""


def choice(condition: Run, chosen: Run, other: Run, safe: bool) -> Run:
    """`chosen` where the condition is true, `other` elsewhere."""

    def run(rows: Rows) -> Datum:
        truth = is_true(condition(rows))
        if safe:
            return _one_type(lambda a, b: pc.if_else(truth, a, b), chosen(rows), other(rows))
        mask = broadcast(truth, rows.length)
        rest = pc.invert(mask)
        return _merge(mask, chosen(rows.where(mask)), rest, other(rows.where(rest)))

    return run


def _one_type(combine: Callable[[Datum, Datum], Datum], left: Datum, right: Datum) -> Datum:
    a, b = unify([left, right])
    if pa.types.is_null(a.type):
        return NULL
    result = combine(a, b)
    return narrow(result) if kind_of(result) is Kind.DECIMAL else result


def _merge(mask: pa.Array, left: Datum, rest: pa.Array, right: Datum) -> Datum:
    """One column of `left`, the values of the rows in `mask`, and `right`, those of the others."""

    def combine(a: Datum, b: Datum) -> Datum:
        result = pc.replace_with_mask(pa.nulls(len(mask), a.type), mask, a)
        return pc.replace_with_mask(result, rest, b)

    return _one_type(combine, left, right)


def otherwise(first: Run, other: Run, safe: bool) -> Run:
    """`first` where it is not NULL, `other` elsewhere."""

    def run(rows: Rows) -> Datum:
        value = first(rows)
        if safe:
            return _one_type(pc.coalesce, value, other(rows))
        mask = broadcast(pc.is_null(value), rows.length)
        return _one_type(
            lambda a, b: pc.replace_with_mask(broadcast(a, rows.length), mask, b),
            value,
            other(rows.where(mask)),
        )

    return run
