"""From a question to a plan, pass by pass.

The messages not found in the store are the Steiner tree of the paper (§3.4.2). Compensation needs
no case of its own: a key of the pivot that has an annotation too many or too few is simply not
equal to ours, and a γ_D that is not asked for is summed out (Σ_D) at the last bag that has D,
because our keys do not keep it any further.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.cost import choose_root, reachable
from calitree.calibration.planning.placement import Placement, push_down, with_bindings
from calitree.calibration.planning.plan import Absorb, Plan, Send, Step
from calitree.calibration.planning.staleness import AtHand, find_messages
from calitree.calibration.projection import Projection
from calitree.calibration.snapshot import Snapshot
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema
from calitree.query.binder import Question


@dataclass(frozen=True)
class Planned:
    """The cheapest plan found for a question, the placement it uses, and the messages at hand for it.

    Some of these may be stale; those that the plan uses must be refreshed before it is run.
    """

    projection: Projection
    plan: Plan
    placement: Placement
    at_hand: AtHand


def plan_query(snapshot: Snapshot, question: Question) -> Planned:
    """How to answer a question: each pass takes what those before it have found."""
    state, pivot, schema = snapshot.state, snapshot.pivot, snapshot.schema
    if state.missing:
        schema = reachable(schema, state.missing)
    projection = snapshot.bind(question)
    placement = with_bindings(snapshot.placement(projection.query), pivot)
    at_hand = find_messages(state, schema, placement)
    root = choose_root(state, schema, placement, at_hand)
    missing = missing_edges(placement, root, at_hand)
    pushed = push_down(placement, root, missing)
    if pushed is not placement:
        placement, at_hand = pushed, find_messages(state, schema, pushed)
        missing = missing_edges(placement, root, at_hand)
    plan = emit(placement, pivot, root, missing, at_hand)
    return Planned(projection, plan, placement, at_hand)


def missing_edges(placement: Placement, root: str, at_hand: AtHand) -> frozenset[Edge]:
    """The edges towards the root to be computed: the Steiner tree without its root.

    What lies behind a message that is reused is not needed at all.
    """
    onward = dict(placement.tree.upward(root))
    missing: set[Edge] = set()
    for u, v in reversed(onward.items()):
        wanted = v == root or (v, onward[v]) in missing
        known = (u, v) in at_hand.stored or (u, v) in at_hand.stale
        if wanted and (u, v) in placement.edges and not known:
            missing.add((u, v))
    return frozenset(missing)


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
        Step(edge[0], (Send.of(placement, edge, pivot),)) for edge in upward if edge in missing
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
    return Plan(root, steps, reused, absorb, placement.placed(root, pivot), refreshed)


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
            key, columns = placement.keys[edge], placement.sides[edge].columns
            if any(message.carries(columns) for message in stored.get(key, ())):
                at_hand[key] = None
            elif not any(
                each.keys[edge] == key and set(columns) <= set(each.sides[edge].columns)
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
            Send.of(placement, (bag, v)) for v in targets for placement in missing[bag, v]
        )
        if sends:
            steps.append(Step(bag, sends))
    reused = tuple(key for key in at_hand if key not in refreshed)
    where = pivot.placed(root, pivot)
    return Plan(root, tuple(steps), reused, None, where, refreshed)
