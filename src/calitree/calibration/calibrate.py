"""Several pivots of one tree, calibrated together (paper §4.1, data cubes).

The message u → v of a pivot that groups by S carries what of S lies only behind u. So pivots that agree
there share it, and all pivots of up to k attributes need, for each directed edge, one message for every
choice of up to k attributes behind it: far fewer than pivots times edges. All that a bag sends at one
time is one contraction, so that a large relation is read once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from calitree.calibration.compiler import Call, Wiring, together
from calitree.calibration.maintenance import refresh_messages
from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Send, Step
from calitree.calibration.planning.planner import plan_calibration
from calitree.calibration.planning.staleness import find_messages, stored_edges
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.protocol import Engine, Watch
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema
from calitree.progress import Progress, progress_bar
from calitree.query.annotation import Aggregate
from calitree.query.binder import Question

Messages = Mapping[MessageKey, Sequence[Message]]
"""Those of one key differ in the columns that they carry."""

BATCH = 16
"""Messages that are sent in one contraction at most."""


class Calibration:
    """One run of a plan that calibrates some pivots. `found` are the new messages."""

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        placements: Sequence[Placement],
        stored: Messages,
        plan: Plan,
    ) -> None:
        self.engine, self.schema, self.plan = engine, schema, plan
        self.messages = {key: list(each) for key, each in stored.items()}
        """Those stored, and those found."""
        self.found: list[Message] = []
        self.measured: dict[MessageKey | None, Measured] = {}
        self._owner: dict[tuple[MessageKey, tuple[Aggregate, ...]], Placement] = {}
        for placement in placements:
            for edge, key in placement.keys.items():
                self._owner.setdefault((key, placement.sides[edge].columns), placement)

    def batches(self) -> Iterator[Step]:
        """The plan's steps, in parts that an engine can take at a time."""
        for step in self.plan.steps:
            for at in range(0, len(step.sends), BATCH):
                yield Step(step.bag, step.sends[at : at + BATCH])

    def send(self, step: Step, watch: Watch | None = None) -> None:
        """Compute all messages of one step in one contraction."""
        started = time.perf_counter()
        call = self._call(step)
        linear = call.linear({})
        tables = linear.tables(self.engine, watch)
        seconds, how = time.perf_counter() - started, linear.how(self.engine)
        for send, table in zip(call.sends, tables, strict=True):
            message = Message(send.key, table, column_names(send.aggregates))
            self.found.append(message)
            self.messages.setdefault(send.key, []).append(message)
            self.measured[send.key] = Measured(table.rows, seconds, how)

    def _call(self, step: Step) -> Call:
        """Each pivot's messages by themselves, put together."""
        own: dict[int, tuple[Placement, list[Send]]] = {}
        for send in step.sends:
            placement = self._owner[send.key, send.aggregates]
            own.setdefault(id(placement), (placement, []))[1].append(send)
        calls: list[Call] = []
        for placement, sends in own.values():
            part = Plan(step.bag, (Step(step.bag, tuple(sends)),), (), None)
            arrivals = self._arrivals(placement, step.bag)
            calls += Wiring(self.schema, placement, arrivals, part).sends()
        return calls[0] if len(calls) == 1 else together(calls)

    def _arrivals(self, placement: Placement, bag: str) -> dict[Edge, Message]:
        """What has arrived at a bag of the messages of one pivot."""
        found = {}
        for other in placement.tree.neighbours(bag):
            message = serving(self.messages, placement, (other, bag))
            if message is not None:
                found[other, bag] = message
        return found


def refresh(snapshot: Snapshot, progress: Progress | bool | None, is_main: bool) -> Plan:
    """Pass every message of the pivots that is not there yet, upward and downward (Algorithm 1);
    those that are stale take what has changed.
    """
    store = snapshot.state.store
    plan, messages = calibrate(snapshot, snapshot.pivots, progress, is_main)
    for message in (each for alike in messages.values() for each in alike):
        store.pin(message) if is_main else store.keep(message)
    return plan


def is_calibrated(snapshot: Snapshot) -> bool:
    """Whether the messages of all pivots are there and up to date, in both directions."""
    store = snapshot.state.store
    return all(pivot.edges <= stored_edges(pivot, store).keys() for pivot in snapshot.pivots)


def calibrate(
    snapshot: Snapshot,
    pivots: Sequence[Placement],
    progress: Progress | bool | None,
    is_main: bool = True,
) -> tuple[Plan, Messages]:
    """All messages of some pivots, for the caller to keep, and how they were come by."""
    state, schema = snapshot.state, snapshot.schema
    known: dict[MessageKey, list[Message]] = {}
    measured: dict[MessageKey | None, Measured] = {}
    refreshed: dict[MessageKey, None] = {}
    for pivot in pivots:
        at_hand = find_messages(state, schema, pivot)
        stored = dict(at_hand.stored)
        if at_hand.stale:
            run = refresh_messages(snapshot, pivot, at_hand, list(at_hand.stale), is_main)
            stored |= run.found
            measured |= run.measured
            refreshed |= dict.fromkeys(pivot.keys[edge] for edge in at_hand.stale)
        for message in stored.values():
            alike = known.setdefault(message.key, [])
            if message not in alike:
                alike.append(message)
    plan = plan_calibration(schema, pivots, known, tuple(refreshed))
    passing = Calibration(state.engine, schema, pivots, known, plan)
    total = len(plan.computed)
    if plan.steps:
        with progress_bar(progress) as listener:
            for step in passing.batches():
                rows, _ = snapshot.rows_at(step.bag)
                done = len(passing.found)
                passing.send(step, listener.begin(done, total, step.bag, str(step), rows))
            listener.end(total)
    state.cardinalities = _cardinalities(snapshot.pivot, passing.messages)
    return plan.after({**measured, **passing.measured}), passing.messages


def _cardinalities(pivot: Placement, messages: Messages) -> dict[frozenset[str], int]:
    """How many values each separator has that both sides may meet in, as the pivot's messages tell."""
    found: dict[frozenset[str], int] = {}
    for edge in pivot.edges:
        message = serving(messages, pivot, edge)
        if message is not None and not pivot.carried[edge]:
            separator, rows = pivot.tree.separator(*edge), message.table.rows
            found[separator] = min(rows, found.get(separator, rows))
    return found


def serving(messages: Messages, placement: Placement, edge: Edge) -> Message | None:
    """The one of some messages that a pivot can use along an edge."""
    columns, found = placement.sides[edge].columns, messages.get(placement.keys[edge], ())
    return next((message for message in found if message.carries(columns)), None)


def messages_of(pivot: Placement, messages: Messages) -> set[Message]:
    """Those of some messages that a pivot has."""
    found = (serving(messages, pivot, edge) for edge in pivot.edges)
    return {message for message in found if message is not None}


def cube_messages(snapshot: Snapshot, pivots: Sequence[Question]) -> list[Message]:
    """The messages at hand of some pivots of cubes that are not the first one's too."""
    own = set(snapshot.pivot.keys.values())
    found: dict[MessageKey, Message] = {}
    for question in pivots:
        placement = snapshot.cube_pivot(question)
        for edge, message in stored_edges(placement, snapshot.state.store).items():
            if edge in placement.edges and message.key not in own:
                found[message.key] = message
    return list(found.values())
