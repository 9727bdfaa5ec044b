"""What is derived from the codes of several tables, kept for when the same is contracted again."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from calitree.engines.api.contraction import Contraction
from calitree.engines.local.delta.contributions import Contributions
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.join.generic_join import GenericJoin
from calitree.engines.local.join.star import Star
from calitree.engines.local.tables.joined import Joined
from calitree.memory.budgeted_cache import BudgetedCache

MAX_CACHED_JOINS = 8
"""Joins of relations that share a bag, each with what is derived from it."""


class Prepared:
    """Stars and contributions by contraction, and joins of what shares a bag."""

    def __init__(self, book: Codebook) -> None:
        budget, size, limit = book.budget, attrgetter("nbytes"), MAX_CACHED_JOINS
        self._filters = book.filters
        self.stars = BudgetedCache[Contraction, list[Star]](
            budget, "prepared", _total_bytes, weak=True
        )
        self.contributions = BudgetedCache[Contraction, list[Contributions]](
            budget, "prepared", _total_bytes, weak=True
        )
        self.joins = BudgetedCache[object, GenericJoin](budget, "joins", size, limit=limit)
        self.joined = BudgetedCache[object, Joined](budget, "joins", size, limit=limit)

    def clear(self) -> None:
        """Forget all of it, and which codes pass which filter."""
        self.stars.clear()
        self.contributions.clear()
        self.joins.clear()
        self.joined.clear()
        self._filters.clear()


def _total_bytes(prepared: Sequence[Star] | Sequence[Contributions]) -> int:
    return sum(output.nbytes for output in prepared)
