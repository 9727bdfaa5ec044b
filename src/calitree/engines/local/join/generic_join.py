"""A worst-case optimal join: all relations at once, one variable after the other.

Joining two relations at a time can make many more rows than the whole join has: of a triangle
R(A,B), S(B,C), T(A,C) any two may meet in n² rows, and all three in at most n^1.5. The generic join
(Ngo, Ré and Rudra, 2013) binds A to a value that R and T both have, then B to one that R has beside
it and S has too, then C. Each step costs as much as the smallest of the sets that must agree, which
keeps all steps together within that bound.

    edges = Tries({"a": a, "b": b}), Tries({"b": b, "c": c}), Tries({"a": a, "c": c})
    rows = GenericJoin(edges).rows()      # rows[0][i], rows[1][i] and rows[2][i] are a triangle

A code is a value that all relations share, and 0 is NULL, which equals nothing. Rows that are the
same join each for itself.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from calitree.engines.local.join.trie import Codes, Tries, is_dense
from calitree.engines.local.join.walk import HIGH, MARKS, OUT, TOO_MANY, Longs, meet, walk_on
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError

Task = TypeVar("Task")
Result = TypeVar("Result")
Relations = Sequence[Tries | Mapping[str, Codes]]

BLOCK, LARGEST_BLOCK = 1 << 14, 1 << 22
"""Rows for which memory is taken at a time: first, and at most."""
WORK = 1 << 13
"""Entries beside the first variable's that are worth another thread."""


def variable_order(relations: Sequence[Mapping[str, int]], rows: Sequence[int]) -> tuple[str, ...]:
    """Next is always the variable that is likely to have the fewest values beside those bound
    before, of those that a relation connects with them. `relations` tell how many values each of
    their attributes has.
    """
    left = {name for each in relations for name in each}
    bound: list[str] = []
    while left:
        near = {name for each in relations if not each.keys().isdisjoint(bound) for name in each}
        likely = {name: _choices(name, bound, relations, rows) for name in near & left or left}
        bound.append(min(likely, key=lambda name: (likely[name], name)))
        left.remove(bound[-1])
    return tuple(bound)


def _choices(
    name: str, bound: Iterable[str], relations: Sequence[Mapping[str, int]], rows: Sequence[int]
) -> float:
    """About how many values a variable has once others are bound, were all independent."""
    return min(
        min(each[name], max(1, size / max(1, math.prod(each[b] for b in bound if b in each))))
        for each, size in zip(relations, rows, strict=True)
        if name in each
    )


