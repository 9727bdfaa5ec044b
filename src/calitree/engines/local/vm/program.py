"""Writing programs for the vector machine, and running them on several threads.

    program = Program(rows=len(sales))
    date = program.index(date_ids)
    oil = program.gather(oil_by_date, date)          # a message, by separator id
    price = program.load(prices)                      # a lift, by row
    total = program.sum(program.multiply(oil, price), date, groups)
    program.run(threads=2)
    total.data                                        # one sum a date

Equal instructions are written once, so outputs that need the same product share it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from calitree.engines.local.vm import machine, parallel
from calitree.engines.local.vm.fusing import Instruction, fused
from calitree.engines.local.vm.machine import Opcode
from calitree.engines.local.vm.slicing import slices
from calitree.interrupts import check

Array = np.ndarray[Any, Any]
Part = tuple[Array, Array, Array, int, int]
"""Code, registers, and the rows from a first to a last one."""
ALL_ROWS = np.empty(0, np.uint32)
LOADS = {"i": Opcode.LOAD_8, "f": Opcode.LOAD_8, "b": Opcode.LOAD_1}
"""By the kind of a column's NumPy type."""
GATHERS = {1: Opcode.GATHER_1, 4: Opcode.GATHER_4, 8: Opcode.GATHER_8}
"""By the bytes of an entry."""
CONSTANT = Instruction._fields.index("constant")
INT64_LIMIT = 2**63
MAX_STEPS = 1 << 24
"""Instructions, each on one row, that are executed in one call: Ctrl-C is answered between calls."""
POWERS_OF_TEN = 10.0 ** np.arange(309)  # as far as doubles go


@dataclass(frozen=True)
class Register:
    """A value in every lane; `bound` is the largest magnitude that an integer may have."""

    number: int
    real: bool
    bound: int = 0


@dataclass
class Accumulator:
    """Where a register is summed: one slot for each group. `data` is there after the run."""

    size: int
    start: int | float
    merge: Literal["add", "minimum", "fmin", "maximum"]
    copies: list[Array] = field(default_factory=list)
    """What each thread has accumulated."""
    given: Array | None = None
    """What is there at first, if it is not `start` everywhere."""

    def copy(self) -> Array:
        """An array of its own for a thread."""
        dtype = np.float64 if isinstance(self.start, float) else np.int64
        if self.given is not None:
            slots = self.given.copy()
        elif self.start == 0:
            slots = np.zeros(self.size, dtype)
        else:
            slots = np.full(self.size, self.start, dtype)
        self.copies.append(slots)
        return slots

    @property
    def data(self) -> Array:
        """The result: what all threads have accumulated, merged."""
        first, *others = self.copies
        for other in others:
            getattr(np, self.merge)(first, other, out=first)
        self.copies = [first]
        return first


