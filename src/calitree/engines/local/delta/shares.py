"""What each row of a table adds to a result: for contractions that differ only in which of its rows
they have, as those of rows that are supposed away.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.local.encoding.values import Value
from calitree.engines.local.join.star import Star, plus
from calitree.engines.local.tables.tables import EncodedMessage

Array = np.ndarray[Any, Any]

MOST = 1 << 20
"""Rows of a table for which this is worth its memory."""


class Shares:
    """An output, joined for all rows of one input; `joined` tells where each of these is."""

    def __init__(self, star: Star, joined: Array | None) -> None:
        self.star = star
        self.joined = joined

    @classmethod
    def of(cls, star: Star, at: int) -> Shares | None:
        """Those of one leg, if each of its rows is joined at most once."""
        rows, count = star.rows[at], star.legs[at].rows
        if rows is None:
            return cls(star, None)
        joined = np.full(count, -1, np.int32)
        joined[rows] = np.arange(len(rows), dtype=np.int32)
        if np.count_nonzero(joined >= 0) < len(rows):
            return None
        return cls(star, joined)

    @cached_property
    def _products(self) -> dict[str, list[Value]]:
        return {column.name: self.star.product(column) for column in self.star.output.columns}

    def sum(self, rows: Array) -> EncodedMessage:
        """The output of these rows alone."""
        at = rows if self.joined is None else self.joined[rows]
        if self.joined is not None and len(at) and at.min() < 0:
            at = at[at >= 0]
        star, output = self.star, self.star.output
        count, codes = min(len(at), 1), star.codes
        groups: Array
        if output.keep:
            there, groups = np.unique(star.groups[at], return_inverse=True)
            count, codes = len(there), [each[there] for each in codes]
        else:
            groups = np.zeros(len(at), np.int32)
        values: dict[str, Value] = {}
        for column in output.columns:
            ways, products = column.semiring.plus, self._products[column.name]
            for part, way, product in zip(column.parts, ways, products, strict=True):
                values[part] = plus(way, product.take(at), groups, count)
        kept = dict(zip(output.keep, codes, strict=True))
        return EncodedMessage(star.book, kept, values, count, star.kinds)
