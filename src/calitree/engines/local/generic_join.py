"""A worst-case optimal join: all relations at once, one variable after the other.

Joining two relations at a time can make many more rows than the whole join has: of a triangle
R(A,B), S(B,C), T(A,C) any two may meet in n² rows, and all three in at most n^1.5. The generic join
(Ngo, Ré and Rudra, 2013) binds A to a value that R and T both have, then B to one that R has beside
it and S has too, then C. Each step costs as much as the smallest of the sets that must agree, which
keeps all steps together within that bound.

    edges = Tries({"a": a, "b": b}), Tries({"b": b, "c": c}), Tries({"a": a, "c": c})
    rows = generic_join(edges)      # rows[0][i], rows[1][i] and rows[2][i] are a triangle

A code is a value that all relations share, and 0 is NULL, which equals nothing. Rows that are the
same join each for itself.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numba import types
from numba.extending import intrinsic

from calitree.engines.local import parallel
from calitree.engines.local.compiled import compiled
from calitree.errors import EngineError

Codes = np.ndarray[Any, np.dtype[np.int32]]
Longs = np.ndarray[Any, np.dtype[np.int64]]
Task = TypeVar("Task")
Result = TypeVar("Result")


# -- relations, sorted -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """One attribute of a trie. Entry i is `values[i]` after some prefix; what may follow it is in
    the next level (after the last: in the rows) from `starts[i]` to `starts[i + 1]`.
    """

    values: Codes
    starts: Codes
    widest: int
    """How many entries a prefix has at most."""
    largest: int
    """The largest value."""

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Of the values and of the starts; NumPy takes its time to tell."""
        return self.values.ctypes.data, self.starts.ctypes.data


@dataclass(frozen=True)
class Trie:
    """A relation's rows without NULL, sorted by its attributes in some order: what may follow a
    prefix stands side by side, in order.
    """

    levels: tuple[Level, ...]
    rows: Codes

    @property
    def unique(self) -> bool:
        """Whether no two rows are the same."""
        return len(self.levels[-1].values) == len(self.rows)

    @cached_property
    def address(self) -> int:
        """Of the rows."""
        return self.rows.ctypes.data


class Tries:
    """A relation's codes and the tries made of them so far; who keeps it sorts only once."""

    def __init__(self, codes: Mapping[str, Codes], rows: int | None = None) -> None:
        # Writable, though nobody writes: numba would compile all again for arrays that are not.
        self.codes = {name: np.require(each, np.int32, ["C", "W"]) for name, each in codes.items()}
        self.rows = max(map(len, self.codes.values())) if rows is None else rows
        self._distinct: dict[str, int] = {}
        self._made: dict[tuple[str, ...], Trie] = {}

    def distinct(self, attribute: str) -> int:
        """How many values the attribute has."""
        if attribute not in self._distinct:
            codes = self.codes[attribute]
            largest = int(codes.max(initial=0))
            if is_dense(largest, len(codes)):
                self._distinct[attribute] = _distinct(codes, largest)
            else:
                self._distinct[attribute] = int(np.count_nonzero(np.unique(codes)))
        return self._distinct[attribute]

    def trie(self, attributes: tuple[str, ...]) -> Trie:
        """The rows sorted by these attributes, of which there is at least one."""
        if attributes not in self._made:
            self._made[attributes] = trie([self.codes[each] for each in attributes])
        return self._made[attributes]


Relations = Sequence[Tries | Mapping[str, Codes]]


def trie(columns: Sequence[Codes]) -> Trie:
    """Sort rows by these columns, of which there is at least one."""
    there = columns[0] != 0
    for codes in columns[1:]:
        there &= codes != 0
    rows = np.flatnonzero(there).astype(np.int32)
    for codes in reversed(columns):
        largest = int(codes.max(initial=0))
        if is_dense(largest, len(rows)):
            rows = _sorted_by(codes, rows, largest)
        else:
            rows = rows[np.argsort(codes[rows], kind="stable")]
    opens = np.arange(len(rows)) == 0
    values, starts = zip(*(_level(codes, rows, opens) for codes in columns), strict=True)
    ends = np.append(np.flatnonzero(opens), len(rows)).astype(np.int32)
    levels = (
        Level(each, after, int(np.diff(before).max(initial=0)), int(each.max(initial=0)))
        for each, before, after in zip(values, starts, (*starts[1:], ends), strict=True)
    )
    return Trie(tuple(levels), rows)


def is_dense(largest: int, count: int) -> bool:
    """Whether a place for every possible code is not much more memory than so many codes are."""
    return largest <= 16 * count + (1 << 16)


@compiled
def _distinct(codes: Codes, largest: int) -> int:
    seen = np.zeros(largest + 1, np.bool_)
    seen[0] = True
    count = 0
    for code in codes:
        count += not seen[code]
        seen[code] = True
    return count


