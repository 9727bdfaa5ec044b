"""Columns of texts compared with one text, or searched for it, by compiled loops.

Texts are compared by their bytes, whose order is that of code points: by the first eight, read as one
number, and by the rest where these are equal. Indices are unsigned: those of signed ones that may be
negative are slower.

All bytes of a column are one buffer, so it is searched as a whole: 64 bytes at a time for three bytes of
the needle that are rare in it, and only where all stand as they should for the others. After a hit the
search goes on with the next text. Arrow goes through every text by itself, byte for byte, which takes
several times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from calitree.process.compiled import compiled

Array = np.ndarray[Any, Any]

SAMPLED_BYTES = 1 << 16
"""Bytes by which it is judged which ones are rare."""

LANES = 64
"""Bytes that are looked at together."""

OFFSETS: dict[pa.DataType, Any] = {
    pa.string(): np.dtype(np.int32),
    pa.binary(): np.dtype(np.int32),
    pa.large_string(): np.dtype(np.int64),
    pa.large_binary(): np.dtype(np.int64),
}
"""How the offsets of texts are stored, by their type."""


OUTCOMES = {
    "equal": (False, True, False),
    "not_equal": (True, False, True),
    "less": (True, False, False),
    "less_equal": (True, True, False),
    "greater": (False, False, True),
    "greater_equal": (False, True, True),
}
"""What comparisons are for a text that is less, equal or greater, by the names that Arrow gives them."""


def find(texts: pa.Array, needle: bytes) -> pa.Array:
    """Whether each text contains the needle, which is not empty; NULL where it is NULL."""
    offsets, data = buffers(texts)
    wanted = np.frombuffer(needle, np.uint8)
    sample = data[int(offsets[0]) :][:SAMPLED_BYTES]
    frequent = np.bincount(sample, minlength=256)[wanted]
    rare = np.resize(np.argsort(frequent, kind="stable"), 3)
    there = np.zeros(len(texts), bool)
    _find(offsets, data, wanted, rare, there)
    return with_nulls(there, texts)


def compare(name: str, texts: pa.Array, other: bytes) -> pa.Array:
    """Arrow's comparison of this name of each text with another; NULL where it is NULL."""
    offsets, data = buffers(texts)
    result = np.empty(len(texts), bool)
    _compare(offsets, data, np.frombuffer(other, np.uint8), np.array(OUTCOMES[name]), result)
    return with_nulls(result, texts)


def buffers(texts: pa.Array) -> tuple[Array, Array]:
    """Where each text begins and ends, and the bytes of all."""
    dtype = OFFSETS[texts.type]
    _, at, buffer = texts.buffers()
    offsets = np.frombuffer(at, dtype, len(texts) + 1, texts.offset * dtype.itemsize)
    return offsets, np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def with_nulls(result: Array, column: pa.Array) -> pa.Array:
    """What was found for each value of a column; NULL where it is NULL."""
    if column.null_count:
        return pa.array(result, mask=column.is_null().to_numpy(zero_copy_only=False))
    bits = pa.py_buffer(np.packbits(result, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(result), [None, bits])


@compiled
def _compare(
    offsets: Array, data: Array, other: Array, outcomes: Array, result: Array
) -> None:  # pragma: no cover (compiled)
    """Write the outcome for each text: whether it is less than another one, equal to it, or greater."""
    key = np.uint64(0)
    for i in range(8):
        key = (key << np.uint64(8)) | np.uint64(other[i] if i < len(other) else 0)
    less, equal, greater = outcomes[0], outcomes[1], outcomes[2]
    for row in range(len(result)):
        start, own = np.uint64(offsets[row]), np.uint64(0)
        length: Any = np.int64(offsets[row + 1]) - np.int64(offsets[row])
        if length >= 8:
            for i in range(8):
                own = (own << np.uint64(8)) | np.uint64(data[start + np.uint64(i)])
        else:
            for i in range(length):
                own |= np.uint64(data[start + np.uint64(i)]) << np.uint64(8 * (7 - i))
        if own != key:
            result[row] = less if own < key else greater
            continue
        outcome = less if length < len(other) else equal if length == len(other) else greater
        for i in range(min(length, len(other))):
            x = data[start + np.uint64(i)]
            if x != other[i]:
                outcome = less if x < other[i] else greater
                break
        result[row] = outcome


@compiled
def _find(
    offsets: Array, data: Array, needle: Array, rare: Array, there: Array
) -> None:  # pragma: no cover (compiled)
    i, j, k = rare[0], rare[1], rare[2]
    a, b, c = needle[i], needle[j], needle[k]
    length, row = len(needle), 0
    at, end = np.int64(offsets[0]), np.int64(offsets[len(there)]) - length + 1
    while at < end:
        stop = min(at + LANES, end)
        if stop - at == LANES:
            x, y, z = data[at + i :], data[at + j :], data[at + k :]
            some = np.uint8(0)
            for lane in range(LANES):
                some |= np.uint8(x[lane] == a) & np.uint8(y[lane] == b) & np.uint8(z[lane] == c)
            if not some:
                at = stop
                continue
        while at < stop:
            same = data[at + i] == a
            if same:
                for p in range(length):
                    if data[at + p] != needle[p]:
                        same = False
                        break
            if not same:
                at += 1
                continue
            while offsets[row + 1] <= at:
                row += 1
            if at + length <= offsets[row + 1]:
                there[row] = True
                at = np.int64(offsets[row + 1])
            else:
                at += 1
