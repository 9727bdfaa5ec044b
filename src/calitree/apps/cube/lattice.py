"""Which pivots of a cube are worth their bytes.

The pivots are the group-bys of up to k dimensions; the questions they are for, those of up to k + 1. A
question costs the messages that are missing and the absorption, at the cheapest root (as in
`calibration.planning.cost`). The benefit of a pivot is by how much its messages reduce the cost of all
questions. As pivots share messages, choosing one reduces the cost and the benefit of others.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import combinations
from math import inf

from calitree.apps.cube.sizes import NONE, Dimensions, MessageId, Sizes

MAX_QUESTIONS = 2_000
"""If there are more, so many are sampled."""


def subsets(dims: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    """All choices of up to so many dimensions, small ones first."""
    for size in range(most + 1):
        yield from combinations(dims, size)


def group_bys(dims: Sequence[str], most: int) -> list[Dimensions]:
    """All choices of up to so many dimensions as sets, small ones first."""
    return list(map(frozenset, subsets(dims, most)))


class Lattice:
    """The pivots of a cube, and what questions cost given the messages of some of them."""

    def __init__(self, sizes: Sizes, dims: Sequence[str], k: int) -> None:
        self.sizes, self.tree = sizes, sizes.tree
        self.pivots = group_bys(dims, k)
        self.taken: list[Dimensions] = []
        self.refused: set[Dimensions] = set()
        self._dims, self._k = dims, k
        self._stored: set[MessageId] = set()
        self._absorbed: dict[tuple[str, Dimensions], float] = {}
        self._alone: dict[MessageId, float] = {}

    def messages(self, pivots: Iterable[Dimensions]) -> set[MessageId]:
        """What some pivots need, each once."""
        return {
            (edge, pivot & own) for pivot in pivots for edge, own in self.sizes.dimensions.items()
        }

    def bytes(self, messages: Iterable[MessageId]) -> float:
        """About what messages take, those aside that the tree has in any case."""
        return sum(self.sizes.bytes(m) for m in messages if not self.sizes.is_own(m))

    def take(self, pivots: Iterable[Dimensions]) -> None:
        """These are calibrated, and the sizes of their messages are known."""
        self.taken += pivots
        self._stored |= self.messages(self.taken)
        self._absorbed.clear()
        self._alone.clear()

    def choose(self, room: float) -> list[Dimensions]:
        """Pivots to calibrate next, the most benefit for a byte first, while there is room.

        Greedy with lazy evaluation: a pivot waits in a heap with the benefit for a byte that it had when
        it was last looked at, and is looked at again when it comes first.
        """
        left = [pivot for pivot in self.pivots if pivot not in self.refused | set(self.taken)]
        if self.bytes(self.messages(left) - self._stored) <= room:
            return left
        stored, chosen = set(self._stored), list[Dimensions]()
        questions = self._questions()
        users: dict[MessageId, list[Dimensions]] = {}
        for question in questions:
            for message in self.messages([question]):
                users.setdefault(message, []).append(question)
        costs = {question: self._cost(question, stored, {}) for question in questions}
        heap = [(-inf, i) for i in range(len(left))]
        too_large: list[tuple[float, int]] = []
        while heap:
            _, i = heappop(heap)
            new = self.messages([left[i]]) - stored
            size = self.bytes(new)
            if size > room:
                too_large.append((-inf, i))  # once others are taken it may need less
                continue
            cheaper = self._cheaper(new, stored, users, costs)
            benefit = sum(costs[question] - cost for question, cost in cheaper.items())
            if size and benefit <= 0:
                continue
            rate = benefit / size if size else inf
            if heap and -rate > heap[0][0]:
                heappush(heap, (-rate, i))
                continue
            chosen.append(left[i])
            room -= size
            stored |= new
            costs |= cheaper
            heap += too_large
            too_large = []
            heapify(heap)
        return chosen

    def _questions(self) -> list[Dimensions]:
        every = group_bys(self._dims, min(self._k + 1, len(self._dims)))
        if len(every) <= MAX_QUESTIONS:
            return every
        return random.Random(0).sample(every, MAX_QUESTIONS)

    def _cheaper(
        self,
        new: set[MessageId],
        stored: set[MessageId],
        users: Mapping[MessageId, list[Dimensions]],
        costs: Mapping[Dimensions, float],
    ) -> dict[Dimensions, float]:
        """The costs of the questions that cost less with some more messages."""
        touched = {question for message in new for question in users.get(message, ())}
        memo: dict[MessageId, float] = {}
        after = {question: self._cost(question, stored | new, memo) for question in touched}
        return {question: cost for question, cost in after.items() if cost < costs[question]}

    # -- what a question costs -------------------------------------------------------------------

    def _cost(
        self, question: Dimensions, stored: set[MessageId], memo: dict[MessageId, float]
    ) -> float:
        return min(
            self._absorbing(bag.name, question)
            + sum(self._work(m, stored, memo) for m in self._arriving(bag.name, question))
            for bag in self.tree.bags
        )

    def _work(
        self, message: MessageId, stored: set[MessageId], memo: dict[MessageId, float]
    ) -> float:
        """What it takes to have a message: its own work, and that of those it needs."""
        if message in stored or message[0] not in self.sizes.dimensions:
            return 0.0
        if message not in memo:
            (source, target), dimensions = message
            if message not in self._alone:
                own = self._joining(source, dimensions, target) + self.sizes.rows(message)
                self._alone[message] = own
            needed = self._arriving(source, dimensions, target)
            memo[message] = self._alone[message] + sum(
                self._work(other, stored, memo) for other in needed
            )
        return memo[message]

    def _arriving(
        self, bag: str, dimensions: Dimensions, but: str | None = None
    ) -> list[MessageId]:
        edges = [(other, bag) for other in self.tree.neighbours(bag) if other != but]
        return [(edge, dimensions & self.sizes.dimensions.get(edge, NONE)) for edge in edges]

    def _absorbing(self, bag: str, question: Dimensions) -> float:
        if (bag, question) not in self._absorbed:
            self._absorbed[bag, question] = self._joining(bag, question)
        return self._absorbed[bag, question]

    def _joining(self, bag: str, dimensions: Dimensions, but: str | None = None) -> float:
        """The rows that are joined at a bag, and those of the messages that arrive for it."""
        arriving = self._arriving(bag, dimensions, but)
        arriving = [message for message in arriving if message[0] in self.sizes.dimensions]
        rows = list(map(self.sizes.rows, arriving))
        relations = self.tree.bag(bag).relations
        if not relations:
            return max(rows, default=1.0) + sum(rows)
        joined: float = max(map(self.sizes.schema.rows, relations))
        for (edge, own), count in zip(arriving, rows, strict=True):
            if own:
                joined *= max(1.0, count / max(1.0, self.sizes.rows((edge, NONE))))
        return joined + sum(rows)
