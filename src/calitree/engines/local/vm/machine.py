"""A small vector machine: one compiled loop runs every program of gathers, products and sums.

A program is a table of instructions. It is run on a block of rows at a time, so that what one
instruction leaves in a register is still in the processor's cache when the next one reads it. New
questions are new programs, not new code: nothing is compiled for them.

Registers hold 8-byte lanes, read as integers or as doubles; index registers hold row numbers, ids
and group numbers. A register is a place in memory: of a column that is read row by row, it is the
column itself. `SCATTER` instructions add a register to an accumulator, by an index register.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

from calitree.engines.local.vm.compiled import compiled

Array = np.ndarray[Any, Any]

LANES = 256
"""Rows of a block: a register of them is 2 kB, so a handful of them leaves room in the first cache
for what is gathered from.
"""

ENDLESS = 1 << 40

# An instruction: operation, out, left, right, address, extra.
WIDTH = 6
(
    INDEX,  # index[out] = the address's 4-byte ids, of the block's rows
    ZERO,  # index[out] = 0
    MAP,  # index[out] = the address's 4-byte map, at index[left]
    COMBINE,  # index[out] = index[left] * extra + index[right]
    GATHER,  # out = the address's values of `extra` bytes, at index[left]
    GATHER_MULTIPLY,  # out = right * the address's integers of `extra` bytes, at index[left]
    LOAD_8,  # out = the address's 8-byte values, of the block's rows
    LOAD_1,  # the same for 1-byte integers
    FILL,  # out = extra in every lane
    TO_FLOAT,  # out = left / the double at the address
    MULTIPLY_INT,
    MULTIPLY_FLOAT,
    MULTIPLY_MIXED,  # an integer and a double
    MULTIPLY_CHECKED,  # as integers; tells if a product may not fit
    ADD_INT,
    ADD_FLOAT,
    SUBTRACT_INT,
    SUBTRACT_FLOAT,
    KEEP,  # out = left where right is not zero, else zero
    SUM_INT,  # accumulator[0] += left
    SUM_FLOAT,
    SCATTER_INT,  # accumulator[index[right]] += left
    SCATTER_FLOAT,
    SCATTER_UPPER,  # the same for the upper 32 bits, and for the lower
    SCATTER_LOWER,
    SCATTER_MIN_INT,  # where register `extra` is not zero
    SCATTER_MAX_INT,
    SCATTER_MIN_FLOAT,
    SCATTER_MAX_FLOAT,
    SCATTER_ANY,  # accumulator[index[right]] = 1 where left is not zero
) = range(30)


def _as_pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer that `carray` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


_pointer: Any = intrinsic(_as_pointer)


@compiled
def _words(place: int) -> Array:  # pragma: no cover (compiled)
    return carray(_pointer(place), ENDLESS, np.int64)


@compiled
def _reals(place: int) -> Array:  # pragma: no cover (compiled)
    return carray(_pointer(place), ENDLESS, np.float64)


@compiled
def _ids(place: int) -> Array:  # pragma: no cover (compiled)
    return carray(_pointer(place), ENDLESS, np.uint32)


@compiled
def run(
    code: Array, registers: Array, indices: Array, rows: Array, start: int, stop: int
) -> int:  # pragma: no cover (compiled)
    """Run a program on the rows `start` to `stop`, or on `rows[start:stop]` if `rows` has any.

    The registers' memory is the caller's, who keeps it: here they are known by address alone.
    Returns 1 if some checked product may not have fitted 64 bits, else 0.
    """
    place = np.empty(len(registers), np.int64)
    spot = np.empty(len(indices), np.int64)
    for r in range(len(place)):
        place[r] = registers[r].ctypes.data
    for r in range(len(spot)):
        spot[r] = indices[r].ctypes.data
    chosen = len(rows) > 0
    failed = 0
    for first in range(start, stop, LANES):
        n = min(LANES, stop - first)
        here = rows[first : first + n]
        for at in range(len(code)):
            op, out, left, right, address, extra = code[at]
            if op == INDEX:
                if chosen:
                    ids, x = _ids(address), _ids(spot[out])
                    for j in range(n):
                        x[j] = ids[here[j]]
                else:
                    spot[out] = address + 4 * first
            elif op == ZERO:
                x = _ids(spot[out])
                for j in range(n):
                    x[j] = 0
            elif op == MAP:
                table = _ids(address)
                x, y = _ids(spot[out]), _ids(spot[left])
                for j in range(n):
                    x[j] = table[y[j]]
            elif op == COMBINE:
                x, y, z = _ids(spot[out]), _ids(spot[left]), _ids(spot[right])
                size = np.uint32(extra)
                for j in range(n):
                    x[j] = y[j] * size + z[j]
            elif op == GATHER:
                a, y = _words(place[out]), _ids(spot[left])
                if extra == 1:
                    bytes_ = carray(_pointer(address), ENDLESS, np.int8)
                    for j in range(n):
                        a[j] = bytes_[y[j]]
                elif extra == 4:
                    small = carray(_pointer(address), ENDLESS, np.int32)
                    for j in range(n):
                        a[j] = small[y[j]]
                else:
                    values = _words(address)
                    for j in range(n):
                        a[j] = values[y[j]]
            elif op == GATHER_MULTIPLY:
                a, b, y = _words(place[out]), _words(place[right]), _ids(spot[left])
                if extra == 1:
                    bytes_ = carray(_pointer(address), ENDLESS, np.int8)
                    for j in range(n):
                        a[j] = b[j] * bytes_[y[j]]
                elif extra == 4:
                    small = carray(_pointer(address), ENDLESS, np.int32)
                    for j in range(n):
                        a[j] = b[j] * small[y[j]]
                else:
                    values = _words(address)
                    for j in range(n):
                        a[j] = b[j] * values[y[j]]
            elif op == LOAD_8:
                if chosen:
                    values, a = _words(address), _words(place[out])
                    for j in range(n):
                        a[j] = values[here[j]]
                else:
                    place[out] = address + 8 * first
            elif op == LOAD_1:
                bytes_ = carray(_pointer(address), ENDLESS, np.int8)
                a = _words(place[out])
                for j in range(n):
                    a[j] = bytes_[here[j] if chosen else np.uint32(first + j)]
            elif op == FILL:
                a = _words(place[out])
                for j in range(n):
                    a[j] = extra
            elif op == TO_FLOAT:
                unit = _reals(address)[0]
                f, a = _reals(place[out]), _words(place[left])
                if unit == 1.0:
                    for j in range(n):
                        f[j] = np.float64(a[j])
                else:
                    for j in range(n):
                        f[j] = np.float64(a[j]) / unit
            elif op == MULTIPLY_INT:
                a, b, c = _words(place[out]), _words(place[left]), _words(place[right])
                for j in range(n):
                    a[j] = b[j] * c[j]
            elif op == MULTIPLY_FLOAT:
                f, g, h = _reals(place[out]), _reals(place[left]), _reals(place[right])
                for j in range(n):
                    f[j] = g[j] * h[j]
            elif op == MULTIPLY_MIXED:
                f, a, h = _reals(place[out]), _words(place[left]), _reals(place[right])
                for j in range(n):
                    f[j] = np.float64(a[j]) * h[j]
            elif op == MULTIPLY_CHECKED:
                a, b, c = _words(place[out]), _words(place[left]), _words(place[right])
                for j in range(n):
                    if abs(np.float64(b[j]) * np.float64(c[j])) >= 9.2e18:
                        failed = 1
                    a[j] = b[j] * c[j]
            elif op == ADD_INT:
                a, b, c = _words(place[out]), _words(place[left]), _words(place[right])
                for j in range(n):
                    a[j] = b[j] + c[j]
            elif op == ADD_FLOAT:
                f, g, h = _reals(place[out]), _reals(place[left]), _reals(place[right])
                for j in range(n):
                    f[j] = g[j] + h[j]
            elif op == SUBTRACT_INT:
                a, b, c = _words(place[out]), _words(place[left]), _words(place[right])
                for j in range(n):
                    a[j] = b[j] - c[j]
            elif op == SUBTRACT_FLOAT:
                f, g, h = _reals(place[out]), _reals(place[left]), _reals(place[right])
                for j in range(n):
                    f[j] = g[j] - h[j]
            elif op == KEEP:
                a, b, c = _words(place[out]), _words(place[left]), _words(place[right])
                for j in range(n):
                    a[j] = b[j] if c[j] else 0
            elif op == SUM_INT:
                total = np.int64(0)
                a = _words(place[left])
                for j in range(n):
                    total += a[j]
                _words(address)[0] += total
            elif op == SUM_FLOAT:
                _reals(address)[0] += _sum(_reals(place[left]), n)
            elif op == SCATTER_INT:
                counts = _words(address)
                a, y = _words(place[left]), _ids(spot[right])
                for j in range(n):
                    counts[y[j]] += a[j]
            elif op == SCATTER_FLOAT:
                sums = _reals(address)
                f, y = _reals(place[left]), _ids(spot[right])
                for j in range(n):
                    sums[y[j]] += f[j]
            elif op == SCATTER_UPPER:
                counts = _words(address)
                a, y = _words(place[left]), _ids(spot[right])
                for j in range(n):
                    counts[y[j]] += a[j] >> 32
            elif op == SCATTER_LOWER:
                counts = _words(address)
                a, y = _words(place[left]), _ids(spot[right])
                for j in range(n):
                    counts[y[j]] += a[j] & 0xFFFFFFFF
            elif op == SCATTER_MIN_INT:
                counts = _words(address)
                a, y, there = _words(place[left]), _ids(spot[right]), _words(place[extra])
                for j in range(n):
                    if there[j] and a[j] < counts[y[j]]:
                        counts[y[j]] = a[j]
            elif op == SCATTER_MAX_INT:
                counts = _words(address)
                a, y, there = _words(place[left]), _ids(spot[right]), _words(place[extra])
                for j in range(n):
                    if there[j] and a[j] > counts[y[j]]:
                        counts[y[j]] = a[j]
            elif op == SCATTER_MIN_FLOAT:
                sums = _reals(address)
                f, y, there = _reals(place[left]), _ids(spot[right]), _words(place[extra])
                for j in range(n):  # it starts as NaN, which is greater than every number
                    if there[j] and not (f[j] >= sums[y[j]] or f[j] != f[j]):
                        sums[y[j]] = f[j]
            elif op == SCATTER_MAX_FLOAT:
                sums = _reals(address)
                f, y, there = _reals(place[left]), _ids(spot[right]), _words(place[extra])
                for j in range(n):
                    if there[j] and not f[j] <= sums[y[j]] and sums[y[j]] == sums[y[j]]:
                        sums[y[j]] = f[j]
            elif op == SCATTER_ANY:
                counts = _words(address)
                a, y = _words(place[left]), _ids(spot[right])
                for j in range(n):
                    if a[j]:
                        counts[y[j]] = 1
    return failed


@compiled
def _sum(values: Array, n: int) -> float:  # pragma: no cover (compiled)
    """Four sums at a time: one alone would wait for each addition."""
    a = b = c = d = 0.0
    last = n - n % 4
    for j in range(0, last, 4):
        a += values[j]
        b += values[j + 1]
        c += values[j + 2]
        d += values[j + 3]
    for j in range(last, n):
        a += values[j]
    return (a + b) + (c + d)


def address(array: Array) -> int:
    """Where an array's data begins; whoever keeps it must keep the array too."""
    where: int = array.__array_interface__["data"][0]
    return where
