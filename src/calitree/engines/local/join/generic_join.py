"""A worst-case optimal join: all relations at once, one variable after the other.

Joining two relations at a time can make many more rows than the whole join has: of a triangle
R(A,B), S(B,C), T(A,C) any two may join to n² rows, and all three to at most n^1.5. The generic join
(Ngo, Ré and Rudra, 2013) binds A to a value that R and T both have, then B to one that R has beside
it and S has too, then C. Each step costs as much as the smallest of the sets that are intersected,
which keeps all steps together within that bound.

    edges = Tries({"a": a, "b": b}), Tries({"b": b, "c": c}), Tries({"a": a, "c": c})
    rows = GenericJoin(edges).rows()      # rows[0][i], rows[1][i] and rows[2][i] are a triangle

A code is a value that all relations share, and 0 is NULL, which equals nothing. Duplicate rows are
joined each for itself.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from calitree.engines.api.pairs import check_pairs
from calitree.engines.local.join import trie_join
from calitree.engines.local.join.trie import Codes, Tries, is_dense
from calitree.engines.local.join.trie_join import MAX_ROWS, Records
from calitree.engines.local.vm import parallel
from calitree.errors import EngineError
from calitree.interrupts import check

Task = TypeVar("Task")
Result = TypeVar("Result")
Relations = Sequence[Tries | Mapping[str, Codes]]

FIRST_BLOCK_ROWS, MAX_BLOCK_ROWS = 1 << 14, 1 << 22
"""Rows for which memory is taken at a time: first, and at most."""
PARALLEL_ENTRIES = 1 << 13
"""Entries that follow the first variable's values from which on more threads are worth it."""


def variable_order(relations: Sequence[Mapping[str, int]], rows: Sequence[int]) -> tuple[str, ...]:
    """The order in which variables are bound.

    Next is always the one that is likely to have the fewest values beside those bound before, of
    those that a relation connects with them. `relations` are the cardinalities of the attributes of
    each relation.
    """
    left = {name for relation in relations for name in relation}
    bound: list[str] = []
    while left:
        near = {name for names in relations if not names.keys().isdisjoint(bound) for name in names}
        choices = {name: _choices(name, bound, relations, rows) for name in near & left or left}
        bound.append(min(choices, key=lambda name: (choices[name], name)))
        left.remove(bound[-1])
    return tuple(bound)


def _choices(
    name: str, bound: Iterable[str], relations: Sequence[Mapping[str, int]], rows: Sequence[int]
) -> float:
    """About how many values a variable has once others are bound, were all independent."""
    return min(
        min(counts[name], max(1, size / max(1, math.prod(counts[b] for b in bound if b in counts))))
        for counts, size in zip(relations, rows, strict=True)
        if name in counts
    )


class Slot(NamedTuple):
    """One attribute of one relation: a level of its trie, and the variable's place in the order."""

    relation: int
    level: int
    depth: int


