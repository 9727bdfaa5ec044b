"""Every instruction of the vector machine against NumPy, in blocks, on chosen rows and on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calitree.engines.local.annotation.by_group import from_halves
from calitree.engines.local.annotation.wide import to_integers
from calitree.engines.local.vm import parallel
from calitree.engines.local.vm.machine import LANES, Opcode
from calitree.engines.local.vm.program import Accumulator, Program, Register

Array = Any
LENGTHS = (0, 1, 3, LANES - 1, LANES, LANES + 1, 3 * LANES + 5)
CHOSEN = {
    "all rows": lambda rows, rng: None,
    "no row": lambda rows, rng: np.empty(0, np.uint32),
    "some rows": lambda rows, rng: np.flatnonzero(rng.random(rows) < 0.4).astype(np.uint32),
    "in any order": lambda rows, rng: rng.permutation(rows).astype(np.uint32),
}
INF, NAN = np.inf, np.nan


class Data:
    """Columns of a table, something to look up in, and a program over it."""

    def __init__(self, rows: int, chosen: str = "all rows", checked: bool = True) -> None:
        rng = np.random.default_rng(rows)
        self.rows = rows
        self.long = rng.integers(-(2**40), 2**40, rows)
        self.other = rng.integers(-1000, 1000, rows)
        self.double, self.second = rng.normal(size=rows), rng.normal(size=rows)
        self.flag = rng.random(rows) < 0.5
        self.ids = rng.integers(0, 7, rows).astype(np.int32)
        self.more = rng.integers(0, 3, rows).astype(np.int32)
        self.whole_by_id = rng.integers(-(2**62), 2**62, 7)
        self.real_by_id = rng.normal(size=7)
        self.few_by_id, self.more_by_id = rng.integers(-9, 9, 7), rng.integers(-9, 9, 7)
        self.map = np.array([4, 0, 2, 2, 1, 3, 4], np.uint32)
        self.chosen = CHOSEN[chosen](rows, rng)
        self.visited = np.arange(rows) if self.chosen is None else self.chosen
        self.program = Program(rows, self.chosen, checked)

    def lanes(self, register: Register) -> Array:
        """What a register has in each row that was visited."""
        row = self.program.index(np.arange(self.rows, dtype=np.int32))
        if register.real:
            (sums,) = self.program.sum(register, row, self.rows)
        else:  # of one value each, so nothing can be too large
            sums = self.program._accumulate(
                Opcode.SCATTER_INT, register, row, Accumulator(self.rows, 0, "add")
            )
        assert self.program.run(1)
        return sums.data[self.visited]


def few(program: Program, data: Data) -> Register:
    """Small integers, by an id of the row."""
    return program.gather(data.few_by_id, program.index(data.ids), 9)


Write = Callable[[Program, Data], Register]
LONG, SMALL = 2**40, 1000
INSTRUCTIONS: dict[str, tuple[Write, Callable[[Data], Array]]] = {
    "load int64": (lambda p, d: p.load(d.long), lambda d: d.long),
    "load bool": (lambda p, d: p.load(d.flag), lambda d: d.flag),
    "load double": (lambda p, d: p.load(d.double), lambda d: d.double),
    "gather int64": (lambda p, d: p.gather(d.whole_by_id, p.index(d.ids)), lambda d: d.whole_by_id[d.ids]),
    "gather double": (lambda p, d: p.gather(d.real_by_id, p.index(d.ids)), lambda d: d.real_by_id[d.ids]),
    "zero": (lambda p, d: p.gather(d.real_by_id, p.zero()), lambda d: np.full(d.rows, d.real_by_id[0])),
    "map": (
        lambda p, d: p.gather(d.real_by_id, p.map(p.index(d.ids), d.map)),
        lambda d: d.real_by_id[d.map[d.ids]],
    ),
    "combine": (
        lambda p, d: p.gather(np.arange(21) ** 3, p.combine(p.index(d.ids), p.index(d.more), 3)),
        lambda d: (d.ids * 3 + d.more) ** 3,
    ),
    "constant": (lambda p, d: p.constant(-5), lambda d: np.full(d.rows, -5)),
    "real": (lambda p, d: p.real(p.load(d.long)), lambda d: d.long.astype(float)),
    "real of a decimal": (lambda p, d: p.real(p.load(d.long), 2), lambda d: d.long / 100),
    "real of a real": (lambda p, d: p.real(p.load(d.double), 2), lambda d: d.double),
    "multiply integers": (
        lambda p, d: p.multiply(p.load(d.long, LONG), p.load(d.other, SMALL)),
        lambda d: d.long * d.other,
    ),
    "multiply, checked": (
        lambda p, d: p.multiply(p.load(d.long, 2**62), p.load(d.other, SMALL)),
        lambda d: d.long * d.other,
    ),
    "multiply doubles": (
        lambda p, d: p.multiply(p.load(d.double), p.load(d.second)), lambda d: d.double * d.second,
    ),
    "add integers": (
        lambda p, d: p.add(p.load(d.long, LONG), p.load(d.other, SMALL)), lambda d: d.long + d.other,
    ),
    "subtract integers": (
        lambda p, d: p.add(p.load(d.long, LONG), p.load(d.other, SMALL), -1),
        lambda d: d.long - d.other,
    ),
    "add integers that may not fit": (
        lambda p, d: p.add(p.load(d.long, 2**62), p.load(d.other, 2**62)),
        lambda d: d.long.astype(float) + d.other,
    ),
    "add doubles": (
        lambda p, d: p.add(p.load(d.double), p.load(d.second)), lambda d: d.double + d.second,
    ),
    "subtract doubles": (
        lambda p, d: p.add(p.load(d.double), p.load(d.second), -1), lambda d: d.double - d.second,
    ),
    "keep integers": (
        lambda p, d: p.keep(p.load(d.long), p.load(d.flag)), lambda d: np.where(d.flag, d.long, 0),
    ),
    "keep doubles": (
        lambda p, d: p.keep(p.load(d.double / d.flag), p.load(d.flag)),
        lambda d: np.where(d.flag, d.double, 0),
    ),
    # products of what only they use, and of what others use too
    "multiply by gathered": (
        lambda p, d: p.multiply(p.load(d.long, LONG), few(p, d)), lambda d: d.long * d.few_by_id[d.ids],
    ),
    "multiply gathered": (
        lambda p, d: p.multiply(few(p, d), p.load(d.long, LONG)), lambda d: d.long * d.few_by_id[d.ids],
    ),
    "multiply two gathered": (
        lambda p, d: p.multiply(few(p, d), p.gather(d.more_by_id, p.index(d.more), 9)),
        lambda d: d.few_by_id[d.ids] * d.more_by_id[d.more],
    ),
    "square gathered": (
        lambda p, d: p.multiply(few(p, d), few(p, d)), lambda d: d.few_by_id[d.ids] ** 2,
    ),
    "gathered twice used": (
        lambda p, d: p.multiply(few(p, d), p.add(few(p, d), p.load(d.other, SMALL))),
        lambda d: d.few_by_id[d.ids] * (d.few_by_id[d.ids] + d.other),
    ),
    "multiply mixed": (
        lambda p, d: p.multiply(p.real(p.load(d.long)), p.load(d.double)), lambda d: d.long * d.double,
    ),
    "multiply by mixed": (
        lambda p, d: p.multiply(p.load(d.double), p.real(few(p, d))),
        lambda d: d.double * d.few_by_id[d.ids],
    ),
    "multiply by a decimal": (
        lambda p, d: p.multiply(p.load(d.double), p.real(p.load(d.long), 2)),
        lambda d: d.double * (d.long / 100),
    ),
    "multiply two that were integers": (
        lambda p, d: p.multiply(p.real(p.load(d.long)), p.real(few(p, d))),
        lambda d: d.long.astype(float) * d.few_by_id[d.ids],
    ),
    "square of what was an integer": (
        lambda p, d: p.multiply(p.real(p.load(d.long)), p.real(p.load(d.long))),
        lambda d: d.long.astype(float) ** 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("name", INSTRUCTIONS)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_an_instruction(name: str, chosen: str) -> None:
    write, expected = INSTRUCTIONS[name]
    for rows in LENGTHS:
        data = Data(rows, chosen)
        register = write(data.program, data)
        before = {n: v.copy() for n, v in vars(data).items() if isinstance(v, np.ndarray)}
        lanes = data.lanes(register)
        changed = [n for n, v in before.items() if not np.array_equal(v, vars(data)[n])]
        assert not changed, "registers that stand for a column are not written to"
        assert register.real == (expected(data).dtype.kind == "f")
        assert np.array_equal(lanes, expected(data)[data.visited]), rows


# -- accumulators ----------------------------------------------------------------------------------


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each takes at least 700 rows, so that what they found must be merged."""
    monkeypatch.setattr(parallel, "MIN_ROWS_PER_THREAD", 700)
    return int(request.param)


