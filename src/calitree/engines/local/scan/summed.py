"""Sums taken on a pass over a table: products of its own lifts and of what arrives, by group.

Columns are added first; `write` puts them into the scan's program; after the run, `message` reads
the accumulators. Sums of products of numbers, and ⊗ that is a polynomial of its components, are
computed by the program; a product in any other semiring is made on all rows before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Factor, Stored, stored_parts
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.encoding import values as v
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.join.star import constant, times
from calitree.engines.local.scan.axes import Axes, Axis, Masks
from calitree.engines.local.scan.groups import Grouping
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.engines.local.vm.products import (
    Component,
    as_8_bytes,
    bound_of,
    is_polynomial,
    loaded,
    polynomials,
    product_of,
)
from calitree.engines.local.vm.program import Program, Register

Array = np.ndarray[Any, Any]
Result: TypeAlias = Callable[[], Value]
Spec: TypeAlias = tuple[Semiring, tuple[Factor, ...], tuple[tuple[int, Factor], ...]]
"""A column: the table's own factors, and those of the messages on the way."""


class Summed:
    """Sums by `onto`."""

    def __init__(self, axes: Axes, onto: tuple[str, ...], masks: Masks) -> None:
        self.axes, self.onto, self.masks = axes, onto, masks
        self._columns: dict[Spec, str] = {}
        self._results: dict[str, Result] = {}
        self._grouping: Grouping | None = None
        self._present: Callable[[], Array] = lambda: np.empty(0)

    def add(
        self, semiring: Semiring, own: Sequence[Factor], pressed: Sequence[tuple[int, Factor]]
    ) -> str:
        """One more column, and under which name it will be found."""
        spec = (semiring, tuple(own), tuple(pressed))
        return self._columns.setdefault(spec, f"r{len(self._columns)}")

    # -- what arrives ----------------------------------------------------------------------------

    def met(self, at: int) -> Array:
        """One more than the row of a message in each id of its axis; 0 where it has none."""
        return self.axes.meets(at, self.masks[at])

    def there(self, axis: Axis) -> Array | None:
        """Which ids of an axis all its messages have; None if it has no message."""
        found: Array | None = None
        for at in self.masks:
            if self.axes.axis(at) == axis:
                here = self.met(at) != 0
                found = here if found is None else found & here
        return found

    def _arriving(self, at: int, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor that a message carries, over the ids of its axis; zero where it has none."""
        met, found = self.met(at), []
        leg = self.axes.around[at][0]
        for value, zero in zip(leg.factor(factor, semiring), semiring.zero, strict=True):
            padded = np.empty(len(value.data) + 1, value.data.dtype)
            padded[0], padded[1:] = 0 if zero is None else zero, value.data
            valid = None
            if zero is None:
                valid = met != 0
                if value.valid is not None:
                    valid &= np.append(np.False_, value.valid)[met]
            arrived = value.with_data(padded[met], valid)
            arrived.positive = False
            found.append(arrived)
        return found

    # -- writing the program ---------------------------------------------------------------------

    def write(self, program: Program) -> None:
        """Put all columns into a program."""
        self._grouping = Grouping(self.axes, self.onto, self.masks, program)
        there = _Lazy(lambda: self._there(program))
        counts: Result | None = None
        for spec, name in self._columns.items():
            semiring, own, pressed = spec
            if semiring.is_sum_product:
                self._results[name] = self._product(program, own, pressed, there)
                if self._is_count(own, pressed):
                    counts = self._results[name]
            else:
                found = self._components(program, spec, there.value)
                self._results.update(zip(stored_parts(name, semiring), found, strict=True))
        if counts is None:
            (seen,) = program.sum(there.value, self._grouping.index, self._grouping.size)
            self._present = lambda: seen.data
        else:
            self._present = lambda: counts().data

    def _is_count(self, own: Sequence[Factor], pressed: Sequence[tuple[int, Factor]]) -> bool:
        """Whether a product is zero only where a message has nothing."""
        return not own and all(
            isinstance(factor, Stored)
            and self.axes.around[at][0].table.stored(factor.name).positive
            for at, factor in pressed
        )

    def _there(self, program: Program) -> Register:
        """1 in the rows that meet every message, else 0."""
        result: Register | None = None
        for axis in self.axes.axes:
            there = self.there(axis)
            if there is not None:
                index = program.index(self.axes.ids(axis))
                here = program.gather(there.astype(np.int64), index, 1)
                result = here if result is None else program.multiply(result, here)
        return program.constant(1) if result is None else result

    def _product(
        self,
        program: Program,
        own: Sequence[Factor],
        pressed: Sequence[tuple[int, Factor]],
        there: _Lazy,
    ) -> Result:
        """Σ of a product of numbers."""
        by_axis = self._by_axis(pressed)
        lifts = [self.axes.own(factor, SUM_PRODUCT)[0] for factor in own]
        values = [*by_axis.values(), *lifts]
        whole = all(value.is_integer for value in values)
        integers = [value for value in values if value.is_integer]
        if prod(value.bound for value in integers) * program.length >= v.LIMIT:
            for value in integers:
                value.tighten()
        registers = [
            program.gather(value.data, program.index(self.axes.ids(axis)), bound_of(value))
            for axis, value in by_axis.items()
        ]
        registers += [program.load(value.data, bound_of(value)) for value in lifts]
        product = product_of(program, registers, [value.scale for value in values])
        if self.masks and not all(value.is_finite for value in values):
            product = program.keep(product, there.value)  # zero times NaN is NaN
        exact = all(value.exact for value in values) and not (whole and product.real)
        scale = 0 if product.real else sum(value.scale for value in values)
        return self._total(program, product, scale, exact, self._is_count(own, pressed))

    def _by_axis(self, pressed: Sequence[tuple[int, Factor]]) -> dict[Axis, Value]:
        """The product of what arrives on each axis; a message that has no factor says where it is."""
        parts: dict[Axis, list[tuple[int, Factor | None]]] = {}
        silent = self.masks.keys() - {at for at, _ in pressed}
        for at, factor in [*pressed, *((at, None) for at in sorted(silent))]:
            parts.setdefault(self.axes.axis(at), []).append((at, factor))
        return {axis: self._on_axis(each) for axis, each in parts.items()}

    def _on_axis(self, factors: Sequence[tuple[int, Factor | None]]) -> Value:
        """Remembered: columns that share it then share what the program makes of it too."""
        key = tuple((at, factor, self.masks[at]) for at, factor in factors)
        if key not in self.axes.products:
            result: Value | None = None
            for at, factor in factors:
                if factor is None:
                    value = Value((self.met(at) != 0).astype(np.int64), bound=1)
                else:
                    (value,) = self._arriving(at, factor, SUM_PRODUCT)
                result = value if result is None else v.multiply(result, value)
            assert result is not None
            self.axes.products[key] = result
        return self.axes.products[key]

    def _total(
        self, program: Program, register: Register, scale: int, exact: bool, counts: bool = False
    ) -> Result:
        """Σ of a register."""
        assert self._grouping is not None
        sums = program.sum(register, self._grouping.index, self._grouping.size)
        if len(sums) == 2:
            return lambda: v.from_halves(sums[0].data, sums[1].data, scale, exact)
        bound = None if register.real else register.bound * max(1, program.length)
        return lambda: Value(sums[0].data, scale=scale, exact=exact, bound=bound, positive=counts)

    def _components(self, program: Program, spec: Spec, there: Register) -> list[Result]:
        """⊕ of a product in any semiring, component by component."""
        semiring, own, pressed = spec
        factors = [self._own(program, factor, semiring) for factor in own]
        factors += [self._pressed(program, at, factor, semiring) for at, factor in pressed]
        if len(factors) == 1:
            (parts,) = factors
        elif is_polynomial(semiring) and all(part.is_plain for each in factors for part in each):
            parts = polynomials(program, semiring, factors)
        else:
            parts = [loaded(program, value) for value in self._materialised(spec)]
        pairs = zip(semiring.plus, parts, strict=True)
        return [self._plus(program, plus, part, there) for plus, part in pairs]

    def _own(self, program: Program, factor: Factor, semiring: Semiring) -> list[Component]:
        """A factor that the table itself has."""
        return [loaded(program, value) for value in self.axes.own(factor, semiring)]

    def _pressed(
        self, program: Program, at: int, factor: Factor, semiring: Semiring
    ) -> list[Component]:
        """A factor that a message has."""
        index = program.index(self.axes.ids(self.axes.axis(at)))
        found = []
        for value in self._arriving(at, factor, semiring):
            mask = None
            if value.valid is not None:
                mask = program.gather(as_8_bytes(value.valid), index, 1)
            data = program.gather(as_8_bytes(value.data), index, bound_of(value))
            found.append(Component(data, mask, value))
        return found

    def _materialised(self, spec: Spec) -> list[Value]:
        """A product on all rows."""
        semiring, own, pressed = spec
        rows = self.axes.leg.rows
        factors = [self.axes.own(factor, semiring) for factor in own]
        for at, factor in pressed:
            ids = self.axes.ids(self.axes.axis(at))
            factors.append([each.take(ids) for each in self._arriving(at, factor, semiring)])
        if not factors:
            return [constant(each, rows) for each in semiring.one]
        result, *others = factors
        for other in others:
            result = times(semiring, result, other, rows)
        return result

    def _plus(self, program: Program, plus: str, part: Component, there: Register) -> Result:
        """⊕ of one component over the rows that meet every message."""
        assert self._grouping is not None
        index, size = self._grouping.index, self._grouping.size
        like, register = part.like, part.register
        here = there if part.mask is None else program.multiply(there, part.mask)
        if plus == "sum":
            return self._total(program, program.keep(register, here), like.scale, like.exact)
        if plus == "any":
            some = program.any(program.multiply(register, here), index, size)
            return lambda: Value(some.data != 0)
        found = program.extreme(register, here, index, size, largest=plus == "max")
        seen = program.any(here, index, size)

        def extremes() -> Value:
            data = found.data > 0 if like.data.dtype == bool else found.data
            return v.extremes(data, seen.data != 0, like)

        return extremes

    # -- the outcome -----------------------------------------------------------------------------

    @cached_property
    def leg(self) -> Leg:
        """The sums as a table that can be joined; one, for all who take these sums."""
        return Leg(self.message, {name: name for name in self.onto})

    @cached_property
    def message(self) -> EncodedMessage:
        """The groups that have a row, with their sums."""
        assert self._grouping is not None
        present = np.flatnonzero(self._present())
        codes = dict(zip(self.onto, self._grouping.codes(present), strict=True))
        values = {}
        for name, result in self._results.items():
            value = result()
            values[name] = value if len(present) == len(value.data) else value.take(present)
        return EncodedMessage(self.axes.book, codes, values, len(present), {})


class _Lazy:
    """A register that is only written if something uses it."""

    def __init__(self, make: Callable[[], Register]) -> None:
        self._make = make

    @cached_property
    def value(self) -> Register:
        return self._make()
