"""Sums that a scan takes: products of the table's own lifts and of factors of messages, by group.

Columns are added to an `Aggregation` first; `write` puts them into the scan's program; after the
run, `message` reads the accumulators. Sums of products of numbers, and ⊗ that is a polynomial of its
components, are computed by the program; a product in any other semiring is made on all rows before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Factor, Stored, Weight, stored_parts
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.encoding import values as v
from calitree.engines.local.encoding.labels import best_texts
from calitree.engines.local.encoding.texts import Goal, Texts
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.join.star import constant, times
from calitree.engines.local.scan.axes import ProbedMessages
from calitree.engines.local.scan.covariance_sums import (
    CovarianceSums,
    covariance_element,
    covariance_product,
)
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
        groups = np.flatnonzero(self._written.rows())
        codes = dict(zip(self.onto, self._written.grouping.codes(groups), strict=True))
        values = {}
        for name, result in self._written.results.items():
            value = result()
            values[name] = value if len(groups) == len(value.data) else value.take(groups)
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
            self.rows = lambda: counts().data

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
            isinstance(factor, Stored)
            and self.axes.around[at][0].table.stored(factor.name).positive
            for at, factor in column.probed
        )

    def _sum_of_products(self, column: SumColumn) -> Result:
        """Σ of a product of numbers."""
        product, values = self._product(column)
        program = self.program
        if self.messages.masks and not all(value.is_finite for value in values):
            product = program.keep(product, self.joined)  # zero times NaN is NaN
        exact = all(value.exact for value in values)
        if product.real:
            exact = exact and not all(value.is_integer for value in values)
        scale = 0 if product.real else sum(value.scale for value in values)
        return self._total(product, scale, exact, self._is_count(column))

    def _product(
        self, column: SumColumn, apart: Collection[int] = ()
    ) -> tuple[Register, list[Value]]:
        """A product of numbers, and what it is made of; zero where a message not `apart` has no row."""
        program, by_axis = self.program, self.messages.products(column.probed, apart)
        lifts = [self.axes.own(factor, SUM_PRODUCT)[0] for factor in column.own]
        values = [*by_axis.values(), *lifts]
        _bound(values, program.length)
        registers = [
            program.gather(value.data, program.index(axis.ids), bound_of(value))
            for axis, value in by_axis.items()
        ]
        registers += [program.load(value.data, bound_of(value)) for value in lifts]
        return product_of(program, registers, [value.scale for value in values]), values

    def _covariance(self, column: SumColumn, centres: Array | None) -> CovarianceSums:
        """⊕ of a product in a `covariance`."""
        program, semiring = self.program, column.semiring
        lifted = [f for f in column.own if not isinstance(f, Weight)]
        probed = [(at, f) for at, f in column.probed if not isinstance(f, Weight)]
        weight, values = self._product(
            counted(column.own, column.probed), apart=[at for at, _ in probed]
        )
        factors = [covariance_element(program, f, self.axes.own(f, semiring)) for f in lifted]
        for at, factor in probed:
            parts = self._gathered(at, factor, semiring)
            factors.append([program.real(part.register) for part in parts])
        return CovarianceSums(
            program,
            covariance_product(program, semiring, factors),
            program.real(weight, sum(value.scale for value in values)) if values else None,
            (self.grouping.index, self.grouping.size),
            centres,
        )

    def _total(self, register: Register, scale: int, exact: bool, positive: bool = False) -> Result:
        """Σ of a register."""
        sums = self.program.sum(register, self.grouping.index, self.grouping.size)
        if len(sums) == 2:
            return lambda: v.from_halves(sums[0].data, sums[1].data, scale, exact)
        bound = None if register.real else register.bound * max(1, self.program.length)
        return lambda: Value(sums[0].data, scale=scale, exact=exact, bound=bound, positive=positive)

    def _components(self, column: SumColumn) -> list[Result]:
        """⊕ of a product in any semiring, component by component."""
        semiring = column.semiring
        if self._is_of_texts(column):
            values = self._materialised(column)
            return [self._best_texts(way, x) for way, x in zip(semiring.plus, values, strict=True)]
        factors = [
            [loaded(self.program, value) for value in self.axes.own(factor, semiring)]
            for factor in column.own
        ]
        factors += [self._gathered(at, factor, semiring) for at, factor in column.probed]
        if len(factors) == 1:
            (parts,) = factors
        elif is_polynomial(semiring) and all(part.is_plain for parts in factors for part in parts):
            parts = polynomials(self.program, semiring, factors)
        else:
            parts = [loaded(self.program, value) for value in self._materialised(column)]
        return [self._plus(plus, part) for plus, part in zip(semiring.plus, parts, strict=True)]

    def _is_of_texts(self, column: SumColumn) -> bool:
        """Whether a factor is texts of many values, which no program compares."""
        own = [self.axes.own(factor, column.semiring) for factor in column.own]
        probed = [
            self.axes.around[at][0].factor(factor, column.semiring) for at, factor in column.probed
        ]
        return any(isinstance(value.labels, Texts) for values in own + probed for value in values)

    def _best_texts(self, way: str, value: Value) -> Result:
        """MIN or MAX of texts over the rows that join with every message."""

        def best() -> Value:
            groups, rows = self.grouping.rows(), self.program.chosen
            present = [
                here[axis.ids if rows is None else axis.ids[rows]]
                for axis in self.axes.axes
                if (here := self.messages.present(axis)) is not None
            ]
            if present:
                joined = np.logical_and.reduce(present)
                rows = np.flatnonzero(joined) if rows is None else rows[joined]
            if rows is not None and groups is not None:
                groups = groups[rows]
            goal = Goal(self.grouping.size, way == "max")
            return best_texts(value.take(rows), groups, goal)

        return best

    def _gathered(self, at: int, factor: Factor, semiring: Semiring) -> list[Component]:
        """A factor that a message has."""
        program, parts = self.program, []
        index = program.index(self.axes.axis_of(at).ids)
        for value in self.messages.factor(at, factor, semiring):
            mask = None
            if value.valid is not None:
                mask = program.gather(as_8_bytes(value.valid), index, 1)
            data = program.gather(as_8_bytes(value.data), index, bound_of(value))
            parts.append(Component(data, mask, value))
        return parts

    def _materialised(self, column: SumColumn) -> list[Value]:
        """A product on all rows."""
        semiring, rows = column.semiring, self.axes.leg.rows
        factors = [self.axes.own(factor, semiring) for factor in column.own]
        for at, factor in column.probed:
            ids = self.axes.axis_of(at).ids
            values = self.messages.factor(at, factor, semiring)
            factors.append([value.take(ids) for value in values])
        if not factors:
            return [constant(one, rows) for one in semiring.one]
        return reduce(lambda left, right: times(semiring, left, right, rows), factors)

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
            return v.extremes(data, seen.data != 0, like)

        return extremes


def _bound(values: Sequence[Value], rows: int) -> None:
    """Look at integers where, by what is known of them, a sum of their products may not fit."""
    integers = [value for value in values if value.is_integer]
    if prod(value.bound for value in integers) * rows >= v.INT64_LIMIT:
        for value in integers:
            value.tighten()
