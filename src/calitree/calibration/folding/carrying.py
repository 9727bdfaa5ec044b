"""Pivots that group by what measures carry, so that folds are answered from messages too.

`count(distinct items.family)` by a column of stores asks for the values of `family` in each of the groups:
a question that groups by one column more than the pivot. Where such values are few, their messages are sent
with the pivot's own, in the same contractions, and kept while there is room.
"""

from __future__ import annotations

from dataclasses import replace

from calitree.calibration.executor import answer
from calitree.calibration.folding.parts import Part, parts_of
from calitree.calibration.planning.cost import Cost
from calitree.calibration.planning.placement import Placement
from calitree.calibration.snapshot import Snapshot
from calitree.jointree.bag import Edge
from calitree.query.binder import Question

MAX_SHARE = 0.1
"""How many rows a message may have, of those of the largest relation: the work that it saves."""


def carrying_pivots(snapshot: Snapshot) -> list[Placement]:
    """What the folds of the tree's measures ask of the pivot, as far as these messages are small."""
    question = snapshot.state.pivot
    parts = parts_of(question, snapshot.bind(question).query.folds)
    placements = (_placement(snapshot, part) for part in parts)
    return [placement for placement in placements if placement.edges]


def _placement(snapshot: Snapshot, part: Part) -> Placement:
    """A part's question, without the edges whose messages would be large, and those that need them."""
    placement = snapshot.cube_pivot(part.question)
    sizes = [snapshot.schema.rows(relation) for relation in placement.query.relations]
    limit = MAX_SHARE * max(sizes)
    if any(snapshot.schema.rows(r) > limit for fold in part.folds for r in fold.relations):
        return replace(placement, skipped=placement.edges)
    _count_values(snapshot, part)
    cost = Cost(
        snapshot.schema_of(placement.query),
        placement,
        {},
        cardinalities=snapshot.state.cardinalities,
    )
    own = snapshot.pivot.keys
    large = {
        edge
        for edge in placement.edges
        if placement.keys[edge] != own[edge] and cost.rows(*edge) > limit
    }
    return replace(placement, skipped=frozenset(_needing(placement, large)))


def _needing(placement: Placement, edges: set[Edge]) -> set[Edge]:
    """These edges, and all whose messages are computed from theirs."""
    needing, added = set(edges), edges
    while added:
        added = {
            edge
            for edge in placement.edges - needing
            if any(source != edge[1] and target == edge[0] for source, target in added)
        }
        needing |= added
    return needing


def _count_values(snapshot: Snapshot, part: Part) -> None:
    """Learn how many values the carried columns have, each of one relation."""
    state, groups = snapshot.state, dict(snapshot.bind(part.question).query.group_by)
    texts = dict(zip(part.carried, part.folds[0].carried, strict=True))
    for name, text in texts.items():
        values, relations = frozenset((groups[name],)), part.folds[0].relations
        if values not in state.cardinalities and len(relations) == 1:
            asked = Question((text,), None, {"rows": "count(*)"}, tuple(relations))
            counted = answer(snapshot, asked, is_main=False).table.rows
            state.cardinalities = {**state.cardinalities, values: counted}
