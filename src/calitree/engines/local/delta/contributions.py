"""What each row of a table contributes to a result.

It serves contractions that differ only in which of the table's rows they have, as those of a what-if
that deletes rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calitree.cache import cached_property
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.join.star import Star, plus
from calitree.engines.local.tables.tables import EncodedMessage

Array = np.ndarray[Any, Any]

MAX_CONTRIBUTING_ROWS = 1 << 20
"""Rows of a table up to which this is worth its memory."""


class Contributions:
    """An output, joined for all rows of one input; `joined` tells where each of these is."""

    def __init__(self, star: Star, joined: Array | None) -> None:
        self.star = star
        self.joined = joined

    @classmethod
    def of(cls, star: Star, at: int) -> Contributions | None:
        """Those of the rows of one leg, if each of them is joined at most once."""
        rows = star.rows[at]
        if rows is None:
            return cls(star, None)
        joined = np.full(star.legs[at].rows, -1, np.int32)
        joined[rows] = np.arange(len(rows), dtype=np.int32)
        return None if np.count_nonzero(joined >= 0) < len(rows) else cls(star, joined)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, with the products that will be computed."""
        joined = 0 if self.joined is None else int(self.joined.nbytes)
        parts = sum(len(column.parts) for column in self.star.output.columns)
        return self.star.nbytes + joined + 8 * self.star.length * parts

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
        groups: Array = np.zeros(len(at), np.int32)
        if output.keep:
            there, groups = np.unique(star.groups[at], return_inverse=True)
            count, codes = len(there), [column[there] for column in codes]
        values: dict[str, Value] = {}
        for column in output.columns:
            products = [product.take(at) for product in self._products[column.name]]
            sums = plus(column.semiring, products, groups, count)
            values |= zip(column.parts, sums, strict=True)
        kept = dict(zip(output.keep, codes, strict=True))
        return EncodedMessage(star.book, kept, values, count, star.kinds)
