"""What takes part in a contraction, with the codes, filters and factors that are asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines.api.contraction import Factor, Lifted, stored_parts
from calitree.engines.api.semiring import Semiring
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.join.trie import Tries
from calitree.engines.local.tables.encoded import EncodedTable, Names
from calitree.engines.local.tables.tables import Joined
from calitree.sql.evaluator import evaluate
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

MIN_SIZE_RATIO = 8


@dataclass(frozen=True, eq=False)
class Leg:
    """A table and which of its columns carries which attribute.

    `parts` tells, for rows of several tables joined, which of them was which input.
    """

    table: EncodedTable
    names: Names
    parts: Mapping[int, int] = field(default_factory=dict)

    def part(self, at: int) -> Leg:
        """An input by itself, if this is several joined."""
        return Leg(*self.table.parts[self.parts[at]]) if isinstance(self.table, Joined) else self

    @property
    def rows(self) -> int:
        return self.table.rows

    def codes(self, attribute: str) -> Codes:
        return self.table.codes(attribute, self.names)

    def ids(self, space: Space) -> Codes:
        return self.table.ids(space, self.names)

    def places(self, space: Space, predicates: Sequence[Expression]) -> Array | None:
        """Where each id is found among the rows that pass; None if that is not one place."""
        return self.table.places(space, self.names, self.passing(predicates))

    def tries(self, attributes: tuple[str, ...]) -> Tries:
        """Its rows, sorted for joins on these attributes."""
        return self.table.tries(attributes, self.names)

    def is_null_free(self, attribute: str) -> bool:
        """Whether no row has NULL there."""
        known: frozenset[str] = getattr(self.table, "null_free", frozenset())
        return self.names[attribute] in known or bool(self.codes(attribute).min(initial=1) > 0)

    def holds(self, predicate: Expression) -> bool:
        """Whether it can tell by itself if a row passes."""
        return bool(predicate.attributes) and predicate.attributes <= self.names.keys()

    def passing(self, predicates: Sequence[Expression]) -> Array | None:
        """Which rows pass all of these; None if there are no predicates."""
        mask: Array | None = None
        for predicate in predicates:
            passed = self._passed(predicate)
            mask = passed if mask is None else mask & passed
        return mask

    def _passed(self, predicate: Expression) -> Array:
        if len(predicate.attributes) == 1:
            (attribute,) = predicate.attributes
            if self.table.has_codes(attribute, self.names):
                codes = self.codes(attribute)
                domain = self.table.book.dictionary(attribute).domain
                allowed = true(evaluate(predicate.node, {attribute: domain}, len(domain)))
                found: Array = allowed[codes]
                return found
        columns = {a: self.table.values(a, self.names) for a in predicate.attributes}
        return true(evaluate(predicate.node, columns, self.rows))

    def factor(self, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor on every row, one value a component, with zero for NULL where there is one."""
        table = self.table
        if isinstance(table, Joined):
            at = self.parts[factor.input]
            if isinstance(factor, Lifted):
                found = [table.part_lift(at, each) for each in factor.expressions]
            else:
                names = stored_parts(factor.name, semiring)
                found = [table.part_stored(at, name) for name in names]
        elif isinstance(factor, Lifted):
            found = [table.lift(each, self.names) for each in factor.expressions]
        else:
            found = [table.stored(name) for name in stored_parts(factor.name, semiring)]
        return [
            value if zero is None or value.valid is None else value.filled(zero)
            for value, zero in zip(found, semiring.zero, strict=True)
        ]


def true(array: pa.Array) -> Array:
    """Where a condition is true: neither false nor NULL."""
    result: Array = array.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
    return result


def shared(legs: Mapping[int, Leg], at: int) -> tuple[str, ...]:
    """The attributes that a leg shares with any other, in order."""
    others = {a for i, leg in legs.items() if i != at for a in leg.names}
    return tuple(sorted(legs[at].names.keys() & others))


def _able(legs: Mapping[int, Leg]) -> list[int]:
    """The legs that all others meet: what they share with any, they share with it."""
    if len(legs) < 3:
        return list(legs)
    meeting = {at: frozenset(shared(legs, at)) for at in legs}
    return [
        at
        for at, leg in legs.items()
        if all(meets <= leg.names.keys() for other, meets in meeting.items() if other != at)
    ]


def centre(legs: Mapping[int, Leg]) -> int | None:
    """The largest leg that all others meet."""
    return max(_able(legs), key=lambda at: legs[at].rows, default=None)


def middle(legs: Mapping[int, Leg]) -> int:
    """The leg whose rows look up those of the others: the smallest, if it is far smaller than the
    largest and nobody has several rows for one of its.
    """
    able = _able(legs)
    if len(able) == 1:
        return able[0]
    largest = max(able, key=lambda at: legs[at].rows)
    smallest = min(able, key=lambda at: legs[at].rows)
    if legs[smallest].rows * MIN_SIZE_RATIO < legs[largest].rows and all(
        _has_one_row_each(leg, shared({smallest: legs[smallest], at: leg}, at))
        for at, leg in legs.items()
        if at != smallest
    ):
        return smallest
    return largest


def _has_one_row_each(leg: Leg, attributes: tuple[str, ...]) -> bool:
    return leg.places(leg.table.book.space(attributes), ()) is not None