ROWS = 12 * LANES


def grouped(ids: Array, groups: int, of: Callable[[Array], Any]) -> list[Any]:
    return [of(np.flatnonzero(ids == group)) for group in range(groups)]


@pytest.mark.parametrize("by_group", [True, False])
def test_sums(threads: int, by_group: bool) -> None:
    data = Data(ROWS)
    program, ids = data.program, data.ids if by_group else np.zeros(ROWS, np.int32)
    index, size = (program.index(data.ids), 7) if by_group else (None, 1)
    (whole,) = program.sum(program.load(data.long, LONG), index, size)
    (real,) = program.sum(program.load(data.double), index, size)
    some = program.any(program.load((data.long > 2**40 * 0.99) * data.flag), index, size)
    (count,) = program.sum(program.constant(1), index, size)
    assert program.run(threads)
    assert all(len(into.copies) == threads for into in (whole, real, some, count))
    for _ in range(2):  # reading merges, which must be done once
        assert whole.data.tolist() == grouped(ids, size, lambda at: data.long[at].sum())
        assert np.allclose(real.data, grouped(ids, size, lambda at: data.double[at].sum()), 1e-12)
        assert count.data.tolist() == grouped(ids, size, len)
    high = (data.long > 2**40 * 0.99) * data.flag
    assert some.data.tolist() == grouped(ids, size, lambda at: int(high[at].any()))


