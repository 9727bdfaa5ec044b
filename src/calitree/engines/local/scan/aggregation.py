"""Sums that a scan takes: products of the table's own lifts and of factors of messages, by group.

Columns are added to an `Aggregation` first; `write` puts them into the scan's program; after the
run, `message` reads the accumulators. Sums of products of numbers, and ⊗ that is a polynomial of its
components, are computed by the program; a product in any other semiring is made on all rows before.
What 64 bits cannot hold is summed apart (`wide_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Factor, Stored, Weight, stored_parts
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.annotation import by_group
from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.scan.axes import ProbedMessages
from calitree.engines.local.scan.by_rows import SumsByRows, fits_program
from calitree.engines.local.scan.covariance_sums import (
    CovarianceSums,
    covariance_element,
    covariance_product,
)
from calitree.engines.local.scan.groups import Grouping
from calitree.engines.local.scan.wide_sums import WideSum
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
IndexedValue: TypeAlias = tuple[Value, Codes | None]
"""Numbers on every row, or by id, with the id of every row."""


class SumColumn(NamedTuple):
    """A column: factors of the table itself, and factors of the messages that it probes."""

    semiring: Semiring
    own: tuple[Factor, ...]
    probed: tuple[tuple[int, Factor], ...]


def counted(own: Sequence[Factor], probed: Sequence[tuple[int, Factor]]) -> SumColumn:
    """The product of those factors that are weights: a column of counts."""
    ours = tuple(Stored(f.input, f.name) for f in own if isinstance(f, Weight))
    theirs = tuple((at, Stored(f.input, f.name)) for at, f in probed if isinstance(f, Weight))
    return SumColumn(SUM_PRODUCT, ours, theirs)


class Aggregation:
    """Sums by `onto` of the rows that join with all these messages."""

    def __init__(self, messages: ProbedMessages, onto: tuple[str, ...]) -> None:
        self.messages, self.onto = messages, onto
        self._columns: dict[SumColumn, str] = {}
        self._written: _Writer | None = None
        self._centres: dict[str, Array] = {}

    def add(self, column: SumColumn) -> str:
        """Add a column, and give the name that it will have in the message."""
        return self._columns.setdefault(column, f"r{len(self._columns)}")

    def write(self, program: Program) -> None:
        """Put all columns into a program."""
        self._written = _Writer(self.messages, self.onto, program, self._centres)
        self._written.write(self._columns)

    def recentre(self) -> bool:
        """After a run: whether deviations must be summed once more, around the means that are known now."""
        assert self._written is not None
        poor = {
            name: sums.means
            for name, sums in self._written.covariances.items()
            if name not in self._centres and sums.is_poor
        }
        self._centres |= poor
        return bool(poor)

    @cached_property
    def leg(self) -> Leg:
        """The sums as a table that can be joined; one, for all who take these sums."""
        return Leg(self.message, {name: name for name in self.onto})

    @cached_property
    def message(self) -> EncodedMessage:
        """The groups that have a row, with their sums, after the program has run."""
        assert self._written is not None
        rows, grouping = self._written.rows(), self._written.grouping
        groups = np.flatnonzero(rows)
        dense: slice | None = None
        if len(groups) == len(rows) - 1 and rows[0] == 0:
            dense = slice(1, len(rows))  # all but NULL's
        codes = dict(zip(self.onto, grouping.codes(dense or groups), strict=True))
        values = {}
        for name, result in self._written.results.items():
            value = result()
            if dense is not None:
                value = value.range(dense)
            elif len(groups) < len(value.data):
                value = value.take(groups)
            values[name] = value
        return EncodedMessage(self.messages.axes.book, codes, values, len(groups), {})


class _Writer:
    """Writes the instructions for columns; what they compute is read after the run."""

    def __init__(
        self,
        messages: ProbedMessages,
        onto: tuple[str, ...],
        program: Program,
        centres: Mapping[str, Array],
    ) -> None:
        self.messages, self.axes, self.program = messages, messages.axes, program
        self.grouping = Grouping(messages, onto, program)
        self.centres = centres
        self.results: dict[str, Result] = {}
        self.covariances: dict[str, CovarianceSums] = {}
        self.rows: Callable[[], Array] = lambda: np.empty(0)
        """Not zero for the groups that have a row."""

    def write(self, columns: Mapping[SumColumn, str]) -> None:
        """Write all columns, and what tells which groups have a row."""
        counts: Result | None = None
        for column, name in columns.items():
            if column.semiring.is_sum_product:
                self.results[name] = self._sum_of_products(column)
                if self._is_count(column):
                    counts = self.results[name]
                continue
            parts = stored_parts(name, column.semiring)
            if column.semiring.values:
                sums = self.covariances[name] = self._covariance(column, self.centres.get(name))
                self.results |= zip(parts, sums.results, strict=True)
            else:
                self.results |= zip(parts, self._components(column), strict=True)
        if counts is None:
            (joined,) = self.program.sum(self.joined, self.grouping.index, self.grouping.size)
            self.rows = lambda: joined.data
        else:
            self.rows = lambda: counts().signs

    @cached_property
    def joined(self) -> Register:
        """1 in the rows that join with every message, else 0; written if something uses it."""
        program = self.program
        registers = [
            program.gather(present.astype(np.int64), program.index(axis.ids), 1)
            for axis in self.axes.axes
            if (present := self.messages.present(axis)) is not None
        ]
        return reduce(program.multiply, registers) if registers else program.constant(1)

    def _is_count(self, column: SumColumn) -> bool:
        """Whether a product is zero only where a message has no row."""
        return not column.own and all(
            isinstance(factor, Stored) and self.axes.around[at][0].is_positive(factor)
            for at, factor in column.probed
        )

    def _sum_of_products(self, column: SumColumn) -> Result:
        """Σ of a product of numbers."""
        factors = self._factors(column)
        values = [value for value, _ in factors]
        if self._is_large(values):
            return self._wide_sum(factors, column)
        product = self._product(factors)
        if self.messages.masks and not all(value.is_finite for value in values):
            product = self.program.keep(product, self.joined)  # zero times NaN is NaN
        scale = 0 if product.real else sum(value.scale for value in values)
        exact = all(value.exact for value in values) and scale <= v.DIGITS
        return self._total(product, scale, exact, self._is_count(column))

    def _factors(self, column: SumColumn, apart: Collection[int] = ()) -> list[IndexedValue]:
        """What a product of numbers is made of; zero where a message not `apart` has no row."""
        by_axis = self.messages.products(column.probed, apart)
        lifts = [self.axes.own(factor, SUM_PRODUCT)[0] for factor in column.own]
        _bound([*by_axis.values(), *lifts], self.program.length)
        factors: list[IndexedValue] = [(value, axis.ids) for axis, value in by_axis.items()]
        return [*factors, *((value, None) for value in lifts)]

    def _product(self, factors: Sequence[IndexedValue]) -> Register:
        registers = [self._register(value, ids) for value, ids in factors]
        return product_of(self.program, registers, [value.scale for value, _ in factors])

    def _covariance(self, column: SumColumn, centres: Array | None) -> CovarianceSums:
        """⊕ of a product in a `covariance`."""
        program, semiring = self.program, column.semiring
        lifted = [f for f in column.own if not isinstance(f, Weight)]
        probed = [(at, f) for at, f in column.probed if not isinstance(f, Weight)]
        weights = self._factors(counted(column.own, column.probed), apart=[at for at, _ in probed])
        weight = self._product(weights)
        factors = [covariance_element(program, f, self.axes.own(f, semiring)) for f in lifted]
        for at, factor in probed:
            parts = self._gathered(at, self.messages.factor(at, factor, semiring))
            factors.append([program.real(part.register) for part in parts])
        return CovarianceSums(
            program,
            covariance_product(program, semiring, factors),
            program.real(weight, sum(value.scale for value, _ in weights)) if weights else None,
            (self.grouping.index, self.grouping.size),
            centres,
        )

    def _register(self, value: Value, ids: Codes | None) -> Register:
        """Numbers on every row, or by id; wide ones, which are multiplied by doubles, as doubles."""
        program, value = self.program, value.as_float() if value.is_wide else value
        if ids is None:
            return program.load(value.data, bound_of(value))
        return program.gather(value.data, program.index(ids), bound_of(value))

    def _is_large(self, values: Sequence[Value]) -> bool:
        """Whether these are integers whose product does not fit 64 bits."""
        if not all(value.is_integer for value in values):
            return False
        if any(value.is_wide for value in values):
            return True
        return not self.program.checked and _largest_product(values) >= v.INT64_LIMIT

    def _wide_sum(self, factors: Sequence[IndexedValue], column: SumColumn) -> Result:
        """Σ of a product of integers that 64 bits do not hold."""
        program, grouping = self.program, self.grouping
        rows = program.rows if program.chosen is None else program.chosen
        total = WideSum(factors, grouping.of_rows, grouping.size, rows, self._is_count(column))
        return cache(lambda: total.total(self.axes.book.threads))

    def _total(self, register: Register, scale: int, exact: bool, positive: bool = False) -> Result:
        """Σ of a register."""
        sums = self.program.sum(register, self.grouping.index, self.grouping.size)
        if len(sums) == 2:
            return lambda: by_group.from_halves(sums[0].data, sums[1].data, scale, exact)
        bound = None if register.real else register.bound * max(1, self.program.length)
        return lambda: Value(sums[0].data, scale=scale, exact=exact, bound=bound, positive=positive)

    def _components(self, column: SumColumn) -> list[Result]:
        """⊕ of a product in any semiring, component by component."""
        semiring = column.semiring
        own = [self.axes.own(factor, semiring) for factor in column.own]
        probed = [(at, self.messages.factor(at, factor, semiring)) for at, factor in column.probed]
        values = [value for values in (*own, *(v for _, v in probed)) for value in values]
        parts = None
        if fits_program(values):
            factors = [[loaded(self.program, value) for value in values] for values in own]
            factors += [self._gathered(at, values) for at, values in probed]
            parts = self._computed(semiring, factors)
        if parts is None:
            by_rows = SumsByRows(self.messages, self.grouping, self.program)
            product = by_rows.product(semiring, column.own, column.probed)
            if not fits_program(product):
                return by_rows.sums(semiring, product)
            parts = [loaded(self.program, value) for value in product]
        return list(map(self._plus, semiring.plus, parts))

    def _computed(
        self, semiring: Semiring, factors: Sequence[list[Component]]
    ) -> list[Component] | None:
        """A product that the program can compute, without rounding integers; None if it cannot."""
        if len(factors) == 1:
            return factors[0]
        components = [part for parts in factors for part in parts]
        if not is_polynomial(semiring) or not all(part.is_plain for part in components):
            return None
        parts = polynomials(self.program, semiring, factors)
        whole = all(part.like.is_integer for part in components)
        return None if whole and any(part.register.real for part in parts) else parts

    def _gathered(self, at: int, values: Sequence[Value]) -> list[Component]:
        """A factor that a message has."""
        program, parts = self.program, []
        index = program.index(self.axes.axis_of(at).ids)
        for value in values:
            mask = None
            if value.valid is not None:
                mask = program.gather(as_8_bytes(value.valid), index, 1)
            data = program.gather(as_8_bytes(value.data), index, bound_of(value))
            parts.append(Component(data, mask, value))
        return parts

    def _plus(self, plus: str, part: Component) -> Result:
        """⊕ of one component over the rows that join with every message."""
        program, index, size = self.program, self.grouping.index, self.grouping.size
        like, register, joined = part.like, part.register, self.joined
        here = joined if part.mask is None else program.multiply(joined, part.mask)
        if plus == "sum":
            return self._total(program.keep(register, here), like.scale, like.exact)
        if plus == "any":
            some = program.any(program.multiply(register, here), index, size)
            return lambda: Value(some.data != 0)
        extreme = program.extreme(register, here, index, size, largest=plus == "max")
        seen = program.any(here, index, size)

        def extremes() -> Value:
            data = extreme.data > 0 if like.data.dtype == bool else extreme.data
            return by_group.extremes(data, seen.data != 0, like)

        return extremes


def _largest_product(values: Sequence[Value]) -> int:
    return prod(value.bound for value in values)


def _bound(values: Sequence[Value], rows: int) -> None:
    """Look at integers where, by what is known of them, a sum of their products may not fit."""
    integers = [value for value in values if value.is_integer]
    if _largest_product(integers) * rows >= v.INT64_LIMIT:
        for value in integers:
            value.tighten()
