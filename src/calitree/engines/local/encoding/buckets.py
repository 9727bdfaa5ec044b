"""Rows of a message hash-partitioned by their key, the same way in every process.

Parts of one message that several processes have computed can then be summed bucket by bucket, each
by another process: no key is in two buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, np.dtype[np.uint64]]

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: multiplying by it spreads what is close together."""


def buckets_of(table: pa.Table, key: Sequence[str], count: int) -> list[tuple[int, pa.Table]]:
    """The buckets that are not empty, by number. Rows of one key are in one of them."""
    if count == 1 or not key:
        return [(0, table)]
    mixed = np.zeros(table.num_rows, np.uint64)
    for name in key:
        mixed = (mixed ^ _hashed(table.column(name))) * _MIX
    numbers = (mixed >> np.uint64(32)) % np.uint64(count)
    order = np.argsort(numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(count + 1, dtype=np.uint64))
    return [
        (number, table.take(pa.array(order[ends[number] : ends[number + 1]])))
        for number in range(count)
        if ends[number] < ends[number + 1]
    ]


def _hashed(column: pa.ChunkedArray) -> Array:
    """A number for each row; equal values have equal numbers. NULL is a value too."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    values = np.append(_of_values(encoded.dictionary), np.uint64(0))
    mixed: Array = values[codes] * _MIX
    return mixed ^ (mixed >> np.uint64(29))


def _of_values(values: pa.Array) -> Array:
    if pa.types.is_int64(values.type) or pa.types.is_float64(values.type):
        numbers: Array = values.to_numpy(zero_copy_only=False).view(np.uint64)
        return numbers
    return np.fromiter((crc32(repr(v).encode()) for v in values.to_pylist()), np.uint64)
