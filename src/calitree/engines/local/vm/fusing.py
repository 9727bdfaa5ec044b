"""Making a program shorter: what is made for one product only is made by that product.

Every register is written by one instruction, so where a value is made can be moved to where it is
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from calitree.engines.local.vm import machine as m

Instruction = tuple[int, int, int, int, int, int]
"""Operation, out, left, right, address, extra."""

_READS_NOTHING = {
    *(m.INDEX, m.ZERO, m.MAP, m.COMBINE, m.GATHER, m.FILL, m.LOAD_8, m.LOAD_1),
}
_READS_TWO = {
    *(m.MULTIPLY_INT, m.MULTIPLY_FLOAT, m.MULTIPLY_CHECKED, m.KEEP),
    *(m.ADD_INT, m.ADD_FLOAT, m.SUBTRACT_INT, m.SUBTRACT_FLOAT),
}
_READS_A_MASK = {m.SCATTER_MIN_INT, m.SCATTER_MAX_INT, m.SCATTER_MIN_FLOAT, m.SCATTER_MAX_FLOAT}


def fused(code: Sequence[Instruction], unit: int) -> list[Instruction]:
    """The same program in fewer instructions. `unit` is the address of 1.0, by which a number is
    divided that only changes its type.
    """
    uses = Counter(register for each in code for register in _read(each))
    once = {each[1]: each for each in code if each[0] in (m.GATHER, m.TO_FLOAT)}
    once = {out: each for out, each in once.items() if uses[out] == 1}
    result: list[Instruction] = []
    gone: set[int] = set()
    for each in code:
        op, out, left, right, _, _ = each
        for one, other in ((right, left), (left, right)):
            source = once.get(one)
            if source is None or one in gone:
                continue
            if op == m.MULTIPLY_INT and source[0] == m.GATHER:
                each = (m.GATHER_MULTIPLY, out, source[2], other, source[4], source[5])
            elif op == m.MULTIPLY_FLOAT and source[0] == m.TO_FLOAT and source[4] == unit:
                each = (m.MULTIPLY_MIXED, out, source[2], other, 0, 0)
            else:
                continue
            gone.add(one)
            break
        result.append(each)
    made = (m.GATHER, m.TO_FLOAT)
    return [each for each in result if each[0] not in made or each[1] not in gone]


def _read(instruction: Instruction) -> tuple[int, ...]:
    """The registers that an instruction reads."""
    op, _, left, right, _, extra = instruction
    if op in _READS_NOTHING:
        return ()
    if op in _READS_TWO:
        return left, right
    return (left, extra) if op in _READS_A_MASK else (left,)
