"""A star join: a table joined by look-ups with those around it, and summed by group.

What depends on keys alone (which rows join, and in which group) is computed when a `Star` is made;
`sum` then only gathers, multiplies and adds. A question that is asked again repeats only the latter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.api.contraction import Column, Factor, Lifted, Output, Weight
from calitree.engines.api.pairs import check_pairs
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.annotation import by_group, covariances
from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.labels import best_texts, from_column
from calitree.engines.local.annotation.texts import Goal, Texts
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.tables.filters import evaluated
from calitree.engines.local.tables.legs import MIN_SIZE_RATIO, Leg, middle, shared
from calitree.engines.local.tables.tables import EncodedMessage
from calitree.interrupts import run
from calitree.sql.evaluator import evaluate
from calitree.types import Kind

Array = np.ndarray[Any, Any]


STAR_BYTES = 1_500
"""A star without its arrays."""


class Star:
    """One output: the joined rows as positions in each leg, and the group of each joined row."""

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
        self.middle = middle(legs)
        mask = self._passing(self.middle)
        self.rows: dict[int, Array | None] = {self.middle: None}
        self.length = legs[self.middle].rows
        if mask is not None:
            self._keep(np.flatnonzero(mask))
        self._join()
        for predicate in output.where:
            if not any(leg.holds(predicate) for leg in legs.values()):
                columns = {
                    a: book.dictionary(a).decode(self._codes(a)) for a in predicate.attributes
                }
                passed = evaluated(predicate, columns, self.length, book.threads)
                self._keep(np.flatnonzero(passed))
        self.count = min(self.length, 1)
        self.codes: list[Codes] = []
        if output.keep:
            codes = [self._codes(a) for a in output.keep]  # which may be new to the dictionaries
            sizes = [book.dictionary(a).size for a in output.keep]
            self.groups, self.codes = number_rows(codes, sizes, self.length)
            self.count = len(self.codes[0])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, beside those of the legs."""
        rows = (rows for rows in self.rows.values() if rows is not None)
        arrays = sum(int(array.nbytes) for array in (*rows, *self.codes))
        return STAR_BYTES + arrays + 4 * self.length

    @cached_property
    def groups(self) -> Array:
        """The group of each joined row."""
        return np.zeros(self.length, np.int32)

    # -- keys ------------------------------------------------------------------------------------

    def _passing(self, at: int) -> Array | None:
        leg = self.legs[at]
        return leg.passing([p for p in self.output.where if leg.holds(p)])

    def _join(self) -> None:
        """Join each row of the middle with those of the other legs that have its ids."""
        centre, several = self.legs[self.middle], []
        places_of: dict[int, Array] = {}
        for at, leg in self.legs.items():
            if at == self.middle:
                continue
            space = self.book.space(shared({self.middle: centre, at: leg}, at))
            ids = self._joined(centre.ids(space), self.middle)
            places = leg.places(space, [p for p in self.output.where if leg.holds(p)])
            if places is None:
                several.append((at, space))
            else:
                places_of[at] = places[ids]
        if any(not places.all() for places in places_of.values()):
            everywhere = np.flatnonzero(np.logical_and.reduce(list(places_of.values())))
            self._keep(everywhere)
            places_of = {at: places[everywhere] for at, places in places_of.items()}
        self.rows |= {at: places.astype(np.intp) - 1 for at, places in places_of.items()}
        for at, space in several:
            ids = self._joined(centre.ids(space), self.middle)
            ours, theirs = self._pairs(ids, at, space)
            self._keep(ours)
            self.rows[at] = theirs

    def _pairs(self, ids: Codes, at: int, space: Space) -> tuple[Array, Array]:
        """The joined rows, which have these ids, with the rows of a leg that have the same.

        They are found by an index, if they are few and it would have been of use before.
        """
        leg = self.legs[at]
        if leg.match is not None:
            return self._matched_pairs(at, space)
        few = len(ids) * MIN_SIZE_RATIO < leg.rows and not any(map(leg.holds, self.output.where))
        if few and leg.table.is_wanted(space, leg.names):
            return leg.table.index(space, leg.names).pairs(ids)
        theirs, mask = leg.ids(space), self._passing(at)
        theirs = theirs if mask is None else np.where(mask, theirs, np.int32(0))
        size = space.size
        if not space.attributes:
            check_pairs(
                len(ids) * int(np.count_nonzero(theirs)), "A join of tables without equal columns"
            )
        return run(lambda: equijoin(ids, theirs, size), len(ids) + len(theirs))

    def _matched_pairs(self, at: int, space: Space) -> tuple[Array, Array]:
        """The same across an outer join: what has no partner is joined with what has none there.

        Other attributes than those of its key are joined by equality.
        """
        leg, mask = self.legs[at], self._passing(at)
        assert leg.match is not None
        others = [a for a in space.attributes if a not in leg.match.key]
        space = self.book.space(tuple(sorted(leg.match.key)))
        ids = self._joined(self.legs[self.middle].ids(space), self.middle)
        theirs, known = leg.ids(space), leg.known(space)
        none = np.int32(len(known))
        theirs = np.where(known[theirs], theirs, none)
        theirs = theirs if mask is None else np.where(mask, theirs, np.int32(0))
        ours = np.where(known[ids], ids, none)
        pairs = run(lambda: equijoin(ours, theirs, len(known) + 1), len(ids) + len(theirs))
        for attribute in others:
            column = self._joined(self.legs[self.middle].codes(attribute), self.middle)[pairs[0]]
            same = (column == leg.codes(attribute)[pairs[1]]) & (column != 0)
            pairs = pairs[0][same], pairs[1][same]
        return pairs

    def _joined(self, column: Codes, at: int) -> Codes:
        """A column of a leg in the joined rows."""
        rows = self.rows[at]
        return column if rows is None else column[rows]

    def _keep(self, chosen: Array) -> None:
        """Keep these joined rows."""
        self.rows = {i: chosen if rows is None else rows[chosen] for i, rows in self.rows.items()}
        self.length = len(chosen)

    def _codes(self, attribute: str) -> Codes:
        """The codes of an attribute in the joined rows.

        The leg in the middle has all that several legs have; a message across an outer join has NULL in its
        place where there is no partner.
        """
        holders = (i for i, leg in self.legs.items() if attribute in leg.names)
        at = self.middle if attribute in self.legs[self.middle].names else next(holders)
        return self._joined(self.legs[at].codes(attribute), at)

    # -- annotations -----------------------------------------------------------------------------

    def sum(self) -> EncodedMessage:
        """The output, computed from the annotations that the legs have now."""
        values: dict[str, Value] = {}
        for column in self.output.columns:
            values.update(zip(column.parts, self._sums(column), strict=True))
        codes = dict(zip(self.output.keep, self.codes, strict=True))
        return EncodedMessage(self.book, codes, values, self.count, self.kinds)

    def _sums(self, column: Column) -> list[Value]:
        semiring = column.semiring
        if not column.factors and semiring.is_sum_product:
            return [self._counts()]
        return plus(semiring, self.product(column), self.groups, self.count)

    def _counts(self) -> Value:
        """How many rows each group has."""
        if not self.output.keep:
            count = v.repeated(self.length, self.count)
            count.positive = True
            return count
        return by_group.count_of(self.groups, self.count)

    def product(self, column: Column) -> list[Value]:
        """⊗ of a column's factors in every joined row, one value for each component."""
        semiring = column.semiring
        factors = []
        for factor in column.factors:
            at = self.leg_of[factor.input]
            rows = self.rows[at]
            values = [value.take(rows) for value in self.legs[at].factor(factor, semiring)]
            factors.append((factor, values))
        return product(semiring, factors, self.length)


