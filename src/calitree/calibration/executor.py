"""Answering a question: as the paper's §3.4.2 says, its annotations are placed, messages that are in the
store are reused, those that are stale take what has changed, the others — the Steiner tree — are
passed, and the root absorbs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from calitree.calibration.adjust import Adjustment, adjustment
from calitree.calibration.compiler import Call, Compiled, compile_plan
from calitree.calibration.maintenance import refresh_messages
from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.plan import Measured, Plan
from calitree.calibration.planning.planner import Planned, plan_query
from calitree.calibration.planning.staleness import stored_edges
from calitree.calibration.projection import Projection
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, Watch
from calitree.errors import MissingRelationError
from calitree.jointree.hypertree import Edge
from calitree.query.binder import Question

LARGEST_ANSWER = 1 << 20
"""Bytes of an answer of the pivot that is kept."""


class Answer(NamedTuple):
    """What was absorbed, how its columns are made into those asked for, and what it took."""

    projection: Projection
    plan: Plan
    measured: Mapping[MessageKey | None, Measured]
    table: Table


def answer(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    """Answer a question. What it computes is kept as that of the tree itself if `is_main`."""
    state = snapshot.state
    is_pivot = question.key == state.pivot_key
    adjusted = _adjusted(snapshot) if is_pivot else None
    if adjusted is not None:
        return adjusted
    try:
        compiled = prepare(snapshot, question, is_main)
        run = Run(state.engine)
        table = run.through(compiled)
    except MissingRelationError as error:
        if error.relation in state.missing:
            raise
        # Perhaps there is a way without it.
        state.missing |= {error.relation}
        snapshot.cache.forget_plans()
        return answer(snapshot, question, is_main)
    state.store.used(compiled.reused, run.found.values())
    if is_pivot:
        _remember(snapshot, table)
    measured = {**compiled.refreshing, **run.measured}
    return Answer(compiled.projection, compiled.plan, measured, table)


def plan(snapshot: Snapshot, question: Question) -> Plan:
    """How a question would be answered."""
    plans = snapshot.cache.plans(snapshot.state.store.version)
    known = plans.get(question.key)
    if known is not None:
        return known.plan
    planned = plan_query(snapshot, question)
    compiled = _compiled(snapshot, planned, planned.at_hand.messages)
    if not compiled.plan.refreshed:
        plans.put(question.key, compiled)
    return compiled.plan


def prepare(snapshot: Snapshot, question: Question, is_main: bool) -> Compiled:
    """The question, planned on what the store holds now; what is stale is refreshed."""
    store, cache = snapshot.state.store, snapshot.cache
    known = cache.plans(store.version).get(question.key)
    if known is not None:
        return known
    planned = plan_query(snapshot, question)
    stale = [key.edge for key in planned.plan.refreshed]
    if not stale:
        compiled = next_time = _compiled(snapshot, planned, planned.at_hand.stored)
    else:
        run = refresh_messages(snapshot, planned.placement, planned.at_hand, stale, is_main)
        fresh = _compiled(snapshot, planned, {**planned.at_hand.stored, **run.found})
        compiled = replace(fresh, refreshing=run.measured)
        next_time = replace(fresh, plan=fresh.plan.refreshed_already)
    cache.plans(store.version).put(question.key, next_time)
    return compiled


def _compiled(snapshot: Snapshot, planned: Planned, stored: Mapping[Edge, Message]) -> Compiled:
    engine, plan = snapshot.state.engine, planned.plan
    return compile_plan(
        engine, snapshot.schema, planned.projection, plan, planned.placement, stored
    )


class Run:
    """One plan being executed: `found` are its new messages, `measured` tells what they turned out
    to be.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.found: dict[Edge, Message] = {}
        self.measured: dict[MessageKey | None, Measured] = {}

    def through(self, compiled: Compiled) -> Table:
        """All steps, and the absorption."""
        for call in compiled.sends:
            self.send(call)
        return self.absorb(compiled.absorb)

    def send(self, call: Call, watch: Watch | None = None) -> None:
        """Compute all messages of one step in one contraction."""
        tables, seconds, how = self._contract(call, watch)
        for send, table in zip(call.sends, tables, strict=True):
            edge = (send.key.source, send.key.target)
            self.found[edge] = Message(send.key, table, column_names(send.aggregates))
            self.measured[send.key] = Measured(table.rows, seconds, how)

    def absorb(self, call: Call) -> Table:
        """Join all that arrives at the root, and sum by what is asked."""
        (table,), seconds, how = self._contract(call, None)
        self.measured[None] = Measured(table.rows, seconds, how)
        return table

    def _contract(self, call: Call, watch: Watch | None) -> tuple[Sequence[Table], float, str]:
        started = time.perf_counter()
        linear = call.linear(self.found)
        tables = linear.tables(self.engine, watch)
        return tables, time.perf_counter() - started, linear.how(self.engine)


# -- the pivot's answer ---------------------------------------------------------------------------


def _adjusted(snapshot: Snapshot) -> Answer | None:
    """The pivot's answer, made of the one before; None if that is not known, or does not do."""
    began = time.perf_counter()
    state, previous = snapshot.state, snapshot.previous
    before = None if previous is None else previous.snapshot()
    if previous is None or before is None or state.changes is None:
        return None
    adjust = _adjustment(before, previous.relation)
    if before.cache.answer is None or adjust is None:
        return None
    table = snapshot.cache.answer
    if table is None:
        then, now = (each.schema.relations[previous.relation] for each in (before, snapshot))
        if state.changes.touched(then.version, now) is None:
            return None
        change = state.changes.since(then.version, now)
        table = adjust(state.engine, before.cache.answer, change)
        if table is None:
            return None
        _remember(snapshot, table)
    measured = Measured(table.rows, time.perf_counter() - began)
    return Answer(snapshot.bind(state.pivot), adjust.plan, {None: measured}, table)


def _remember(snapshot: Snapshot, answer: Table) -> None:
    """Take note of the pivot's answer: others can be made of it, by what changes."""
    if answer.nbytes <= LARGEST_ANSWER:
        snapshot.cache.answer = answer


def _adjustment(snapshot: Snapshot, relation: str) -> Adjustment | None:
    known = snapshot.cache.adjustments
    if known.get(relation) is None:
        stored = stored_edges(snapshot.pivot, snapshot.state.store)
        known[relation] = adjustment(snapshot.schema, snapshot.pivot, stored, relation)
    return known[relation]
