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

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from calitree.engines.local.vm import machine as m
from calitree.engines.local.vm import parallel
from calitree.engines.local.vm.fusing import Instruction, fused

Array = np.ndarray[Any, Any]
ALL = np.empty(0, np.uint32)
LOADS = {
    np.dtype(np.int64): m.LOAD_8,
    np.dtype(np.float64): m.LOAD_8,
    np.dtype(bool): m.LOAD_1,
}
LIMIT = 2**63
UNITS = 10.0 ** np.arange(309)  # as far as doubles go


@dataclass(frozen=True)
class Register:
    """A value in every lane; `bound` is the largest magnitude that an integer may have."""

    at: int
    real: bool
    bound: int = 0


@dataclass
class Accumulator:
    """Where a register is summed: one slot a group. `data` is there after the run."""

    size: int
    start: int | float
    merge: Literal["add", "minimum", "fmin", "maximum"]
    copies: list[Array] = field(default_factory=list)

    def copy(self) -> Array:
        dtype = np.float64 if isinstance(self.start, float) else np.int64
        if self.start == 0:
            made = np.zeros(self.size, dtype)
        else:
            made = np.full(self.size, self.start, dtype)
        self.copies.append(made)
        return made

    @property
    def data(self) -> Array:
        first, *others = self.copies
        for other in others:
            getattr(np, self.merge)(first, other, out=first)
        self.copies = [first]
        return first


