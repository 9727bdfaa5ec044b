"""⊗ of a semiring of several components as instructions, where it is +, - and × of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from sqlglot import exp

from calitree.engines.local.program import Program, Register
from calitree.semiring import Semiring

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Column, exp.Identifier)


@cache
def is_polynomial(semiring: Semiring) -> bool:
    """Whether each component of ⊗ is a polynomial, so that a program can compute it.

    Its constants are integers, so those of one must be, too.
    """
    whole = None not in semiring.zero and all(isinstance(each, int) for each in semiring.one)
    return whole and all(
        isinstance(part, _ARITHMETIC) or (isinstance(part, exp.Literal) and part.is_int)
        for node in semiring.times_nodes
        for part in node.walk()
    )


def multiplied(
    program: Program, semiring: Semiring, left: Sequence[Register], right: Sequence[Register]
) -> list[Register]:
    """⊗ of two elements, each given by its components."""
    names = semiring.components
    known = {f"l_{n}": each for n, each in zip(names, left, strict=True)}
    known |= {f"r_{n}": each for n, each in zip(names, right, strict=True)}
    return [_value(program, node, known) for node in semiring.times_nodes]


def _value(program: Program, node: exp.Expr, known: Mapping[str, Register]) -> Register:
    if isinstance(node, exp.Column):
        return known[node.name]
    if isinstance(node, exp.Literal):
        return program.constant(int(node.name))
    if isinstance(node, exp.Paren):
        return _value(program, node.this, known)
    if isinstance(node, exp.Neg):
        left, right = program.constant(0), _value(program, node.this, known)
    else:
        left, right = (_value(program, each, known) for each in (node.this, node.expression))
    if left.real != right.real:
        left, right = program.real(left), program.real(right)
    if isinstance(node, exp.Mul):
        return program.multiply(left, right)
    return program.add(left, right, 1 if isinstance(node, exp.Add) else -1)
