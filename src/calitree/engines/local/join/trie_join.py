"""The compiled loops of a worst-case optimal trie join, which bind one variable after the other.

They serve any number of relations and variables without being compiled again: tries and buffers are
passed as addresses, and all that a join knows of them in the records below.

A *slot* is one attribute of one relation, that is a level of its trie; slots are in the order of
their variables. An *entry* is a position in a level.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from calitree.process.compiled import compiled, helper

Records = np.ndarray[Any, Any]


def _record(*fields: str) -> np.dtype[Any]:
    return np.dtype([(field, np.int64) for field in fields], align=True)


SLOT = _record(
    *("values", "starts", "relation", "next", "unique", "varies", "index", "matches"),
    *("low", "high", "indexed", "searched", "searches"),
)
"""What a join knows of a slot from the start:

- `values`, `starts`: the addresses of its level's arrays
- `relation`: the number of the relation
- `next`: the slot of the relation's next attribute, -1 after the last
- `unique`: whether no two rows of the relation are the same
- `varies`: whether the range changes with the variable that is bound just before
- `index`: the address of a table from value to entry + 1; 0 if it would be too large
- `matches`: the address of the entries that the last intersection has found

and of the range of entries that follow what is bound now:

- `low`, `high`: where it begins and ends
- `indexed`: `low` of the range that is in the index, or -1
- `searched`: `low` of the range in which values were searched last, or -1
- `searches`: how many values were searched in that one
"""

LEAF = _record("rows", "out", "is_last", "first", "count")
"""What a join knows of a relation:

- `rows`: the address of its row numbers, in the order of the trie
- `out`: the address where its joined rows are written
- `is_last`: whether it has the last variable
- `first`, `count`: its rows that agree with what is bound
"""

CURSOR = _record("next", "end")
"""Which of a variable's matches is bound next, and where they end."""

SEARCH_COST = 16
"""So many steps through a range in order cost as much as to search one value in it."""
MAX_ROWS = 1 << 62
"""From so many rows on they are not even counted."""
MAX_STEPS = 1 << 22
"""Values that are looked up in one call, about: Ctrl-C is answered between calls."""


class JoinState(NamedTuple):
    """One thread's state of a join."""

    slots: Records
    """A SLOT for each attribute of each relation."""
    leaves: Records
    """A LEAF for each relation."""
    cursors: Records
    """For each variable a CURSOR: which of its matches is bound next."""
    bounds: Records
    """Where the slots of each variable begin, and where the last ones end."""
    selection: int
    """Address of a selection vector: positions of the candidates that matched."""


