"""Which values of a column are among many others: long lists after IN.

Arrow builds its table of the list anew for every piece of a column. Here it is built once, by the first
piece. A list is brought to the type of the column, as scaled integers: 1.50 is no value of a column of whole
numbers, so it is left out, and 2.00 is 2. So the column, which may be far longer, is not converted.

Integers that lie close together are bits, others a hash table with open addressing. Texts are in such a
table by a hash of their bytes, which are then compared. Hashes have a seed, so that nobody can write a list
of which all values collide.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.process.compiled import compiled, helper
from calitree.sql.kernels.strings import buffers, with_nulls
from calitree.sql.kernels.values import unify
from calitree.types import Kind

Array = np.ndarray[Any, Any]

MAX_BITS_PER_VALUE = 256
"""Bits are used for integers of which the table would not be smaller."""

_FREE = np.iinfo(np.int64).min
"""A slot without a value in a table of integers."""

_ABOVE = np.uint64(0xFFFFFFFF00000000)

_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Decimals of a second in a unit of timestamps."""
_MAX_DIGITS = 18
"""Ten to this power fits 64 bits."""


class ValueSet:
    """The values of a list, to be looked up by columns of one type."""

    def __init__(self, values: pa.Array, dtype: pa.DataType) -> None:
        self._values = values
        self._seed = np.uint64(int.from_bytes(os.urandom(8), "little"))
        self._texts = self._numbers = None
        if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
            self._texts = _TextTable(values, self._seed)
        else:
            numbers = _converted(values, dtype)
            self._numbers = None if numbers is None else _numbers_table(numbers, self._seed)

    def find(self, column: pa.Array) -> pa.Array:
        """Whether each value is in the list; NULL where it is NULL."""
        if not len(column):
            return pa.array([], pa.bool_())
        if self._texts is not None:
            return with_nulls(self._texts.find(column), column)
        if self._numbers is None:
            a, b = unify([column, self._values])
            if pa.types.is_floating(a.type):  # of -0.0 and 0.0 only one is looked for
                a, b = pc.add(a, 0.0), pc.add(b, 0.0)
            known = pc.is_in(a, value_set=b)
            return pc.if_else(column.is_valid(), known, pa.scalar(None, pa.bool_()))
        numbers, fits = _integers(column)
        contained = self._numbers.find(numbers)
        return with_nulls(contained if fits is None else contained & fits, column)


def _scale(dtype: pa.DataType) -> tuple[Kind, int] | None:
    """Which values are equal to those of a type, and how its integers are scaled; None if it has none."""
    if dtype == pa.int64() or pa.types.is_decimal128(dtype):
        return Kind.DECIMAL, getattr(dtype, "scale", 0)
    if pa.types.is_timestamp(dtype) and dtype.tz is None:
        return Kind.TIMESTAMP, _SCALES[dtype.unit]
    return {pa.date32(): (Kind.DATE, 0), pa.float64(): (Kind.FLOAT, 0)}.get(dtype)


def _integers(array: pa.Array) -> tuple[Array, Array | None]:
    """The integers of an array, any where it is NULL; and which of them 64 bits hold, if not all."""
    dtype, start, stop = array.type, array.offset, array.offset + len(array)
    if pa.types.is_floating(dtype):
        # of -0.0 and 0.0, which are equal, only one is left
        return _frozen((array.to_numpy(zero_copy_only=False) + 0.0).view(np.int64)), None
    if pa.types.is_decimal(dtype):
        halves = np.frombuffer(array.buffers()[1], np.int64, 2 * stop).reshape(-1, 2)[start:]
        fits = halves[:, 1] == halves[:, 0] >> 63
        return _frozen(halves[:, 0]), None if fits.all() else fits
    raw = np.frombuffer(array.buffers()[1], f"i{dtype.bit_width // 8}", stop)[start:]
    return _frozen(raw.astype(np.int64, copy=False)), None


def _frozen(numbers: Array) -> Array:
    """An array that may not be written to: loops are compiled for such only."""
    view = np.ascontiguousarray(numbers).view()
    view.flags.writeable = False
    return view


