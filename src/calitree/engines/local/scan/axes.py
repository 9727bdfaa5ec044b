"""Where the rows of a scan join with messages.

A row finds the row of a message through an *axis*: the ids of a separator. Messages on the same
axis, or on a part of it, are multiplied over its ids first, so that a row only looks up their
product.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from calitree.engines.api.contraction import Factor, Lifted
from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.engines.local.annotation import values as v
from calitree.engines.local.annotation.covariances import element
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.encoding.spaces import Space
from calitree.engines.local.tables.legs import Leg
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]
Predicates: TypeAlias = tuple[Expression, ...]
ProbedFactor: TypeAlias = tuple[int, Factor | None]
"""A message and its factor; None where it only matters whether the message has a row."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Attributes of the table, their id in every row, and a size that is larger than all of these.

    All that is made for an axis has that size. The space may grow meanwhile, in another thread.
    """

    space: Space
    ids: Codes
    size: int

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes, in order."""
        return self.space.attributes

    def codes(self, attribute: str) -> Codes:
        """An attribute's code in each id."""
        return self.space.codes(attribute)[: self.size]


class Axes:
    """A table, and the messages around it with their separators. It belongs to one scan."""

    def __init__(
        self, book: Codebook, leg: Leg, around: Mapping[int, tuple[Leg, tuple[str, ...]]]
    ) -> None:
        self.book, self.leg, self.around = book, leg, around
        self._axes: dict[tuple[str, ...], Axis] = {}
        sets = sorted({separator for _, separator in around.values() if separator})
        self._nullable = any(leg.match for leg, _ in around.values())
        largest = [
            s for s in sets if not any(set(s) < set(o) and self._determines(o) for o in sets)
        ]
        self.axes = [self.axis(separator) for separator in largest]
        self._places: dict[tuple[int, Predicates], Array] = {}
        self._own: dict[tuple[Factor, Semiring], list[Value]] = {}
        self.products: dict[tuple[tuple[ProbedFactor, Predicates], ...], Value] = {}
        """Products over an axis: aggregations that share one share its instructions too."""

    def axis(self, attributes: tuple[str, ...]) -> Axis:
        """The axis of these attributes of the table."""
        if attributes not in self._axes:
            space = self.book.space(attributes)
            ids = self.leg.ids(space)  # which may be new to the space
            self._axes[attributes] = Axis(space, ids, space.size)
        return self._axes[attributes]

    def _determines(self, attributes: tuple[str, ...]) -> bool:
        """Whether the id of attributes tells each of them in all rows that count.

        It does not where one of them is NULL. Such rows do not join, but across outer joins.
        """
        return not self._nullable or all(map(self.leg.is_null_free, attributes))

    def axis_of(self, at: int) -> Axis:
        """The axis of a message."""
        separator = self.around[at][1]
        if separator in self._axes and self._axes[separator] in self.axes:
            return self._axes[separator]
        return next(
            axis
            for axis in self.axes
            if set(separator) <= set(axis.attributes) and self._determines(axis.attributes)
        )

    def own(self, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor of the table itself, on every row."""
        key = (factor, semiring)
        if key not in self._own:
            self._own[key] = self.leg.factor(factor, semiring)
        return self._own[key]

    def places(self, at: int, masks: Predicates) -> Array:
        """For each id of its axis one more than the row of a message that passes; 0 if none does."""
        if (at, masks) not in self._places:
            (leg, separator), axis = self.around[at], self.axis_of(at)
            space, projection = self.book.space(separator), None
            if axis.attributes != separator:
                projection = space.ids([axis.codes(a) for a in separator])
            places = leg.places(space, masks)
            assert places is not None
            self._places[at, masks] = (
                places[: axis.size] if projection is None else places[projection]
            )
        return self._places[at, masks]


class ProbedMessages:
    """The messages that rows look up on the way, with the predicates on their rows."""

    def __init__(self, axes: Axes, masks: Mapping[int, Predicates]) -> None:
        self.axes, self.masks = axes, masks

    def places(self, at: int) -> Array:
        """For each id of its axis one more than the row of a message; 0 if it has none."""
        return self.axes.places(at, self.masks[at])

    def present(self, axis: Axis) -> Array | None:
        """Which ids of an axis all its messages have; None if it has no message."""
        masks = [self.places(at) != 0 for at in self.masks if self.axes.axis_of(at) is axis]
        return np.logical_and.reduce(masks) if masks else None

    def holder(self, attribute: str) -> int:
        """The message that has an attribute."""
        return next(at for at in self.masks if attribute in self.axes.around[at][0].names)

    def factor(self, at: int, factor: Factor, semiring: Semiring) -> list[Value]:
        """A factor of a message over the ids of its axis; zero where the message has no row."""
        places, values = self.places(at), []
        parts = self.axes.around[at][0].factor(factor, semiring)
        if semiring.values and isinstance(factor, Lifted):
            parts = element(semiring, parts)
        for value, zero in zip(parts, semiring.zero, strict=True):
            padded = np.empty(len(value.data) + 1, value.data.dtype)
            padded[0], padded[1:] = value.element(0 if zero is None else zero), value.data
            valid = None
            if zero is None:
                valid = places != 0
                if value.valid is not None:
                    valid &= np.append(np.False_, value.valid)[places]
            padded_value = value.with_data(padded[places], valid)
            padded_value.positive = False
            values.append(padded_value)
        return values

    def products(
        self, factors: tuple[tuple[int, Factor], ...], apart: Collection[int] = ()
    ) -> dict[Axis, Value]:
        """The product of numbers over each axis; 0 where one of its messages has no row.

        The messages in `apart` are left out.
        """
        by_axis: dict[Axis, list[ProbedFactor]] = {}
        silent = self.masks.keys() - {at for at, _ in factors} - set(apart)
        for at, factor in (*factors, *((at, None) for at in sorted(silent))):
            by_axis.setdefault(self.axes.axis_of(at), []).append((at, factor))
        return {axis: self._product(probed) for axis, probed in by_axis.items()}

    def _product(self, factors: list[ProbedFactor]) -> Value:
        key = tuple((factor, self.masks[factor[0]]) for factor in factors)
        if key not in self.axes.products:
            values = (
                Value((self.places(at) != 0).astype(np.int64), bound=1)
                if factor is None
                else self.factor(at, factor, SUM_PRODUCT)[0]
                for at, factor in factors
            )
            self.axes.products[key] = reduce(v.multiply, values)
        return self.axes.products[key]
