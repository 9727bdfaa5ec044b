"""⊕ and ⊖ of rows of results that have the same key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from calitree.engines.api.contraction import Output
from calitree.engines.reference.algebra import opposite_of, sum_of

Row = dict[str, Any]
Key = tuple[Any, ...]


def key_of(row: Row, names: Iterable[str]) -> Key:
    """The values of some columns."""
    return tuple(row[name] for name in names)


def subtracted_parts(output: Output) -> Iterator[str]:
    """The parts whose digits can be lost; those of a mean are if those of its own deviations are."""
    for column in output.columns:
        if column.semiring.values:
            yield from (f"{column.name}.d{i}{i}" for i in range(column.semiring.values))
        else:
            yield from column.parts


def padded(output: Output, row: Row) -> Row:
    """A row of a result that has the zero of each annotation which it lacked."""
    zeros = {
        part: zero
        for column in output.columns
        for part, zero in zip(column.parts, column.semiring.zero, strict=True)
    }
    return {**zeros, **row}


def negated(output: Output, row: Row) -> Row:
    """A row of a result that takes away what it would add; means stay where they are."""
    opposites = dict(row)
    for column in output.columns:
        element = opposite_of(column.semiring, [row[part] for part in column.parts])
        opposites |= zip(column.parts, element, strict=True)
    return opposites


def add_row(groups: dict[Key, Row], output: Output, row: Row) -> None:
    """Add (⊕) a row of a result to the one that has the same key, if there is one."""
    key = key_of(row, output.keep)
    before = groups.get(key)
    if before is None:
        groups[key] = row
        return
    total = {name: before[name] for name in output.keep}
    for column in output.columns:
        left, right = ([r[part] for part in column.parts] for r in (before, row))
        total |= zip(column.parts, sum_of(column.semiring, left, right), strict=True)
    groups[key] = total


PEAK = "the most it ever was: "
"""The column beside a floating-point sum for its largest magnitude since it was computed from rows."""


def peak_of(row: Row, part: str) -> float:
    """The largest magnitude that a sum has had."""
    value = row[part]
    size = abs(float(value)) if isinstance(value, float | int | Decimal) else 0.0
    return max(float(row.get(PEAK + part, 0.0)), size)


def is_lost(value: Any, peak: float) -> bool:
    """Whether a difference of floating-point numbers is too small to have digits left."""
    if not isinstance(value, float):
        return False
    return not math.isfinite(value) or abs(value) < peak / 100