class Join:
    """Connected relations, each sorted as the order of the variables wants it."""

    def __init__(self, relations: Sequence[Tries]) -> None:
        shared = Counter(name for each in relations for name in each.codes)
        counts = [{a: each.distinct(a) for a in each.codes if shared[a] > 1} for each in relations]
        order = variable_order(counts, [each.rows for each in relations])
        orders = [tuple(a for a in order if a in each) for each in counts]
        self.tries = [each.trie(names) for each, names in zip(relations, orders, strict=True)]
        self.slots = [
            (r, names.index(variable), depth)
            for depth, variable in enumerate(order)
            for r, names in enumerate(orders)
            if variable in names
        ]
        ends = Counter(depth for _, _, depth in self.slots)
        self.depths = np.cumsum([0, *(ends[depth] for depth in range(len(order)))])
        at = {(r, level): s for s, (r, level, _) in enumerate(self.slots)}
        plan, leaves = [], [(trie.address, 0, 0, 0, 0) for trie in self.tries]
        for r, level, depth in self.slots:
            trie = self.tries[r]
            before, after = at.get((r, level - 1)), at.get((r, level + 1), -1)
            moves = before is not None and self.slots[before][2] == depth - 1
            plan.append((*trie.levels[level].addresses, r, after, trie.unique, moves, 0, 0))
            leaves[r] = (trie.address, 0, depth == len(order) - 1, 0, 0)
        self.plan, self.leaves = np.array(plan, np.int64), np.array(leaves, np.int64)

    def rows(self, threads: int) -> list[Codes]:
        """The positions of the rows of each relation."""
        pieces = [piece for found in self._walked(threads, Walk.rows) for piece in found]
        ends = np.cumsum([piece.shape[1] for piece in pieces]).tolist()
        result = np.empty((len(self.tries), ends[-1]), np.int32)

        def copy(task: tuple[int, Codes]) -> None:
            end, piece = task
            result[:, end - piece.shape[1] : end] = piece

        tasks = deque(zip(ends, pieces, strict=True))
        del pieces  # each is given up when copied, so that there never is twice the memory
        _share([copy] * (threads if ends[-1] > parallel.MIN_ROWS_PER_THREAD else 1), tasks)
        return list(result)

    def count(self, threads: int) -> int:
        """How many rows there are."""
        return sum(self._walked(threads, Walk.count))

    def _walked(self, threads: int, work: Callable[[Walk, int, int], Result]) -> list[Result]:
        """`work` on every range of the first variable, in order."""
        walks, ranges = self._walks(threads)
        found: dict[int, Result] = {}

        def worker(walk: Walk) -> Callable[[int], None]:
            return lambda number: found.update({number: work(walk, *ranges[number])})

        _share([worker(walk) for walk in walks], deque(range(len(ranges))))
        return [found[number] for number in range(len(ranges))]

    def _walks(self, threads: int) -> tuple[list[Walk], list[tuple[int, int]]]:
        """Who walks, and what each walk takes: values of the first variable that are about the same
        work, and smaller than a thread's share, as nobody knows how much work it will be.
        """
        walk = Walk(self)
        if threads == 1 or walk.values < 2:
            return [walk], [(0, walk.values)]
        work = np.zeros(walk.values)
        for (r, level, _), found in zip(self.slots[: self.depths[1]], walk.found, strict=False):
            work += np.diff(self.tries[r].levels[level].starts)[found[: walk.values]]
        upto = np.cumsum(work)
        if upto[-1] < WORK:
            return [walk], [(0, walk.values)]
        cuts = np.searchsorted(upto, np.linspace(0, upto[-1], 16 * threads + 1)[1:-1])
        edges = np.unique([0, *cuts, walk.values]).tolist()
        return [walk, *(Walk(self) for _ in range(threads - 1))], list(pairwise(edges))


class Alone:
    """A relation that meets no other."""

    def __init__(self, relation: Tries) -> None:
        self.size = relation.rows

    def rows(self, threads: int) -> list[Codes]:
        return [np.arange(self.size, dtype=np.int32)]

    def count(self, threads: int) -> int:
        return self.size


