"""Extremes of texts, by their bytes: nothing is sorted, and no value is looked up in a dictionary.

The order of bytes is the order of code points, as in DuckDB. Texts are compared by their first eight
bytes, read as one number; the rest is looked at where these are equal.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from calitree.cache import cached_property
from calitree.engines.local.annotation.columns import take_rows
from calitree.engines.local.vm import parallel
from calitree.process.compiled import compiled, helper
from calitree.sql.kernels.strings import OFFSETS, buffers

Array = np.ndarray[Any, Any]

WIDE = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
"""Types whose arrays hold 2 GB, and those of the same values that hold more."""

MAX_CHUNKS = 64
"""Of more chunks, or where most texts are of no use any more, one is made."""

NO_ROW = -1

Part = tuple[int, int, int]
"""A chunk, and a range of positions that are in it."""

Buffers = tuple[Array, Array]
"""Where each text begins and ends, and the bytes of all."""


class Goal(NamedTuple):
    """How many groups there are, and whether the greatest text of each is looked for, or the least."""

    groups: int
    largest: bool


def is_text(dtype: pa.DataType) -> bool:
    """Whether values of a type are strings or bytes."""
    return dtype in OFFSETS


class Texts:
    """Many strings or bytes in no order, of which an annotation holds positions.

    They stay in the chunks that they came in: those of a relation are its own column.
    """

    def __init__(self, column: pa.Array | pa.ChunkedArray, threads: int = 1) -> None:
        if not isinstance(column, pa.ChunkedArray):
            column = pa.chunked_array([column])
        self.column, self.threads = column, threads

    def __len__(self) -> int:
        return len(self.column)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.column.nbytes)

    def take(self, positions: Array, nulls: Array | None = None) -> pa.Array:
        """The texts at some positions, as one array, in which some are NULL."""
        if nulls is not None:
            back = np.cumsum(~nulls) - 1
            return self.take(positions[~nulls]).take(pa.array(back, mask=nulls))
        if (positions[1:] < positions[:-1]).any():
            order, back = np.unique(positions, return_inverse=True)
            return self.take(order).take(pa.array(back))
        return _one_array(take_rows(self.column, positions))

    def extend(self, others: pa.Array | pa.ChunkedArray) -> Texts:
        """These and others of the same kind after them; no text is copied."""
        chunks = others.chunks if isinstance(others, pa.ChunkedArray) else [others]
        if others.type != self.column.type:
            chunks = [chunk.cast(self.column.type) for chunk in chunks]
        return Texts(
            pa.chunked_array([*self.column.chunks, *chunks], self.column.type), self.threads
        )

    def best(self, positions: Array | None, groups: Array | None, goal: Goal) -> Array:
        """For each group the position of its least or greatest text; -1 where it has none.

        Args:
            positions: Those of the texts to compare, which are all if it is None.
            groups: The group of each; None if there is one group.
            goal: How many groups there are, and which text of each is looked for.
        """
        chunks = self.column.num_chunks
        if positions is not None and chunks > 1 and (positions[1:] < positions[:-1]).any():
            order = np.argsort(positions, kind="stable")
            positions, groups = positions[order], None if groups is None else groups[order]
        parts = self._parts(positions)
        length = len(self) if positions is None else len(positions)
        if len(parts) * goal.groups > 2 * length and len(parts) > 1:
            # More to clear and to merge than to compare: in one part instead.
            one = self if chunks == 1 else Texts(_one_array(self.column))
            parts, best = [(0, 0, length)], one._best_of_part
        else:
            best = self._best_of_part
        winners = parallel.map(
            lambda part: best(part, positions, groups, goal), parts, self.threads
        )
        if len(winners) < 2:
            return winners[0] if winners else np.full(goal.groups, NO_ROW, np.int64)
        there = [np.flatnonzero(rows >= 0) for rows in winners]
        candidates = np.concatenate([rows[at] for rows, at in zip(winners, there, strict=True)])
        chosen = Texts(self.take(candidates)).best(None, np.concatenate(there), goal)
        chosen[chosen >= 0] = candidates[chosen[chosen >= 0]]
        return chosen

    def _best_of_part(
        self, part: Part, positions: Array | None, groups: Array | None, goal: Goal
    ) -> Array:
        chunk, start, stop = part
        first = self._starts[chunk]
        best = np.full(goal.groups, NO_ROW, np.int64)
        if positions is None:
            rows, first_row = _NO_POSITIONS, start - first
        else:
            rows, first_row = positions[start:stop] - first, 0
        texts, span = buffers(self.column.chunk(chunk)), (first_row, first_row + stop - start)
        if groups is None:
            best[:1] = _best_of_one_group(texts, rows, span, goal.largest)
        else:
            own = groups[start:stop].astype(np.int32, copy=False)
            _best(texts, rows, span, own, largest=goal.largest, best=best)
        best[best >= 0] += first
        return best

    @cached_property
    def _starts(self) -> Array:
        return np.cumsum([0, *(len(chunk) for chunk in self.column.chunks)])

    def _parts(self, positions: Array | None) -> list[Part]:
        """All positions, or ascending ones, as ranges, each within a chunk and for one thread."""
        cuts = self._starts if positions is None else np.searchsorted(positions, self._starts)
        return [
            (chunk, int(low) + start, int(low) + stop)
            for chunk, (low, high) in enumerate(pairwise(cuts))
            if high > low
            for start, stop in parallel.short_ranges(int(high - low), self.threads)
        ]


_NO_POSITIONS = np.empty(0, np.int64)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """All chunks as one; of texts that may be too many for its offsets, with larger ones."""
    if column.type in WIDE and column.nbytes >= 2**31:
        column = column.cast(WIDE[column.type])
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


@helper
def _key(data: Array, start: Any, stop: Any) -> Any:  # pragma: no cover (compiled)
    """The first eight bytes as a number, zeros after the end."""
    key = np.uint64(0)
    if stop - start >= 8:
        for i in range(8):  # an index that cannot be negative makes one instruction of these
            key = (key << np.uint64(8)) | np.uint64(data[np.uint64(start) + np.uint64(i)])
        return key
    for i in range(start, stop):
        key = (key << np.uint64(8)) | np.uint64(data[i])
    return key << np.uint64(8 * (8 - (stop - start))) if stop > start else key


@helper
def _is_greater(
    data: Array, start: Any, stop: Any, other: Any, end: Any
) -> Any:  # pragma: no cover (compiled)
    """Whether one text is greater than another."""
    length = min(stop - start, end - other)
    for i in range(length):
        if data[start + i] != data[other + i]:
            return data[start + i] > data[other + i]
    return stop - start > end - other


@helper
def _is_better(texts: Buffers, p: Any, b: Any, largest: bool) -> Any:  # pragma: no cover (compiled)
    """Whether one text is greater than another of the same first bytes, or less."""
    offsets, data = texts
    start, stop = np.int64(offsets[p]), np.int64(offsets[p + 1])
    other, end = np.int64(offsets[b]), np.int64(offsets[b + 1])
    if largest:
        return _is_greater(data, start, stop, other, end)
    return _is_greater(data, other, end, start, stop)


@compiled
def _best(
    texts: Buffers,
    positions: Array,
    rows: tuple[int, int],
    groups: Array,
    largest: bool,
    best: Array,
) -> None:  # pragma: no cover (compiled)
    """Write to `best` those of `positions`, or of the texts from one row to another if it is empty."""
    offsets, data = texts
    keys = np.zeros(len(best), np.uint64)
    for i in range(rows[1] - rows[0]):
        p = np.uint64(positions[i] if len(positions) else rows[0] + i)
        key = _key(data, np.int64(offsets[p]), np.int64(offsets[p + np.uint64(1)]))
        group = np.uint64(groups[i])
        b, known = best[group], keys[group]
        if (
            b < 0
            or (key != known and (key > known) == largest)
            or (key == known and _is_better(texts, np.int64(p), b, largest))
        ):
            best[group], keys[group] = np.int64(p), key


@compiled
def _best_of_one_group(
    texts: Buffers, positions: Array, rows: tuple[int, int], largest: bool
) -> Any:  # pragma: no cover (compiled)
    """The same for one group."""
    offsets, data = texts
    best: Any = NO_ROW
    known = np.uint64(0)
    for i in range(rows[1] - rows[0]):
        p = np.uint64(positions[i] if len(positions) else rows[0] + i)
        key = _key(data, np.int64(offsets[p]), np.int64(offsets[p + np.uint64(1)]))
        if (
            best < 0
            or (key != known and (key > known) == largest)
            or (key == known and _is_better(texts, np.int64(p), best, largest))
        ):
            best, known = np.int64(p), key
    return best