def equijoin(left: Codes, right: Codes, size: int) -> tuple[Array, Array]:
    """All pairs of rows with the same id, which is less than `size`; 0 equals nothing."""
    counts = np.bincount(right, minlength=size)
    counts[0] = 0
    repeats = counts[left]
    present = np.flatnonzero(right)
    order = present[np.argsort(right[present], kind="stable")]
    starts = np.cumsum(counts) - counts
    offsets = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = order[np.repeat(starts[left], repeats) + offsets]
    return np.repeat(np.arange(len(left)), repeats), rows


def constant(value: Any, length: int) -> Value:
    """The same value on every row."""
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
    product = [from_column(evaluate(node, sides, length)) for node in semiring.times_nodes]
    return [x.with_exact(exact and x.exact and (x.is_integer or not whole)) for x in product]


def product(
    semiring: Semiring, factors: Iterable[tuple[Factor, list[Value]]], length: int
) -> list[Value]:
    """⊗ of factors that are there on every row, one value for each component."""
    result: list[Value] | None = None
    weights: list[Value] = []
    for factor, values in factors:
        if isinstance(factor, Weight):
            weights += values
            continue
        if semiring.values and isinstance(factor, Lifted):
            values = covariances.element(semiring, values)
        result = values if result is None else times(semiring, result, values, length)
    if result is None:
        result = [constant(one, length) for one in semiring.one]
    return covariances.scaled(result, reduce(v.multiply, weights)) if weights else result


def plus(semiring: Semiring, values: Sequence[Value], groups: Array, count: int) -> list[Value]:
    """⊕ of an annotation, by group."""
    if semiring.values:
        matrix = covariances.matrix_of(values)
        return covariances.as_values(covariances.merged_by(matrix, groups, count))
    return [_plus(way, x, groups, count) for way, x in zip(semiring.plus, values, strict=True)]


def _plus(way: str, value: Value, groups: Array, count: int) -> Value:
    """⊕ of a component, by group."""
    if way == "sum":
        return by_group.total(value, groups, count)
    if way == "any":
        return by_group.any_of(value, groups, count)
    if isinstance(value.labels, Texts):
        return best_texts(value, groups, Goal(count, way == "max"))
    return by_group.extreme(value, groups, count, largest=way == "max")
