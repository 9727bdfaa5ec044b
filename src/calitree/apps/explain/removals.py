"""The gap without the rows of each value of a column, or of each combination of values of several.

All of them are computed at once, from the groups of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from calitree.apps.explain.candidates import predicate_text
from calitree.apps.explain.gap import ROWS, VALUE, Gap, Slice
from calitree.results.rollup import Groups, matching_rows
from calitree.results.summands import Array, same_type

ROUNDING = 1e-13
"""A gap that is smaller, relative to what is compared, may be due to the order of summands."""
MIN_CLOSED = 1e-9
"""Less of the gap than this is rounding."""


@dataclass(frozen=True)
class Comparison:
    """The two sides, the gap between them that is to be explained, and how explanations are scored."""

    side: Slice
    other: Slice
    gap: Gap
    min_support: float
    parsimony: float
    error: float | None = None
    """The standard error of the gap, if that is known."""

    @property
    def total(self) -> float:
        """The gap itself."""
        return float(self.gap.of(float(self.side.value or 0), float(self.other.value or 0)))

    @property
    def is_rounding(self) -> bool:
        """Whether there is no gap, or none that floating-point numbers could tell."""
        ours, theirs = float(self.side.value or 0), float(self.other.value or 0)
        return abs(self.total) <= ROUNDING * max(abs(ours), abs(float(self.gap.reference(theirs))))

    @property
    def is_noise(self) -> bool:
        """Whether chance alone makes such a gap."""
        return self.error is not None and abs(self.total) < self.error


@dataclass(frozen=True, eq=False)
class Removals:
    """The candidates of some columns that are frequent enough and close some of the gap."""

    columns: tuple[str, ...]
    keys: tuple[pa.Array, ...]
    rows: tuple[Array, Array]
    """How many rows each candidate has on either side."""
    without: tuple[pa.Array, pa.Array]
    """The measure on either side without these rows."""
    closed: Array
    score: Array

    def predicate(self, at: int) -> str:
        """A candidate as a condition."""
        values = (key[at].as_py() for key in self.keys)
        return " AND ".join(map(predicate_text, self.columns, values))

    def scores_of(self, columns: Sequence[str], keys: Sequence[pa.Array]) -> Array:
        """For each combination of values the score of the candidate that is a part of it, or 0."""
        own = [keys[columns.index(column)] for column in self.columns]
        rows = matching_rows(own, self.keys)
        return np.where(rows >= 0, np.append(self.score, 0.0)[rows], 0.0)


def removals(
    comparison: Comparison, groups: tuple[Groups, Groups], columns: tuple[str, ...]
) -> Removals:
    """Judge the values of these columns by intervention.

    A candidate that is on one side only leaves the other side as it is.
    """
    sides = comparison.side, comparison.other
    others = [side.by(columns).without().arrow() for side in groups]
    rows = [
        side.rows - np.asarray(table.column(ROWS))
        for side, table in zip(sides, others, strict=True)
    ]
    keys = [[table.column(c).combine_chunks() for c in columns] for table in others]
    frequent = [
        np.flatnonzero(share >= comparison.min_support) for share in map(_share, rows, sides)
    ]
    candidates = _union(
        *([key.take(at) for key in own] for own, at in zip(keys, frequent, strict=True))
    )
    positions = [matching_rows(candidates, own) for own in keys]
    counts = [
        np.where(at >= 0, np.append(n, 0)[at], 0) for n, at in zip(rows, positions, strict=True)
    ]
    without = [_taken(*side) for side in zip(sides, others, positions, strict=True)]
    numbers = [side.numbers(values) for side, values in zip(sides, without, strict=True)]
    closed = 1 - comparison.gap.of(*numbers) / comparison.total
    shares = list(map(_share, counts, sides))
    size = np.maximum(*shares)
    good = closed > MIN_CLOSED  # NaN is not
    good &= (1 - shares[0] >= comparison.min_support) & (counts[0] < sides[0].rows)
    at = np.flatnonzero(good)
    return Removals(
        columns=columns,
        keys=tuple(key.take(at) for key in candidates),
        rows=(counts[0][at], counts[1][at]),
        without=(without[0].take(at), without[1].take(at)),
        closed=closed[at],
        score=closed[at] / size[at] ** comparison.parsimony,
    )


def _union(ours: list[pa.Array], theirs: list[pa.Array]) -> list[pa.Array]:
    """The combinations of values that are in one of two tables or in both, each once."""
    new = np.flatnonzero(matching_rows(theirs, ours) < 0)
    return [pa.concat_arrays([a, b.take(new)]) for a, b in zip(ours, theirs, strict=True)]


def _share(rows: Array, side: Slice) -> Array:
    return rows / max(1, side.rows)


def _taken(side: Slice, others: pa.Table, positions: Array) -> pa.Array:
    """The measure without each candidate; all of it without one that is not on this side."""
    values, total = same_type(others.column(VALUE).combine_chunks(), pa.array([side.value]))
    rows = np.where(positions >= 0, positions, len(values))
    return pa.concat_arrays([values, total]).take(rows)
