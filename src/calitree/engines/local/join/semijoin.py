"""Semi-join reduction: of a large table only the rows that join with a small one are visited.

A few rows that came or went join with a few rows of the tables around them. Those are looked up by
their ids, and take the large table's place in the contraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calitree.engines.local.scan.reduction import Job
from calitree.engines.local.tables.encoded import key_of
from calitree.engines.local.tables.legs import Leg, shared
from calitree.engines.local.tables.selection import SelectedRelation
from calitree.engines.local.tables.tables import EncodedMessage, EncodedRelation

SEMIJOIN_RATIO = 4
"""A table is small if it has at most one in so many of the large one's rows, and of the ids."""


def semijoin_reduced(jobs: Sequence[Job], large: int) -> list[Job]:
    """The same jobs, with few rows instead of large tables where a look-up can find these.

    Jobs that select by different legs take a pass each, so that the more jobs there are, the fewer
    rows may be left. Else legs stay the same objects in all jobs, so that one pass serves several.
    """
    if not any(leg.rows >= large for job in jobs for leg in job.legs.values()):
        return list(jobs)
    factor = SEMIJOIN_RATIO * len(jobs)
    reduced: dict[tuple[Leg, Leg], Leg] = {}

    def reduce(legs: Mapping[int, Leg], at: int) -> Leg:
        leg = legs[at]
        reducible = leg.rows >= large and leg.match is None
        by = _smallest_neighbour(legs, at) if reducible else None
        if by is None:
            return leg
        if (leg, by) not in reduced:
            reduced[leg, by] = _semijoin(leg, by, factor) or leg
        return reduced[leg, by]

    result = []
    for job in jobs:
        legs = {at: reduce(job.legs, at) for at in job.legs}
        is_same = all(legs[at] is leg for at, leg in job.legs.items())
        result.append(job if is_same else replace(job, legs=legs))
    return result


def _smallest_neighbour(legs: Mapping[int, Leg], at: int) -> Leg | None:
    """The smallest leg that shares attributes with this one, if it has few of their ids."""
    book = legs[at].table.book
    small: list[Leg] = []
    for other, leg in legs.items():
        if other != at and not leg.match and leg.rows * SEMIJOIN_RATIO <= legs[at].rows:
            common = shared({at: legs[at], other: leg}, at)
            if common and leg.rows * SEMIJOIN_RATIO <= book.space(common).size:
                small.append(leg)
    return min(small, key=lambda leg: leg.rows, default=None)


def _semijoin(leg: Leg, by: Leg, factor: int) -> Leg | None:
    """The rows of a leg that join with the other; None unless a look-up finds one in `factor`.

    The look-up is built when it would have been of use before.
    """
    table = leg.table
    if not isinstance(table, EncodedRelation | EncodedMessage):
        return None
    space = table.book.space(shared({0: leg, 1: by}, 0))
    ids = by.ids(space)
    key = key_of(space.attributes, leg.names)
    if key not in table.indexed_keys:
        if not table.is_wanted(space, leg.names):
            return None
        if table.places(space, leg.names, None) is None:
            table.index(space, leg.names)
    rows = table.rows_of(key, ids[ids > 0])
    if len(rows) * factor > table.rows:
        return None
    selected = (
        SelectedRelation(table, rows) if isinstance(table, EncodedRelation) else table.take(rows)
    )
    return Leg(selected, leg.names)
