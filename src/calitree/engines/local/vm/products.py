"""Products as instructions of the vector machine.

Of numbers, and ⊗ of a semiring of several components where these are computed by +, - and ×.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from sqlglot import exp

from calitree.cache import LRUCache
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.vm.program import Program, Register

Array = np.ndarray[Any, Any]

_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Column, exp.Identifier)


class Component(NamedTuple):
    """A component of a factor in a program.

    Attributes:
        register: Its value in every lane.
        mask: 1 where it is not NULL; None if it is NULL nowhere.
        like: A value with the same scale, labels and exactness.
    """

    register: Register
    mask: Register | None
    like: Value

    @property
    def is_plain(self) -> bool:
        """Whether arithmetic on it needs no care."""
        return self.mask is None and not self.like.scale and self.like.labels is None


_POLYNOMIAL = LRUCache[bool](64)


def is_polynomial(semiring: Semiring) -> bool:
    """Whether each component of ⊗ is a polynomial, so that a program can compute it."""
    return _POLYNOMIAL.of(semiring, lambda: _is_polynomial(semiring))


def _is_polynomial(semiring: Semiring) -> bool:
    # Constants of a program are integers, so those of one must be, too.
    whole = None not in semiring.zero and all(isinstance(one, int) for one in semiring.one)
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
    sides = {f"l_{name}": register for name, register in zip(names, left, strict=True)}
    sides |= {f"r_{name}": register for name, register in zip(names, right, strict=True)}
    return [_value(program, node, sides) for node in semiring.times_nodes]


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
        left, right = (_value(program, side, known) for side in (node.this, node.expression))
    if left.real != right.real:
        left, right = program.real(left), program.real(right)
    if isinstance(node, exp.Mul):
        return program.multiply(left, right)
    return program.add(left, right, 1 if isinstance(node, exp.Add) else -1)


def bound_of(value: Value) -> int:
    """The largest magnitude, where that is known of numbers of this type."""
    return value.bound if value.is_integer else 1


def as_8_bytes(data: Array) -> Array:
    """Integers or doubles, as `Program.gather` reads them."""
    return data.astype(np.int64) if data.dtype == bool else data


def loaded(program: Program, value: Value) -> Component:
    """A value that has an entry for every row."""
    mask = None if value.valid is None else program.load(value.valid, 1)
    return Component(program.load(value.data, bound_of(value)), mask, value)


def product_of(program: Program, registers: Sequence[Register], scales: Sequence[int]) -> Register:
    """The product of numbers: of the integers first, unless together they may not fit."""
    whole = [(r, scale) for r, scale in zip(registers, scales, strict=True) if not r.real]
    others = [register for register in registers if register.real]
    fit = prod(register.bound for register, _ in whole) < v.INT64_LIMIT
    if not fit and (others or not program.checked):
        others = [*(program.real(register, scale) for register, scale in whole), *others]
    elif whole:
        product = whole[0][0]
        for register, _ in whole[1:]:
            product = program.multiply(product, register)
        if not others:
            return product
        others = [program.real(product, sum(scale for _, scale in whole)), *others]
    product = others[0] if others else program.constant(1)
    for register in others[1:]:
        product = program.multiply(product, register)
    return product


def polynomials(
    program: Program, semiring: Semiring, factors: Sequence[Sequence[Component]]
) -> list[Component]:
    """⊗ by the program itself."""
    result: list[Register] | None = None
    for parts in factors:
        registers = [part.register for part in parts]
        result = multiplied(program, semiring, result, registers) if result else registers
    if result is None:
        result = [program.constant(int(one or 0)) for one in semiring.one]
    values = [part.like for parts in factors for part in parts]
    whole = all(value.is_integer for value in values)
    exact = all(value.exact for value in values)
    return [
        Component(register, None, Value(np.empty(0), exact=exact and not (whole and register.real)))
        for register in result
    ]