def _load(typing: Any, address: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.load(_pointer(context, builder, given))

    return types.int32(types.int64, types.int64), code


def _store(typing: Any, address: Any, index: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        builder.store(given[2], _pointer(context, builder, given))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int32), code


def _pointer(context: Any, builder: Any, given: Any) -> Any:
    pointer_to: Any = types.CPointer
    pointer = builder.inttoptr(given[0], context.get_value_type(pointer_to(types.int32)))
    return builder.gep(pointer, [given[1]])


load: Any = intrinsic(_load)
"""`load(address, index)` is `address[index]`, of 32-bit integers."""
store: Any = intrinsic(_store)
"""`store(address, index, value)` is `address[index] = value`."""


@compiled
def _probe(driver: Any, first: int, n: int, slot: Any, selection: int) -> int:
    """Select the candidates whose value the slot's index has in its range.

    Candidates are the n entries of the driver from `first` on, or if that is negative those in its
    `matches`. Which of them match cannot be foreseen, so there is no branch: each one is written,
    and the next one over it unless it matches.
    """
    values, entries = driver.values, driver.matches
    index, matches = slot.index, slot.matches
    bottom, width = np.int32(slot.low), np.uint32(slot.high - slot.low)
    count = 0
    for i in range(n):
        entry = np.int64(load(entries, i)) if first < 0 else first + i
        match = np.int32(load(index, np.int64(load(values, entry))) - 1)
        store(selection, count, np.int32(max(first, 0) + i))
        store(matches, count, match)
        count += int(np.uint32(match - bottom) < width)
    return count


@compiled
def _search(driver: Any, first: int, n: int, slot: Any, selection: int) -> int:
    """The same without an index: gallop to each value from where the one before it is."""
    values, entries = driver.values, driver.matches
    others, matches, low, high = slot.values, slot.matches, slot.low, slot.high
    count = 0
    for i in range(n):
        value = load(values, np.int64(load(entries, i)) if first < 0 else first + i)
        step = 1
        while low + step < high and load(others, low + step) < value:
            low += step
            step *= 2
        top = min(low + step, high)
        while low < top:
            middle = (low + top) >> 1
            if load(others, middle) < value:
                low = middle + 1
            else:
                top = middle
        if low == high:
            break
        store(selection, count, np.int32(max(first, 0) + i))
        store(matches, count, np.int32(low))
        count += int(load(others, low) == value)
    return count


@helper
def _driver(slots: Records, begin: int, end: int) -> int:
    """The slot whose values are looked up in the others.

    It is the one with the smallest range, or one not much larger whose range varies: the others can
    then be indexed and stay so for the next binding.
    """
    least = driver = -1
    for s in range(begin, end):
        size = slots[s].high - slots[s].low
        if least < 0 or size < least:
            least, driver = size, s
    if not slots[driver].varies:
        most = SEARCH_COST * least
        for s in range(begin, end):
            size = slots[s].high - slots[s].low
            if slots[s].varies and size <= most:
                most, driver = size, s
    return driver


@helper
def _index(slot: Any, searches: int) -> bool:
    """Index the slot's range if that is worth it, now that so many values are to be looked up.

    To index a range costs its size, so it is done once searching it would have cost as much.
    """
    if not slot.index:
        return False
    if slot.searched != slot.low:
        slot.searched, slot.searches = slot.low, 0
    slot.searches += searches
    if SEARCH_COST * slot.searches < slot.high - slot.low:
        return False
    for entry in range(slot.low, slot.high):
        store(slot.index, np.int64(load(slot.values, entry)), np.int32(entry + 1))
    slot.indexed = slot.low
    return True


@compiled
def intersect(slots: Records, begin: int, end: int, selection: int) -> tuple[int, int]:
    """How many values the ranges of these slots have in common, and how many were looked up.

    `matches` of each slot then has their entries; `selection` is where a selection vector may be.
    """
    driving = _driver(slots, begin, end)
    driver = slots[driving]
    first = driver.low
    n: int = driver.high - first
    steps = n
    for s in range(begin, end):
        if s == driving:
            continue
        slot = slots[s]
        selected = driver.matches if first >= 0 else selection
        if slot.indexed == slot.low or _index(slot, n):
            n = _probe(driver, first, n, slot, selected)
        else:
            n = _search(driver, first, n, slot, selected)
        if first < 0:  # the matches of slots before this one lose what was not selected
            for other in range(begin, end):
                if other < s or other == driving:
                    matches = slots[other].matches
                    for i in range(n):
                        store(matches, i, load(matches, np.int64(load(selection, i))))
        first = -1
    return n, steps


@compiled
def next_rows(join: JoinState, depth: int, room: int) -> tuple[int, int, int]:
    """Go on from `depth` through some bindings of the variables, until there is no room for rows.

    Returns the depth to go on from (-1: all bindings were seen), the rows that were written (or only
    counted, if `room` is negative), and how many more there must be room for.
    """
    slots, leaves, cursors, bounds, selection = join
    last = len(bounds) - 2
    rows: Any = np.int64(0)  # for a plain 0 numba would compile a second `_emit`
    left = MAX_STEPS
    while depth >= 0:
        cursor, begin, end = cursors[depth], bounds[depth], bounds[depth + 1]
        if cursor.next == cursor.end:
            depth -= 1
        elif left < 0:
            return depth, rows, 1
        elif depth == last:
            left -= cursor.end - cursor.next
            rows, more = _emit(slots[begin:end], leaves, cursor, rows, room)
            if cursor.next < cursor.end:
                return depth, rows, more
        else:
            _bind(slots, leaves, begin, end, cursor.next)
            cursor.next += 1
            n, steps = intersect(slots, end, bounds[depth + 2], selection)
            left -= steps + 1
            if n:
                depth += 1
                cursors[depth].next, cursors[depth].end = 0, n
    return depth, rows, 0


@helper
def _bind(slots: Records, leaves: Records, begin: int, end: int, match: int) -> None:
    """Bind the variable of these slots to one of its matches.

    What follows it is the range of the next slot, or are the rows of the relation.
    """
    for s in range(begin, end):
        slot = slots[s]
        entry = np.int64(load(slot.matches, match))
        low = np.int64(load(slot.starts, entry))
        high = np.int64(load(slot.starts, entry + 1))
        if slot.next >= 0:
            after = slots[slot.next]
            after.low, after.high = low, high
        else:
            leaf = leaves[slot.relation]
            leaf.first, leaf.count = low, high - low


@compiled
def _emit(last: Records, leaves: Records, cursor: Any, rows: int, room: int) -> tuple[int, int]:
    """Write or count the rows of the last variable's matches, as far as there is room.

    Returns the rows so far, and how many more the next match needs room for.
    """
    unique, estimate = True, 1.0
    for s in range(len(last)):
        unique &= last[s].unique != 0
        leaves[last[s].relation].count = 1
    for r in range(len(leaves)):
        estimate *= leaves[r].count
    if unique and estimate == 1.0:
        n = cursor.end - cursor.next
        if room >= 0:
            n = min(n, room - rows)
            _copy(last, leaves, cursor.next, rows, n)
        cursor.next += n
        return rows + n, 1
    while cursor.next < cursor.end:
        _bind(last, leaves, 0, len(last), cursor.next)
        estimate = 1.0
        count: Any = np.int64(1)
        for r in range(len(leaves)):
            estimate *= leaves[r].count
            count *= leaves[r].count
        if rows + estimate >= MAX_ROWS:
            return rows, MAX_ROWS
        if room >= 0:
            if rows + count > room:
                return rows, count
            _cross(leaves, rows, count)
        rows += count
        cursor.next += 1
    return rows, 0


@compiled
def _copy(last: Records, leaves: Records, match: int, rows: int, n: int) -> None:
    """Write one row of each relation for each of n matches from `match` on."""
    for r in range(len(leaves)):
        if not leaves[r].is_last:
            row, out = load(leaves[r].rows, leaves[r].first), leaves[r].out
            for i in range(rows, rows + n):
                store(out, i, row)
    for s in range(len(last)):
        leaf = leaves[last[s].relation]
        matches, numbers, out = last[s].matches, leaf.rows, leaf.out
        for i in range(n):
            store(out, rows + i, load(numbers, np.int64(load(matches, match + i))))


@compiled
def _cross(leaves: Records, start: int, count: int) -> None:
    """Write the product of the leaves' rows, `count` rows in all."""
    inner = count
    for r in range(len(leaves)):
        leaf = leaves[r]
        inner //= leaf.count
        at = start
        while at < start + count:
            for j in range(leaf.count):
                row = load(leaf.rows, leaf.first + j)
                for _ in range(inner):
                    store(leaf.out, at, row)
                    at += 1
