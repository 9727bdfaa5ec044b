"""Counting the distinct values of an attribute by group, on one pass and without listing them.

A set of values is a row of bits, one for each value that there is. A row of the table sets one bit; then the
bits of each group are counted.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from calitree.engines.api.protocol import DISTINCT
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.scan.axes import ProbedMessages
from calitree.engines.local.scan.groups import GroupComponents
from calitree.engines.local.scan.reduction import Job, reduction_of
from calitree.engines.local.scan.scan import Scan
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.engines.local.vm import parallel
from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]

MAX_BITS_PER_ROW = 128
"""More bits than so many for each row of the table are not worth it."""

ROWS_AT_ONCE = 1 << 18
"""Rows whose groups and values are looked up together."""


def count_distinct(
    book: Codebook, job: Job, value: str, large: int, threads: int
) -> EncodedMessage | None:
    """For each group by what the output keeps but `value`, how many values there are that are not NULL.

    None if it takes more than a pass over a large table, or too many bits.
    """
    reduction = reduction_of(job, large)
    if reduction is None or not reduction.is_all:
        return None
    middle = reduction.middle
    around = {at: (job.legs[at], names) for at, names in job.separators(middle).items()}
    scan = Scan(book, job.legs[middle], around, reduction.where)
    masks = {at: job.masks(at) for at in reduction.probed}
    messages = scan.aggregate(reduction.onto, masks).messages
    groups = GroupComponents(messages, tuple(name for name in reduction.onto if name != value))
    values = GroupComponents(messages, (value,))
    width = -(-values.size // 64)
    if groups.size * width > MAX_BITS_PER_ROW * scan.leg.rows // 64 or groups.size >= 2**31:
        return None
    bits = _marked(scan, messages, (groups, values), width, threads)
    counts = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    filled = np.flatnonzero(counts)
    codes = groups.codes_of(groups.entries(filled))
    annotations = {DISTINCT: Value(counts[filled], bound=values.size)}
    return EncodedMessage(
        book, dict(zip(groups.onto, codes, strict=True)), annotations, len(filled), {}
    )


def _marked(
    scan: Scan,
    messages: ProbedMessages,
    by: tuple[GroupComponents, GroupComponents],
    width: int,
    threads: int,
) -> Array:
    """A row of bits for each group: those of its values are set."""
    groups, values = by
    chosen = scan.chosen()
    length = scan.leg.rows if chosen is None else len(chosen)
    present = [
        (axis.ids, joined)
        for axis in messages.axes.axes
        if (joined := messages.present(axis)) is not None
    ]
    (component,) = values.components
    (codes,) = component.codes.values()
    is_null = codes == 0

    def mark(part: tuple[int, int]) -> Array:
        bits = np.zeros((groups.size, width), np.uint64)
        for begin in range(part[0], part[1], ROWS_AT_ONCE):
            end = min(begin + ROWS_AT_ONCE, part[1])
            rows = slice(begin, end) if chosen is None else chosen[begin:end]
            entries = values.of_rows(rows, end - begin)
            keep = ~is_null[entries]
            for ids, joined in present:
                keep &= joined[ids[rows]]
            mark_bits(groups.of_rows(rows, end - begin), entries, keep, bits)
        return bits

    return reduce(np.bitwise_or, parallel.map(mark, parallel.ranges(length, threads), threads))


@compiled
def mark_bits(
    groups: Array, values: Array, keep: Array, bits: Array
) -> None:  # pragma: no cover (compiled)
    """Set the bit of each row's value in its group, where it counts."""
    for row in range(len(groups)):
        if keep[row]:
            value = np.uint64(values[row])
            bits[groups[row], value >> np.uint64(6)] |= np.uint64(1) << (value & np.uint64(63))
