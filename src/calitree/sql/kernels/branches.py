"""The rows that an expression is evaluated on, and choices that differ from row to row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError, did_you_mean
from calitree.sql.kernels.comparison import is_true
from calitree.sql.kernels.values import (
    NULL,
    Datum,
    broadcast,
    bytes_of,
    check_bytes,
    column,
    is_text,
    kind_of,
    narrow,
    unify,
)
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
    """The rows of another batch that a mask selects; that batch is filtered by none."""

    def __init__(self, rows: Rows, mask: pa.Array) -> None:
        super().__init__({}, pc.sum(mask).as_py() or 0)
        self._rows, self._mask = rows, mask

    def _read(self, name: str) -> Datum:
        whole = self._rows.column(name)
        return whole if isinstance(whole, pa.Scalar) else whole.filter(self._mask)

    def where(self, mask: pa.Array) -> Rows:
        """The rows that a mask selects of these."""
        both = pc.replace_with_mask(self._mask, self._mask, mask)
        return FilteredRows(self._rows, both)


Run: TypeAlias = Callable[[Rows], Datum]
"""A compiled expression."""


class CaseBranch(NamedTuple):
    """A branch of CASE; it is safe if neither it nor what follows it can fail on rows that skip it."""

    condition: Run
    value: Run
    is_safe: bool


def choice(branches: Sequence[CaseBranch], last: Run) -> Run:
    """The value of the first branch whose condition is true, or else the last."""
    fragile = [branch for branch in branches if not branch.is_safe]  # these come first
    safe = branches[len(fragile) :]

    def run(rows: Rows) -> Datum:
        decided: list[tuple[pa.Array, pa.Array, Datum]] = []
        for branch in fragile:
            mask = broadcast(is_true(branch.condition(rows)), rows.length)
            rest = pc.invert(mask)
            decided.append((mask, rest, branch.value(rows.where(mask))))
            rows = rows.where(rest)
        chosen = []
        for branch in safe:
            chosen.append((is_true(branch.condition(rows)), branch.value(rows)))
        result = last(rows)
        for truth, value in reversed(chosen):
            result = _one_type(partial(pc.if_else, truth), value, result, rows.length)
        for mask, rest, value in reversed(decided):
            result = _merge(mask, value, rest, result)
        return result

    return run


def _one_type(
    combine: Callable[[Datum, Datum], Datum], left: Datum, right: Datum, length: int
) -> Datum:
    a, b = unify([left, right])
    if pa.types.is_null(a.type):
        return NULL
    if is_text(a):
        constants = (datum for datum in (a, b) if isinstance(datum, pa.Scalar))
        check_bytes("A choice", max((bytes_of(c, length) for c in constants), default=0), length)
    result = combine(a, b)
    return narrow(result) if kind_of(result) is Kind.DECIMAL else result


def _merge(mask: pa.Array, left: Datum, rest: pa.Array, right: Datum) -> Datum:
    """One column of `left`, the values of the rows in `mask`, and `right`, those of the others."""

    def combine(a: Datum, b: Datum) -> Datum:
        result = pc.replace_with_mask(pa.nulls(len(mask), a.type), mask, a)
        return pc.replace_with_mask(result, rest, b)

    return _one_type(combine, left, right, len(mask))


def first_known(values: Sequence[Run], last: Run, safe: bool) -> Run:
    """The first value that is not NULL, or else the last."""

    def run(rows: Rows) -> Datum:
        parts: list[tuple[Datum, pa.Array | None]] = []
        length = rows.length
        for compute in values:
            value, mask = compute(rows), None
            if not safe:
                mask = broadcast(pc.is_null(value), rows.length)
                value = broadcast(value, rows.length)
                rows = rows.where(mask)
            parts.append((value, mask))
        result = last(rows)
        for value, mask in reversed(parts):
            result = _one_type(partial(_filled, mask), value, result, length)
        return result

    return run


def _filled(mask: pa.Array | None, value: Datum, other: Datum) -> Datum:
    """`value`, and `other` where it is NULL: in the rows of a mask, for which alone there is `other`."""
    if mask is None:
        return pc.coalesce(value, other)
    return pc.replace_with_mask(broadcast(value, len(mask)), mask, other)
