"""From a placement to a plan: look every key up, choose the root, push down what cannot be reused.

The messages not found in the store are the Steiner tree of the paper (§3.4.2). Compensation needs
no case of its own: a key of the pivot that has an annotation too many or too few is simply not
equal to ours, and a γ_D that is not asked for is summed out (Σ_D) at the last bag that has D,
because our keys do not keep it any further.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.cost import Cost
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Plan, Send, Step
from calitree.calibration.planning.staleness import Stale, stale_edges
from calitree.calibration.store import Store
from calitree.calibration.versions import Changes
from calitree.jointree.hypertree import Edge, Hypertree
from calitree.jointree.schema import Schema
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


@dataclass(frozen=True)
class Planned:
    """The cheapest plan found, the placement it uses, and the messages at hand for it.

    Some of these may be stale; those that the plan uses must be refreshed before it is run.
    """

    plan: Plan
    placement: Placement
    stored: dict[Edge, Message]
    stale: dict[Edge, Stale]


def plan_query(
    schema: Schema,
    placement: Placement,
    pivot: Placement,
    store: Store,
    changes: Changes | None = None,
    keeps: bool = True,
    values: Mapping[frozenset[str], int] | None = None,
) -> Planned:
    """How to answer a query. Given what has changed, stale messages are refreshed. `keeps` tells
    whether it is of use to leave messages for later queries, `values` how many some attributes have.
    """
    placement = with_bindings(placement, pivot)
    stored, stale = at_hand(schema, placement, store, changes)
    work = {edge: each.work for edge, each in stale.items()}
    near = {**stored, **{edge: each.message for edge, each in stale.items()}}
    keeps = keeps and store.memory_limit > 0
    root = cheapest_root(Cost(schema, placement, near, keeps, work, values))
    upward = placement.tree.upward(root)
    onward = dict(upward)
    missing = missing_edges(placement, onward, near)
    pushed = push_down(placement, root, missing)
    if pushed is not placement:
        placement = pushed
        stored, stale = at_hand(schema, placement, store, changes)
        missing = missing_edges(placement, onward, stored.keys() | stale.keys())
    steps = tuple(
        Step(u, (send_of(placement, pivot, u, v),)) for u, v in upward if (u, v) in missing
    )
    reused = tuple(
        placement.keys[u, v]
        for u, v in upward
        if (u, v) in placement.edges - missing and (v == root or (v, onward[v]) in missing)
    )
    query = placement.query
    absorb = Absorb(root, query.keep, placement.where(root, None), query.aggregates)
    refreshed = tuple(key for key in reused if (key.source, key.target) in stale)
    reused = tuple(key for key in reused if (key.source, key.target) not in stale)
    plan = Plan(root, steps, reused, absorb, placed(placement, pivot, root), refreshed)
    return Planned(plan, placement, stored, stale)


def at_hand(
    schema: Schema, placement: Placement, store: Store, changes: Changes | None
) -> tuple[dict[Edge, Message], dict[Edge, Stale]]:
    """The messages in the store, and those that were right at earlier versions."""
    stored = stored_edges(placement, store)
    updated = store.has_versions or any(placement.versions.values())
    if changes is None or not updated or len(stored) == len(placement.keys):
        return stored, {}
    return stored, stale_edges(schema, placement, store, stored, changes)


def plan_calibration(
    schema: Schema,
    placements: Sequence[Placement],
    stored: Mapping[MessageKey, Sequence[Message]],
    refreshed: tuple[MessageKey, ...] = (),
) -> Plan:
    """Algorithm 1: upward to a root, then downward; the messages a bag sends downward in one step.

    The root is the largest bag, which then sends all its messages in a single step. Some of those
    stored have been `refreshed` for it. Of several pivots, most messages are the same: each is sent
    once, with all others that its bag sends at that time. If they have other measures, one may need
    columns that another's message does not have, and then both are sent.
    """
    pivot = placements[0]
    tree = pivot.tree

    def size(bag: str) -> int:
        here = (schema.relations[r].table.rows for r in tree.bag(bag).relations)
        return max((rows for rows in here), default=0)

    root = max((bag.name for bag in tree.bags), key=size)
    missing: dict[Edge, list[Placement]] = {edge: [] for edge in tree.directed}
    at_hand: dict[MessageKey, None] = {}
    for placement in sorted(placements, key=lambda each: -len(each.query.aggregates)):
        for edge in (each for each in tree.directed if each in placement.edges):
            key, columns = placement.keys[edge], placement.columns[edge]
            if any(message.carries(columns) for message in stored.get(key, ())):
                at_hand[key] = None
            elif not any(
                each.keys[edge] == key and set(columns) <= set(each.columns[edge])
                for each in missing[edge]
            ):
                missing[edge].append(placement)
    upward = tree.upward(root)
    waves = [(u, [v]) for u, v in upward]
    order = [root, *(u for u, _ in reversed(upward))]
    parent = dict(upward)
    waves += [(u, [v for v in tree.neighbours(u) if v != parent.get(u)]) for u in order]
    steps = []
    for bag, targets in waves:
        sends = tuple(
            send_of(placement, placement, bag, v) for v in targets for placement in missing[bag, v]
        )
        if sends:
            steps.append(Step(bag, sends))
    reused = tuple(key for key in at_hand if key not in refreshed)
    where = placed(pivot, pivot, root)
    return Plan(root, tuple(steps), reused, None, where, refreshed)


def stored_edges(placement: Placement, store: Store) -> dict[Edge, Message]:
    """Every directed edge whose message is at hand."""
    found = {}
    for edge, key in placement.keys.items():
        message = store.find(key, placement.columns[edge])
        if message is not None:
            found[edge] = message
    return found


def missing_edges(
    placement: Placement, onward: dict[str, str], stored: Collection[Edge]
) -> frozenset[Edge]:
    """The edges towards the root to be computed: the Steiner tree without its root.

    `onward` leads from each bag to the next, leaves first. What lies behind a message that is reused
    is not needed at all.
    """
    missing: set[Edge] = set()
    for u, v in reversed(onward.items()):
        wanted = v not in onward or (v, onward[v]) in missing
        if wanted and (u, v) in placement.edges and (u, v) not in stored:
            missing.add((u, v))
    return frozenset(missing)


def cheapest_root(cost: Cost) -> str:
    """Single-query optimisation (§3.3.1): the cheapest bag; at equal cost, one that has what is
    grouped by.
    """
    keep = frozenset(cost.placement.query.keep)
    bags = cost.tree.bags
    best = (inf, 0, 0)
    for least, i in sorted((cost.least(bag.name), i) for i, bag in enumerate(bags)):
        if least > best[0]:
            break  # nor can those after it be cheaper
        best = min(best, (cost.answer(bags[i].name), len(keep - bags[i].attributes), i))
    return bags[best[-1]].name


def push_down(placement: Placement, root: str, missing: frozenset[Edge]) -> Placement:
    """Move each free σ as far from the root as edges that are computed anyway allow: no reuse is
    lost.
    """
    for predicate, options in placement.candidates.items():
        if predicate in placement.bound or not options:
            continue
        here = nearest(placement.tree, options, root)
        moved = False
        while True:
            below = [
                child
                for child in placement.tree.neighbours(here)
                if (child, here) in missing
                and child in options
                and placement.can_bind(predicate, child)
            ]
            if not below:
                break
            here, moved = below[0], True
        if moved:
            placement = placement.binding(predicate, here)
    return placement


def nearest(tree: Hypertree, options: frozenset[str], root: str) -> str:
    """The bag among `options` (connected bags) that is nearest to the root."""
    here = root
    while here not in options:
        here = next(n for n in tree.neighbours(here) if tree.behind(n, here) & options)
    return here


def placed(placement: Placement, pivot: Placement, root: str) -> tuple[tuple[Annotation, str], ...]:
    """Where each annotation takes effect, given the root; Σ where the pivot's γ is not wanted."""
    tree, query = placement.tree, placement.query
    result: list[tuple[Annotation, str]] = []
    for attribute in query.keep:
        result.append((GroupBy(attribute), nearest(tree, tree.holders((attribute,)), root)))
    for attribute in pivot.query.keep:
        if attribute not in query.keep:
            result.append((SumOut(attribute), nearest(tree, tree.holders((attribute,)), root)))
    onward = dict(tree.upward(root))
    for bag in (bag.name for bag in tree.bags):
        result += [(Select(p), bag) for p in placement.where(bag, onward.get(bag))]
    result += [(Exclude(r), tree.home(r)) for r in sorted(placement.excluded - tree.added)]
    result += [(Augment(r), tree.home(r)) for r in sorted(tree.added - placement.excluded)]
    lifts = {lift for aggregate in query.aggregates for lift in aggregate.lifts}
    result += [(lift, tree.home(lift.relation)) for lift in sorted(lifts, key=str)]
    return tuple(result)


def with_bindings(placement: Placement, pivot: Placement) -> Placement:
    """A σ that the pivot has too stands where the pivot put it, so that its messages are found."""
    for predicate, bag in pivot.bound.items():
        if predicate in placement.query.where and placement.can_bind(predicate, bag):
            placement = placement.binding(predicate, bag)
    return placement


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
