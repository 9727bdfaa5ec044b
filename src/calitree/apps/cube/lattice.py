"""Which pivots of a cube are worth their bytes.

The pivots are the group-bys of up to k dimensions; the questions they are for, those of up to k + 1. A
question costs the messages that are missing and the absorption, at the cheapest root (as in
`calibration.planning.cost`), so what a pivot is worth is what all questions together cost less with its
messages. As pivots share messages, what is chosen makes others cheaper, and less worth.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import inf

from calitree.apps.cube.sizes import NONE, Carried, Sizes, State

QUESTIONS = 2_000
"""Of more, so many are drawn."""


def group_bys(dims: Sequence[str], most: int) -> list[Carried]:
    """All choices of up to so many dimensions, small ones first."""
    return [frozenset(each) for size in range(most + 1) for each in combinations(dims, size)]


class Lattice:
    """The pivots of a cube, and what questions cost given the messages of some of them."""

    def __init__(self, sizes: Sizes, dims: Sequence[str], k: int) -> None:
        self.sizes, self.tree = sizes, sizes.tree
        self.pivots = group_bys(dims, k)
        self.taken: list[Carried] = []
        self.refused: set[Carried] = set()
        self._dims, self._k = dims, k
        self._have: set[State] = set()
        self._absorbed: dict[tuple[str, Carried], float] = {}
        self._alone: dict[State, float] = {}

    def messages(self, pivots: Iterable[Carried]) -> set[State]:
        """What some pivots need, each once."""
        return {
            (edge, pivot & behind) for pivot in pivots for edge, behind in self.sizes.inside.items()
        }

    def bytes(self, messages: Iterable[State]) -> float:
        """About what messages take, those aside that the tree has in any case."""
        return sum(self.sizes.bytes(each) for each in messages if not self.sizes.is_own(each))

    def take(self, pivots: Iterable[Carried]) -> None:
        """These are there; their sizes are known by now."""
        self.taken += pivots
        self._have |= self.messages(self.taken)
        self._absorbed.clear()
        self._alone.clear()

    def choose(self, room: float) -> list[Carried]:
        """Pivots to take next, most worth a byte first, as far as they have room."""
        left = [each for each in self.pivots if each not in self.refused | set(self.taken)]
        every = self.messages(left) - self._have
        if self.bytes(every) <= room:
            return left
        have, chosen = set(self._have), list[Carried]()
        questions = self._questions()
        asking: dict[State, list[Carried]] = {}
        for each in questions:
            for state in self.messages([each]):
                asking.setdefault(state, []).append(each)
        costs = {each: self._cost(each, have, {}) for each in questions}
        waiting = [(-inf, i) for i in range(len(left))]
        heapify(waiting)
        too_large: list[tuple[float, int]] = []
        while waiting:
            _, i = heappop(waiting)
            new = self.messages([left[i]]) - have
            size = self.bytes(new)
            if size > room:
                too_large.append((-inf, i))  # once others are taken it may need less
                continue
            cheaper = self._cheaper(new, have, asking, costs)
            worth = sum(costs[each] - cost for each, cost in cheaper.items())
            if size and worth <= 0:
                continue
            rate = worth / size if size else inf
            if waiting and -rate > waiting[0][0]:
                heappush(waiting, (-rate, i))
                continue
            chosen.append(left[i])
            room -= size
            have |= new
            costs |= cheaper
            waiting += too_large
            too_large = []
            heapify(waiting)
        return chosen

    def _questions(self) -> list[Carried]:
        every = group_bys(self._dims, min(self._k + 1, len(self._dims)))
        return every if len(every) <= QUESTIONS else random.Random(0).sample(every, QUESTIONS)

    def _cheaper(
        self,
        new: set[State],
        have: set[State],
        asking: Mapping[State, list[Carried]],
        costs: Mapping[Carried, float],
    ) -> dict[Carried, float]:
        """What questions cost that cost less with some messages more."""
        touched = {each for state in new for each in asking.get(state, ())}
        memory: dict[State, float] = {}
        after = {each: self._cost(each, have | new, memory) for each in touched}
        return {each: cost for each, cost in after.items() if cost < costs[each]}

    # -- what a question costs -------------------------------------------------------------------

    def _cost(self, asked: Carried, have: set[State], memory: dict[State, float]) -> float:
        return min(
            self._absorbing(bag.name, asked)
            + sum(self._work(state, have, memory) for state in self._arriving(bag.name, asked))
            for bag in self.tree.bags
        )

    def _work(self, state: State, have: set[State], memory: dict[State, float]) -> float:
        """What it takes to have a message: its own work, and that of those it needs."""
        if state in have or state[0] not in self.sizes.inside:
            return 0.0
        if state not in memory:
            (source, target), carried = state
            if state not in self._alone:
                own = self._joining(source, carried, target) + self.sizes.rows(state)
                self._alone[state] = own
            needed = self._arriving(source, carried, target)
            memory[state] = self._alone[state] + sum(
                self._work(each, have, memory) for each in needed
            )
        return memory[state]

    def _arriving(self, bag: str, carried: Carried, but: str | None = None) -> list[State]:
        edges = [(other, bag) for other in self.tree.neighbours(bag) if other != but]
        return [(edge, carried & self.sizes.inside.get(edge, NONE)) for edge in edges]

    def _absorbing(self, bag: str, asked: Carried) -> float:
        if (bag, asked) not in self._absorbed:
            self._absorbed[bag, asked] = self._joining(bag, asked)
        return self._absorbed[bag, asked]

    def _joining(self, bag: str, carried: Carried, but: str | None = None) -> float:
        """The rows that are joined at a bag, and those that arrive for it."""
        arriving = [e for e in self._arriving(bag, carried, but) if e[0] in self.sizes.inside]
        rows = [self.sizes.rows(each) for each in arriving]
        relations = self.tree.bag(bag).relations
        if not relations:
            return max(rows, default=1.0) + sum(rows)
        joined: float = max(map(self.sizes.schema.rows, relations))
        for each, those in zip(arriving, rows, strict=True):
            if each[1]:
                joined *= max(1.0, those / max(1.0, self.sizes.rows((each[0], NONE))))
        return joined + sum(rows)
