"""Attribute values ↔ small integers, shared by all relations that have the attribute.

A code is one more than a position in the attribute's dictionary; 0 is NULL, which is in no
dictionary and never matches. Codes are what joins and groups work on; a predicate on one attribute
is evaluated on its dictionary, not on the rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.encoding.lookup import Lookup
from calitree.engines.local.encoding.numbering import Piece, is_small, number, number_any, pieces
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError
from calitree.grouping import canonical_array, contiguous
from calitree.interrupts import check, run
from calitree.process.locks import Rank, SharedLock

Array = np.ndarray[Any, Any]
Codes = np.ndarray[Any, np.dtype[np.int32]]
Lock = AbstractContextManager[Any]

MAX_KEYS_LOOKED_UP_AT_ONCE, MAX_KEYS_SORTED_AT_ONCE = 1_000, 100_000
"""So few keys are looked up in so many, which are quickly sorted, from the first call on."""

INT64 = pa.int64()
DATE, TIMESTAMP, DOUBLE = pa.date32().id, pa.timestamp("us").id, pa.float64().id
INTEGERS = {
    dtype.id: np.dtype(np.int32) if dtype == pa.int32() else None
    for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
} | {INT64.id: np.dtype(np.int64)}
"""Types of integers that fit 64 bits, by their ids: how a buffer is read, None if it is converted."""
NUMBERS = INTEGERS | {
    dtype.id: np.dtype(f"i{dtype.bit_width // 8}")
    for dtype in (
        *(pa.date32(), pa.date64(), pa.timestamp("us"), pa.duration("us")),
        *(pa.time32("s"), pa.time64("us")),
    )
}
"""The same with dates and times."""


def common(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type in which values of both can be compared."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return pa.float64()
    if pa.types.is_timestamp(a) and pa.types.is_timestamp(b):
        return pa.timestamp("ns", a.tz)
    if pa.types.is_time(a) and pa.types.is_time(b):
        return pa.time64("ns")
    if pa.types.is_duration(a) and pa.types.is_duration(b):
        return pa.duration("ns")
    if pa.types.is_decimal(a) or pa.types.is_decimal(b):
        scale = max(t.scale if pa.types.is_decimal(t) else 0 for t in (a, b))
        return pa.decimal256(76, scale)
    return a


class Dictionary:
    """The values of one attribute seen so far. It only grows: a value keeps its code."""

    def __init__(self, threads: int = 1, lock: Lock | None = None) -> None:
        self.values: pa.Array = pa.nulls(0)
        self.threads = threads
        self._lock = SharedLock(Rank.CODEBOOK) if lock is None else lock
        self._lookup = Lookup()

    @property
    def size(self) -> int:
        """One more than the largest code."""
        return len(self.values) + 1

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.values.nbytes) + self._lookup.nbytes

    def encode(self, column: pa.Array | pa.ChunkedArray) -> Codes:
        """The code of every value; new values are added."""
        with self._lock:
            return self._encode(column)

    def _encode(self, column: pa.Array | pa.ChunkedArray) -> Codes:
        if pa.types.is_null(self.values.type):
            self.values = canonical_array(column[:0])  # its type, should there be nothing but NULL
        if self._lookup.is_for(len(column), len(self.values)):
            few = canonical_array(column)
            if few.type == self.values.type:
                return self._encode_few(few)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        out = np.empty(len(column), np.int32)
        starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
        parts = [(c, out[a : a + len(c)]) for c, a in zip(chunks, starts, strict=False) if len(c)]
        unit = integers(column.type)
        if unit is not None and (len(self.values) == 0 or self.values.type == unit):
            self._encode_integers(column, parts, unit)
        else:
            self._encode_any(parts)
        return out

    def find(self, column: pa.Array | pa.ChunkedArray) -> Codes | None:
        """The code of every value, -1 for one that is not here; nothing is added.

        None if such values cannot be compared with those here.
        """
        with self._lock:
            return self._find(column)

    def _find(self, column: pa.Array | pa.ChunkedArray) -> Codes | None:
        values, known = contiguous(column), self.values
        quick = len(values) <= MAX_KEYS_LOOKED_UP_AT_ONCE and len(known) <= MAX_KEYS_SORTED_AT_ONCE
        if (
            integers(values.type) == known.type
            and not values.null_count
            and (quick or self._lookup.is_for(len(values), len(known)))
        ):
            codes = self._look_up(values)  # the keys of an update, nearly always
        else:
            values = canonical_array(values)
            if values.type != known.type:
                try:
                    values = values.cast(known.type)
                except pa.ArrowException:
                    return None
            is_for = self._lookup.is_for(len(values), len(known))
            codes = self._look_up(values) if is_for else self._search(values)
        codes[codes == 0] = -1
        if values.null_count:
            codes[values.is_null().to_numpy(zero_copy_only=False)] = 0
        return codes

    def _search(self, values: pa.Array) -> Codes:
        """The code of every value, 0 if it is not here."""
        known = pc.index_in(values, value_set=self.values).fill_null(-1)
        codes: Codes = known.to_numpy(zero_copy_only=False) + np.int32(1)
        return codes

    def _look_up(self, values: pa.Array) -> Codes:
        """The same by sorted keys. Different texts may have the same key, though they hardly ever do."""
        codes = self._lookup.find(
            keys_of(values), lambda start: keys_of(self.values[start:]), len(self.values)
        )
        if values.type.id not in NUMBERS and values.type.id != DOUBLE:
            hits = np.flatnonzero(codes)
            equal = pc.equal(
                self.values.take(pa.array(codes[hits] - 1)), values.take(pa.array(hits))
            )
            if not pc.all(equal, min_count=0).as_py():
                return self._search(values)
        return codes

    def _encode_few(self, values: pa.Array) -> Codes:
        codes = self._look_up(values)
        fresh = codes == 0
        if values.null_count:
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            codes[~valid] = 0
            fresh &= valid
        if fresh.any():
            unknown = values.filter(pa.array(fresh))
            added = unknown.unique()
            numbers = pc.index_in(unknown, value_set=added).to_numpy(zero_copy_only=False)
            codes[fresh] = self.size + numbers
            self.values = pa.concat_arrays([self.values, added])
        return codes

    def _encode_integers(self, column: Any, parts: list[tuple[pa.Array, Codes]], unit: Any) -> None:
        """Whole numbers and what is stored as such: dates, times."""
        pieces = [piece for chunk, out in parts for piece in _pieces(chunk, out, self.threads)]
        known = _raw(self.values).astype(np.int64) if len(self.values) else np.empty(0, np.int64)
        low, high = _limits(column, known)
        if is_small(high - low + 1, len(column)):
            fresh = number(pieces, known, low, high - low + 1, self.threads)
        else:
            fresh = number_any(pieces, known)
        if len(fresh):
            added = pa.array(fresh.astype(np.int32) if unit.bit_width == 32 else fresh).view(unit)
            self.values = pa.concat_arrays([self.values, added]) if len(known) else added

    def _encode_any(self, parts: list[tuple[pa.Array, Codes]]) -> None:
        """Every chunk by itself first, which threads can do, then their dictionaries together."""

        def encode(part: tuple[pa.Array, Codes]) -> pa.DictionaryArray:
            check()
            return canonical_array(part[0]).dictionary_encode()

        rows = sum(len(out) for _, out in parts)
        local = run(lambda: parallel.map(encode, parts, self.threads), rows)
        # A column of type null encodes NULL itself, which must not get a code.
        maps = [self._add(encoded.dictionary.drop_null()) for encoded in local]

        def write(at: int) -> None:
            indices = local[at].indices
            if indices.null_count:
                indices = indices.fill_null(len(maps[at]) - 1)
            np.take(maps[at], indices.to_numpy(zero_copy_only=False), out=parts[at][1])

        parallel.map(write, range(len(parts)), self.threads)

    def _add(self, local: pa.Array) -> Codes:
        """The codes of these distinct values, and at the end that of NULL."""
        dtype = common(self.values.type, local.type)
        if dtype != self.values.type:
            self._lookup = Lookup()  # its keys are those of the type before
        values = self.values
        self.values, codes = run(lambda: _merged(values, local, dtype), len(values) + len(local))
        return codes

    def decode(self, codes: Codes) -> pa.Array:
        """The values of these codes."""
        if len(codes) and codes.min() == 0:
            return self.values.take(pa.array(codes - np.int32(1), mask=codes == 0))
        return self.values.take(pa.array(codes - np.int32(1)))

    @property
    def domain(self) -> pa.Array:
        """The value of each code, NULL's first: what a predicate is evaluated on."""
        return pa.concat_arrays([pa.nulls(1, self.values.type), self.values])