@pytest.mark.parametrize("by_group", [True, False])
@pytest.mark.parametrize("sign", ["positive", "negative", "mixed"])
def test_sums_beyond_64_bits_are_exact_in_halves(threads: int, sign: str, by_group: bool) -> None:
    rng = np.random.default_rng(1)
    low, high = {"positive": (2**62, 2**63 - 1), "negative": (-(2**63), -(2**62))}.get(
        sign, (-(2**63), 2**63 - 1)
    )
    values = rng.integers(low, high, ROWS, endpoint=True)
    ids = rng.integers(0, 5, ROWS).astype(np.int32) if by_group else np.zeros(ROWS, np.int32)
    program = Program(ROWS)
    index, size = (program.index(ids), 5) if by_group else (None, 1)
    upper, lower = program.sum(program.load(values, 2**63), index, size)
    assert program.run(threads)
    sums = [(u << 32) + v for u, v in zip(upper.data.tolist(), lower.data.tolist(), strict=True)]
    assert sums == grouped(ids, size, lambda at: sum(values[at].tolist()))


def test_halves_are_integers_where_all_fit() -> None:
    upper, lower = np.array([-(2**31), 2**31 - 1, -1]), np.array([0, 2**32 - 1, 2**33])
    fit = from_halves(upper, lower, 2, True)
    assert fit.data.tolist() == [-(2**63), 2**63 - 1, 2**32]
    assert (fit.data.dtype, fit.scale, fit.exact) == (np.int64, 2, True)
    beyond = from_halves(upper, lower + np.array([0, 1, 0]), 2, True)
    assert to_integers(beyond.data) == [-(2**63), 2**63, 2**32]
    assert (beyond.is_wide, beyond.scale, beyond.exact) == (True, 2, True)


@pytest.mark.parametrize(("bound", "accumulators"), [(2**61 - 1, 1), (2**61, 2)])
def test_halves_are_used_where_a_sum_may_not_fit(bound: int, accumulators: int) -> None:
    values = np.full(4, 2**61 - 1)
    program = Program(4)
    assert len(program.sum(program.load(values, bound), None, 1)) == accumulators
    few = Program(8, chosen=np.arange(4, dtype=np.uint32))
    assert len(few.sum(few.load(np.ones(8, np.int64), bound), None, 1)) == accumulators


# -- products that may not fit ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [2**33, -(2**33)])
@pytest.mark.parametrize("where", [0, LANES + 7, ROWS - 1])
def test_a_product_that_does_not_fit_is_told(threads: int, where: int, value: int) -> None:
    """Wherever it is: in another block, or in the rows of another thread."""
    values = np.ones(ROWS, np.int64)
    for wrong in (False, True):
        values[where] = value if wrong else 2**31
        program = Program(ROWS)
        register = program.load(values, 2**33)
        squares = program.sum(program.multiply(register, program.load(abs(values), 2**33)), None, 1)
        assert program.run(threads) is not wrong
        if not wrong:
            upper, lower = (int(half.data[0]) for half in squares)
            assert (upper << 32) + lower == ROWS - 1 + 2**62