class Program:
    """Instructions over the rows of one table, or over `chosen` rows of it.

    `checked`: products of integers that may be too large are tried, and the run tells if one was.
    """

    def __init__(self, rows: int, chosen: Array | None = None, checked: bool = True) -> None:
        self.rows = rows
        self.chosen = chosen
        self.checked = checked
        self._code: list[Instruction] = []
        self._known: dict[tuple[int, ...], int] = {}
        self._registers = self._indices = 0
        self._kept: list[Array] = []
        self._narrowed: dict[int, Array] = {}
        self._accumulators: list[Accumulator] = []

    @property
    def length(self) -> int:
        return self.rows if self.chosen is None else len(self.chosen)

    def _emit(self, op: int, left: int, right: int, where: int, extra: int, index: bool) -> int:
        key = (op, left, right, where, extra)
        if key not in self._known:
            if index:
                out, self._indices = self._indices, self._indices + 1
            else:
                out, self._registers = self._registers, self._registers + 1
            self._code.append((op, out, left, right, where, extra))
            self._known[key] = out
        return self._known[key]

    def _address(self, array: Array) -> int:
        self._kept.append(array)
        return m.address(array)

    def index(self, ids: Array) -> int:
        """4-byte ids of every row."""
        return self._emit(m.INDEX, 0, 0, self._address(ids), 0, True)

    def map(self, index: int, table: Array) -> int:
        """What a 4-byte table has at an index."""
        return self._emit(m.MAP, index, 0, self._address(table), 0, True)

    def combine(self, left: int, right: int, size: int) -> int:
        """Two indices as one; `size` is that of the right one."""
        return self._emit(m.COMBINE, left, right, 0, size, True)

    def load(self, values: Array, bound: int = 0) -> Register:
        """A column of the table."""
        at = self._emit(LOADS[values.dtype], 0, 0, self._address(values), 0, False)
        return Register(at, values.dtype.kind == "f", bound)

    def gather(self, values: Array, index: int, bound: int = 0) -> Register:
        """8-byte values at an index. Integers of known size are looked up in as few bytes as they
        need: what is smaller stays nearer to the processor.
        """
        if values.dtype.kind != "f" and 0 < bound < 2**31:
            values = self._narrow(values, np.int8 if bound < 2**7 else np.int32)
        where, width = self._address(values), values.dtype.itemsize
        return Register(
            self._emit(m.GATHER, index, 0, where, width, False), values.dtype.kind == "f", bound
        )

    def _narrow(self, values: Array, dtype: Any) -> Array:
        """The same numbers in fewer bytes; of the same array, the same one each time."""
        key = m.address(values)
        if key not in self._narrowed:
            self._kept.append(values)
            self._narrowed[key] = values.astype(dtype)
        return self._narrowed[key]

    def constant(self, value: int) -> Register:
        return Register(self._emit(m.FILL, 0, 0, 0, value, False), False, abs(value))

    def real(self, value: Register, scale: int = 0) -> Register:
        """A register as doubles; `scale` digits of its integers are behind the point."""
        if value.real:
            return value
        unit = self._address(UNITS[scale : scale + 1])
        return Register(self._emit(m.TO_FLOAT, value.at, 0, unit, 0, False), True)

    def multiply(self, left: Register, right: Register) -> Register:
        """Of two of a kind. Where integers may not fit 64 bits the run says so, if it is checked;
        else they are multiplied as doubles.
        """
        bound = left.bound * right.bound
        if bound >= LIMIT and not left.real and not self.checked:
            left, right = self.real(left), self.real(right)
        if left.real:
            op, bound = m.MULTIPLY_FLOAT, 0
        else:
            op = m.MULTIPLY_INT if bound < LIMIT else m.MULTIPLY_CHECKED
        out = self._emit(op, left.at, right.at, 0, 0, False)
        return Register(out, left.real, min(bound, LIMIT - 1))

    def keep(self, value: Register, there: Register) -> Register:
        """A value where another is not zero, else zero; unlike their product also if it is NaN."""
        out = self._emit(m.KEEP, value.at, there.at, 0, 0, False)
        return Register(out, value.real, value.bound)

    def add(self, left: Register, right: Register, sign: int = 1) -> Register:
        """Of two of a kind; integers whose sum might not fit are added as doubles."""
        bound = left.bound + right.bound
        if not left.real and bound >= LIMIT:
            left, right = self.real(left), self.real(right)
        ops = (m.ADD_FLOAT, m.SUBTRACT_FLOAT) if left.real else (m.ADD_INT, m.SUBTRACT_INT)
        out = self._emit(ops[sign < 0], left.at, right.at, 0, 0, False)
        return Register(out, left.real, bound)

    def sum(self, value: Register, index: int | None, size: int) -> list[Accumulator]:
        """One accumulator; two, for the upper and the lower 32 bits, if one might not hold it."""
        if value.real:
            op = m.SUM_FLOAT if index is None else m.SCATTER_FLOAT
            return [self._accumulate(op, value, index, Accumulator(size, 0.0, "add"))]
        if value.bound * max(self.length, 1) < LIMIT:
            op = m.SUM_INT if index is None else m.SCATTER_INT
            return [self._accumulate(op, value, index, Accumulator(size, 0, "add"))]
        index = self.zero() if index is None else index
        return [
            self._accumulate(op, value, index, Accumulator(size, 0, "add"))
            for op in (m.SCATTER_UPPER, m.SCATTER_LOWER)
        ]

    def extreme(
        self, value: Register, there: Register, index: int | None, size: int, largest: bool
    ) -> Accumulator:
        """The smallest or largest where `there` is not zero. NaN is greater than every number."""
        index = self.zero() if index is None else index
        if value.real:
            op = m.SCATTER_MAX_FLOAT if largest else m.SCATTER_MIN_FLOAT
            start = -np.inf if largest else np.nan
            made = Accumulator(size, float(start), "maximum" if largest else "fmin")
        else:
            op = m.SCATTER_MAX_INT if largest else m.SCATTER_MIN_INT
            limits = np.iinfo(np.int64)
            start = int(limits.min if largest else limits.max)
            made = Accumulator(size, start, "maximum" if largest else "minimum")
        return self._accumulate(op, value, index, made, there.at)

    def any(self, value: Register, index: int | None, size: int) -> Accumulator:
        """1 where some value is not zero."""
        index = self.zero() if index is None else index
        return self._accumulate(m.SCATTER_ANY, value, index, Accumulator(size, 0, "maximum"))

    def zero(self) -> int:
        """An index that is 0 in every lane."""
        return self._emit(m.ZERO, 0, 0, 0, 0, True)

    def _accumulate(
        self, op: int, value: Register, index: int | None, into: Accumulator, extra: int = 0
    ) -> Accumulator:
        self._accumulators.append(into)
        self._code.append((op, 0, value.at, index or 0, 0, extra))
        return into

    def run(self, threads: int) -> bool:
        """Fill the accumulators. False if an integer product may have passed 64 bits."""
        slots = sum(into.size for into in self._accumulators)
        if threads * slots > self.length:  # more to clear and merge than to add
            threads = 1
        code = np.array(fused(self._code, m.address(UNITS)), np.int64).reshape(-1, m.WIDTH)
        sums = np.flatnonzero(code[:, 0] >= m.SUM_INT)
        rows = ALL if self.chosen is None else self.chosen
        parts = []
        for start, stop in parallel.ranges(self.length, threads):
            own = code.copy()
            for at, into in zip(sums, self._accumulators, strict=True):
                own[at, 4] = m.address(into.copy())
            registers = np.empty((self._registers, m.LANES), np.int64)
            indices = np.empty((self._indices, m.LANES), np.uint32)
            parts.append((own, registers, indices, rows, start, stop))
        return not any(parallel.each(lambda part: m.run(*part), parts, threads))
