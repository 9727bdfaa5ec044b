"""Columns of Arrow data: some of their rows, and whether their values repeat.

A column whose values repeat is worth a dictionary: what is computed of its values is computed once for
each. Of one that hardly has a value twice the dictionary is as large as the column, and takes longer
to make than whatever is computed of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.grouping import canonical_array

Array = np.ndarray[Any, Any]

SAMPLES = (1 << 10, 1 << 13)
"""Rows of which the number of different values is estimated; more if some occur twice in the first."""

MAX_SMALL = 1 << 13
"""In so few rows values need not repeat."""

MIN_REPEATS = 16
"""How often a value must occur, on average, for a dictionary."""


def repeats(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a column is small, or its values occur often enough for a dictionary.

    The number of different values is estimated from a sample by those that it has once and twice
    (Chao 1984), so neither a frequent value among many rare ones nor an order misleads it.
    """
    rows = len(column)
    if rows <= MAX_SMALL:
        return True
    random = np.random.default_rng(0)
    return all(_repeats(column, np.sort(random.integers(0, rows, size))) for size in SAMPLES)


def _repeats(column: pa.Array | pa.ChunkedArray, drawn: Array) -> bool:
    sample = canonical_array(take_rows(column, drawn))
    counts = pc.value_counts(sample).field("counts").to_numpy()
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    different = len(counts) + once * (once - 1) / (2 * (twice + 1))
    return bool(different * MIN_REPEATS <= len(column))


def take_rows(column: pa.Array | pa.ChunkedArray, rows: Array) -> pa.ChunkedArray:
    """Rows of a column, by their numbers in order.

    Chunk by chunk: one array of text may be too small for all of them.
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if len(chunks) == 1:
        return pa.chunked_array([chunks[0].take(pa.array(rows))], column.type)
    ends = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    cuts = np.searchsorted(rows, ends)
    taken = [
        chunks[i].take(pa.array(rows[cuts[i] : cuts[i + 1]] - ends[i]))
        for i in np.flatnonzero(cuts[1:] > cuts[:-1]).tolist()
    ]
    return pa.chunked_array(taken, column.type)