@compiled
def _sorted_by(codes: Codes, rows: Codes, largest: int) -> Codes:
    """The rows by their codes, and those of one code in the order they were in."""
    ends = np.zeros(largest + 2, np.int32)
    for row in rows:
        ends[codes[row] + 1] += 1
    for code in range(largest + 1):
        ends[code + 1] += ends[code]
    found = np.empty_like(rows)
    for row in rows:
        code = codes[row]
        found[ends[code]] = row
        ends[code] += 1
    return found


@compiled
def _level(codes: Codes, rows: Codes, opens: Any) -> tuple[Codes, Codes]:
    """The distinct codes after each prefix, and where among them each prefix begins.

    `opens` are the rows where a prefix begins, and afterwards those where one does that is longer
    by this code.
    """
    values = np.empty(len(rows), np.int32)
    starts = np.empty(opens.sum() + 1, np.int32)
    parent = count = 0
    before = np.int32(0)
    for i in range(len(rows)):
        code = codes[rows[i]]
        if opens[i]:
            starts[parent] = count
            parent += 1
        if opens[i] or code != before:
            opens[i] = True
            values[count] = code
            count += 1
        before = code
    starts[parent] = count
    return values[:count].copy(), starts


# -- the order of the variables --------------------------------------------------------------------


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


# -- the join --------------------------------------------------------------------------------------

# A slot is one attribute of one relation; slots are in the order of their variables. The loops below
# serve any number of them without being compiled again, as tries come to them as addresses. This is
# known of a slot from the start, in the columns of `plan`:
VALUES, STARTS, RELATION, NEXT, UNIQUE, MOVES, MARKS, FOUND = range(8)
# this changes all the time, in those of `state`:
LOW, HIGH, MARKED, SEEN, SPENT = range(5)
# and this is kept for each relation, in those of `leaves`:
ROWS, OUT, LAST, FIRST, COUNT = range(5)

FEW = 16
"""So many steps through a set in order cost less than to search one value in it."""
BLOCK, LARGEST_BLOCK = 1 << 14, 1 << 22
"""Rows for which memory is taken at a time: first, and at most."""
WORK = 1 << 13
"""Entries beside the first variable's that are worth another thread."""
TOO_MANY = 1 << 62
"""Rows that are not even counted."""


def _load(typing: Any, address: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_place(context, builder, given))

    return types.int32(types.int64, types.int64), code


def _store(typing: Any, address: Any, index: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _place(context, builder, given))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int32), code


def _place(context: Any, builder: Any, given: Any) -> Any:
    pointer_to: Any = types.CPointer
    pointer = builder.inttoptr(given[0], context.get_value_type(pointer_to(types.int32)))
    return builder.gep(pointer, [given[1]])


load: Any = intrinsic(_load)
"""`load(address, index)` is `address[index]`, of 32-bit integers."""
store: Any = intrinsic(_store)
"""`store(address, index, value)` is `address[index] = value`."""


@compiled
def _probe(
    values: int, first: int, found: int, n: int, marks: int, low: int, high: int, kept: int, at: int
) -> int:
    """Keep the candidates whose value is marked with an entry between `low` and `high`.

    Candidates are the n entries from `first` on, or if that is negative those in `found`. Which of
    them stay cannot be foreseen, so there is no branch: all are written, and the next one over it.
    """
    count = 0
    bottom, width = np.int32(low), np.uint32(high - low)
    for i in range(n):
        entry = np.int64(load(found, i)) if first < 0 else first + i
        there = np.int32(load(marks, np.int64(load(values, entry))) - 1)
        store(kept, count, np.int32(max(first, 0) + i))
        store(at, count, there)
        count += int(np.uint32(there - bottom) < width)
    return count


@compiled
def _search(
    values: int, first: int, found: int, n: int, other: int, low: int, high: int, kept: int, at: int
) -> int:
    """The same where nothing is marked: search each value on from the place of the one before."""
    count = 0
    for i in range(n):
        value = load(values, np.int64(load(found, i)) if first < 0 else first + i)
        step = 1
        while low + step < high and load(other, low + step) < value:
            low += step
            step *= 2
        top = min(low + step, high)
        while low < top:
            middle = (low + top) >> 1
            if load(other, middle) < value:
                low = middle + 1
            else:
                top = middle
        if low == high:
            break
        store(kept, count, np.int32(max(first, 0) + i))
        store(at, count, np.int32(low))
        count += int(load(other, low) == value)
    return count


