"""Slices of a program: what computes some of its accumulators, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from calitree.engines.local.vm.fusing import Instruction
from calitree.engines.local.vm.machine import Opcode


def slices(code: Sequence[Instruction], count: int) -> list[list[int]]:
    """The positions of the instructions of each slice: at most `count`, which share the accumulators.

    There is one, the whole program, if an accumulator is also read.
    """
    into = [at for at, x in enumerate(code) if x.opcode >= Opcode.SUM_INT]
    if len(into) < 2 or any(code[at].out for at in into):
        return [list(range(len(code)))]
    return [_slice(code, into[i::count]) for i in range(min(count, len(into)))]


def _slice(code: Sequence[Instruction], into: Sequence[int]) -> list[int]:
    """These instructions and all that write a register they need."""
    wanted, registers, kept = set(into), set[int](), list[int]()
    for at, x in reversed(list(enumerate(code))):
        if at in wanted or x.out in registers:
            registers |= {x.left, x.right, x.mask} - {0}
            kept.append(at)
    return kept[::-1]
