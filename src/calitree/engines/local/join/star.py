"""Joining a table with those around it, each by look-up, and summing by group.

All of what depends on keys alone (which row meets which, and in which group) is found when a `Star`
is made; `sum` then only gathers, multiplies and adds. A question that is asked again repeats only
the second part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Column, Output, stored_parts
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.encoding import values as v
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.tables.legs import MIN_SIZE_RATIO, Leg, middle, shared, true
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.sql.evaluator import evaluate
from calitree.types import Kind

Array = np.ndarray[Any, Any]


class Star:
    """One output: the joined rows as positions into the legs, and the group of each."""

    def __init__(
        self,
        book: Codebook,
        legs: Mapping[int, Leg],
        leg_of: Mapping[int, int],
        output: Output,
        kinds: Mapping[str, Kind],
    ) -> None:
        self.book, self.legs, self.leg_of, self.output = book, legs, leg_of, output
        self.kinds = kinds
        at = middle(legs)
        self.rows: dict[int, Array | None] = {}
        self.codes: list[Codes] = []
        self.length = 0
        self._begin(at)
        self._join(at)
        for predicate in output.where:
            if not any(leg.holds(predicate) for leg in legs.values()):
                columns = {
                    a: book.dictionary(a).decode(self._codes(a)) for a in predicate.attributes
                }
                passed = true(evaluate(predicate.node, columns, self.length))
                self._keep(np.flatnonzero(passed))
        self.count = min(self.length, 1)
        if output.keep:
            self.groups, self.codes = self._group()
            self.count = len(self.codes[0])

    @cached_property
    def groups(self) -> Array:
        """The group of each joined row."""
        return np.zeros(self.length, np.int32)

    # -- keys ------------------------------------------------------------------------------------

    def _passing(self, at: int) -> Array | None:
        leg = self.legs[at]
        return leg.passing([p for p in self.output.where if leg.holds(p)])

    def _begin(self, middle: int) -> None:
        mask = self._passing(middle)
        self.rows[middle] = None if mask is None else np.flatnonzero(mask)
        chosen = self.rows[middle]
        self.length = self.legs[middle].rows if chosen is None else len(chosen)

    def _join(self, middle: int) -> None:
        """Each row of the middle with those of the other legs that have its ids."""
        several: list[tuple[int, Space]] = []
        met: dict[int, Array] = {}
        for at, leg in self.legs.items():
            if at == middle:
                continue
            space = self.book.space(shared({middle: self.legs[middle], at: leg}, at))
            here = self._ids(middle, space)
            places = leg.places(space, [p for p in self.output.where if leg.holds(p)])
            if places is None:
                several.append((at, space))
            else:
                met[at] = places[here]
        if any(not found.all() for found in met.values()):
            everywhere = np.flatnonzero(np.logical_and.reduce(list(met.values())))
            self._keep(everywhere)
            met = {at: found[everywhere] for at, found in met.items()}
        self.rows |= {at: found.astype(np.intp) - 1 for at, found in met.items()}
        for at, space in several:
            ours, theirs = self._pairs(self._ids(middle, space), at, space)
            self._keep(ours)
            self.rows[at] = theirs

    def _pairs(self, here: Codes, at: int, space: Space) -> tuple[Array, Array]:
        """The joined rows with the rows of a leg that have their ids; by an index, if they are few
        and such an index would have been of use before.
        """
        leg = self.legs[at]
        few = len(here) * MIN_SIZE_RATIO < leg.rows and not any(map(leg.holds, self.output.where))
        if few and leg.table.is_wanted(space, leg.names):
            return leg.table.index(space, leg.names).pairs(here)
        return _matches(here, self._ids_passing(at, space), space.size)

    def _ids(self, at: int, space: Space) -> Codes:
        """The ids of a leg in the joined rows."""
        ids, rows = self.legs[at].ids(space), self.rows[at]
        return ids if rows is None else ids[rows]

    def _ids_passing(self, at: int, space: Space) -> Codes:
        """The ids of a leg's rows, 0 where a row does not pass."""
        ids, mask = self.legs[at].ids(space), self._passing(at)
        return ids if mask is None else np.where(mask, ids, np.int32(0))

    def _keep(self, chosen: Array) -> None:
        """Keep these joined rows."""
        self.rows = {i: chosen if rows is None else rows[chosen] for i, rows in self.rows.items()}
        self.length = len(chosen)

    def _codes(self, attribute: str) -> Codes:
        at = next(i for i, leg in self.legs.items() if attribute in leg.names)
        codes, rows = self.legs[at].codes(attribute), self.rows[at]
        return codes if rows is None else codes[rows]

    def _group(self) -> tuple[Array, list[Codes]]:
        codes = [self._codes(a) for a in self.output.keep]  # which may be new to the dictionaries
        sizes = [self.book.dictionary(a).size for a in self.output.keep]
        return number_rows(codes, sizes, self.length)

    # -- annotations -----------------------------------------------------------------------------

    def sum(self) -> EncodedMessage:
        """The output, computed from what the legs carry now."""
        found: dict[str, Value] = {}
        for column in self.output.columns:
            sums = self._sums(column)
            found.update(zip(stored_parts(column.name, column.semiring), sums, strict=True))
        codes = dict(zip(self.output.keep, self.codes, strict=True))
        return EncodedMessage(self.book, codes, found, self.count, self.kinds)

    def _sums(self, column: Column) -> list[Value]:
        semiring = column.semiring
        if not column.factors and semiring.is_sum_product:
            return [self._counts()]
        product = self.product(column)
        return [
            plus(way, value, self.groups, self.count)
            for way, value in zip(semiring.plus, product, strict=True)
        ]

    def _counts(self) -> Value:
        """How many rows each group has."""
        if not self.output.keep:
            return Value(np.full(self.count, self.length), bound=self.length, positive=True)
        return v.count_of(self.groups, self.count)

    def product(self, column: Column) -> list[Value]:
        semiring, result = column.semiring, None
        for factor in column.factors:
            at = self.leg_of[factor.input]
            rows = self.rows[at]
            taken = [value.take(rows) for value in self.legs[at].factor(factor, semiring)]
            result = taken if result is None else times(semiring, result, taken, self.length)
        return [constant(each, self.length) for each in semiring.one] if result is None else result