@compiled
def _meet(begin: int, end: int, plan: Longs, state: Longs, kept: int) -> int:
    """How many values the ranges of these slots have in common; FOUND has their entries.

    One range is walked through and its values are looked up in the others: the smallest, or one not
    much larger that changes with the variable before, as the others can then be marked to be used
    again. Marking costs a range's size, so it is done once as much has been looked up in it.
    """
    least = driver = -1
    for s in range(begin, end):
        size = state[s, HIGH] - state[s, LOW]
        if least < 0 or size < least:
            least, driver = size, s
    if not plan[driver, MOVES]:
        most = FEW * least
        for s in range(begin, end):
            size = state[s, HIGH] - state[s, LOW]
            if plan[s, MOVES] and size <= most:
                most, driver = size, s
    first, found = state[driver, LOW], plan[driver, FOUND]
    n = int(state[driver, HIGH] - first)
    for s in range(begin, end):
        if s == driver:
            continue
        low, high = state[s, LOW], state[s, HIGH]
        values, marks = plan[s, VALUES], plan[s, MARKS]
        if marks and state[s, MARKED] != low:
            if state[s, SEEN] != low:
                state[s, SEEN], state[s, SPENT] = low, 0
            state[s, SPENT] += n
            if FEW * state[s, SPENT] >= high - low:
                for entry in range(low, high):
                    store(marks, np.int64(load(values, entry)), np.int32(entry + 1))
                state[s, MARKED] = low
        look = plan[driver, VALUES], first, found, n
        to = found if first >= 0 else kept
        if marks and state[s, MARKED] == low:
            n = _probe(*look, marks, low, high, to, plan[s, FOUND])
        else:
            n = _search(*look, values, low, high, to, plan[s, FOUND])
        if first < 0:  # those before, too, lose what was not kept
            for other in range(begin, end):
                if other < s or other == driver:
                    place = plan[other, FOUND]
                    for i in range(n):
                        store(place, i, load(place, np.int64(load(kept, i))))
        first = -1
    return n


