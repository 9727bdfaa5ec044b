"""Contractions in which only a condition joins two legs, rewritten such that look-ups join them.

1. Comparisons with one column of the leg that is looked up: it is sorted by that column, and what matches a key
   is a range of it. Two ranges for `<>`.
2. Comparisons of several of its columns with one of the other's, as `lo <= t and t < hi`: the keys are sorted,
   and each row matches a range of these.
3. Anything else is tried pair by pair.

The first two take the time to sort. What must be equal beside the condition, and what is kept, are groups that
come first in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from calitree.engines.api.contraction import Column, Stored, Weight
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.scan.reduction import Job
from calitree.engines.local.tables.encoded import EncodedTable
from calitree.engines.local.tables.legs import Leg, centres, shared
from calitree.engines.local.tables.selection import SelectedRelation
from calitree.engines.local.tables.tables import EncodedMessage, EncodedRelation
from calitree.engines.local.theta.comparisons import MIRRORED, ordered
from calitree.engines.local.theta.pairs import Pairs
from calitree.engines.local.theta.ranges import (
    Matches,
    RangeMatches,
    StabbedMatches,
    any_of,
    extreme,
    total,
)
from calitree.engines.local.theta.sorted_rows import SortedRows
from calitree.engines.local.theta.theta_join import ThetaJoin, kept_attributes
from calitree.sql.parser import Expression

Array = np.ndarray[Any, Any]

MAX_SIZE_RATIO = 8
"""Of legs whose sizes differ by more, the smaller one looks up the larger one."""

MAX_PROBES_PER_ROW = 4
"""With more look-ups than so many a row and key, pairs are counted first: they may be fewer."""


Blocks = Sequence[Callable[[], Job]]
"""Parts of a job, each of which makes a block of joined rows when it is called."""


def without_conditions(job: Job) -> Job | Blocks:
    """A job in which equal attributes join all legs; or several, whose results are to be added.

    There are several only where so many pairs of rows must be tried that they would fill the memory.
    """
    while (chosen := _theta_leg(job)) is not None:
        looked_up = _looked_up(job, ThetaJoin(job, *chosen))
        if looked_up is None:
            pairs = Pairs(ThetaJoin(job, *chosen, by_row=True))
            first, *others = pairs.blocks()
            if others:
                return [partial(pairs.job, block) for block in (first, *others)]
            looked_up = pairs.job(first)
        job = looked_up
    return job


def _theta_leg(job: Job) -> tuple[int, int, list[Expression]] | None:
    """A leg to look up, the leg that does, and their conditions; None if there is none."""
    open_predicates = [
        p
        for p in job.output.where
        if p.attributes and not any(leg.holds(p) for leg in job.legs.values())
    ]
    options = []
    legs = {
        at: leg for at, leg in job.legs.items() if leg.match is None
    }  # others join by their keys
    for at, leg in legs.items() if open_predicates else ():
        own = [p for p in open_predicates if p.attributes & leg.names.keys() - _elsewhere(job, at)]
        joined = frozenset(shared(job.legs, at)).union(*(p.attributes for p in own))
        for middle, other in legs.items() if own else ():
            if middle != at and joined <= leg.names.keys() | other.names.keys():
                common = shared({at: leg, middle: other}, at)
                if len(common) == len(shared(job.legs, at)):
                    options.append((_preference(job, at, middle, own), at, middle, own))
    if not options:
        return None
    _, at, middle, own = min(options, key=lambda option: option[:3])
    return at, middle, own


def _elsewhere(job: Job, at: int) -> frozenset[str]:
    """The attributes that other legs have too."""
    return frozenset(shared(job.legs, at))


def _preference(
    job: Job, at: int, middle: int, predicates: list[Expression]
) -> tuple[int, bool, int, bool]:
    """Better is a leg of which nothing is kept, that is not far smaller, for keys of few attributes.

    Then a relation, whose columns need no codes.
    """
    leg, other = job.legs[at], job.legs[middle]
    kept = len(kept_attributes(job, at, predicates))
    far_smaller = leg.rows * MAX_SIZE_RATIO < other.rows
    key = frozenset().union(*(p.attributes for p in predicates)) - leg.names.keys()
    return kept, far_smaller, len(key), isinstance(leg.table, EncodedMessage)


def _looked_up(job: Job, lookup: ThetaJoin) -> Job | None:
    """The job with the sums of the leg: for each row of the other one, or a message by its keys."""
    at, middle, summed = lookup.at, lookup.middle, _summed_leg(job, lookup)
    if summed is None:
        return None
    leg_of = dict(job.leg_of)
    legs = {**job.legs, **summed}
    if at not in summed:
        del legs[at]
        leg_of = {i: middle if place == at else place for i, place in leg_of.items()}
    where = tuple(
        p
        for p in job.output.where
        if p not in lookup.predicates
        and not (lookup.leg.holds(p) and not any(other.holds(p) for other in legs.values()))
    )
    columns = tuple(_with_stored(column, lookup) for column in job.output.columns)
    return Job(legs, leg_of, replace(job.output, where=where, columns=columns))


def _summed_leg(job: Job, lookup: ThetaJoin) -> dict[int, Leg] | None:
    """The leg that has the sums, in its place; None if order does not answer the condition.

    A message in place of the leg if keys are known to be few, or something is kept; else the other leg's rows.
    """
    condition = lookup.condition
    if not (condition.is_on_one_column or condition.is_interval):
        return None
    by_keys = bool(lookup.kept) or lookup.has_few_keys
    may_be_message = _leaves_centre(job, lookup)
    message = _message(lookup) if by_keys and may_be_message else None
    if message is None and not lookup.kept:
        table = _annotated(job, lookup)
        if table is not None:
            return {lookup.middle: Leg(table, lookup.other.names)}
    if message is None and not by_keys and may_be_message:
        message = _message(lookup)
    if message is None:
        return None
    return {lookup.at: Leg(message, {name: name for name in message.attributes})}


def _leaves_centre(job: Job, lookup: ThetaJoin) -> bool:
    """Whether a message by the keys leaves a leg with which all others share what they share with any.

    What the condition compares was the other leg's own before, and is shared with the message then.
    """
    return any(job.legs[at].names.keys() >= set(lookup.key) for at in centres(job.legs))


def _annotated(job: Job, lookup: ThetaJoin) -> EncodedTable | None:
    """The rows of the other leg that match, annotated with the sums; None if that cannot be done."""
    table = lookup.other.table
    if not isinstance(table, EncodedRelation | EncodedMessage):
        return None
    rows = ThetaJoin(job, lookup.at, lookup.middle, lookup.predicates, by_row=True)
    groups, codes, count = rows.groups(rows.equal)
    probes = rows.probes(codes, count, limit=rows.key_count)
    assert probes is not None  # of each row there is at most one
    summed = _Ordering(rows, groups, count, *probes).summed()
    if summed is None:
        return None
    there, values = summed
    rows_there = probes[0][there]
    if isinstance(table, EncodedMessage):
        own = table.take(rows_there)
        codes_of = {name: own.codes(name, {name: name}) for name in own.attributes}
        every = {**own.annotations, **values}
        return EncodedMessage(table.book, codes_of, every, own.rows, table.kinds)
    return AnnotatedRows(table, rows_there, values)


class AnnotatedRows(SelectedRelation):
    """Rows of a relation with annotations that were looked up for them."""

    def __init__(self, of: EncodedRelation, rows: Array, values: Mapping[str, Value]) -> None:
        super().__init__(of, rows)
        before: Mapping[str, Value] = of.looked_up if isinstance(of, AnnotatedRows) else {}
        self.looked_up: dict[str, Value] = {
            **{name: value.take(rows) for name, value in before.items()},
            **values,
        }

    def stored(self, part: str) -> Value:
        """One of these annotations."""
        return self.looked_up[part]


def _with_stored(column: Column, lookup: ThetaJoin) -> Column:
    """The column with its product as it is stored now."""
    key = lookup.column_key(column)
    rest = tuple(f for f in column.factors if lookup.job.leg_of[f.input] != lookup.at)
    if key is None:
        return replace(column, factors=rest)
    name = lookup.columns[key].name
    is_weight = bool(column.semiring.values) and key[0] is SUM_PRODUCT
    return replace(column, factors=((Weight if is_weight else Stored)(lookup.at, name), *rest))


def _message(lookup: ThetaJoin) -> EncodedMessage | None:
    """The leg, summed for each key and by what is kept of it; None if pairs are fewer."""
    groups, codes, count = lookup.groups((*lookup.equal, *lookup.kept))
    probes = lookup.probes(codes, count)
    if probes is None:
        return None
    many = len(probes[0]) > MAX_PROBES_PER_ROW * (lookup.key_count + lookup.leg.rows)
    if many and Pairs(lookup).count < len(probes[0]):
        return None
    return _Ordering(lookup, groups, count, *probes).message(codes)


class _Ordering:
    """The first two ways, for probes that are pairs of a key and a group."""

    def __init__(
        self, lookup: ThetaJoin, groups: Array | None, count: int, keys: Array, probed: Array
    ) -> None:
        self.lookup, self.groups, self.count = lookup, groups, count
        self.keys, self.probed = keys, probed

    def message(self, codes: Sequence[Array]) -> EncodedMessage | None:
        """The message by keys and what is kept; None if it cannot be computed so."""
        lookup, summed = self.lookup, self.summed()
        if summed is None:
            return None
        there, values = summed
        own = {a: lookup.keys[a][self.keys[there]] for a in lookup.key}
        if not all(codes.all() for codes in own.values()):
            return None  # NULL matches something here, but is joined with nothing
        kept = codes[len(lookup.equal) :]
        own |= {a: c[self.probed[there]] for a, c in zip(lookup.kept, kept, strict=True)}
        return EncodedMessage(lookup.book, own, values, len(there), {})

    def summed(self) -> tuple[Array, dict[str, Value]] | None:
        """The probes that match anything, and all columns for these."""
        lookup = self.lookup
        few = len(self.keys) <= lookup.leg.rows or not lookup.condition.is_on_one_column
        matches = self._stabbed() if lookup.condition.is_interval and few else self._ranges()
        if matches is None:
            return None
        there = np.flatnonzero(matches.counts)
        values: dict[str, Value] = {}
        for column in lookup.columns.values():
            parts = self._summed(column, matches)
            if parts is None:
                return None
            values |= {n: x.take(there) for n, x in zip(column.parts, parts, strict=True)}
        return there, values

    def _ranges(self) -> Matches | None:
        """The leg's rows in order; of `<>` what is below and what is above."""
        lookup, comparisons = self.lookup, self.lookup.condition.comparisons
        sides = ordered(
            [lookup.theirs(comparisons[0].theirs), *(lookup.ours(c.ours) for c in comparisons)]
        )
        if sides is None:
            return None
        rows = SortedRows(sides[0], self.groups, self.count)
        ours = [side.take(self.keys) for side in sides[1:]]
        operators = [c.operator for c in comparisons]
        ways = [operators] if operators != ["<>"] else [["<"], [">"]]
        tests = [list(zip(way, ours, strict=True)) for way in ways]
        return RangeMatches(rows.order, [rows.ranges(test, self.probed) for test in tests])

    def _stabbed(self) -> Matches | None:
        """The probes in order."""
        lookup, comparisons = self.lookup, self.lookup.condition.comparisons
        sides = ordered(
            [lookup.ours(comparisons[0].ours), *(lookup.theirs(c.theirs) for c in comparisons)]
        )
        if sides is None:
            return None
        probes = SortedRows(sides[0].take(self.keys), self.probed, self.count)
        rows, of_rows, given = None, None, sides[1:]
        if self.groups is not None:
            rows = np.flatnonzero(self.groups >= 0)
            of_rows, given = self.groups[rows], [side.take(rows) for side in given]
        operators = [MIRRORED[c.operator] for c in comparisons]
        ranges = probes.ranges(list(zip(operators, given, strict=True)), of_rows)
        return StabbedMatches(probes.order, ranges, rows, len(self.keys))

    def _summed(self, column: Column, matches: Matches) -> list[Value] | None:
        """⊕ of a column for each probe."""
        if not column.factors and column.semiring.is_sum_product:
            return [Value(matches.counts.astype(np.int64), positive=True)]
        if column.semiring.values:
            return None
        ways = zip(column.semiring.plus, self.lookup.products(column), strict=True)
        parts = [_summed(way, value, matches) for way, value in ways]
        return None if any(part is None for part in parts) else cast(list[Value], parts)


def _summed(way: str, value: Value, matches: Matches) -> Value | None:
    if way == "sum":
        return total(value, matches)
    if way == "any":
        return any_of(value, matches)
    return extreme(value, matches, largest=way == "max")