def _merged(values: pa.Array, local: pa.Array, dtype: pa.DataType) -> tuple[pa.Array, Codes]:
    """Values with those of `local` that are new; the codes of `local`, and at the end that of NULL."""
    try:
        values, local = values.cast(dtype), local.cast(dtype)
    except pa.ArrowInvalid as error:
        raise EngineError(
            f"Keys of type {values.type} and {local.type} cannot be compared: {error}. "
            "Cast one of the columns in its source."
        ) from None
    known = pc.index_in(local, value_set=values)
    if known.null_count:
        # Casting (3 and 3.0) may have made two local values equal: keep one of them.
        added = local.filter(pc.is_null(known)).unique()
        values = pa.concat_arrays([values, added])
        known = pc.index_in(local, value_set=values)
    codes = known.to_numpy(zero_copy_only=False).astype(np.int32) + np.int32(1)
    return values, np.append(codes, np.int32(0))


def integers(dtype: pa.DataType) -> pa.DataType | None:
    """The type that a dictionary keeps whole numbers of this type in; None for other types."""
    if dtype.id in INTEGERS:
        return INT64
    if dtype.id == DATE or (dtype.id == TIMESTAMP and dtype.unit in ("us", "ns")):
        return dtype
    return None


def keys_of(values: pa.Array) -> Array:
    """A number for each value, the same for equal ones; any number where it is NULL."""
    if values.type.id in NUMBERS:
        return _raw(values).astype(np.int64, copy=False)
    if values.type.id == DOUBLE:
        bits: Array = values.to_numpy(zero_copy_only=False).view(np.int64)
        return bits
    return np.fromiter(map(hash, values.to_pylist()), np.int64, len(values))


def _raw(values: pa.Array) -> Array:
    """The integers in an array's buffer, of any value where it is NULL; copied only if converted."""
    dtype = NUMBERS[values.type.id]
    if dtype is None:
        values, dtype = values.cast(INT64), np.dtype(np.int64)
    offset = values.offset * dtype.itemsize
    raw: Array = np.frombuffer(values.buffers()[1], dtype, len(values), offset)
    return raw


def _pieces(chunk: pa.Array, out: Codes, threads: int) -> list[Piece]:
    raw = _raw(chunk)
    if not chunk.null_count:
        return pieces(raw, out, threads)
    valid = chunk.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    ranges = parallel.short_ranges(len(raw), 1)
    return [Piece(raw[a:b], out[a:b], valid[a:b]) for a, b in ranges]


def _limits(column: pa.Array | pa.ChunkedArray, known: Array) -> tuple[int, int]:
    """The least and the greatest of all integers here and known."""
    ends = [
        int(end.cast(pa.int64()).as_py() if pa.types.is_integer(end.type) else end.value)
        for end in pc.min_max(column).values()
        if end.is_valid
    ]
    if len(known):
        ends += [int(known.min()), int(known.max())]
    return (min(ends), max(ends)) if ends else (0, 0)