class Walk:
    """One thread's way through a join, with memory of its own."""

    def __init__(self, join: Join) -> None:
        self.join, self.depths = join, join.depths  # the plan has only addresses of what join holds
        self.plan, self.leaves = _own(join.plan), _own(join.leaves)
        self.state = _own(np.full((len(join.slots), 5), -1, np.int64))
        self.cursors = _own(np.zeros((len(join.depths) - 1, 2), np.int64))
        self.block = np.empty((len(join.tries), BLOCK), np.int32)
        self.used = 0
        levels = [join.tries[r].levels[level] for r, level, _ in join.slots]
        # One more than can be found: what is not kept is written too, and then written over.
        self.found = np.empty((len(levels) + 1, max(x.widest for x in levels) + 1), np.int32)
        start, width = self.found.ctypes.data, self.found.strides[0]
        self.kept = start + len(levels) * width
        tops = [max(x.largest for x in levels[a:b]) for a, b in pairwise(join.depths.tolist())]
        sizes = [
            tops[depth] + 1 if is_dense(tops[depth], len(level.values)) else 0
            for level, (_, _, depth) in zip(levels, join.slots, strict=True)
        ]
        # Zeros cost nothing before they are touched.
        self.marks = np.zeros(sum(sizes), np.int32)
        at = self.marks.ctypes.data
        for s, (level, size) in enumerate(zip(levels, sizes, strict=True)):
            self.plan[s, MARKS:] = at if size else 0, start + s * width
            at += 4 * size
            if join.slots[s][1] == 0:
                self.state[s, : HIGH + 1] = 0, len(level.values)
        self.values: int = meet(0, self.depths[1], self.plan, self.state, self.kept)

    def rows(self, begin: int, end: int) -> list[Codes]:
        """The rows for these values of the first variable, in pieces: a line for each relation."""
        self.cursors[0] = begin, end
        depth, room, found = 0, 1, []
        while depth >= 0:
            if self.block.shape[1] - self.used < room:
                size = max(room, min(4 * self.block.shape[1], LARGEST_BLOCK))
                self.block = np.empty((len(self.leaves), size), np.int32)
                self.used = 0
            free = self.block[:, self.used :]
            self.leaves[:, OUT] = free.ctypes.data + free.strides[0] * np.arange(len(free))
            depth, n, room = self._on(depth, free.shape[1], True)
            found.append(free[:, :n])
            self.used += n
        return found

    def count(self, begin: int, end: int) -> int:
        """How many rows that are."""
        self.cursors[0] = begin, end
        return self._on(0, 0, False)[1]

    def _on(self, depth: int, room: int, fill: bool) -> tuple[int, int, int]:
        own = self.plan, self.state, self.leaves, self.cursors, self.kept
        depth, rows, room = walk_on(self.depths, *own, depth, room, fill)
        if room == TOO_MANY:
            raise EngineError(f"The join has more than {TOO_MANY:,} rows: filter its relations.")
        return depth, rows, room


def _own(array: Longs) -> Longs:
    """A copy in cache lines of its own: else one thread would wait for what another writes."""
    padded: Longs = np.empty(array.size + 16, np.int64)
    padded[8:-8] = array.ravel()
    return padded[8:-8].reshape(array.shape)


class GenericJoin:
    """The inner join on all attributes that relations share, ready to be walked. Of relations given
    as `Tries` what was sorted is kept.
    """

    def __init__(self, relations: Relations) -> None:
        given = [each if isinstance(each, Tries) else Tries(each) for each in relations]
        self.parts = [
            (part, Join([given[r] for r in part]) if len(part) > 1 else Alone(given[part[0]]))
            for part in _connected(given)
        ]
        self.size = len(given)

    def count(self, threads: int = 2) -> int:
        """How many rows it has, without making them."""
        return math.prod(join.count(threads) for _, join in self.parts)

    def rows(self, threads: int = 2) -> list[Codes]:
        """For each relation the positions of its rows, one a joined row."""
        found: list[Codes] = [np.empty(0, np.int32)] * self.size
        parts = [(part, join.rows(threads)) for part, join in self.parts]
        total = math.prod(len(rows[0]) for _, rows in parts)
        inner = 1
        for part, rows in parts if total else ():
            outer = total // (inner * len(rows[0]))
            for r, each in zip(part, rows, strict=True):
                found[r] = each if len(parts) == 1 else np.tile(np.repeat(each, inner), outer)
            inner *= len(rows[0])
        return found


def _connected(relations: Sequence[Tries]) -> list[list[int]]:
    """Relations without a common attribute are not joined by `_walk`, which would come to the one
    for every row of the other.
    """
    parts: list[tuple[set[str], list[int]]] = []
    for r, relation in enumerate(relations):
        near = [part for part in parts if not part[0].isdisjoint(relation.codes)]
        names = set(relation.codes).union(*(each for each, _ in near))
        members = [*(member for _, each in near for member in each), r]
        parts = [*(part for part in parts if part not in near), (names, members)]
    return [members for _, members in parts]


def _share(workers: Sequence[Callable[[Task], None]], tasks: deque[Task]) -> None:
    """Let each worker, in a thread of its own, take tasks until none is left."""

    def work(worker: Callable[[Task], None]) -> None:
        while tasks:
            try:
                task = tasks.popleft()
            except IndexError:  # another was quicker
                return
            worker(task)

    parallel.map(work, workers, len(workers))