def _matches(here: Codes, there: Codes, size: int) -> tuple[Array, Array]:
    """All pairs of rows with the same id: on this side, and on that."""
    counts = np.bincount(there, minlength=size)
    counts[0] = 0
    each = counts[here]
    met = np.flatnonzero(there)
    order = met[np.argsort(there[met], kind="stable")]
    starts = np.cumsum(counts) - counts
    offsets = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
    return np.repeat(np.arange(len(here)), each), order[np.repeat(starts[here], each) + offsets]


def constant(value: Any, length: int) -> Value:
    if isinstance(value, bool):
        return Value(np.full(length, value))
    return Value(np.full(length, value, np.float64 if isinstance(value, float) else np.int64))


def times(semiring: Semiring, left: list[Value], right: list[Value], length: int) -> list[Value]:
    """⊗: the built-in ones directly, any other by its expressions."""
    if semiring.is_sum_product:
        return [v.multiply(left[0], right[0])]
    if semiring.times == ("l_v + r_v",):
        return [v.add(left[0], right[0])]
    sides = {f"l_{n}": v.to_arrow(x) for n, x in zip(semiring.components, left, strict=True)}
    sides |= {f"r_{n}": v.to_arrow(x) for n, x in zip(semiring.components, right, strict=True)}
    exact = all(value.exact for value in (*left, *right))
    whole = all(value.is_integer for value in (*left, *right))
    found = [v.from_arrow(evaluate(node, sides, length)) for node in semiring.times_nodes]
    return [x.with_exact(exact and x.exact and (x.is_integer or not whole)) for x in found]


def plus(way: str, value: Value, groups: Array, count: int) -> Value:
    """⊕ of a component, by group."""
    if way == "sum":
        return v.total(value, groups, count)
    if way == "any":
        return v.any_of(value, groups, count)
    return v.extreme(value, groups, count, largest=way == "max")
