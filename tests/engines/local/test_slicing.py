"""Programs of which each thread runs a slice: more groups than are worth a copy a thread."""

from __future__ import annotations

import numpy as np
import pytest

from calitree.engines.local.vm import parallel
from calitree.engines.local.vm.fusing import Instruction
from calitree.engines.local.vm.machine import Opcode
from calitree.engines.local.vm.program import Program
from calitree.engines.local.vm.slicing import slices

ROWS = 5_000


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_thread_has_accumulators_of_its_own(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "MIN_ROWS_PER_THREAD", 700)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, ROWS, ROWS).astype(np.int32)
    whole, double = rng.integers(-9, 9, ROWS), rng.normal(size=ROWS)
    program = Program(ROWS)
    index = program.index(ids)
    loaded, real = program.load(whole, 9), program.load(double)
    (count,) = program.sum(program.constant(1), index, ROWS)
    (total,) = program.sum(loaded, index, ROWS)
    (product,) = program.sum(program.multiply(loaded, loaded), index, ROWS)
    (reals,) = program.sum(real, index, ROWS)
    assert program.run(threads)
    assert all(len(into.copies) == 1 for into in (count, total, product, reals))
    assert (count.data == np.bincount(ids, minlength=ROWS)).all()
    assert (total.data == np.bincount(ids, whole, ROWS)).all()
    assert (product.data == np.bincount(ids, whole * whole, ROWS)).all()
    assert np.allclose(reals.data, np.bincount(ids, double, ROWS))


def test_a_slice_has_what_it_needs_and_nothing_else() -> None:
    code = [
        Instruction(Opcode.INDEX, 1),
        Instruction(Opcode.LOAD_8, 2),
        Instruction(Opcode.LOAD_8, 3),
        Instruction(Opcode.MULTIPLY_INT, 4, 2, 3),
        Instruction(Opcode.SCATTER_INT, 0, 2, 1),
        Instruction(Opcode.SCATTER_INT, 0, 4, 1),
    ]
    assert slices(code, 2) == [[0, 1, 4], [0, 1, 2, 3, 5]]
    assert slices(code, 3) == slices(code, 2)
    assert slices(code[:5], 2) == [[0, 1, 2, 3, 4]]


def test_an_accumulator_that_is_read_leaves_the_program_whole() -> None:
    code = [
        Instruction(Opcode.INDEX, 1),
        Instruction(Opcode.LOAD_8, 2),
        Instruction(Opcode.FILL, 3),
        Instruction(Opcode.CENTRE, 4, 2, 1, 3),
        Instruction(Opcode.SCATTER_FLOAT, 0, 4, 1),
    ]
    assert slices(code, 2) == [[0, 1, 2, 3, 4]]
