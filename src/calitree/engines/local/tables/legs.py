"""The operands of a contraction: tables with the codes, filters and factors that it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calitree.engines.api.contraction import (
    Factor,
    Lifted,
    Match,
    Stored,
    Weight,
    stored_parts,
)
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.join.trie import Tries
from calitree.engines.local.tables.encoded import SEVERAL, EncodedTable, Names, key_of
from calitree.engines.local.tables.joined import Joined
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

MIN_SIZE_RATIO = 8
"""How many times as many rows one leg must have for the other to be far smaller."""


@dataclass(frozen=True, eq=False)
class Leg:
    """A table, and the column that holds each attribute.

    Attributes:
        table: The table.
        names: The column of each attribute.
        parts: For rows of several tables joined, the position among them of each input.
        match: How it is joined, if not by equal keys: it is a message across an outer join.
    """

    table: EncodedTable
    names: Names
    parts: Mapping[int, int] = field(default_factory=dict)
    match: Match | None = None

    def part(self, at: int) -> Leg:
        """An input by itself, if this is several joined."""
        return Leg(*self.table.parts[self.parts[at]]) if isinstance(self.table, Joined) else self

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.table.rows

    def codes(self, attribute: str) -> Codes:
        """The code of an attribute in every row."""
        return self.table.codes(attribute, self.names)

    def ids(self, space: Space) -> Codes:
        """The id of some attributes in every row."""
        return self.table.ids(space, self.names)

    def places(self, space: Space, predicates: Sequence[Expression]) -> Array | None:
        """One more than the row that has each id, of those that pass; None if several have the same."""
        passed = self.passing(predicates)
        if self.match is None:
            return self.table.places(space, self.names, passed)
        if space.attributes != tuple(sorted(self.match.key)):
            return None  # It has attributes beside the key that are joined by equality.
        if passed is not None:
            return self._matched_places(space, passed)
        key = key_of(space.attributes, self.names), self.match.known
        places = self.table.matched_places.get(key)
        if places is None or (places is not SEVERAL and len(places) < space.size):
            fresh = self._matched_places(space, None)
            places = SEVERAL if fresh is None else fresh
            self.table.matched_places.put(key, places)
        return None if places is SEVERAL else places

    def _matched_places(self, space: Space, passed: Array | None) -> Array | None:
        """The same, of a message across an outer join: keys without a partner have the row for these."""
        if self.table.places(space, self.names, passed) is None:
            return None
        known = self.known(space)
        places = self.table.places(space, self.names, passed)  # the space may have grown
        assert places is not None
        without = ~known[self.ids(space)]
        rows = np.flatnonzero(without if passed is None else without & passed)
        if len(rows) > 1:
            return None
        default = np.uint32(rows[0] + 1 if len(rows) else 0)
        return np.where(known, places[: len(known)], default)

    @property
    def has_unmatched(self) -> bool:
        """Whether it is a message across an outer join with a row that stands for no partner.

        If it has none, rows without a partner join nothing, as in an inner join.
        """
        if self.match is None:
            return False
        space = self.table.book.space(tuple(sorted(self.match.key)))
        return not self.known(space)[self.ids(space)].all()

    def known(self, space: Space) -> Array:
        """Of a message across an outer join: which ids have a partner. NULL has none."""
        assert self.match is not None
        table = self.match.known
        assert isinstance(table, EncodedTable)
        self.ids(space)  # which may be new to the space
        places = table.places(space, {name: name for name in self.match.key}, None)
        assert places is not None, "each key is there once"
        known: Array = places != 0
        return known

    def tries(self, attributes: tuple[str, ...]) -> Tries:
        """Its rows, sorted for joins on these attributes."""
        return self.table.tries(attributes, self.names)

    def is_null_free(self, attribute: str) -> bool:
        """Whether no row has a NULL in this attribute."""
        known: frozenset[str] = getattr(self.table, "null_free", frozenset())
        return self.names[attribute] in known or bool(self.codes(attribute).min(initial=1) > 0)

    def holds(self, predicate: Expression) -> bool:
        """Whether it has all attributes of a predicate, and there are any."""
        return bool(predicate.attributes) and predicate.attributes <= self.names.keys()

    def passing(self, predicates: Sequence[Expression]) -> Array | None:
        """Which rows pass all of these; None if there are no predicates."""
        mask: Array | None = None
        for predicate in predicates:
            passed = self.table.passing(predicate, self.names)
            mask = passed if mask is None else mask & passed
        return mask

    def is_positive(self, factor: Stored) -> bool:
        """Whether a factor that is stored is a count, greater than zero in every row."""
        table = self.table
        if isinstance(table, Joined):
            table, _ = table.parts[self.parts[factor.input]]
        return table.stored(factor.name).positive

    def factor(self, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor on every row, a value for each component; zero for NULL, if there is a zero.

        The lift of a `covariance` has a value, perhaps NULL, for each of its values.
        """
        table, names, rows = self.table, self.names, None
        if isinstance(table, Joined):
            at = self.parts[factor.input]
            rows = table.positions[at]
            table, names = table.parts[at]
        if isinstance(factor, Weight):
            semiring = SUM_PRODUCT
        if isinstance(factor, Lifted):
            values = [table.lift(expression, names) for expression in factor.expressions]
        else:
            values = [table.stored(name) for name in stored_parts(factor.name, semiring)]
        if rows is not None:
            values = [value.take(rows) for value in values]
        if semiring.values:
            return values
        return [
            value if zero is None or value.valid is None else value.filled(zero)
            for value, zero in zip(values, semiring.zero, strict=True)
        ]


def shared(legs: Mapping[int, Leg], at: int) -> tuple[str, ...]:
    """The attributes that a leg shares with any other, in order."""
    others = {a for i, leg in legs.items() if i != at for a in leg.names}
    return tuple(sorted(legs[at].names.keys() & others))


def centres(legs: Mapping[int, Leg]) -> list[int]:
    """The legs with which all others share whatever they share with any leg: a star's possible centres."""
    if len(legs) < 3 and not any(leg.match for leg in legs.values()):
        return list(legs)
    common = {at: frozenset(shared(legs, at)) for at in legs}
    return [
        at
        for at, leg in legs.items()
        if leg.match is None
        and all(names <= leg.names.keys() for other, names in common.items() if other != at)
    ]


def centre(legs: Mapping[int, Leg]) -> int | None:
    """The largest leg that can be the centre of a star join; None if there is none."""
    return max(centres(legs), key=lambda at: legs[at].rows, default=None)


def middle(legs: Mapping[int, Leg]) -> int:
    """The leg whose rows look up those of the others.

    It is the smallest, if that is far smaller than the largest and no other leg has several rows for
    one of its rows.
    """
    options = centres(legs)
    if len(options) == 1:
        return options[0]
    largest = max(options, key=lambda at: legs[at].rows)
    smallest = min(options, key=lambda at: legs[at].rows)
    if legs[smallest].rows * MIN_SIZE_RATIO < legs[largest].rows and all(
        _has_unique_rows(leg, shared({smallest: legs[smallest], at: leg}, at))
        for at, leg in legs.items()
        if at != smallest
    ):
        return smallest
    return largest


def _has_unique_rows(leg: Leg, attributes: tuple[str, ...]) -> bool:
    return leg.places(leg.table.book.space(attributes), ()) is not None