def _converted(values: pa.Array, dtype: pa.DataType) -> Array | None:
    """The values that a column of this type may have, as its integers; None if these need more bits."""
    own, column = _scale(values.type), _scale(dtype)
    if own is None or column is None or own[0] is not column[0]:
        return None
    (numbers, fits), digits = _integers(values), column[1] - own[1]
    if fits is not None or abs(digits) > _MAX_DIGITS:
        return None
    factor = 10 ** abs(digits)
    if digits < 0:
        return _frozen(numbers[numbers % factor == 0] // factor)
    largest = max(-int(numbers.min()), int(numbers.max()))
    return _frozen(numbers * factor) if largest * factor < 1 << 63 else None


class _Bits:
    def __init__(self, numbers: Array, low: int, high: int) -> None:
        self.low, self.span = np.int64(low), np.uint64(high - low)
        self.bits = np.zeros((high - low) // 8 + 1, np.uint8)
        _set_bits(numbers, self.low, self.bits)

    def find(self, numbers: Array) -> Array:
        contained = np.empty(len(numbers), np.bool_)
        _find_bits(numbers, self.low, self.span, self.bits, contained)
        return contained


class _NumberTable:
    def __init__(self, numbers: Array, seed: np.uint64) -> None:
        self.seed, self.has_free = seed, bool((numbers == _FREE).any())
        self.slots = np.full(_slots(len(numbers)), _FREE, np.int64)
        _insert_numbers(numbers, seed, self.slots)

    def find(self, numbers: Array) -> Array:
        contained = np.empty(len(numbers), np.bool_)
        _find_numbers(numbers, self.seed, self.slots, contained)
        if self.has_free:
            contained |= numbers == _FREE
        return contained


def _numbers_table(numbers: Array, seed: np.uint64) -> _Bits | _NumberTable:
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if len(numbers) and high - low < MAX_BITS_PER_VALUE * len(numbers):
        return _Bits(numbers, low, high)
    return _NumberTable(numbers, seed)


class _TextTable:
    """A slot has the number of a text, from 1 on, and above these 32 bits those of its hash."""

    def __init__(self, texts: pa.Array, seed: np.uint64) -> None:
        self.texts, self.seed = buffers(texts.cast(pa.large_string())), seed
        self.slots = np.zeros(_slots(len(texts)), np.uint64)
        _insert_texts(self.texts, seed, self.slots)

    def find(self, texts: pa.Array) -> Array:
        contained = np.empty(len(texts), np.bool_)
        _find_texts(buffers(texts), self.texts, self.seed, self.slots, contained)
        return contained


def _slots(count: int) -> int:
    """Twice as many as values, or more: a power of two."""
    return 1 << max(4, (2 * count - 1).bit_length())


@helper
def _mixed(number: Any) -> Any:  # pragma: no cover (compiled)
    number = (number ^ (number >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    number = (number ^ (number >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return number ^ (number >> np.uint64(32))


@helper
def _hash(data: Any, start: Any, stop: Any, seed: Any) -> Any:  # pragma: no cover (compiled)
    code = seed ^ np.uint64(stop - start)
    at = start
    while at + 8 <= stop:
        word = np.uint64(0)
        for i in range(8):
            word |= np.uint64(data[np.uint64(at + i)]) << np.uint64(8 * i)
        code = _mixed(code ^ word)
        at += 8
    word = np.uint64(0)
    for i in range(stop - at):
        word |= np.uint64(data[np.uint64(at + i)]) << np.uint64(8 * i)
    return _mixed(code ^ word)


@helper
def _equal(data: Any, span: Any, texts: Any, other: Any) -> Any:  # pragma: no cover (compiled)
    (start, stop), (first, last) = span, other
    if stop - start != last - first:
        return False
    for i in range(stop - start):  # noqa: SIM110 (generators are not compiled)
        if data[np.uint64(start + i)] != texts[np.uint64(first + i)]:
            return False
    return True


@compiled
def _set_bits(numbers: Array, low: Any, bits: Array) -> None:  # pragma: no cover (compiled)
    for i in range(len(numbers)):
        bit = np.uint64(numbers[i] - low)
        bits[bit >> np.uint64(3)] |= np.uint8(1) << np.uint8(bit & np.uint64(7))


@compiled
def _find_bits(
    numbers: Array, low: Any, span: Any, bits: Array, contained: Array
) -> None:  # pragma: no cover (compiled)
    for i in range(len(numbers)):
        bit = np.uint64(numbers[i]) - np.uint64(low)  # what is less than the least wraps around
        contained[i] = (
            bit <= span and (bits[bit >> np.uint64(3)] >> np.uint8(bit & np.uint64(7))) & 1
        )


@compiled
def _insert_numbers(numbers: Array, seed: Any, slots: Array) -> None:  # pragma: no cover (compiled)
    last = np.uint64(len(slots) - 1)
    for i in range(len(numbers)):
        at = _mixed(np.uint64(numbers[i]) ^ seed) & last
        while slots[at] != _FREE and slots[at] != numbers[i]:
            at = (at + np.uint64(1)) & last
        slots[at] = numbers[i]


@compiled
def _find_numbers(
    numbers: Array, seed: Any, slots: Array, contained: Array
) -> None:  # pragma: no cover (compiled)
    last = np.uint64(len(slots) - 1)
    for i in range(len(numbers)):
        at = _mixed(np.uint64(numbers[i]) ^ seed) & last
        while slots[at] != _FREE and slots[at] != numbers[i]:
            at = (at + np.uint64(1)) & last
        contained[i] = slots[at] != _FREE


@helper
def _text_slot(
    data: Any, span: Any, known: Any, slots: Any, code: Any
) -> Any:  # pragma: no cover (compiled)
    """The slot of a text; a free one if it has none."""
    (starts, texts), last = known, np.uint64(len(slots) - 1)
    at, above = code & last, code & _ABOVE
    while slots[at]:
        if slots[at] & _ABOVE == above:
            text = slots[at] & ~_ABOVE
            if _equal(data, span, texts, (starts[text - np.uint64(1)], starts[text])):
                break
        at = (at + np.uint64(1)) & last
    return at


@compiled
def _insert_texts(known: Any, seed: Any, slots: Array) -> None:  # pragma: no cover (compiled)
    starts, texts = known
    for i in range(len(starts) - 1):
        code = _hash(texts, starts[i], starts[i + 1], seed)
        at = _text_slot(texts, (starts[i], starts[i + 1]), known, slots, code)
        slots[at] = (code & _ABOVE) | np.uint64(i + 1)


@compiled
def _find_texts(
    given: Any, known: Any, seed: Any, slots: Array, contained: Array
) -> None:  # pragma: no cover (compiled)
    offsets, data = given
    for row in range(len(contained)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        code = _hash(data, start, stop, seed)
        contained[row] = slots[_text_slot(data, (start, stop), known, slots, code)] != 0
