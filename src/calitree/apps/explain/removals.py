"""What is left of a gap without the rows of each value of a column, or of each combination of values of
several: all of them at once, from the groups of both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calitree.apps.explain.candidates import predicate_text
from calitree.apps.explain.gap import ROWS, VALUE, Gap, Number, Side
from calitree.results.rollup import MOST, Groups
from calitree.results.summands import Array, alike

if TYPE_CHECKING:
    import pyarrow as pa

NOTHING = 1e-9
"""Less of the gap than this is rounding."""


@dataclass(frozen=True)
class Inquiry:
    """What is to be explained, and what an explanation is worth."""

    side: Side
    other: Side
    gap: Gap
    min_support: float
    parsimony: float

    @property
    def total(self) -> float:
        """The gap itself."""
        return float(self.gap.of(_float(self.side.value), _float(self.other.value)))


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
        values = (key[at].as_py() for key in self.keys)
        return " AND ".join(map(predicate_text, self.columns, values))

    def scores_of(self, columns: Sequence[str], keys: Sequence[pa.Array]) -> Array:
        """The scores of the candidates that these contain; 0 for those that are none."""
        own = [keys[columns.index(column)] for column in self.columns]
        found = places(own, self.keys)
        return np.where(found >= 0, np.append(self.score, 0.0)[found], 0.0)


def removals(asked: Inquiry, groups: tuple[Groups, Groups], columns: tuple[str, ...]) -> Removals:
    """Judge the values of these columns by intervention. A candidate that is on one side only leaves the
    other side as it is.
    """
    sides = asked.side, asked.other
    others = [each.by(columns).without().arrow() for each in groups]
    rows = [
        side.rows - np.asarray(table.column(ROWS))
        for side, table in zip(sides, others, strict=True)
    ]
    keys = [[table.column(c).combine_chunks() for c in columns] for table in others]
    chosen = _frequent(keys, [_share(n, s) for n, s in zip(rows, sides, strict=True)], asked)
    there = [places(chosen, known) for known in keys]
    counts = [np.where(at >= 0, np.append(n, 0)[at], 0) for n, at in zip(rows, there, strict=True)]
    without = [_taken(*each) for each in zip(sides, others, there, strict=True)]
    numbers = [side.numbers(values) for side, values in zip(sides, without, strict=True)]
    closed = 1 - asked.gap.of(*numbers) / asked.total
    shares = [_share(n, s) for n, s in zip(counts, sides, strict=True)]
    size = np.maximum(*shares)
    good = (closed > NOTHING) & (1 - shares[0] >= asked.min_support) & (counts[0] < sides[0].rows)
    at = np.flatnonzero(good)  # NaN is not
    return Removals(
        columns,
        tuple(key.take(at) for key in chosen),
        (counts[0][at], counts[1][at]),
        (without[0].take(at), without[1].take(at)),
        closed[at],
        closed[at] / size[at] ** asked.parsimony,
    )


def _frequent(
    keys: Sequence[list[pa.Array]], shares: Sequence[Array], asked: Inquiry
) -> list[pa.Array]:
    """The groups that have the least support on some side, each once."""
    import pyarrow as pa

    first, second = (np.flatnonzero(share >= asked.min_support) for share in shares)
    ours = [key.take(first) for key in keys[0]]
    theirs = [key.take(second) for key in keys[1]]
    new = np.flatnonzero(places(theirs, ours) < 0)
    return [pa.concat_arrays([a, b.take(new)]) for a, b in zip(ours, theirs, strict=True)]


def _share(rows: Array, side: Side) -> Array:
    return rows / max(1, side.rows)


def _taken(side: Side, others: pa.Table, places: Array) -> pa.Array:
    """The measure without each candidate; as it is without one that is not on this side."""
    import pyarrow as pa

    values, whole = alike(others.column(VALUE).combine_chunks(), pa.array([side.value]))
    return pa.concat_arrays([values, whole]).take(np.where(places >= 0, places, len(values)))


def places(keys: Sequence[pa.Array], among: Sequence[pa.Array]) -> Array:
    """For each row of some columns, where the same values stand in others; -1 if nowhere. NULL equals
    NULL here.
    """
    import pyarrow.compute as pc

    ours = np.zeros(len(keys[0]), np.int64)
    theirs = np.zeros(len(among[0]), np.int64)
    lost, width = np.zeros(len(ours), bool), 1
    for key, other in zip(keys, among, strict=True):
        values = other.unique()
        if width * len(values) >= MOST:  # number what there is, before the codes would not fit
            known, both = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
            ours, theirs, width = both[: len(ours)], both[len(ours) :], len(known)
        width *= max(1, len(values))
        codes = np.asarray(pc.index_in(key, value_set=values).fill_null(-1))
        lost |= codes < 0
        ours = ours * len(values) + codes
        theirs = theirs * len(values) + np.asarray(pc.index_in(other, value_set=values))
    if not len(theirs):
        return np.full(len(ours), -1, np.int64)
    order = np.argsort(theirs, kind="stable")
    at = order[np.minimum(np.searchsorted(theirs, ours, sorter=order), len(order) - 1)]
    found: Array = np.where((theirs[at] == ours) & ~lost, at, -1)
    return found


def _float(value: Number | None) -> float:
    return 0.0 if value is None else float(value)