def test_unchecked_products_are_doubles_where_they_may_not_fit() -> None:
    data = Data(5, checked=False)
    p = data.program
    large, small = p.load(data.long, 2**62), p.load(data.other, SMALL)
    assert p.multiply(large, small).real
    assert not p.multiply(p.load(data.long, LONG), small).real
    assert np.array_equal(
        data.lanes(p.multiply(large, small)), data.long.astype(float) * data.other
    )


# -- the smallest and the largest ------------------------------------------------------------------

SPECIAL = [NAN, INF, -INF, 0.0, -1.5, 3.0, 5e-324, 1e308]
NUMBERS = {
    "doubles": np.array(SPECIAL),
    "NaN": np.array([NAN]),
    "infinite": np.array([INF, NAN, INF]),
    "negative infinite": np.array([-INF]),
    "integers": np.array([2**63 - 1, -(2**63), 0, -7, 12]),
    "largest": np.array([2**63 - 1]),
    "least": np.array([-(2**63)]),
}


def greatest(values: list[Any]) -> Any:
    return NAN if any(v != v for v in values) else max(values)


def least(values: list[Any]) -> Any:
    return min((v for v in values if v == v), default=NAN)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("by_group", [True, False])
def test_extremes(threads: int, kind: str, largest: bool, by_group: bool) -> None:
    rng = np.random.default_rng(5)
    groups = 400 if by_group else 1  # of about eight rows, some of which nobody has
    values = rng.choice(NUMBERS[kind], ROWS)
    there = rng.random(ROWS) < 0.3
    ids = rng.integers(0, groups, ROWS).astype(np.int32)
    ids[ids == 3] = 0
    program = Program(ROWS)
    index = program.index(ids) if by_group else None
    mask = program.load(there)
    extremes = program.extreme(program.load(values), mask, index, groups, largest)
    seen = program.any(mask, index, groups)
    assert program.run(threads)
    assert len(extremes.copies) == threads
    result, rows = extremes.data, seen.data
    for at in range(groups):
        mine = values[(ids == at) & there].tolist()
        assert bool(rows[at]) == bool(mine)
        if mine:
            expected = (greatest if largest else least)(mine)
            assert result[at] == expected or (result[at] != result[at] and expected != expected)


# -- how programs are written and run --------------------------------------------------------------


def test_equal_instructions_are_written_once() -> None:
    data = Data(10)
    p = data.program

    def product() -> Register:
        oil = p.gather(data.real_by_id, p.map(p.index(data.ids), data.map))
        return p.multiply(p.multiply(oil, p.load(data.double)), p.real(p.load(data.long), 2))

    first = product()
    length = len(p._code)
    assert product() == first and len(p._code) == length == 8
    assert p.multiply(first, first) != first
    assert p.gather(data.real_by_id, p.index(data.ids)) != first
    assert p.constant(1) == p.constant(1) != p.constant(2)
    assert p.real(p.load(data.long), 2) != p.real(p.load(data.long), 3)
    p.sum(first, None, 1)
    p.sum(first, None, 1)  # each is somebody's own
    assert len(p._accumulators) == 2


def test_the_table_of_opcodes_is_whole() -> None:
    """Every instruction has a number, a meaning and a kernel of its own."""
    assert [int(opcode) for opcode in Opcode] == list(range(len(Opcode)))
    assert all(opcode.meaning for opcode in Opcode)
    assert len({opcode.kernel for opcode in Opcode}) == len(Opcode)


def test_arrays_live_as_long_as_the_program() -> None:
    """It has only their addresses; each of these would else be given the place of the one before."""
    program = Program(1000)
    sums = [program.sum(program.load(np.full(1000, i), i), None, 1)[0] for i in range(50)]
    assert program.run(1)
    assert [total.data[0] for total in sums] == [1000 * i for i in range(50)]


def test_few_rows_or_many_groups_are_not_shared_between_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parallel, "MIN_ROWS_PER_THREAD", 10)
    for rows, groups, copies in ((100, 50, 2), (100, 51, 1), (19, 1, 1), (20, 1, 2)):
        program = Program(rows)
        index = program.index(np.zeros(rows, np.int32))
        (count,) = program.sum(program.constant(1), index, groups)
        assert program.run(2)
        assert len(count.copies) == copies
        assert count.data[0] == rows
