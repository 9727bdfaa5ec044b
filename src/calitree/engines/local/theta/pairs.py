"""Pairs of rows, tried one by one: for conditions that no order answers.

One comparison, or what must be equal, narrows them; the rest is looked at in each pair. What matches are
joined rows like those of relations that share a bag, made a block at a time, so that no more than a block is
in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from calitree.engines.api.pairs import check_pairs
from calitree.engines.local.scan.reduction import Job
from calitree.engines.local.tables.encoded import EncodedTable, Names
from calitree.engines.local.tables.filters import evaluated
from calitree.engines.local.tables.joined import Joined
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.theta.comparisons import Ordered, ordered
from calitree.engines.local.theta.ranges import Ranges
from calitree.engines.local.theta.sorted_rows import SortedRows
from calitree.engines.local.theta.theta_join import ThetaJoin
from calitree.interrupts import run

Array = np.ndarray[Any, Any]

BLOCK_PAIRS = 1 << 23
"""Pairs that are in memory at a time, about."""

_TESTS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "<>": np.not_equal,
}


class Pairs:
    """The pairs that may match: for each look-up, a range of rows in some order."""

    def __init__(self, lookup: ThetaJoin) -> None:
        self.lookup, condition = lookup, lookup.condition
        groups, codes, count = lookup.groups(lookup.equal)
        probes = lookup.probes(codes, count, limit=lookup.key_count)
        assert probes is not None  # of each key there is at most one
        self.keys, self.groups = probes
        self.sides: list[Sequence[Ordered]] = []
        for comparison in condition.comparisons:
            sides = ordered([lookup.theirs(comparison.theirs), lookup.ours(comparison.ours)])
            assert sides is not None
            self.sides.append(sides)
        options = [self._narrowed(by, groups, count) for by in self._narrowing()]
        self.used, self.rows, self.ranges = min(
            options, key=lambda option: int(option[2].sizes.sum())
        )
        self.count = int(self.ranges.sizes.sum())

    def _narrowing(self) -> list[list[int]]:
        """Comparisons of one column of the leg, by any of which pairs may be narrowed."""
        comparisons = self.lookup.condition.comparisons
        convex = [i for i, c in enumerate(comparisons) if c.operator != "<>"]
        by = {
            c.theirs: [i for i in convex if comparisons[i].theirs == c.theirs] for c in comparisons
        }
        return [*by.values()] or [[]]

    def _narrowed(
        self, by: list[int], groups: Array | None, count: int
    ) -> tuple[list[int], SortedRows, Ranges]:
        """What these comparisons leave, or the first if they are not in one order."""
        lookup, comparisons = self.lookup, self.lookup.condition.comparisons
        sides = [Ordered(np.zeros(lookup.leg.rows, np.int64), None)]
        if by:
            theirs = lookup.theirs(comparisons[by[0]].theirs)
            compared = ordered([theirs, *(lookup.ours(comparisons[i].ours) for i in by)])
            if compared is None:
                return self._narrowed(by[:1], groups, count)
            sides = compared
        rows = SortedRows(sides[0], groups, count)
        tests = [
            (comparisons[i].operator, side.take(self.keys))
            for i, side in zip(by, sides[1:], strict=True)
        ]
        return by, rows, rows.ranges(tests, self.groups)

    def blocks(self) -> list[tuple[int, int]]:
        """Ranges of look-ups with not many more pairs than a block has; at least one."""
        check_pairs(self.count, f"A join by {' and '.join(map(str, self.lookup.predicates))}")
        ends = np.cumsum(self.ranges.sizes)
        cuts = np.searchsorted(ends, np.arange(BLOCK_PAIRS, self.count, BLOCK_PAIRS)) + 1
        return list(pairwise(np.unique([0, *cuts, len(ends)]).tolist())) or [(0, 0)]

    def job(self, block: tuple[int, int]) -> Job:
        """The contraction of the pairs of a block: the two legs are one, of joined rows."""
        lookup, job = self.lookup, self.lookup.job
        at, middle = lookup.at, lookup.middle
        keys, rows = run(lambda: self._matching(*block))
        parts, places, positions = _flat(job, middle, keys)
        theirs = _flat(job, at, rows)
        places |= {i: len(parts) + place for i, place in theirs[1].items()}
        parts, positions = [*parts, *theirs[0]], [*positions, *theirs[2]]
        joined = Joined(lookup.book, parts, JoinedPairs(positions), lambda _: None)
        legs = {i: leg for i, leg in job.legs.items() if i not in (at, middle)}
        legs[middle] = Leg(joined, joined.names, places)
        leg_of = {i: middle if place == at else place for i, place in job.leg_of.items()}
        where = tuple(p for p in job.output.where if p not in lookup.predicates)
        return Job(legs, leg_of, replace(job.output, where=where))

    def _matching(self, first: int, last: int) -> tuple[Array, Array]:
        """The rows of the two legs that match."""
        repeats = self.ranges.sizes[first:last]
        probes = np.repeat(np.arange(first, last), repeats)
        offsets = np.arange(len(probes)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        rows = self.rows.order[self.ranges.starts[probes] + offsets]
        keys = self.keys[probes]
        for i, comparison in enumerate(self.lookup.condition.comparisons):
            if i in self.used:
                continue
            theirs, ours = (s.take(at) for s, at in zip(self.sides[i], (rows, keys), strict=True))
            passed = _compared(comparison.operator, theirs, ours)
            keys, rows = keys[passed], rows[passed]
        for predicate in self.lookup.condition.rest:
            columns = {a: self._column(a, keys, rows) for a in predicate.attributes}
            passed = evaluated(predicate, columns, len(keys), 1)
            keys, rows = keys[passed], rows[passed]
        return keys, rows

    def _column(self, attribute: str, keys: Array, rows: Array) -> pa.Array:
        lookup = self.lookup
        if attribute in lookup.key_values:
            return lookup.key_values[attribute].take(pa.array(keys))
        return lookup.values(attribute).take(pa.array(rows))


def _compared(operator: str, theirs: Ordered, ours: Ordered) -> Array:
    """Where `theirs operator ours` is true. NaN equals NaN, and is greater than all other numbers."""
    a, b = theirs.data, ours.data
    passed: Array = _TESTS[operator](a, b)
    if a.dtype == np.float64:
        left, right = np.isnan(a), np.isnan(b)
        order = left.astype(np.int8) - right.astype(np.int8)
        passed = np.where(left | right, _TESTS[operator](order, 0), passed)
    for valid in (theirs.valid, ours.valid):
        if valid is not None:
            passed = passed & valid
    return passed


class JoinedPairs:
    """Positions of rows that match, as `Joined` asks for them."""

    def __init__(self, positions: list[Array]) -> None:
        self.positions = positions

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(int(column.nbytes) for column in self.positions)

    def count(self, threads: int) -> int:
        """How many rows there are."""
        return len(self.positions[0])

    def rows(self, threads: int) -> list[Array]:
        """For each table the positions of its rows."""
        return self.positions


def _flat(
    job: Job, at: int, rows: Array
) -> tuple[list[tuple[EncodedTable, Names]], dict[int, int], list[Array]]:
    """The tables of a leg, the place of each of its inputs among them, and where their rows are."""
    leg = job.legs[at]
    inputs = [i for i, place in job.leg_of.items() if place == at]
    if isinstance(leg.table, Joined):
        positions = [column[rows] for column in leg.table.positions]
        return list(leg.table.parts), dict(leg.parts), positions
    return [(leg.table, leg.names)], dict.fromkeys((*inputs, at), 0), [rows]
