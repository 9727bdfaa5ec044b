"""A small vector machine: one compiled loop runs every program of gathers, products and sums.

A program is run on a block of rows at a time, so that what one instruction writes to a register is
still in the processor's cache when the next one reads it. A new question is a new program, not new
code: nothing is compiled for it.

A register has one lane for each row of the block. Value registers hold integers or doubles of 8
bytes; index registers hold row numbers, ids or group numbers of 4 bytes. A register is known by its
address: that of a column which is read row by row is the column itself.

`Opcode` is the table of all instructions, each with its kernel; `run` is compiled from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import add, gt, lt, mul, sub
from typing import Any, NamedTuple

import numpy as np

from calitree.engines.local.vm.memory import VIEWS, View
from calitree.process.compiled import compiled, helper, inlined

Array = np.ndarray[Any, Any]

LANES = 256
"""Rows of a block: a handful of registers leaves room in the first cache for look-up tables."""

MAX_PRODUCT = 9.2e18
"""Products of integers that are larger, when computed as doubles, may not fit 64 bits."""


class Operands(NamedTuple):
    """What an instruction works on: the addresses of its registers, and a constant."""

    opcode: int
    out: int
    left: int
    right: int
    mask: int
    constant: int
    """A number, or the address of a column, of a look-up table or of an accumulator."""


class RowBlock(NamedTuple):
    """The rows that an instruction works on."""

    first: int
    length: int
    rows: int
    """The address of their row numbers, 4 bytes each; 0 if they follow one another from `first`."""


Kernel = Callable[[Operands, RowBlock], int]
"""Executes an instruction on a block of rows; returns the address of the register it has written."""


_i1, _i4, _i8 = VIEWS["i1"], VIEWS["i4"], VIEWS["i8"]
_u4, _f8 = VIEWS["u4"], VIEWS["f8"]

# -- kernels ---------------------------------------------------------------------------------------


def _load(view: View, width: int) -> Kernel:
    """A column; where all rows are visited, the register is the column itself."""

    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        if not block.rows:
            return x.constant + width * block.first
        out, column, rows = view(x.out), view(x.constant), _u4(block.rows)
        for j in range(block.length):
            out[j] = column[rows[j]]
        return x.out

    return execute


@helper
def _load_1(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    out, column, rows = _i8(x.out), _i1(x.constant), _u4(block.rows)
    for j in range(block.length):
        out[j] = column[rows[j] if block.rows else np.uint32(block.first + j)]
    return x.out


def _fill(view: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        out = view(x.out)
        for j in range(block.length):
            out[j] = x.constant
        return x.out

    return execute


@helper
def _combine(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    out, left, right = _u4(x.out), _u4(x.left), _u4(x.right)
    size = np.uint32(x.constant)
    for j in range(block.length):
        out[j] = left[j] * size + right[j]
    return x.out


def _gather(source: View, target: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        out, values, index = target(x.out), source(x.constant), _u4(x.left)
        for j in range(block.length):
            out[j] = values[index[j]]
        return x.out

    return execute


def _gather_multiply(source: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        out, values, index, right = _i8(x.out), source(x.constant), _u4(x.left), _i8(x.right)
        for j in range(block.length):
            out[j] = right[j] * values[index[j]]
        return x.out

    return execute


@helper
def _to_float(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    out, left, unit = _f8(x.out), _i8(x.left), _f8(x.constant)[0]
    if unit == 1.0:
        for j in range(block.length):
            out[j] = np.float64(left[j])
    else:
        for j in range(block.length):
            out[j] = np.float64(left[j]) / unit
    return x.out


def _binary(operation: Callable[[Any, Any], Any], left_type: View, type_: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        out, left, right = type_(x.out), left_type(x.left), type_(x.right)
        for j in range(block.length):
            out[j] = operation(left[j], right[j])
        return x.out

    return execute


@helper
def _multiply_checked(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    out, left, right, failed = _i8(x.out), _i8(x.left), _i8(x.right), False
    for j in range(block.length):
        if abs(np.float64(left[j]) * np.float64(right[j])) >= MAX_PRODUCT:
            failed = True
        out[j] = left[j] * right[j]
    if failed:
        _i8(x.constant)[0] = 1
    return x.out


@helper
def _sum_int(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    total, values = np.int64(0), _i8(x.left)
    for j in range(block.length):
        total += values[j]
    _i8(x.constant)[0] += total
    return x.out


@helper
def _sum_float(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    """Four sums at a time: one alone would wait for each addition."""
    a = b = c = d = 0.0
    values, last = _f8(x.left), block.length - block.length % 4
    for j in range(0, last, 4):
        a += values[j]
        b += values[j + 1]
        c += values[j + 2]
        d += values[j + 3]
    for j in range(last, block.length):
        a += values[j]
    _f8(x.constant)[0] += (a + b) + (c + d)
    return x.out


def _scatter(part: Callable[[Any], Any], view: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        sums, values, groups = view(x.constant), view(x.left), _u4(x.right)
        for j in range(block.length):
            sums[groups[j]] += part(values[j])
        return x.out

    return execute


def _scatter_best(is_better: Callable[[Any, Any], Any], view: View) -> Kernel:
    @helper
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        best, values, groups, mask = view(x.constant), view(x.left), _u4(x.right), _i8(x.mask)
        for j in range(block.length):
            if mask[j] and is_better(values[j], best[groups[j]]):
                best[groups[j]] = values[j]
        return x.out

    return execute


@helper
def _centre(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    out, centres, values = _f8(x.out), _f8(x.constant), _f8(x.left)
    groups, mask = _u4(x.right), _i8(x.mask)
    for j in range(block.length):
        out[j] = 0.0
        if mask[j]:
            centre = centres[groups[j]]
            if centre != centre:
                centre = centres[groups[j]] = values[j]
            out[j] = values[j] - centre
    return x.out


@helper
def _scatter_any(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
    seen, values, groups = _i8(x.constant), _i8(x.left), _u4(x.right)
    for j in range(block.length):
        if values[j]:
            seen[groups[j]] = 1
    return x.out


_keep = helper(lambda value, mask: value if mask else 0)
_whole = helper(lambda value: value)
_upper = helper(lambda value: value >> 32)
_lower = helper(lambda value: value & 0xFFFFFFFF)
# NaN, with which a minimum starts, is greater than every number.
_less = helper(lambda value, best: not (value >= best or value != value))
_greater = helper(lambda value, best: not value <= best and best == best)

# -- the table -------------------------------------------------------------------------------------


class Opcode(IntEnum):
    """All instructions: what each computes in every lane, and by which kernel.

    `@` stands for the memory that the constant is the address of.
    """

    meaning: str
    kernel: Kernel

    def __new__(cls, meaning: str, kernel: Kernel) -> Opcode:
        """The next opcode."""
        opcode = int.__new__(cls, len(cls.__members__))
        opcode._value_, opcode.meaning, opcode.kernel = int(opcode), meaning, kernel
        return opcode

    # Index registers
    INDEX = "out = @[row], ids", _load(_u4, 4)
    ZERO = "out = 0", _fill(_u4)
    MAP = "out = @[left], ids", _gather(_u4, _u4)
    COMBINE = "out = left * constant + right", _combine
    # Value registers
    LOAD_8 = "out = @[row], integers or doubles", _load(_i8, 8)
    LOAD_1 = "out = @[row], booleans", _load_1
    FILL = "out = constant, an integer", _fill(_i8)
    GATHER_1 = "out = @[left], integers of 1 byte; left is an index", _gather(_i1, _i8)
    GATHER_4 = "out = @[left], integers of 4 bytes", _gather(_i4, _i8)
    GATHER_8 = "out = @[left], integers or doubles", _gather(_i8, _i8)
    GATHER_MULTIPLY_1 = "out = right * @[left], integers of 1 byte", _gather_multiply(_i1)
    GATHER_MULTIPLY_4 = "out = right * @[left], integers of 4 bytes", _gather_multiply(_i4)
    GATHER_MULTIPLY_8 = "out = right * @[left], integers of 8 bytes", _gather_multiply(_i8)
    TO_FLOAT = "out = left / @[0], an integer by a double", _to_float
    MULTIPLY_INT = "out = left * right", _binary(mul, _i8, _i8)
    MULTIPLY_FLOAT = "out = left * right", _binary(mul, _f8, _f8)
    MULTIPLY_MIXED = "out = left * right, left an integer", _binary(mul, _i8, _f8)
    MULTIPLY_CHECKED = "as MULTIPLY_INT; @[0] = 1 if a product may not fit", _multiply_checked
    ADD_INT = "out = left + right", _binary(add, _i8, _i8)
    ADD_FLOAT = "out = left + right", _binary(add, _f8, _f8)
    SUBTRACT_INT = "out = left - right", _binary(sub, _i8, _i8)
    SUBTRACT_FLOAT = "out = left - right", _binary(sub, _f8, _f8)
    KEEP = "out = left where right is not zero, else zero", _binary(_keep, _i8, _i8)
    # Accumulators; right is the index of the row's group
    SUM_INT = "@[0] += left", _sum_int
    SUM_FLOAT = "@[0] += left", _sum_float
    SCATTER_INT = "@[right] += left", _scatter(_whole, _i8)
    SCATTER_FLOAT = "@[right] += left", _scatter(_whole, _f8)
    SCATTER_UPPER = "@[right] += the upper 32 bits of left", _scatter(_upper, _i8)
    SCATTER_LOWER = "@[right] += the lower 32 bits of left", _scatter(_lower, _i8)
    MIN_INT = "@[right] = min(@[right], left) where mask", _scatter_best(lt, _i8)
    MAX_INT = "@[right] = max(@[right], left) where mask", _scatter_best(gt, _i8)
    MIN_FLOAT = "as MIN_INT; NaN is the greatest number", _scatter_best(_less, _f8)
    MAX_FLOAT = "as MAX_INT; NaN is the greatest number", _scatter_best(_greater, _f8)
    ANY = "@[right] = 1 where left is not zero", _scatter_any
    CENTRE = "out = left - @[right] where mask, else 0; NaN in @ becomes the first left", _centre


def _dispatch(opcodes: Sequence[Opcode]) -> Kernel:
    """Executes an instruction of these opcodes by its kernel, which is found by binary search.

    Compiled code cannot take a function from a table by a number that is only known when it runs.
    """
    if len(opcodes) == 1:
        return opcodes[0].kernel
    half = len(opcodes) // 2
    lower, upper, middle = _dispatch(opcodes[:half]), _dispatch(opcodes[half:]), int(opcodes[half])

    @inlined
    def execute(x: Operands, block: RowBlock) -> int:  # pragma: no cover (compiled)
        return lower(x, block) if x.opcode < middle else upper(x, block)

    return execute


_execute = _dispatch(list(Opcode))


@compiled
def run(
    code: Array, registers: Array, rows: Array, start: int, stop: int
) -> None:  # pragma: no cover (compiled)
    """Run a program on the rows `start` to `stop`, or on `rows[start:stop]` if `rows` has any.

    The caller keeps the memory of the registers: here they are known by address alone.
    """
    at = np.empty(len(registers), np.int64)
    for r in range(len(registers)):
        at[r] = registers[r].ctypes.data
    for first in range(start, stop, LANES):
        chosen: Any = np.int64(rows[first:].ctypes.data) if len(rows) else 0
        block = RowBlock(first, min(LANES, stop - first), chosen)
        for i in range(len(code)):
            opcode, out, left, right, mask, constant = code[i]
            x = Operands(opcode, at[out], at[left], at[right], mask=at[mask], constant=constant)
            at[out] = _execute(x, block)
