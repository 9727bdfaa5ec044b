"""The codes that all tables of one join graph share: dictionaries of attributes, and id spaces."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np

from calitree.engines.local.encoding.dictionary import Dictionary
from calitree.engines.local.encoding.eviction import Eviction
from calitree.engines.local.encoding.spaces import EmptySpace, PairSpace, SingleSpace, Space
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.memory.report import Holding
from calitree.process.locks import Rank, SharedLock

MAX_KEPT_MASKS = 64
"""Results of predicates that are kept: for the columns of one relation, and for all dictionaries."""


class Codebook:
    """A dictionary for each attribute and an id space for each set of them, created when first used.

    There is one of each, and both only grow, under `lock`: they take it themselves. Whoever reads a
    size after codes or ids has a size that is larger than all of these. What tables derive from their
    rows counts into `budget`. Those of expressions go when they are too many, by `eviction`.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.budget = Budget(data=self._holdings)
        self.filters = BudgetedCache[object, np.ndarray[Any, Any]](
            self.budget, "filters", attrgetter("nbytes"), limit=MAX_KEPT_MASKS
        )
        """Which codes pass a predicate, a bit for each."""
        self._dictionaries: dict[str, Dictionary] = {}
        self._spaces: dict[tuple[str, ...], Space] = {(): EmptySpace()}
        self.eviction = Eviction(self.budget, self._dictionaries, self._spaces)
        self.lock = SharedLock(Rank.CODEBOOK)

    @property
    def values(self) -> int:
        """How many values all dictionaries hold."""
        return sum(dictionary.size for dictionary in list(self._dictionaries.values()))

    def _holdings(self) -> tuple[Holding, ...]:
        """All dictionaries and id spaces, which tables need in any case."""
        dictionaries, spaces = list(self._dictionaries.values()), list(self._spaces.values())
        nbytes = sum(part.nbytes for part in dictionaries) + sum(part.nbytes for part in spaces)
        return (Holding("dictionaries", len(dictionaries) + len(spaces), nbytes),)

    def dictionary(self, attribute: str) -> Dictionary:
        """The dictionary of an attribute."""
        dictionary = self._dictionaries.get(attribute)
        if dictionary is None:
            new = Dictionary(self.threads, self.lock)
            dictionary = self._dictionaries.setdefault(attribute, new)
        return dictionary

    def has_space(self, attributes: tuple[str, ...]) -> bool:
        """Whether the ids of these attributes, which are in order, were needed before."""
        return attributes in self._spaces

    def space(self, attributes: tuple[str, ...]) -> Space:
        """The space of these attributes, which are in order."""
        space = self._spaces.get(attributes)
        if space is None:
            with self.lock:
                *rest, last = attributes
                single = SingleSpace(last, self.dictionary(last))
                space = PairSpace(self.space(tuple(rest)), single, self.lock) if rest else single
                space = self._spaces.setdefault(attributes, space)
        return space
