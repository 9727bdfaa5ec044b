"""Fusing instructions: a value that only one product reads is computed by that product.

Every register is written by one instruction, so where a value is computed can be moved to where it is
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from calitree.engines.local.vm.machine import Opcode


class Instruction(NamedTuple):
    """An opcode, its registers by number (0: none, which is never read), and its constant."""

    opcode: Opcode
    out: int = 0
    left: int = 0
    right: int = 0
    mask: int = 0
    constant: int = 0


FUSED = {
    (Opcode.MULTIPLY_INT, Opcode.GATHER_1): Opcode.GATHER_MULTIPLY_1,
    (Opcode.MULTIPLY_INT, Opcode.GATHER_4): Opcode.GATHER_MULTIPLY_4,
    (Opcode.MULTIPLY_INT, Opcode.GATHER_8): Opcode.GATHER_MULTIPLY_8,
    (Opcode.MULTIPLY_FLOAT, Opcode.TO_FLOAT): Opcode.MULTIPLY_MIXED,
}
"""A product and how one of its operands is computed; the instruction that does both."""


def fused(code: Sequence[Instruction], unit: int) -> list[Instruction]:
    """The same program in fewer instructions.

    `unit` is the address of 1.0, by which a number is divided that only changes its type.
    """
    uses = Counter(register for x in code for register in (x.left, x.right, x.mask))
    operands = {
        x.out: x
        for x in code
        if uses[x.out] == 1 and (x.opcode != Opcode.TO_FLOAT or x.constant == unit)
    }
    result: list[Instruction] = []
    gone: set[int] = set()
    for product in code:
        for register, other in ((product.right, product.left), (product.left, product.right)):
            operand = operands.get(register)
            opcode = FUSED.get((product.opcode, operand.opcode)) if operand else None
            if operand is not None and opcode is not None and register not in gone:
                product = Instruction(
                    opcode, product.out, operand.left, other, constant=operand.constant
                )
                gone.add(register)
                break
        result.append(product)
    return [x for x in result if x.out not in gone]
