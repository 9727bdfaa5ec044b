"""Columns of texts compared with one text, or searched for it, by compiled loops.

Texts are compared by their bytes, whose order is that of code points: by the first eight, read as one
number, and by the rest where these are equal.

All bytes of a column are one buffer, so it is searched as a whole: 64 bytes at a time for three bytes of
the needle that are rare in it, and only where all stand as they should for the others. After a hit the
search goes on with the next text. Arrow goes through every text by itself, byte for byte, which takes
several times as long.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pyarrow as pa

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


_compiled = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)


def find(texts: pa.Array, needle: bytes) -> pa.Array:
    """Whether each text contains the needle, which is not empty; NULL where it is NULL."""
    offsets, data = _buffers(texts)
    wanted = np.frombuffer(needle, np.uint8)
    sample = data[int(offsets[0]) :][:SAMPLED_BYTES]
    frequent = np.bincount(sample, minlength=256)[wanted]
    rare = np.resize(np.argsort(frequent, kind="stable"), 3)
    there = np.zeros(len(texts), bool)
    _find(offsets, data, wanted, rare, there)
    return _with_nulls(there, texts)


def compare(name: str, texts: pa.Array, other: bytes) -> pa.Array:
    """Arrow's comparison of this name of each text with another; NULL where it is NULL."""
    offsets, data = _buffers(texts)
    wanted, result = np.frombuffer(other, np.uint8), np.empty(len(texts), bool)
    if name in ("equal", "not_equal"):
        _equal(offsets, data, wanted, name == "equal", result)
    else:
        _less(offsets, data, wanted, name.endswith("_equal") == name.startswith("less"), result)
        if name.startswith("greater"):
            np.logical_not(result, out=result)
    return _with_nulls(result, texts)


def _buffers(texts: pa.Array) -> tuple[Array, Array]:
    """Where each text begins and ends, and the bytes of all."""
    dtype = OFFSETS[texts.type]
    _, at, buffer = texts.buffers()
    offsets = np.frombuffer(at, dtype, len(texts) + 1, texts.offset * dtype.itemsize)
    return offsets, np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _with_nulls(result: Array, texts: pa.Array) -> pa.Array:
    nulls = texts.is_null().to_numpy(zero_copy_only=False) if texts.null_count else None
    return pa.array(result, mask=nulls)


@_compiled
def _equal(
    offsets: Array, data: Array, other: Array, equal: bool, result: Array
) -> None:  # pragma: no cover (compiled)
    """Whether texts equal another one, or do not if `equal` is false."""
    length = len(other)
    for row in range(len(result)):
        start, same = np.int64(offsets[row]), offsets[row + 1] - offsets[row] == length
        if same:
            for i in range(length):
                if data[start + i] != other[i]:
                    same = False
                    break
        result[row] = same == equal


@_compiled
def _less(
    offsets: Array, data: Array, other: Array, or_equal: bool, result: Array
) -> None:  # pragma: no cover (compiled)
    """Whether texts are less than another one, or equal to it if `or_equal`."""
    key = np.uint64(0)
    for i in range(8):
        key = (key << np.uint64(8)) | np.uint64(other[i] if i < len(other) else 0)
    for row in range(len(result)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        own: Any = np.uint64(0)
        length: Any = stop - start
        if length >= 8:
            for i in range(8):
                own = (own << np.uint64(8)) | np.uint64(data[start + i])
        else:
            for i in range(length):
                own |= np.uint64(data[start + i]) << np.uint64(8 * (7 - i))
        if own != key:
            result[row] = own < key
            continue
        less = length < len(other) or (or_equal and length == len(other))
        for i in range(min(length, len(other))):
            if data[start + i] != other[i]:
                less = data[start + i] < other[i]
                break
        result[row] = less


@_compiled
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