@compiled
def _walk(
    depths: Longs, plan: Longs, state: Longs, leaves: Longs, cursors: Longs, kept: int,
    depth: int, room: int, fill: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Walk on from `depth` through all bindings of the variables until all are seen (and the depth
    is -1) or there is no room for more rows. The depth, the rows, and how many more need room.
    """
    last = len(depths) - 2
    rows: Any = np.int64(0)  # for a plain 0 numba would compile a second `_emit`
    while depth >= 0:
        at, end = cursors[depth, 0], cursors[depth, 1]
        if at == end:
            depth -= 1
        elif depth == last:
            at, rows, more = _emit(plan[depths[depth] :], leaves, at, end, rows, room, fill)
            cursors[depth, 0] = at
            if at < end:
                return depth, rows, more
        else:
            cursors[depth, 0] += 1
            for s in range(depths[depth], depths[depth + 1]):
                entry = np.int64(load(plan[s, FOUND], at))
                low = np.int64(load(plan[s, STARTS], entry))
                high = np.int64(load(plan[s, STARTS], entry + 1))
                after, relation = plan[s, NEXT], plan[s, RELATION]
                if after >= 0:
                    state[after, LOW], state[after, HIGH] = low, high
                else:
                    leaves[relation, FIRST], leaves[relation, COUNT] = low, high - low
            n = _meet(depths[depth + 1], depths[depth + 2], plan, state, kept)
            if n:
                depth += 1
                cursors[depth, 0], cursors[depth, 1] = 0, n
    return depth, rows, 0


@compiled
def _emit(
    last: Longs, leaves: Longs, at: int, end: int, rows: int, room: int, fill: bool
) -> tuple[int, int, int]:
    """The rows of what was found for the last variable, whose slots these are, from `at` on: write
    them, or only count. How far it came, the rows so far, and how many the next needs room for.
    """
    unique, about = True, 1.0
    for s in range(len(last)):
        unique &= last[s, UNIQUE] != 0
        leaves[last[s, RELATION], COUNT] = 1
    for r in range(len(leaves)):
        about *= leaves[r, COUNT]
    if unique and about == 1.0:
        n = min(end - at, room - rows) if fill else end - at
        if fill:
            _copy(last, leaves, at, rows, n)
        return at + n, rows + n, 1
    for i in range(at, end):
        about = 1.0
        each: Any = np.int64(1)
        for s in range(len(last)):
            entry, r = np.int64(load(last[s, FOUND], i)), last[s, RELATION]
            leaves[r, FIRST] = load(last[s, STARTS], entry)
            leaves[r, COUNT] = load(last[s, STARTS], entry + 1) - leaves[r, FIRST]
        for r in range(len(leaves)):
            about *= leaves[r, COUNT]
            each *= leaves[r, COUNT]
        if rows + about >= TOO_MANY:
            return i, rows, TOO_MANY
        if fill:
            if rows + each > room:
                return i, rows, each
            _cross(leaves, rows, each)
        rows += each
    return end, rows, 0


@compiled
def _copy(last: Longs, leaves: Longs, at: int, rows: int, n: int) -> None:
    """One row of each relation for each of the n values from `at` on."""
    for r in range(len(leaves)):
        if not leaves[r, LAST]:
            row = load(leaves[r, ROWS], leaves[r, FIRST])
            for i in range(rows, rows + n):
                store(leaves[r, OUT], i, row)
    for s in range(len(last)):
        r = last[s, RELATION]
        for i in range(n):
            entry = np.int64(load(last[s, FOUND], at + i))
            store(leaves[r, OUT], rows + i, load(leaves[r, ROWS], entry))


@compiled
def _cross(leaves: Longs, start: int, each: int) -> None:
    """Every row of each leaf with every row of the others."""
    inner = each
    for r in range(len(leaves)):
        inner //= leaves[r, COUNT]
        at = start
        while at < start + each:
            for j in range(leaves[r, COUNT]):
                row = load(leaves[r, ROWS], leaves[r, FIRST] + j)
                for _ in range(inner):
                    store(leaves[r, OUT], at, row)
                    at += 1


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

    def walks(self, threads: int) -> tuple[list[Walk], list[tuple[int, int]]]:
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
        self.values: int = _meet(0, self.depths[1], self.plan, self.state, self.kept)

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
        depth, rows, room = _walk(self.depths, *own, depth, room, fill)
        if room == TOO_MANY:
            raise EngineError(f"The join has more than {TOO_MANY:,} rows: filter its relations.")
        return depth, rows, room


def _own(array: Longs) -> Longs:
    """A copy in cache lines of its own: else one thread would wait for what another writes."""
    padded: Longs = np.empty(array.size + 16, np.int64)
    padded[8:-8] = array.ravel()
    return padded[8:-8].reshape(array.shape)


def generic_join(relations: Relations, *, threads: int = 2) -> list[Codes]:
    """The inner join on all attributes that relations share: for each relation the positions of its
    rows, one a joined row. Of relations given as `Tries` what was sorted is kept for the next join.
    """
    given = _tries(relations)
    found: list[Codes] = [np.empty(0, np.int32)] * len(given)
    parts = [(part, _rows([given[r] for r in part], threads)) for part in _connected(given)]
    total = math.prod(len(rows[0]) for _, rows in parts)
    inner = 1
    for part, rows in parts if total else ():
        outer = total // (inner * len(rows[0]))
        for r, each in zip(part, rows, strict=True):
            found[r] = each if len(parts) == 1 else np.tile(np.repeat(each, inner), outer)
        inner *= len(rows[0])
    return found


def generic_join_count(relations: Relations, *, threads: int = 2) -> int:
    """How many rows the join has, without making them."""
    given = _tries(relations)
    return math.prod(_count([given[r] for r in part], threads) for part in _connected(given))


def _tries(relations: Relations) -> list[Tries]:
    return [each if isinstance(each, Tries) else Tries(each) for each in relations]


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


def _rows(relations: Sequence[Tries], threads: int) -> list[Codes]:
    """The join of connected relations."""
    if len(relations) == 1:
        return [np.arange(relations[0].rows, dtype=np.int32)]
    pieces = [piece for found in _walked(relations, threads, Walk.rows) for piece in found]
    ends = np.cumsum([piece.shape[1] for piece in pieces]).tolist()
    result = np.empty((len(relations), ends[-1]), np.int32)

    def copy(task: tuple[int, Codes]) -> None:
        end, piece = task
        result[:, end - piece.shape[1] : end] = piece

    tasks = deque(zip(ends, pieces, strict=True))
    del pieces  # each is given up when copied, so that there never is twice the memory
    _share([copy] * (threads if ends[-1] > parallel.GRAIN else 1), tasks)
    return list(result)


def _count(relations: Sequence[Tries], threads: int) -> int:
    if len(relations) == 1:
        return relations[0].rows
    return sum(_walked(relations, threads, Walk.count))


def _walked(
    relations: Sequence[Tries], threads: int, work: Callable[[Walk, int, int], Result]
) -> list[Result]:
    """`work` on every range of the first variable, in order."""
    walks, ranges = Join(relations).walks(threads)
    found: dict[int, Result] = {}

    def worker(walk: Walk) -> Callable[[int], None]:
        return lambda number: found.update({number: work(walk, *ranges[number])})

    _share([worker(walk) for walk in walks], deque(range(len(ranges))))
    return [found[number] for number in range(len(ranges))]


def _share(workers: Sequence[Callable[[Task], None]], tasks: deque[Task]) -> None:
    """Let each worker, in a thread of its own, take tasks until none is left."""

    def work(worker: Callable[[Task], None]) -> None:
        while tasks:
            try:
                task = tasks.popleft()
            except IndexError:  # another was quicker
                return
            worker(task)

    parallel.each(work, workers, len(workers))
