"""From a question to a plan, pass by pass.

The messages that are not in the store are the Steiner tree of the paper (§3.4.2). Compensation needs no
case of its own: a key of the pivot that has an annotation too many or too few is simply not equal to
ours, and a γ_D that is not asked for is summed out (Σ_D) at the last bag that has D, because our keys do
not keep it beyond that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.cost import avoiding, choose_root
from calitree.calibration.planning.grain import (
    at_closure,
    at_row,
    edges_with_grain,
    grain_bags,
)
from calitree.calibration.planning.placement import Placement, push_down, with_bindings
from calitree.calibration.planning.plan import Absorb, Plan, Planned, Send, Step
from calitree.calibration.planning.staleness import Available, find_messages
from calitree.calibration.projection import Projection
from calitree.calibration.snapshot import Snapshot
from calitree.jointree.bag import Edge
from calitree.jointree.decompose import outer_edges
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.remainder import full_joins
from calitree.jointree.schema import Schema


def plan_query(snapshot: Snapshot, projection: Projection) -> Planned:
    """How to answer a part of a question: each pass takes the results of those before it."""
    state, pivot = snapshot.state, snapshot.pivot
    schema = snapshot.schema_of(projection.query)
    if state.missing:
        schema = avoiding(schema, state.missing)
    placement = snapshot.placement(projection.query)
    if projection.query.grain:
        placement = at_closure(snapshot, schema, placement)
    placement = with_bindings(placement, pivot)
    available = find_messages(state, schema, placement)
    at_grain = bool(placement.query.grain)
    among = grain_bags(placement) if at_grain else None
    root = choose_root(state, schema, placement, available, among)
    missing = missing_edges(placement, root, available)
    pushed = push_down(placement, root, missing)
    if pushed is not placement:
        placement, available = pushed, find_messages(state, schema, pushed)
        missing = missing_edges(placement, root, available)
    plan = emit(placement, pivot, root, missing, available)
    full = full_edges(placement, schema)
    if at_grain and plan.absorb is not None:
        plan = replace(plan, absorb=at_row(plan.absorb, placement))
        full = edges_with_grain(placement, full)
    plan = with_unmatched(plan, placement, pivot, available, full)
    return Planned(projection, plan.with_damage(state.store.damaged), placement, available)


def missing_edges(placement: Placement, root: str, available: Available) -> frozenset[Edge]:
    """The edges towards the root to be computed: the Steiner tree without its root.

    What is needed only for a message that is reused is not needed at all.
    """
    parents = dict(placement.tree.upward(root))
    missing: set[Edge] = set()
    for u, v in reversed(parents.items()):
        wanted = v == root or (v, parents[v]) in missing
        if wanted and (u, v) in placement.edges and (u, v) not in available.messages:
            missing.add((u, v))
    return frozenset(missing)


def emit(
    placement: Placement,
    pivot: Placement,
    root: str,
    missing: frozenset[Edge],
    available: Available,
) -> Plan:
    """Send what is missing towards the root, leaves first, and absorb there."""
    upward, query = placement.tree.upward(root), placement.query
    parents = dict(upward)
    used = [
        (u, v)
        for u, v in upward
        if (u, v) in placement.edges - missing and (v == root or (v, parents[v]) in missing)
    ]
    return Plan(
        root,
        steps=tuple(
            Step(edge[0], (Send.of(placement, edge, pivot),)) for edge in upward if edge in missing
        ),
        reused=tuple(placement.keys[edge] for edge in used if edge not in available.stale),
        absorb=Absorb(root, query.keep, placement.where(root, None), query.aggregates),
        placed=placement.placed(root, pivot),
        refreshed=tuple(placement.keys[edge] for edge in used if edge in available.stale),
    )


def full_edges(placement: Placement, schema: Schema) -> list[Edge]:
    """The edges that are full joins, from the optional side to the preserved one."""
    edges = outer_edges(schema, placement.tree.bags)
    joins = full_joins(schema, placement.query.relations)
    return [edges[join][::-1] for join in joins]


def with_unmatched(
    plan: Plan, placement: Placement, pivot: Placement, available: Available, full: Sequence[Edge]
) -> Plan:
    """The plan, which also absorbs what full joins keep without a partner, each at its optional side."""
    query, tree = placement.query, placement.tree
    steps, reused = list(plan.steps), dict.fromkeys((*plan.reused, *plan.refreshed))
    absorbed, sent = [], {send.key.edge for step in steps for send in step.sends}
    fresh = Available(available.stored, {}, available.stored)
    for bag, preserved in full:
        side = tree.subtree(bag, preserved)
        missing = missing_edges(placement, bag, fresh)
        for edge in tree.upward(bag):
            if edge[0] not in side or edge in sent or edge not in placement.edges:
                continue
            if edge in missing:
                steps.append(Step(edge[0], (Send.of(placement, edge, pivot),)))
                sent.add(edge)
            elif edge[1] == bag or (edge[1], dict(tree.upward(bag))[edge[1]]) in missing:
                reused[placement.keys[edge]] = None
        arriving = (n for n in tree.neighbours(bag) if n != preserved)
        due = frozenset(query.where).difference(*(placement.selected[n, bag] for n in arriving))
        where = tuple(predicate for predicate in query.where if predicate in due)
        absorbed.append(Absorb(bag, query.keep, where, query.aggregates, preserved))
    if not full:
        return plan
    return replace(
        plan,
        steps=tuple(steps),
        reused=tuple(key for key in reused if key not in plan.refreshed),
        unmatched=tuple(absorbed),
    )


def plan_calibration(
    schema: Schema,
    placements: Sequence[Placement],
    stored: Mapping[MessageKey, Sequence[Message]],
    refreshed: tuple[MessageKey, ...] = (),
) -> Plan:
    """Algorithm 1: upward to a root, then downward; the messages a bag sends downward in one step.

    The root is the largest bag, which then sends all its messages in a single step. Some of those stored
    have been `refreshed` for it.
    """
    pivot, tree = placements[0], placements[0].tree
    sizes = {bag.name: max(map(schema.rows, bag.relations), default=0) for bag in tree.bags}
    root = max(sizes, key=sizes.__getitem__)
    reused, missing = _reused_and_missing(placements, stored)
    steps = []
    for bag, targets in _schedule(tree, root):
        edges = [(bag, target) for target in targets]
        sends = [Send.of(placement, edge) for edge in edges for placement in missing[edge]]
        if sends:
            steps.append(Step(bag, tuple(sends)))
    return Plan(
        root,
        tuple(steps),
        reused=tuple(key for key in reused if key not in refreshed),
        absorb=None,
        placed=pivot.placed(root, pivot),
        refreshed=refreshed,
    )


def _reused_and_missing(
    placements: Sequence[Placement], stored: Mapping[MessageKey, Sequence[Message]]
) -> tuple[list[MessageKey], dict[Edge, list[Placement]]]:
    """The keys of messages that are stored, and for each edge the placements whose message is to be sent.

    Of several pivots, most messages are the same: each is sent once. If the pivots have different
    measures, one may need columns that another's message does not have, and then both are sent.
    """
    tree = placements[0].tree
    reused: dict[MessageKey, None] = {}
    missing: dict[Edge, list[Placement]] = {edge: [] for edge in tree.directed}
    for placement in sorted(placements, key=lambda p: -len(p.query.aggregates)):
        for edge in (edge for edge in tree.directed if edge in placement.edges):
            key, columns = placement.keys[edge], placement.subtrees[edge].columns
            if any(message.has_columns(columns) for message in stored.get(key, ())):
                reused[key] = None
            elif not any(
                sent.keys[edge] == key and set(columns) <= set(sent.subtrees[edge].columns)
                for sent in missing[edge]
            ):
                missing[edge].append(placement)
    return list(reused), missing


def _schedule(tree: Hypertree, root: str) -> Iterator[tuple[str, list[str]]]:
    """Each bag and the neighbours that it sends to in one step: its parent, and later its children."""
    upward = tree.upward(root)
    for bag, parent in upward:
        yield bag, [parent]
    parents = dict(upward)
    for bag in (root, *(bag for bag, _ in reversed(upward))):
        yield bag, [other for other in tree.neighbours(bag) if other != parents.get(bag)]
