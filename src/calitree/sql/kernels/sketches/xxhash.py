"""XXH64, the hash that Spark has as `xxhash64`: of integers as eight bytes, and of texts and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from calitree.process.compiled import compiled, helper
from calitree.sql.kernels.strings import buffers

Array = np.ndarray[Any, Any]

SEED = np.uint64(42)
"""Spark's."""

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_BYTE, _WORD, _LANE, _STRIPE = np.uint64(1), np.uint64(4), np.uint64(8), np.uint64(32)


def of_integers(values: Array) -> Array:
    """The hash of each integer of 64 bits, as unsigned integers."""
    given = values.view(np.uint64)
    given.flags.writeable = False  # as arrays of Arrow are: each loop is compiled once
    hashed = np.empty(len(given), np.uint64)
    _hash_integers(given, hashed)
    return hashed


def of_bytes(values: pa.Array) -> Array:
    """The hash of each text, of its bytes in UTF-8; of NULL it is any number."""
    offsets, data = buffers(values)
    data.flags.writeable = False
    hashed = np.empty(len(values), np.uint64)
    _hash_bytes(offsets, data, hashed)
    return hashed


@helper
def _rotate(value: Any, bits: Any) -> Any:  # pragma: no cover (compiled)
    return (value << bits) | (value >> (np.uint64(64) - bits))


@helper
def _read(data: Any, at: Any, size: Any) -> Any:  # pragma: no cover (compiled)
    """So many bytes as a number, the lowest first."""
    value = np.uint64(0)
    for i in range(size):
        value |= np.uint64(data[at + np.uint64(i)]) << np.uint64(8 * i)
    return value


@helper
def _round(total: Any, lane: Any) -> Any:  # pragma: no cover (compiled)
    return _rotate(total + lane * _P2, np.uint64(31)) * _P1


@helper
def _mixed(total: Any) -> Any:  # pragma: no cover (compiled)
    total = (total ^ (total >> np.uint64(33))) * _P2
    total = (total ^ (total >> np.uint64(29))) * _P3
    return total ^ (total >> np.uint64(32))


@helper
def _with_lane(total: Any, lane: Any) -> Any:  # pragma: no cover (compiled)
    return _rotate(total ^ _round(np.uint64(0), lane), np.uint64(27)) * _P1 + _P4


@compiled
def _hash_integers(values: Array, hashed: Array) -> None:  # pragma: no cover (compiled)
    for row in range(len(hashed)):
        hashed[row] = _mixed(_with_lane(SEED + _P5 + _LANE, values[row]))


@compiled
def _hash_bytes(offsets: Array, data: Array, hashed: Array) -> None:  # pragma: no cover (compiled)
    for row in range(len(hashed)):
        at, end = np.uint64(offsets[row]), np.uint64(offsets[row + 1])
        length = end - at
        total = SEED + _P5
        if length >= _STRIPE:
            a, b, c, d = SEED + _P1 + _P2, SEED + _P2, SEED, SEED - _P1
            while at + _STRIPE <= end:
                a = _round(a, _read(data, at, 8))
                b = _round(b, _read(data, at + _LANE, 8))
                c = _round(c, _read(data, at + _LANE + _LANE, 8))
                d = _round(d, _read(data, at + _STRIPE - _LANE, 8))
                at += _STRIPE
            total = _rotate(a, np.uint64(1)) + _rotate(b, np.uint64(7))
            total += _rotate(c, np.uint64(12)) + _rotate(d, np.uint64(18))
            for lane in (a, b, c, d):
                total = (total ^ _round(np.uint64(0), lane)) * _P1 + _P4
        total += length
        while at + _LANE <= end:
            total = _with_lane(total, _read(data, at, 8))
            at += _LANE
        if at + _WORD <= end:
            total ^= _read(data, at, 4) * _P1
            total = _rotate(total, np.uint64(23)) * _P2 + _P3
            at += _WORD
        while at < end:
            total ^= _read(data, at, 1) * _P5
            total = _rotate(total, np.uint64(11)) * _P1
            at += _BYTE
        hashed[row] = _mixed(total)
