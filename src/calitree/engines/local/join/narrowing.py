"""Visiting only the rows of a large table that a small one can meet.

A few rows that came or went meet a few rows of the tables around them. Those are found by a look-up
and take the large table's place in the contraction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calitree.engines.local.scan.reduction import Job
from calitree.engines.local.tables.legs import Leg, shared
from calitree.engines.local.tables.selection import SelectedRelation
from calitree.engines.local.tables.tables import EncodedMessage, EncodedRelation

Array = np.ndarray[Any, Any]

FEW = 4
"""The small one must have at most one in so many of the ids there can be."""


def narrowed(jobs: Sequence[Job], large: int) -> list[Job]:
    """The same jobs, with few rows instead of large tables where that is known to be possible."""
    if not any(leg.rows >= large for job in jobs for leg in job.legs.values()):
        return list(jobs)
    made: dict[tuple[Leg, Leg], Leg] = {}
    return [_narrowed(job, large, FEW * len(jobs), made) for job in jobs]


def _narrowed(job: Job, large: int, few: int, made: dict[tuple[Leg, Leg], Leg]) -> Job:
    """One in `few` rows may be left: jobs that have chosen by different legs take a pass each. Else
    legs stay the same objects in all of them, so that one pass can serve several.
    """
    legs = dict(job.legs)
    for at, leg in job.legs.items():
        by = _smallest_beside(job.legs, at) if leg.rows >= large else None
        if by is not None:
            if (leg, by) not in made:
                made[leg, by] = _few_of(leg, by, few) or leg
            legs[at] = made[leg, by]
    if all(legs[at] is leg for at, leg in job.legs.items()):
        return job
    return replace(job, legs=legs)


def _smallest_beside(legs: Mapping[int, Leg], at: int) -> Leg | None:
    """The smallest leg that meets this one, if it has few of the ids that there can be."""
    book = legs[at].table.book
    found: Leg | None = None
    for other, leg in legs.items():
        if other == at or leg.rows * FEW > legs[at].rows:
            continue
        common = shared({at: legs[at], other: leg}, at)
        if common and leg.rows * FEW <= book.space(common).size:
            found = leg if found is None or leg.rows < found.rows else found
    return found


def _few_of(leg: Leg, by: Leg, few: int) -> Leg | None:
    """The rows of a leg that the other can meet; None if they are many, or if to find them would
    take a look at all.
    """
    table = leg.table
    if not isinstance(table, EncodedRelation | EncodedMessage):
        return None
    space = table.book.space(shared({0: leg, 1: by}, 0))
    ids = by.ids(space)
    key = tuple((a, leg.names[a]) for a in space.attributes)
    if key not in table.indexed_keys:
        if not table.is_wanted(space, leg.names):
            return None
        if table.places(space, leg.names, None) is None:
            table.index(space, leg.names)
    rows = table.rows_of(key, ids[ids > 0])
    if len(rows) * few > table.rows:
        return None
    met = SelectedRelation(table, rows) if isinstance(table, EncodedRelation) else table.take(rows)
    return Leg(met, leg.names)