class ConnectedJoin:
    """Relations that shared attributes connect, each sorted in the order of the variables."""

    def __init__(self, relations: Sequence[Tries]) -> None:
        holders = Counter(name for relation in relations for name in relation.codes)
        shared = [[name for name in relation.codes if holders[name] > 1] for relation in relations]
        counts = [
            {name: relation.cardinalities[name] for name in names}
            for relation, names in zip(relations, shared, strict=True)
        ]
        order = variable_order(counts, [relation.rows for relation in relations])
        orders = [tuple(sorted(names, key=order.index)) for names in shared]
        self.tries = [tries.trie(names) for tries, names in zip(relations, orders, strict=True)]
        self.slots = [
            Slot(r, names.index(variable), depth)
            for depth, variable in enumerate(order)
            for r, names in enumerate(orders)
            if variable in names
        ]
        self.levels = [self.tries[slot.relation].levels[slot.level] for slot in self.slots]
        depths = [slot.depth for slot in self.slots]
        self.bounds = np.searchsorted(depths, np.arange(len(order) + 1))
        tops = np.maximum.reduceat([x.largest for x in self.levels], self.bounds[:-1])[depths]
        dense = [is_dense(top, len(x.values)) for top, x in zip(tops, self.levels, strict=True)]
        self.index_sizes = np.where(dense, tops + 1, 0)
        """How large an index of each slot is; 0 if it would be too large."""
        self.slot_records, self.leaf_records = self._records()

    def _records(self) -> tuple[Records, Records]:
        """What the compiled loops know of all slots and relations, but for buffers."""
        slots = np.zeros(len(self.slots), trie_join.SLOT)
        leaves = np.zeros(len(self.tries), trie_join.LEAF)
        slots["values"], slots["starts"] = zip(*(x.addresses for x in self.levels), strict=True)
        slots["relation"] = [slot.relation for slot in self.slots]
        slots["unique"] = [self.tries[slot.relation].unique for slot in self.slots]
        slots["next"] = slots["indexed"] = slots["searched"] = -1
        leaves["rows"] = [trie.address for trie in self.tries]
        leaves["is_last"][slots["relation"][self.bounds[-2] :]] = 1
        before: dict[int, int] = {}
        for s, (r, level, depth) in enumerate(self.slots):
            if level:
                slots["next"][before[r]] = s
                slots["varies"][s] = self.slots[before[r]].depth == depth - 1
            else:
                slots["high"][s] = len(self.levels[s].values)
            before[r] = s
        return slots, leaves

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        records = self.slot_records.nbytes + self.leaf_records.nbytes
        return int(records) + sum(trie.nbytes for trie in self.tries)

    def rows(self, threads: int) -> list[Codes]:
        """The positions of the rows of each relation."""
        blocks = [block for blocks in self._run(threads, TrieJoin.rows) for block in blocks]
        ends = np.cumsum([block.shape[1] for block in blocks]).tolist()
        result = np.empty((len(self.tries), ends[-1]), np.int32)

        def copy(task: tuple[int, Codes]) -> None:
            end, block = task
            result[:, end - block.shape[1] : end] = block

        tasks = deque(zip(ends, blocks, strict=True))
        del blocks  # each is given up when copied, so that there never is twice the memory
        _work_off([copy] * (threads if ends[-1] > parallel.MIN_ROWS_PER_THREAD else 1), tasks)
        return list(result)

    def count(self, threads: int) -> int:
        """How many rows there are."""
        return sum(self._run(threads, TrieJoin.count))

    def _run(self, threads: int, work: Callable[[TrieJoin, int, int], Result]) -> list[Result]:
        """`work` on every range of the first variable's values, in order."""
        joins, ranges = self._split(threads)
        results: dict[int, Result] = {}

        def worker(join: TrieJoin) -> Callable[[int], None]:
            return lambda number: results.update({number: work(join, *ranges[number])})

        _work_off([worker(join) for join in joins], deque(range(len(ranges))))
        return [results[number] for number in range(len(ranges))]

    def _split(self, threads: int) -> tuple[list[TrieJoin], list[tuple[int, int]]]:
        """A join for each thread, and ranges of the first variable's values to share out.

        Ranges are about the same work, and smaller than a thread's part of it, as nobody knows how
        much work there will be.
        """
        join = TrieJoin(self)
        if threads == 1 or join.values < 2:
            return [join], [(0, join.values)]
        work = np.zeros(join.values)
        for level, matches in zip(self.levels[: self.bounds[1]], join.matches, strict=False):
            work += np.diff(level.starts)[matches[: join.values]]
        upto = np.cumsum(work)
        if upto[-1] < PARALLEL_ENTRIES:
            return [join], [(0, join.values)]
        cuts = np.searchsorted(upto, np.linspace(0, upto[-1], 16 * threads + 1)[1:-1])
        edges = np.unique([0, *cuts, join.values]).tolist()
        return [join, *(TrieJoin(self) for _ in range(threads - 1))], list(pairwise(edges))


