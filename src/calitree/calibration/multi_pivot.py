"""Several pivots of one tree, calibrated together (paper §4.1, data cubes).

The message u → v of a pivot that groups by S carries what of S lies only behind u. So pivots that agree
there share it, and all pivots of up to k attributes need, for each directed edge, one message for every
choice of up to k attributes behind it: far fewer than pivots times edges. All that a bag sends at one
time is one contraction, so that a large relation is read once for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from calitree.calibration.compiler import Call, Wiring, together
from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Send, Step
from calitree.calibration.planning.planner import stored_edges
from calitree.engines.api.protocol import Engine, Watch
from calitree.errors import QueryError
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema
from calitree.progress import Progress
from calitree.query.annotation import Aggregate
from calitree.query.binder import Asked

if TYPE_CHECKING:
    from calitree.wide_table import WideTable

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
                self._owner.setdefault((key, placement.columns[edge]), placement)

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


def serving(messages: Messages, placement: Placement, edge: Edge) -> Message | None:
    """The one of some messages that a pivot can use along an edge."""
    columns, found = placement.columns[edge], messages.get(placement.keys[edge], ())
    return next((message for message in found if message.carries(columns)), None)


def add_pivots(
    wide: WideTable,
    pivots: Sequence[Asked],
    progress: Progress | bool | None = None,
    room: float = inf,
) -> list[Asked]:
    """Calibrate further pivots, to be kept and refreshed with the tree's own from now on: all, or those
    of them, in this order, whose new messages have `room`.
    """
    if not wide._is_main:
        raise QueryError(
            "Pivots belong to the tree itself, not to an earlier version or a what-if: add them there. "
            "Questions to the others find their messages."
        )
    core, store = wide._core, wide._core.store
    with wide._lock:
        now = wide._now
        placements = [now.further(each) for each in pivots]
        wide.calibration, messages = now.calibrate([now.pivot, *placements], progress)
        for message in _needed(now.pivot, messages):
            store.pin(message)
        pinned = set(store.pinned)
        added = []
        for asked, placement in zip(pivots, placements, strict=True):
            new = _needed(placement, messages) - pinned
            size = sum(message.table.nbytes for message in new)
            if size <= room:
                room -= size
                pinned |= new
                for message in new:
                    store.pin(message)
                added.append(asked)
        known = {each.key for each in core.further}
        core.further += tuple(each for each in added if each.key not in known)
        return added


def _needed(placement: Placement, messages: Messages) -> set[Message]:
    found = (serving(messages, placement, edge) for edge in placement.edges)
    return {message for message in found if message is not None}


def messages_of(wide: WideTable, pivots: Sequence[Asked]) -> list[Message]:
    """The messages at hand of some further pivots that are not the first one's too."""
    now, store = wide._now, wide._core.store
    own = set(now.pivot.keys.values())
    found: dict[MessageKey, Message] = {}
    for asked in pivots:
        placement = now.further(asked)
        for edge, message in stored_edges(placement, store).items():
            if edge in placement.edges and message.key not in own:
                found[message.key] = message
    return list(found.values())
