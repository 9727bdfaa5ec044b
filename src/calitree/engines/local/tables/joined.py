"""Rows of several tables joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from calitree.cache import cached_property
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.dictionary import Codes
from calitree.engines.local.tables.encoded import EncodedTable, Names
from calitree.errors import EngineError
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

MAX_JOINED_ROWS = 1 << 31
"""Joined rows that can be held: their numbers have 32 bits."""


class RowJoin(Protocol):
    """Which rows are joined: what a `GenericJoin` tells."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""

    def count(self, threads: int) -> int:
        """How many rows it has."""

    def rows(self, threads: int) -> list[Codes]:
        """For each table the positions of its rows, one for each joined row."""


class Joined(EncodedTable):
    """Rows of several tables joined. They are counted first, and joined when more is asked of them.

    Whoever keeps it is told when it has `grown` by that.
    """

    def __init__(
        self,
        book: Codebook,
        parts: Sequence[tuple[EncodedTable, Names]],
        join: RowJoin,
        grown: Callable[[Joined], None],
    ) -> None:
        super().__init__(book, join.count(book.threads))
        self.parts, self.join, self.grown = list(parts), join, grown
        self.names = {a: a for _, names in parts for a in names}

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        rows = sum(int(rows.nbytes) for rows in self.__dict__.get("positions", ()))
        return self.join.nbytes + rows

    @cached_property
    def positions(self) -> list[Codes]:
        """For each table, its row in each of the joined rows."""
        if self.rows >= MAX_JOINED_ROWS:
            raise EngineError(
                f"The relations of one bag join to {self.rows:,} rows, too many to hold. They can be "
                "counted, but not grouped, filtered or summed; filter them before they are added."
            )
        self.__dict__["positions"] = rows = self.join.rows(self.book.threads)
        self.grown(self)
        return rows

    def _encode(self, attribute: str, column: str) -> Codes:
        at = next(i for i, (_, names) in enumerate(self.parts) if attribute in names)
        table, names = self.parts[at]
        codes: Codes = table.codes(attribute, names)[self.positions[at]]
        return codes

    def passing(self, predicate: Expression, names: Names) -> Array:
        """Which joined rows a predicate is true for: if one table has all it needs, which of its rows."""
        for at, (table, own) in enumerate(self.parts):
            if predicate.attributes <= own.keys():
                passed: Array = table.passing(predicate, own)[self.positions[at]]
                return passed
        return super().passing(predicate, names)
