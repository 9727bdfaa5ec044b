"""The loops of a worst-case optimal join: binding one variable after the other, in tries.

They serve any number of relations and variables without being compiled again, as tries come to them
as addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from calitree.engines.local.vm.compiled import compiled

Longs = np.ndarray[Any, np.dtype[np.int64]]

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
def meet(begin: int, end: int, plan: Longs, state: Longs, kept: int) -> int:
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
def walk_on(
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
            n = meet(depths[depth + 1], depths[depth + 2], plan, state, kept)
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
