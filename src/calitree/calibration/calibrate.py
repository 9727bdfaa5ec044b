"""Calibrating a tree: all messages of its pivots, passed together (paper §4.1, data cubes).

The message u → v of a pivot that groups by S keeps the attributes of S that only u's side has. So pivots
that agree there share it, and all pivots of up to k attributes need, for each directed edge, one message
for every choice of up to k attributes of its source's side: far fewer than pivots times edges. All that a
bag sends at one time is one contraction, so that a large relation is read once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from calitree.calibration.compilation.call import Call, merged_call
from calitree.calibration.compilation.wiring import Wiring
from calitree.calibration.folding.carrying import carrying_pivots
from calitree.calibration.maintenance import refresh_messages
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Send, Step
from calitree.calibration.planning.planner import plan_calibration
from calitree.calibration.planning.staleness import find_messages, stored_edges
from calitree.calibration.replan import replanned
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.protocol import Watch
from calitree.jointree.bag import Edge
from calitree.progress import Progress, progress_bar
from calitree.query.annotation import Aggregate
from calitree.query.binder import Question

Messages = Mapping[MessageKey, Sequence[Message]]
"""Those of one key differ in their columns."""

MESSAGES_PER_CONTRACTION = 16


class Calibration:
    """One run of a plan that calibrates some pivots."""

    def __init__(
        self, snapshot: Snapshot, pivots: Sequence[Placement], stored: Messages, plan: Plan
    ) -> None:
        self.engine, self.snapshot, self.plan = snapshot.state.engine, snapshot, plan
        self.messages = {key: list(alike) for key, alike in stored.items()}
        """Those stored, and those sent."""
        self.measured: dict[MessageKey | None, Measured] = {}
        self._owner: dict[tuple[MessageKey, tuple[Aggregate, ...]], Placement] = {}
        for pivot in pivots:
            for edge, key in pivot.keys.items():
                self._owner.setdefault((key, pivot.subtrees[edge].columns), pivot)

    def batches(self) -> Iterator[Step]:
        """The plan's steps, in parts that an engine can take at a time."""
        size = MESSAGES_PER_CONTRACTION
        for step in self.plan.steps:
            for at in range(0, len(step.sends), size):
                yield Step(step.bag, step.sends[at : at + size])

    def send(self, step: Step, watch: Watch | None = None) -> None:
        """Compute all messages of one step in one contraction."""
        for message, measured in self._call(step).send(self.engine, {}, watch):
            self.messages.setdefault(message.key, []).append(message)
            self.measured[message.key] = measured

    def _call(self, step: Step) -> Call:
        """One call for all pivots whose messages are sent."""
        own: dict[int, tuple[Placement, list[Send]]] = {}
        for send in step.sends:
            pivot = self._owner[send.key, send.aggregates]
            own.setdefault(id(pivot), (pivot, []))[1].append(send)
        calls = [
            self._wiring(pivot, step.bag).send(Step(step.bag, tuple(sends)))
            for pivot, sends in own.values()
        ]
        return calls[0] if len(calls) == 1 else merged_call(calls)

    def _wiring(self, pivot: Placement, bag: str) -> Wiring:
        outer = self.snapshot.outer_joins(pivot.query)
        return Wiring(outer.schema, pivot, self._arrivals(pivot, bag), outer=outer)

    def _arrivals(self, pivot: Placement, bag: str) -> dict[Edge, Message]:
        """What has arrived at a bag of the messages of one pivot."""
        edges = [(other, bag) for other in pivot.tree.neighbours(bag)]
        messages = {edge: usable_message(self.messages, pivot, edge) for edge in edges}
        return {edge: message for edge, message in messages.items() if message is not None}


def refresh(snapshot: Snapshot, progress: Progress | bool | None, is_main: bool) -> Plan:
    """Pass every message of the pivots that is not in the store, upward and downward (Algorithm 1).

    Those that are stale take what has changed. Those of what measures carry go first when memory is short.
    """
    store, pivots = snapshot.state.store, snapshot.pivots
    carrying = carrying_pivots(snapshot) if is_main else []
    plan, messages = calibrate(snapshot, [*pivots, *carrying], progress, is_main)
    own: set[Message] = set().union(*(messages_of(pivot, messages) for pivot in pivots))
    for message in (message for alike in messages.values() for message in alike):
        store.pin(message) if is_main and message in own else store.keep(message)
    return plan


