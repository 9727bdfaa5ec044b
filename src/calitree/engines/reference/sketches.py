"""Cells and buckets of Python values; none of them is NULL."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from calitree.sql.rules.sketches import BUCKET_BITS, RANKS, REGISTER_BITS

PRIMES = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
    *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
SEED, MASK = 42, (1 << 64) - 1
EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


def cell(value: Any) -> int:
    """The register of a value, and its rank there."""
    hashed = xxh64(_bytes(value))
    others, rank = hashed >> REGISTER_BITS, 0
    while rank < RANKS - 1 and others % 2 == 0:
        others, rank = others // 2, rank + 1
    return hashed % (1 << REGISTER_BITS) * RANKS + rank


def bucket(value: float) -> int:
    """The number of the bucket that a double is in."""
    per_octave = 1 << BUCKET_BITS
    if math.isnan(value):
        return 2047 * per_octave + per_octave // 2
    if math.isinf(value):
        return 2047 * per_octave * (1 if value > 0 else -1)
    if abs(value) < 2.0**-1022:
        return 0
    half, exponent = math.frexp(abs(value))  # value = half * 2^exponent, and 0.5 <= half < 1
    number = (exponent + 1022) * per_octave + math.floor((2 * half - 1) * per_octave)
    return number if value > 0 else -number


def _bytes(value: Any) -> bytes:
    """What is hashed: integers as eight bytes, and so are times; other decimals as text."""
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, float):
        return struct.pack("<d", math.nan if math.isnan(value) else value + 0.0)
    if isinstance(value, int | Decimal):
        if value == int(value) and -(1 << 63) <= value < 1 << 63:
            return struct.pack("<q", int(value))
        text = format(value, "f") if isinstance(value, Decimal) else str(value)
        return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
    return struct.pack("<q", _whole(value))


def _whole(value: date | time | timedelta) -> int:
    """Days, microseconds, or nanoseconds of a time."""
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (plain - EPOCH) // MICROSECOND
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) * 1_000
    return value // MICROSECOND


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK


def _round(total: int, lane: int) -> int:
    return _rotated((total + lane * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxh64(data: bytes) -> int:
    """The hash of some bytes, as Spark has it."""
    p1, p2, p3, p4, p5 = PRIMES
    total, at = (SEED + p5) & MASK, 0
    if len(data) >= 32:
        lanes = [(SEED + p1 + p2) & MASK, (SEED + p2) & MASK, SEED, (SEED - p1) & MASK]
        while at + 32 <= len(data):
            read = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, read, strict=True)]
            at += 32
        total = sum(map(_rotated, lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * p1 + p4) & MASK
    total = (total + len(data)) & MASK
    while at + 8 <= len(data):
        total ^= _round(0, *struct.unpack_from("<Q", data, at))
        total, at = (_rotated(total, 27) * p1 + p4) & MASK, at + 8
    if at + 4 <= len(data):
        total ^= int(struct.unpack_from("<I", data, at)[0]) * p1 & MASK
        total, at = (_rotated(total, 23) * p2 + p3) & MASK, at + 4
    for byte in data[at:]:
        total = _rotated(total ^ byte * p5 & MASK, 11) * p1 & MASK
    total = (total ^ total >> 33) * p2 & MASK
    total = (total ^ total >> 29) * p3 & MASK
    return total ^ total >> 32
