"""Parts of texts: found, cut out, replaced, padded.

Arrow's kernels take constants for all but the text. Where these are columns, rows with the same ones are
computed together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import ExpressionError
from calitree.sql.kernels import text
from calitree.sql.kernels.values import (
    MAX_BYTES,
    Datum,
    broadcast,
    bytes_of,
    check_bytes,
    is_text,
    total,
    where,
)
from calitree.sql.rules.text import SPACES

MAX_CHARACTERS = 1 << 24
"""That a text is padded to, or repeated to."""
_FAR = 1 << 31
"""Further than any text is long."""


def _by_constants(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """Let a kernel, which takes a text and constants, take columns of these."""

    @wraps(kernel)
    def run(datum: Datum, *options: Datum) -> Datum:
        if all(isinstance(option, pa.Scalar) for option in options):
            return kernel(datum, *(option.as_py() for option in options))
        length = next(len(option) for option in options if isinstance(option, pa.Array))
        columns = [broadcast(option, length) for option in options]
        known = np.logical_and.reduce([_mask(column) for column in columns])
        numbers = np.zeros(length, np.int64)
        for column in columns:
            codes = column.dictionary_encode()
            numbers *= len(codes.dictionary) + 1
            numbers += codes.indices.fill_null(0).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(known)
        rows = rows[np.argsort(numbers[rows], kind="stable")]
        texts = broadcast(datum, length)
        pieces, nbytes = [], 0
        for some in np.split(rows, np.flatnonzero(np.diff(numbers[rows])) + 1):
            if len(some):
                values = (column[int(some[0])].as_py() for column in columns)
                pieces.append(kernel(texts.take(pa.array(some)), *values))
                if is_text(pieces[-1]):
                    nbytes += bytes_of(pieces[-1])
                    check_bytes(kernel.__name__.upper(), nbytes, length)
        if not pieces:
            return pa.scalar(None)
        places = np.full(length, -1)
        places[rows] = np.arange(len(rows))
        return pa.concat_arrays(pieces).take(pa.array(places, mask=~known))

    return run


def _mask(column: pa.Array) -> np.ndarray[Any, Any]:
    valid: np.ndarray[Any, Any] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _slice(datum: Datum, start: int, stop: int | None) -> Datum:
    """Characters from a place to another, both from the end where they are negative."""
    start = max(min(start, _FAR), -_FAR)
    if stop is not None and (start >= 0) == (stop >= 0) and stop <= start:
        start = stop = 0
    return pc.utf8_slice_codeunits(
        datum, start=start, stop=None if stop is None else max(min(stop, _FAR), -_FAR)
    )


@_by_constants
def left(datum: Datum, count: int) -> Datum:
    """The first characters, or all but so many of the last."""
    return _slice(datum, 0, count)


@_by_constants
def right(datum: Datum, count: int) -> Datum:
    """The last characters, or all but so many of the first."""
    return _slice(datum, -count, 0 if count == 0 else None)


@_by_constants
def substring(datum: Datum, start: int, count: int | None = None) -> Datum:
    """Characters from the `start`th on (the first is 1, the last -1), or before it for a negative count."""
    first = start - 1 if start > 0 else start if start < 0 else -1
    if start == 0 and count is None:
        return datum
    if count is None:
        return _slice(datum, first, None)
    low, high = sorted((first, first + count))
    if start >= 0:
        return _slice(datum, max(low, 0), max(high, 0))
    return _slice(datum, low, None if high >= 0 else high)


@_by_constants
def replace(datum: Datum, part: str, other: str) -> Datum:
    """Every part replaced, from the left; an empty one is nowhere."""
    if not part:
        return datum
    own, old, new = bytes_of(datum), len(part.encode()), len(other.encode())
    if own // old * new > MAX_BYTES:
        times = total(pc.count_substring(datum, pattern=part))
        rows = 1 if isinstance(datum, pa.Scalar) else len(datum)
        check_bytes("REPLACE", own + times * (new - old), rows)
    return pc.replace_substring(datum, pattern=part, replacement=other)


starts_with = _by_constants(pc.starts_with)
ends_with = _by_constants(pc.ends_with)
contains = _by_constants(text.contains)


@_by_constants
def position(datum: Datum, part: str) -> Datum:
    """The place of a part, counted in characters from 1; 0 if it is not there."""
    if isinstance(datum, pa.Scalar):
        return pa.scalar(datum.as_py().find(part) + 1, pa.int64())
    at = pc.add(pc.cast(pc.find_substring(datum, part), pa.int64()), 1)
    if part.isascii() and pc.all(pc.string_is_ascii(datum)).as_py() in (True, None):
        return at
    return pa.array(
        [None if x is None else x.find(part) + 1 for x in datum.to_pylist()], pa.int64()
    )


def _trim(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    def trimmed(datum: Datum, characters: str = SPACES) -> Datum:
        return kernel(datum, characters=characters) if characters else datum

    return _by_constants(trimmed)


trim, trim_left, trim_right = map(_trim, (pc.utf8_trim, pc.utf8_ltrim, pc.utf8_rtrim))


def _pad(name: str, in_front: bool) -> Callable[..., Datum]:
    """LPAD or RPAD: a text of so many characters, cut where it has more."""

    def padded(datum: Datum, width: int, padding: str) -> Datum:
        if isinstance(datum, pa.Scalar):
            return padded(pa.repeat(datum, 1), width, padding)[0]
        width = max(width, 0)
        if width > MAX_CHARACTERS:
            raise ExpressionError(f"{name} pads to at most {MAX_CHARACTERS:,} characters")
        missing = pc.max_element_wise(pc.subtract(width, pc.utf8_length(datum)), 0)
        if not padding and (pc.max(missing).as_py() or 0) > 0:
            raise ExpressionError(f"{name} has nothing to pad with")
        width_in_bytes = len(padding.encode()) / max(len(padding), 1)
        check_bytes(name, bytes_of(datum) + width_in_bytes * total(missing), len(datum))
        counts = pc.unique(missing).drop_null()
        all_of_it = padding * (width // max(len(padding), 1) + 1)
        texts = pa.array([all_of_it[: count.as_py()] for count in counts], datum.type)
        pads = texts.take(pc.index_in(missing, counts))
        cut = _slice(datum, 0, width)
        sides = (pads, cut) if in_front else (cut, pads)
        return pc.binary_join_element_wise(*sides, pa.scalar("", datum.type))

    return _by_constants(padded)


pad_left, pad_right = _pad("LPAD", True), _pad("RPAD", False)
reverse = pc.utf8_reverse


@_by_constants
def repeat(datum: Datum, count: int) -> Datum:
    """The text so many times."""
    count = max(count, 0)
    longest = datum if isinstance(datum, pa.Scalar) else pc.max(pc.utf8_length(datum))
    size = len(longest.as_py() or "") if isinstance(datum, pa.Scalar) else longest.as_py() or 0
    if size * count > MAX_CHARACTERS:
        raise ExpressionError(f"REPEAT makes at most {MAX_CHARACTERS:,} characters")
    rows = 1 if isinstance(datum, pa.Scalar) else len(datum)
    check_bytes("REPEAT", bytes_of(datum) * count, rows)
    return pc.binary_repeat(datum, count if size else 0)


@_by_constants
def split_part(datum: Datum, separator: str, number: int) -> Datum:
    """A part between separators, from 1 or from the end; '' if there is none, and a character without one."""
    if isinstance(datum, pa.Scalar):
        return split_part(pa.repeat(datum, 1), pa.scalar(separator), pa.scalar(number))[0]
    if number == 0:
        return _slice(datum, 0, 0)
    if not separator:
        return _slice(datum, number - 1 if number > 0 else number, _end(number))
    lists = pc.split_pattern(datum, pattern=separator)
    sizes = pc.list_value_length(lists)
    index = pc.add(sizes, number) if number < 0 else pa.repeat(pa.scalar(number - 1), len(lists))
    there = pc.and_(pc.greater_equal(index, 0), pc.less(index, sizes))
    offsets = lists.offsets[: len(lists)]
    parts = lists.values.take(where(there, pc.cast(pc.add(offsets, index), pa.int64())))
    return where(pc.is_valid(datum), pc.fill_null(parts, ""))


def _end(number: int) -> int | None:
    return number if number > 0 else None if number == -1 else number + 1