class TrieJoin:
    """One thread's part of a join, with buffers of its own."""

    def __init__(self, join: ConnectedJoin) -> None:
        self.join = join  # the records have only addresses of what it holds
        # One more than can match: what does not match is written too, and then written over.
        shape = len(join.slots) + 1, max(level.max_fanout for level in join.levels) + 1
        self.matches = np.empty(shape, np.int32)
        *matches, selection = self.matches.ctypes.data + self.matches.strides[0] * np.arange(
            shape[0]
        )
        sizes = join.index_sizes
        self.indexes = np.zeros(sizes.sum(), np.int32)  # which cost nothing before they are touched
        first = self.indexes.ctypes.data + 4 * (np.cumsum(sizes) - sizes)
        slots = _own(join.slot_records)
        slots["matches"], slots["index"] = matches, np.where(sizes, first, 0)
        cursors = _own(np.zeros(len(join.bounds) - 1, trie_join.CURSOR))
        leaves = _own(join.leaf_records)
        self.state = trie_join.JoinState(slots, leaves, cursors, join.bounds, int(selection))
        self.block = np.empty((len(join.tries), FIRST_BLOCK_ROWS), np.int32)
        self.used = 0
        self.values: int
        self.values, _ = trie_join.intersect(slots, 0, join.bounds[1], self.state.selection)

    def rows(self, begin: int, end: int) -> list[Codes]:
        """The rows for these values of the first variable, in blocks of a line for each relation."""
        self.state.cursors[0] = begin, end
        depth, room, blocks = 0, 1, []
        while depth >= 0:
            if self.block.shape[1] - self.used < room:
                size = max(room, min(4 * self.block.shape[1], MAX_BLOCK_ROWS))
                self.block = np.empty((len(self.block), size), np.int32)
                self.used = 0
            free = self.block[:, self.used :]
            self.state.leaves["out"] = free.ctypes.data + free.strides[0] * np.arange(len(free))
            depth, count, room = self._next(depth, free.shape[1])
            blocks.append(free[:, :count])
            self.used += count
        return blocks

    def count(self, begin: int, end: int) -> int:
        """How many rows these values of the first variable have."""
        self.state.cursors[0] = begin, end
        depth = total = 0
        while depth >= 0:
            depth, rows, _ = self._next(depth, -1)
            total += rows
        return total

    def _next(self, depth: int, room: int) -> tuple[int, int, int]:
        check()
        depth, rows, room = trie_join.next_rows(self.state, depth, room)
        if room == MAX_ROWS:
            raise EngineError(f"The join has more than {MAX_ROWS:,} rows: filter its relations.")
        return depth, rows, room


def _own(records: Records) -> Records:
    """A copy in cache lines of its own: else one thread would wait for what another writes."""
    padded = np.empty(records.nbytes + 128, np.uint8)
    padded[64:-64] = records.view(np.uint8)
    return padded[64:-64].view(records.dtype)


class SingleRelation:
    """A relation that shares no attribute with another: the join of it alone."""

    nbytes = 0

    def __init__(self, relation: Tries) -> None:
        self.size = relation.rows

    def rows(self, threads: int) -> list[Codes]:
        """All its rows."""
        return [np.arange(self.size, dtype=np.int32)]

    def count(self, threads: int) -> int:
        """How many there are."""
        return self.size


class GenericJoin:
    """The inner join on all attributes that relations share.

    Of relations given as `Tries` what was sorted is kept.
    """

    def __init__(self, relations: Relations) -> None:
        given = [r if isinstance(r, Tries) else Tries(r) for r in relations]
        self.parts: list[tuple[list[int], ConnectedJoin | SingleRelation]] = []
        for members in _connected(given):
            tries = [given[r] for r in members]
            join = ConnectedJoin(tries) if len(tries) > 1 else SingleRelation(tries[0])
            self.parts.append((members, join))
        self.size = len(given)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(join.nbytes for _, join in self.parts)

    def count(self, threads: int = 2) -> int:
        """How many rows it has, without making them."""
        return math.prod(join.count(threads) for _, join in self.parts)

    def rows(self, threads: int = 2) -> list[Codes]:
        """For each relation the positions of its rows, one for each joined row."""
        result: list[Codes] = [np.empty(0, np.int32)] * self.size
        parts = [(members, join.rows(threads)) for members, join in self.parts]
        total = math.prod(len(columns[0]) for _, columns in parts)
        if len(parts) > 1:
            check_pairs(total, "A join of tables without equal columns")
        inner = 1
        for members, columns in parts if total else ():
            outer = total // (inner * len(columns[0]))
            for r, rows in zip(members, columns, strict=True):
                result[r] = rows if len(parts) == 1 else np.tile(np.repeat(rows, inner), outer)
            inner *= len(columns[0])
        return result


def _connected(relations: Sequence[Tries]) -> list[list[int]]:
    """The connected components of relations by common attributes.

    They are not joined with each other by a trie join, which would come to all rows of the one for
    every row of the other.
    """
    parts: list[tuple[set[str], list[int]]] = []
    for r, relation in enumerate(relations):
        near = [part for part in parts if not part[0].isdisjoint(relation.codes)]
        names = set(relation.codes).union(*(names for names, _ in near))
        members = [*(member for _, members in near for member in members), r]
        parts = [*(part for part in parts if part not in near), (names, members)]
    return [members for _, members in parts]


def _work_off(workers: Sequence[Callable[[Task], None]], tasks: deque[Task]) -> None:
    """Let each worker, in a thread of its own, take tasks until none is left."""

    def work(worker: Callable[[Task], None]) -> None:
        while tasks:
            try:
                task = tasks.popleft()
            except IndexError:  # another was quicker
                return
            check()
            worker(task)

    parallel.map(work, workers, len(workers))
