"""The last pass: the edges to compute become steps of a plan that can tell why."""

from __future__ import annotations

from calitree.calibration.message import MessageKey
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Plan, Send, Step
from calitree.calibration.planning.staleness import AtHand
from calitree.jointree.hypertree import Edge
from calitree.query.annotation import (
    Aggregate,
    Annotation,
    Augment,
    Exclude,
    GroupBy,
    Lift,
    Select,
    SumOut,
)


def emit(
    placement: Placement,
    pivot: Placement,
    root: str,
    missing: frozenset[Edge],
    at_hand: AtHand,
) -> Plan:
    """Send what is missing towards the root, leaves first, and absorb there."""
    upward, query = placement.tree.upward(root), placement.query
    onward = dict(upward)
    steps = tuple(
        Step(u, (send_of(placement, pivot, u, v),)) for u, v in upward if (u, v) in missing
    )
    used = [
        (u, v)
        for u, v in upward
        if (u, v) in placement.edges - missing and (v == root or (v, onward[v]) in missing)
    ]
    stale = at_hand.stale
    reused = tuple(placement.keys[edge] for edge in used if edge not in stale)
    refreshed = tuple(placement.keys[edge] for edge in used if edge in stale)
    absorb = Absorb(root, query.keep, placement.where(root, None), query.aggregates)
    return Plan(root, steps, reused, absorb, placed(placement, pivot, root), refreshed)


def placed(placement: Placement, pivot: Placement, root: str) -> tuple[tuple[Annotation, str], ...]:
    """Where each annotation takes effect, given the root; Σ where the pivot's γ is not wanted."""
    tree, query = placement.tree, placement.query
    result: list[tuple[Annotation, str]] = []
    for attribute in query.keep:
        result.append((GroupBy(attribute), tree.nearest(tree.holders((attribute,)), root)))
    for attribute in pivot.query.keep:
        if attribute not in query.keep:
            result.append((SumOut(attribute), tree.nearest(tree.holders((attribute,)), root)))
    onward = dict(tree.upward(root))
    for bag in (bag.name for bag in tree.bags):
        result += [(Select(p), bag) for p in placement.where(bag, onward.get(bag))]
    result += [(Exclude(r), tree.home(r)) for r in sorted(placement.excluded - tree.added)]
    result += [(Augment(r), tree.home(r)) for r in sorted(tree.added - placement.excluded)]
    lifts = {lift for aggregate in query.aggregates for lift in aggregate.lifts}
    result += [(lift, tree.home(lift.relation)) for lift in sorted(lifts, key=str)]
    return tuple(result)


def send_of(placement: Placement, pivot: Placement, source: str, target: str) -> Send:
    key = placement.keys[source, target]
    columns = placement.columns[source, target]
    where = placement.where(source, target)
    why = "" if pivot is placement else _why(key, columns, pivot)
    return Send(key, placement.keep(source, target), where, columns, why)


def _why(key: MessageKey, columns: tuple[Aggregate, ...], pivot: Placement) -> str:
    """Why the pivot's message along this edge does not serve."""
    theirs = pivot.keys[key.source, key.target]
    added = sorted(map(str, key.behind - theirs.behind))
    dropped = sorted(map(str, theirs.behind - key.behind))
    if added or dropped:
        reasons = [f"{each} is not in the pivot" for each in added]
        reasons += [f"the pivot's {each} is not wanted" for each in dropped]
        return "; ".join(reasons)
    known = frozenset(pivot.columns[key.source, key.target])
    fresh: set[Lift] = set()
    for column in columns:
        if column not in known:
            fresh |= column.lifts
    if fresh:
        return f"{', '.join(sorted(map(str, fresh)))} is new"
    missing = [str(column) for column in columns if column not in known]
    return f"{', '.join(missing)} is new" if missing else "not kept"