def is_calibrated(snapshot: Snapshot) -> bool:
    """Whether the messages of all pivots are there and up to date, in both directions."""
    store = snapshot.state.store
    return all(len(stored_edges(p, store)) == len(p.edges) for p in snapshot.pivots)


def calibrate(
    snapshot: Snapshot,
    pivots: Sequence[Placement],
    progress: Progress | bool | None,
    is_main: bool = True,
) -> tuple[Plan, Messages]:
    """All messages of some pivots, for the caller to keep, and the plan that computed them."""
    return replanned(snapshot, partial(_calibrate, snapshot, pivots, progress, is_main))


def _calibrate(
    snapshot: Snapshot,
    pivots: Sequence[Placement],
    progress: Progress | bool | None,
    is_main: bool,
) -> tuple[Plan, Messages]:
    state = snapshot.state
    stored: dict[MessageKey, list[Message]] = {}
    measured: dict[MessageKey | None, Measured] = {}
    refreshed: dict[MessageKey, None] = {}
    for pivot in pivots:
        available = find_messages(state, snapshot.schema, pivot)
        messages = dict(available.stored)
        if available.stale:
            run = refresh_messages(snapshot, pivot, available, list(available.stale), is_main)
            messages |= run.messages
            measured |= run.measured
            refreshed |= dict.fromkeys(pivot.keys[edge] for edge in available.stale)
        for message in messages.values():
            alike = stored.setdefault(message.key, [])
            if message not in alike:
                alike.append(message)
    plan = plan_calibration(snapshot.schema, pivots, stored, tuple(refreshed))
    plan = plan.with_damage(state.store.damaged)
    calibration = Calibration(snapshot, pivots, stored, plan)
    done, total = 0, len(plan.computed)
    if plan.steps:
        with progress_bar(progress) as listener:
            for step in calibration.batches():
                rows, _ = snapshot.rows_at(step.bag)
                calibration.send(step, listener.begin(done, total, step.bag, str(step), rows))
                done += len(step.sends)
            listener.end(total)
    state.cardinalities |= _cardinalities(snapshot.pivot, calibration.messages)
    return plan.after({**measured, **calibration.measured}), calibration.messages


def _cardinalities(pivot: Placement, messages: Messages) -> dict[frozenset[str], int]:
    """How many values each separator has at most that both sides share, as the pivot's messages tell."""
    cardinalities: dict[frozenset[str], int] = {}
    for edge in pivot.edges:
        message = usable_message(messages, pivot, edge)
        if message is not None and not pivot.beyond_separator[edge]:
            separator, rows = pivot.subtrees[edge].separator, message.table.rows
            cardinalities[separator] = min(rows, cardinalities.get(separator, rows))
    return cardinalities


def usable_message(messages: Messages, placement: Placement, edge: Edge) -> Message | None:
    """The one of some messages that a pivot can use along an edge."""
    columns, alike = placement.subtrees[edge].columns, messages.get(placement.keys[edge], ())
    return next((message for message in alike if message.has_columns(columns)), None)


def messages_of(pivot: Placement, messages: Messages) -> set[Message]:
    """Those of some messages that a pivot has."""
    own = (usable_message(messages, pivot, edge) for edge in pivot.edges)
    return {message for message in own if message is not None}


def cube_messages(snapshot: Snapshot, pivots: Sequence[Question]) -> list[Message]:
    """The messages in the store of some pivots of cubes that are not the first pivot's too."""
    own = set(snapshot.pivot.keys.values())
    messages: dict[MessageKey, Message] = {}
    for question in pivots:
        stored = stored_edges(snapshot.cube_pivot(question), snapshot.state.store)
        messages |= {m.key: m for m in stored.values() if m.key not in own}
    return list(messages.values())
