"""Answering a question (paper §3.4.2).

Its annotations are placed, messages that are in the store are reused, those that are stale take what has
changed, the others (the Steiner tree) are passed, and the root absorbs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from calitree.calibration.adjust import Adjustment, adjustment
from calitree.calibration.compilation.compiler import Compiled, compile_plan
from calitree.calibration.compilation.outer import Answered, OuterJoins
from calitree.calibration.maintenance import refresh_messages
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Planned
from calitree.calibration.planning.planner import plan_query
from calitree.calibration.planning.staleness import stored_edges
from calitree.calibration.projection import Projection
from calitree.calibration.replan import replanned
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.contraction import Match, Table
from calitree.engines.api.protocol import Engine, updatable
from calitree.errors import MissingRelationError
from calitree.jointree.bag import Edge
from calitree.jointree.decompose import outer_edges
from calitree.jointree.joins.join import OuterJoin
from calitree.jointree.remainder import full_joins
from calitree.query.binder import Question


class Answer(NamedTuple):
    """The absorbed table, how the columns asked for are computed from it, and what it took."""

    projection: Projection
    plan: Plan
    measured: Mapping[MessageKey | None, Measured]
    table: Table


def answer(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    """Answer a question. What it computes is kept as that of the tree itself if `is_main`."""
    return replanned(snapshot, partial(_answer, snapshot, question, is_main))


def _answer(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    state, key = snapshot.state, question.key
    is_pivot = key == state.pivot_key
    adjusted = _adjusted(snapshot) if is_pivot else None
    if adjusted is not None:
        return adjusted
    try:
        compiled = prepare(snapshot, question, key, is_main)
        table, messages, measured = run_plan(state.engine, compiled)
    except MissingRelationError as error:
        if error.relation in state.missing:
            raise
        # Perhaps there is a plan without it.
        state.set_missing(error.relation)
        snapshot.cache.forget_plans()
        return _answer(snapshot, question, is_main)
    state.store.touch(compiled.reused)
    for message in messages:
        state.store.keep(message)
    if is_pivot:
        _remember(snapshot, table)
    table = compiled.projection.folded(state.engine, table)
    return Answer(compiled.projection, compiled.plan, measured, table)


def plan(snapshot: Snapshot, question: Question) -> Plan:
    """How a question would be answered."""
    return replanned(snapshot, partial(_plan, snapshot, question))


def _plan(snapshot: Snapshot, question: Question) -> Plan:
    state = snapshot.state
    plans = snapshot.cache.plans(state.store.epoch)
    compiled = plans.get(question.key)
    if compiled is None:
        planned = plan_query(snapshot, question)
        compiled = _compiled(snapshot, planned, planned.available.messages)
    if not compiled.plan.ways:
        compiled = compiled.explained(state.engine)
        if not compiled.plan.refreshed:
            plans.put(question.key, compiled)
    return compiled.plan


def prepare(snapshot: Snapshot, question: Question, key: object, is_main: bool) -> Compiled:
    """The question of this key, planned on what the store holds now; what is stale is refreshed."""
    state, cache = snapshot.state, snapshot.cache
    plans = cache.plans(state.store.epoch)
    known = plans.get(key)
    if known is not None:
        return known
    planned = plan_query(snapshot, question)
    stale, stored = [message.edge for message in planned.plan.refreshed], planned.available.stored
    if not stale:
        compiled = _compiled(snapshot, planned, stored)
        plans.put(key, compiled)
        return compiled
    refreshed = refresh_messages(snapshot, planned.placement, planned.available, stale, is_main)
    plans = cache.plans(state.store.epoch)
    compiled = _compiled(snapshot, planned, {**stored, **refreshed.messages})
    plans.put(key, replace(compiled, plan=compiled.plan.refreshed_already))
    return replace(compiled, refreshing=refreshed.measured)


def _compiled(snapshot: Snapshot, planned: Planned, stored: Mapping[Edge, Message]) -> Compiled:
    """The contractions of a plan, given the messages that it reuses."""
    outer = snapshot.outer_joins(planned.placement.query)
    full = full_joins(outer.schema, planned.placement.query.relations)
    matches = [_preserved_match(snapshot, outer, planned.placement, join) for join in full]
    return compile_plan(outer, planned, stored, matches)


def _preserved_match(
    snapshot: Snapshot, outer: OuterJoins, placement: Placement, join: OuterJoin
) -> Match:
    """By which keys rows of the optional side of a full join find a partner on the other side."""
    tree, relations = placement.tree, placement.query.relations
    preserved, optional = outer_edges(outer.schema, tree.bags)[join]
    side = tree.subtree(preserved, optional)
    joined = tuple(r for r in outer.schema.relations if r in relations and tree.home(r) in side)
    revisions = tuple((name, outer.schema.relations[name].revision) for name in joined)

    def keys() -> Table:
        columns = list(dict.fromkeys(ours for ours, _ in join.pairs))
        texts = [".".join(column) for column in columns]
        question = Question(texts, None, {"rows": "count(*)"}, joined)
        answered = _answer(snapshot, question, is_main=False)
        by = dict(answered.projection.query.group_by)
        attributes = {column: by[text] for column, text in zip(columns, texts, strict=True)}
        return outer.preserved_keys(join, Answered(answered.table, attributes))

    key = "preserved", join.pairs, revisions
    return Match(join.key, snapshot.state.partner_keys.of(key, keys))


def run_plan(
    engine: Engine, compiled: Compiled
) -> tuple[Table, list[Message], dict[MessageKey | None, Measured]]:
    """The absorbed table, the messages computed for it, and what they took."""
    messages: dict[Edge, Message] = {}
    measured = dict(compiled.refreshing)
    for call in compiled.sends:
        for message, took in call.send(engine, messages):
            messages[message.key.edge] = message
            measured[message.key] = took
    ((table, measured[None]),) = compiled.absorb.run(engine, messages)
    if compiled.unmatched:
        added = [unmatched.table(engine, messages) for unmatched in compiled.unmatched]
        total = updatable(engine).add(compiled.absorb.outputs[0], [table, *added], (), None)
        assert total is not None
        table = total
    return table, list(messages.values()), measured


# -- the pivot's answer ---------------------------------------------------------------------------


def _adjusted(snapshot: Snapshot) -> Answer | None:
    """The pivot's answer, from that of the version before; None if there is none, or it cannot be adjusted."""
    began = time.perf_counter()
    state, previous = snapshot.state, snapshot.previous
    before = None if previous is None else previous.snapshot()
    if previous is None or before is None or state.changes is None:
        return None
    if any(join.is_full for join in snapshot.schema.outer):
        return None
    adjust = _adjustment(before, previous.relation)
    if before.cache.answer is None or adjust is None:
        return None
    table = snapshot.cache.answer
    if table is None:
        then, now = (s.schema.relations[previous.relation] for s in (before, snapshot))
        if state.changes.touched(then.revision, now) is None:
            return None
        change = state.changes.since(then.revision, now)
        table = adjust(state.engine, before.cache.answer, change)
        if table is None:
            return None
        _remember(snapshot, table)
    projection = snapshot.bind(state.pivot)
    table = projection.folded(state.engine, table)
    measured = Measured(table.rows, time.perf_counter() - began)
    return Answer(projection, adjust.plan, {None: measured}, table)


def _remember(snapshot: Snapshot, answer: Table) -> None:
    """Keep the pivot's answer: that of the next version may be computed from it."""
    if snapshot.cache.answer is None:
        snapshot.cache.keep_answer(answer)


def _adjustment(snapshot: Snapshot, relation: str) -> Adjustment | None:
    known = snapshot.cache.adjustments.get(relation)
    if known is None:
        stored = stored_edges(snapshot.pivot, snapshot.state.store)
        outer = snapshot.outer_joins(snapshot.pivot.query)
        known = adjustment(outer, snapshot.pivot, stored, relation)
        if known is not None:
            snapshot.cache.adjustments[relation] = known
    return known