class Program:
    """Instructions over the rows of one table, or over `chosen` rows of it.

    `checked`: products of integers that may be too large are tried, and the run tells if one was.
    An index is an index register by its number; a `Register` is a value register.
    """

    def __init__(self, rows: int, chosen: Array | None = None, checked: bool = True) -> None:
        self.rows = rows
        self.chosen = chosen
        self.checked = checked
        self._code: list[Instruction] = []
        self._registers: dict[tuple[Opcode, tuple[int, ...]], int] = {}
        self._arrays: list[Array] = []
        self._narrowed: dict[int, Array] = {}
        self._accumulators: list[Accumulator] = []
        self._overflow = np.zeros(1, np.int64)

    @property
    def length(self) -> int:
        """How many rows it visits."""
        return self.rows if self.chosen is None else len(self.chosen)

    def _emit(self, opcode: Opcode, left: int = 0, right: int = 0, *, constant: int = 0) -> int:
        """Append an instruction, unless there is an equal one; the register that it writes."""
        key = (opcode, (left, right, constant))
        if key not in self._registers:
            out = self._registers[key] = len(self._registers) + 1
            self._code.append(Instruction(opcode, out, left, right, constant=constant))
        return self._registers[key]

    def _address(self, array: Array) -> int:
        self._arrays.append(array)  # it must live as long as its address
        return address_of(array)

    def index(self, ids: Array) -> int:
        """4-byte ids of every row."""
        return self._emit(Opcode.INDEX, constant=self._address(ids))

    def map(self, index: int, table: Array) -> int:
        """What a 4-byte table has at an index."""
        return self._emit(Opcode.MAP, index, constant=self._address(table))

    def combine(self, left: int, right: int, size: int) -> int:
        """Two indices as one; `size` is that of the right one."""
        return self._emit(Opcode.COMBINE, left, right, constant=size)

    def load(self, values: Array, bound: int = 0) -> Register:
        """A column of the table."""
        out = self._emit(LOADS[values.dtype.kind], constant=self._address(values))
        return Register(out, values.dtype.kind == "f", bound)

    def gather(self, values: Array, index: int, bound: int = 0) -> Register:
        """8-byte values at an index.

        Integers of known size are looked up in as few bytes as they need: what is smaller stays
        nearer to the processor.
        """
        real = values.dtype.kind == "f"
        if not real and 0 < bound < 2**31:
            values = self._narrow(values, np.int8 if bound < 2**7 else np.int32)
        opcode = GATHERS[values.dtype.itemsize]
        return Register(self._emit(opcode, index, constant=self._address(values)), real, bound)

    def _narrow(self, values: Array, dtype: Any) -> Array:
        """The same numbers in fewer bytes; of the same array, the same one each time."""
        key = self._address(values)
        if key not in self._narrowed:
            self._narrowed[key] = values.astype(dtype)
        return self._narrowed[key]

    def constant(self, value: int) -> Register:
        """The same integer in every lane."""
        return Register(self._emit(Opcode.FILL, constant=value), False, abs(value))

    def real(self, value: Register, scale: int = 0) -> Register:
        """A register as doubles; `scale` digits of its integers are decimals."""
        if value.real:
            return value
        power = self._address(POWERS_OF_TEN[scale : scale + 1])
        return Register(self._emit(Opcode.TO_FLOAT, value.number, constant=power), True)

    def multiply(self, left: Register, right: Register) -> Register:
        """The product of two registers of one type.

        Where integers may not fit 64 bits the run says so, if it is checked; else they are
        multiplied as doubles.
        """
        bound = left.bound * right.bound
        if bound >= INT64_LIMIT and not left.real and not self.checked:
            left, right = self.real(left), self.real(right)
        if left.real:
            out = self._emit(Opcode.MULTIPLY_FLOAT, left.number, right.number)
            return Register(out, True)
        if bound < INT64_LIMIT:
            return Register(
                self._emit(Opcode.MULTIPLY_INT, left.number, right.number), False, bound
            )
        flag = address_of(self._overflow)
        out = self._emit(Opcode.MULTIPLY_CHECKED, left.number, right.number, constant=flag)
        return Register(out, False, INT64_LIMIT - 1)

    def keep(self, value: Register, mask: Register) -> Register:
        """A value where another is not zero, else zero; unlike their product also if it is NaN."""
        out = self._emit(Opcode.KEEP, value.number, mask.number)
        return Register(out, value.real, value.bound)

    def add(self, left: Register, right: Register, sign: int = 1) -> Register:
        """The sum of two registers of one type, or their difference.

        Integers whose sum might not fit are added as doubles.
        """
        bound = left.bound + right.bound
        if not left.real and bound >= INT64_LIMIT:
            left, right = self.real(left), self.real(right)
        if left.real:
            opcode = Opcode.ADD_FLOAT if sign > 0 else Opcode.SUBTRACT_FLOAT
        else:
            opcode = Opcode.ADD_INT if sign > 0 else Opcode.SUBTRACT_INT
        return Register(self._emit(opcode, left.number, right.number), left.real, bound)

    def sum(self, value: Register, index: int | None, size: int) -> list[Accumulator]:
        """One accumulator; two, for the upper and the lower 32 bits, if one might not hold it."""
        if value.real:
            opcodes = [Opcode.SUM_FLOAT if index is None else Opcode.SCATTER_FLOAT]
        elif value.bound * max(self.length, 1) < INT64_LIMIT:
            opcodes = [Opcode.SUM_INT if index is None else Opcode.SCATTER_INT]
        else:
            opcodes = [Opcode.SCATTER_UPPER, Opcode.SCATTER_LOWER]
            index = self.zero() if index is None else index
        start = 0.0 if value.real else 0
        return [
            self._accumulate(opcode, value, index, Accumulator(size, start, "add"))
            for opcode in opcodes
        ]

    def extreme(
        self, value: Register, mask: Register, index: int | None, size: int, largest: bool
    ) -> Accumulator:
        """The smallest or largest where `mask` is not zero. NaN is greater than every number."""
        index = self.zero() if index is None else index
        if largest:
            opcode = Opcode.MAX_FLOAT if value.real else Opcode.MAX_INT
            into = Accumulator(size, -math.inf if value.real else -INT64_LIMIT, "maximum")
        elif value.real:
            opcode, into = Opcode.MIN_FLOAT, Accumulator(size, math.nan, "fmin")
        else:
            opcode, into = Opcode.MIN_INT, Accumulator(size, INT64_LIMIT - 1, "minimum")
        return self._accumulate(opcode, value, index, into, mask=mask.number)

    def any(self, value: Register, index: int | None, size: int) -> Accumulator:
        """1 where some value is not zero."""
        index = self.zero() if index is None else index
        return self._accumulate(Opcode.ANY, value, index, Accumulator(size, 0, "maximum"))

    def centre(
        self,
        value: Register,
        mask: Register,
        index: int | None,
        size: int,
        around: Array | None = None,
    ) -> tuple[Register, Accumulator]:
        """How far each value is from the first one of its group where `mask` is not zero.

        Elsewhere it is zero. `around` are centres to be used instead of first values.
        """
        index = self.zero() if index is None else index
        into = Accumulator(size, math.nan, "add", given=around)
        out = len(self._registers) + 1
        self._registers[Opcode.CENTRE, (out,)] = out
        self._accumulate(Opcode.CENTRE, value, index, into, mask=mask.number, out=out)
        return Register(out, True), into

    def zero(self) -> int:
        """An index that is 0 in every lane."""
        return self._emit(Opcode.ZERO)

    def _accumulate(
        self,
        opcode: Opcode,
        value: Register,
        index: int | None,
        into: Accumulator,
        *,
        mask: int = 0,
        out: int = 0,
    ) -> Accumulator:
        self._accumulators.append(into)
        self._code.append(Instruction(opcode, out, value.number, index or 0, mask))
        return into

    def run(self, threads: int) -> bool:
        """Fill the accumulators. False if an integer product may have passed 64 bits."""
        instructions = fused(self._code, address_of(POWERS_OF_TEN))
        every, by_rows = [list(range(len(instructions)))], threads
        if threads * sum(into.size for into in self._accumulators) > self.length:
            # More to clear and merge than to add: each thread has accumulators of its own, and all rows.
            by_rows = 1
            if self.length >= threads * parallel.MIN_ROWS_PER_THREAD:
                every = slices(instructions, threads)
        code = np.array(instructions, np.int64).reshape(-1, len(Instruction._fields))
        sums = np.flatnonzero(code[:, 0] >= Opcode.SUM_INT).tolist()
        accumulators = dict(zip(sums, self._accumulators, strict=True))
        rows = ALL_ROWS if self.chosen is None else self.chosen
        parts = []
        for positions in every:
            for start, stop in parallel.ranges(self.length, by_rows):
                own = code[positions]
                for at, position in enumerate(positions):
                    if position in accumulators:
                        own[at, CONSTANT] = address_of(accumulators[position].copy())
                registers = np.empty((len(self._registers) + 1, machine.LANES), np.int64)
                parts.append((own, registers, rows, start, stop))
        parallel.map(self._run, parts, threads)
        return not self._overflow[0]

    def _run(self, part: Part) -> None:
        """Run it on some rows, a part of them at a time.

        A thread that is left alone by an interrupted caller holds the program by this method, and so the
        arrays whose addresses are in the code.
        """
        code, registers, rows, start, stop = part
        size = machine.LANES * max(1, MAX_STEPS // (machine.LANES * len(code)))
        for first in range(start, stop, size):
            check()
            machine.run(code, registers, rows, first, min(first + size, stop))


def address_of(array: Array) -> int:
    """Where an array's data begins; whoever keeps it must keep the array too."""
    where: int = array.__array_interface__["data"][0]
    return where
