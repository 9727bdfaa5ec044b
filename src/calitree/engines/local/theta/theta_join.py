"""A leg that conditions join with another one, summed up for each key of that other.

Let a message have rows by `a.t`, and the condition be `a.t <= b.t`. For each value of `b.t` that the other leg
has, the rows of the message with a smaller `a.t` are summed; that is a message by `b.t`, which is joined by
look-ups like any other. Attributes of the leg that are still needed are kept in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.cache import cached_property
from calitree.engines.api.contraction import Column, Factor, Stored, Weight
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.numbering import number_rows
from calitree.engines.local.join.star import equijoin, product
from calitree.engines.local.scan.reduction import Job
from calitree.engines.local.tables.filters import read
from calitree.engines.local.tables.legs import Leg, shared
from calitree.engines.local.tables.tables import EncodedRelation
from calitree.engines.local.theta.comparisons import condition_of
from calitree.grouping import contiguous
from calitree.sql.evaluator import evaluate
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]


MAX_PROBES = 1 << 26
"""Pairs of a key and a group that are looked up at once."""


MIN_ROWS_PER_KEY = 8
"""Keys that so many rows have are looked up once each, and not for every row."""


class ThetaJoin:
    """A leg, the other leg that looks it up, and the condition that joins the two."""

    def __init__(
        self,
        job: Job,
        at: int,
        middle: int,
        predicates: list[Expression],
        *,
        by_row: bool = False,
    ) -> None:
        """A look-up, for each key that the other leg has, or for each of its rows.

        Args:
            job: The contraction.
            at: The leg that is looked up.
            middle: The other leg.
            predicates: What joins the two beside the attributes that they share.
            by_row: Whether each row of the other leg is a key by itself.
        """
        self.job, self.at, self.middle, self.predicates = job, at, middle, predicates
        self.by_row = by_row
        self.leg, self.other = job.legs[at], job.legs[middle]
        self.book = self.leg.table.book
        self.equal = shared({at: self.leg, middle: self.other}, at)
        self.condition = condition_of(predicates, self.leg.names, self.other.names)
        self.kept = kept_attributes(job, at, predicates)
        compared = frozenset().union(*(p.attributes for p in predicates)) - self.leg.names.keys()
        self.key = tuple(sorted(compared | frozenset(self.equal)))

    # -- the other leg's keys ------------------------------------------------------------------------

    @cached_property
    def keys(self) -> dict[str, Codes]:
        """The combinations of codes that the other leg has of the attributes of `key`.

        For each row only the codes of what must be equal.
        """
        if self.by_row:
            return {a: self.other.codes(a) for a in self.equal}
        if (
            self.has_few_keys
        ):  # all that there may be, as looking for those in rows would take longer
            (key,) = self.key
            first = 1 if self.other.is_null_free(key) else 0
            return {key: np.arange(first, self.book.dictionary(key).size, dtype=np.int32)}
        codes = [self.other.codes(a) for a in self.key]
        sizes = [self.book.dictionary(a).size for a in self.key]
        _, distinct = number_rows(codes, sizes, self.other.rows)
        return dict(zip(self.key, distinct, strict=True))

    @property
    def has_few_keys(self) -> bool:
        """Whether the other leg is a relation with codes of one attribute that repeats in many rows."""
        table, names = self.other.table, self.other.names
        if self.by_row or len(self.key) != 1 or not isinstance(table, EncodedRelation):
            return False
        (key,) = self.key
        size = self.book.dictionary(key).size
        return size * MIN_ROWS_PER_KEY <= table.rows and table.has_codes(key, names)

    @property
    def key_count(self) -> int:
        """How many there are."""
        return self.other.rows if self.by_row else len(self.keys[self.key[0]])

    @cached_property
    def key_values(self) -> dict[str, pa.Array]:
        """The attributes' values in each of them."""
        if self.by_row:
            return {a: values_of(self.other, a) for a in self.key}
        return {a: self.book.dictionary(a).decode(codes) for a, codes in self.keys.items()}

    # -- the rows that are looked up -----------------------------------------------------------------

    @property
    def masks(self) -> tuple[Expression, ...]:
        """The predicates on its own rows."""
        return self.job.masks(self.at)

    def codes(self, attribute: str) -> Codes:
        """The codes of one of its attributes."""
        return self.leg.codes(attribute)

    def values(self, attribute: str) -> pa.Array:
        """The values of one of its attributes."""
        return values_of(self.leg, attribute)

    def groups(self, attributes: tuple[str, ...]) -> tuple[Array | None, list[Codes], int]:
        """The group of each row by some attributes, -1 where it matches nothing; its codes; how many."""
        passing, rows = self.leg.passing(self.masks), self.leg.rows
        if not attributes and passing is None:
            return None, [], 1
        codes = [self.codes(a) for a in attributes]
        sizes = [self.book.dictionary(a).size for a in attributes]
        groups, distinct = number_rows(codes, sizes, rows)
        for attribute, column in zip(attributes, codes, strict=True):
            if attribute in self.equal and not column.all():
                passing = column > 0 if passing is None else passing & (column > 0)
        if passing is not None:
            groups = np.where(passing, groups, np.int32(-1))
        return groups, distinct, len(distinct[0]) if distinct else 1

    def theirs(self, expression: Expression) -> pa.Array:
        """An expression in each row."""
        columns = {a: self.values(a) for a in expression.attributes}
        return evaluate(expression.node, columns, self.leg.rows)

    def ours(self, expression: Expression) -> pa.Array:
        """An expression for each key."""
        columns = {a: self.key_values[a] for a in expression.attributes}
        return evaluate(expression.node, columns, self.key_count)

    def probes(
        self, groups: list[Codes], count: int, limit: int = MAX_PROBES
    ) -> tuple[Array, Array] | None:
        """All pairs of a key and a group that agree on what must be equal; None if they pass a limit."""
        if not self.equal:
            if self.key_count * count > limit:
                return None
            keys = np.repeat(np.arange(self.key_count), count)
            return keys, np.tile(np.arange(count), self.key_count)
        both = [np.append(self.keys[a], b) for a, b in zip(self.equal, groups, strict=False)]
        numbers, distinct = number_rows(
            both, [self.book.dictionary(a).size for a in self.equal], len(both[0])
        )
        known = np.logical_and.reduce([codes > 0 for codes in both])
        numbers = np.where(known, numbers + 1, 0)
        ours, theirs = numbers[: self.key_count], numbers[self.key_count :]
        size = len(distinct[0]) + 1
        if int((np.bincount(theirs, minlength=size)[ours] * (ours > 0)).sum()) > limit:
            return None
        return equijoin(ours, theirs, size)

    # -- annotations ---------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> Mapping[tuple[Semiring, tuple[Factor, ...]], Column]:
        """What the new message has to hold: a column for each product of factors of this leg."""
        wanted: dict[tuple[Semiring, tuple[Factor, ...]], Column] = {}
        for column in self.job.output.columns:
            key = self.column_key(column)
            if key is not None and key not in wanted:
                wanted[key] = Column(f"theta{self.at}.{len(wanted)}", *key)
        return wanted

    def column_key(self, column: Column) -> tuple[Semiring, tuple[Factor, ...]] | None:
        """The semiring and the factors of this leg; None if all that it has is `one`."""
        own = tuple(f for f in column.factors if self.job.leg_of[f.input] == self.at)
        if not own and column.semiring.idempotent:
            return None
        weights = column.semiring.values and all(isinstance(f, Weight) for f in own)
        return (SUM_PRODUCT if weights else column.semiring), own

    def products(self, column: Column) -> list[Value]:
        """⊗ of a column's factors in every row."""
        semiring = column.semiring
        factors = [(f, self.leg.factor(f, semiring)) for f in column.factors]
        if semiring.is_sum_product:  # in which a weight is a factor like others
            factors = [(Stored(f.input, "") if isinstance(f, Weight) else f, x) for f, x in factors]
        return product(semiring, factors, self.leg.rows)


def kept_attributes(job: Job, at: int, predicates: list[Expression]) -> tuple[str, ...]:
    """The attributes that only this leg has and that are still needed when it has been looked up."""
    needed = set(job.output.keep)
    for predicate in job.output.where:
        if predicate not in predicates and not any(x.holds(predicate) for x in job.legs.values()):
            needed |= predicate.attributes
    others = {a for i, leg in job.legs.items() if i != at for a in leg.names}
    return tuple(sorted(needed & job.legs[at].names.keys() - others))


def values_of(leg: Leg, attribute: str) -> pa.Array:
    """The values of an attribute; of a relation as they are, which need no codes."""
    table, names = leg.table, leg.names
    if isinstance(table, EncodedRelation):
        return contiguous(read(table.columns, names[attribute], table.book))
    return table.values(attribute, names)
