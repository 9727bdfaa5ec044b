"""Answering a question (paper §3.4.2).

Its annotations are placed, messages that are in the store are reused, those that are stale take what has
changed, the others (the Steiner tree) are passed, and the root absorbs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from calitree.calibration.adjust import Adjustment, adjustment
from calitree.calibration.compilation.compiler import Compiled, added, compile_plan
from calitree.calibration.compilation.outer import Answered, OuterJoins
from calitree.calibration.folding.counting import distinct_values
from calitree.calibration.folding.held import HeldTable, arrow_of
from calitree.calibration.folding.parts import Part, PartAnswer, parts_of, with_folds
from calitree.calibration.maintenance import refresh_messages
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.parts import plan_of_parts, together
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Planned
from calitree.calibration.planning.planner import plan_query
from calitree.calibration.planning.repetition import warnings_of
from calitree.calibration.planning.staleness import stored_edges
from calitree.calibration.projection import Projection
from calitree.calibration.replan import replanned
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.contraction import Match, Table
from calitree.engines.api.protocol import CountsDistinct, Engine, missing_methods
from calitree.engines.api.python_contraction import plain_contraction
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
    return replanned(snapshot, partial(_with_folds, snapshot, question, is_main))


def _with_folds(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    """Answer a question; what its measures fold of carried values takes questions of its own."""
    answered, engine = _answer(snapshot, question, is_main), snapshot.state.engine
    answered = answered._replace(table=answered.projection.valued(engine, answered.table))
    folds = answered.projection.query.folds
    if not folds:
        return answered
    answers = [answered]

    def ask(part: Part) -> PartAnswer:
        *groups, value = (a for _, a in snapshot.bind(part.question).query.group_by or [("", "")])
        counted = part.only_counts and value not in groups
        answer = (_counted if counted else _with_folds)(snapshot, part.question, is_main)
        answers.append(answer)
        return PartAnswer(answer.projection, arrow_of(engine, answer.table), counted)

    parts = parts_of(question, folds)
    absorbed = with_folds(answered.projection, arrow_of(engine, answered.table), parts, ask)
    held: Any = HeldTable(absorbed, all(answer.table.exact for answer in answers))
    plans = [answer.plan.after(answer.measured) for answer in answers]
    plan = plan_of_parts(_carrying(plans, parts))
    return Answer(answered.projection, plan, plan.measured, held)


def _counted(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    """How many values the last group has in each of the others."""
    counted = _counted_at_once(snapshot, question, is_main)
    if counted is not None:
        return counted
    answered = _answer(snapshot, question, is_main)
    table = distinct_values(snapshot.state.engine, answered.projection, answered.table)
    return answered._replace(table=table)


def _counted_at_once(snapshot: Snapshot, question: Question, is_main: bool) -> Answer | None:
    """The same, if the engine need not list the values."""
    state, engine, projection = snapshot.state, snapshot.state.engine, snapshot.bind(question)
    query = projection.query
    if missing_methods(engine, CountsDistinct) or query.folded:
        return None
    try:
        compiled = prepare(snapshot, projection, question.key, is_main)
        messages, measured = send_messages(engine, compiled)
    except MissingRelationError:
        return None  # perhaps there is a plan without it
    for message in messages.values():
        state.store.keep(message)
    contraction = compiled.absorb.linear(messages).plain
    if contraction is None or compiled.unmatched:
        return None
    contraction = plain_contraction(contraction)
    began = time.perf_counter()
    table = cast(CountsDistinct, engine).count_distinct(contraction, query.group_by[-1][1])
    if table is None:
        return None
    state.store.touch(compiled.reused)
    measured[None] = Measured(table.rows, time.perf_counter() - began, "counted by bits")
    return Answer(projection, compiled.plan, measured, table)


def _answer(snapshot: Snapshot, question: Question, is_main: bool) -> Answer:
    state, key = snapshot.state, question.key
    projection = snapshot.bind(question, key)
    is_pivot = key == state.pivot_key and projection.query.calibrated is projection.query
    adjusted = _adjusted(snapshot) if is_pivot else None
    if adjusted is not None:
        return adjusted
    parts = projection.parts
    if len(parts) == 1:
        return _answer_part(snapshot, projection, key, is_main, is_pivot)
    answers = [
        _answer_part(snapshot, part, part_key(key, at), is_main, is_pivot=False)
        for at, part in enumerate(parts)
    ]
    table = together(state.engine, projection.query, [part.table for part in answers])
    plan = plan_of_parts([part.plan.after(part.measured) for part in answers])
    return Answer(projection, plan, plan.measured, table)


def part_key(question: object, at: int) -> object:
    """The key of the plan of a part of a question; None if the question has none."""
    return None if question is None else (question, at)


def _answer_part(
    snapshot: Snapshot, projection: Projection, key: object, is_main: bool, is_pivot: bool
) -> Answer:
    """Answer a part of a question, whose plan is kept under this key."""
    state = snapshot.state
    try:
        compiled = prepare(snapshot, projection, key, is_main)
        table, messages, measured = run_plan(state.engine, compiled)
    except MissingRelationError as error:
        if error.relation in state.missing:
            raise
        # Perhaps there is a plan without it.
        state.set_missing(error.relation)
        snapshot.cache.forget_plans()
        return _answer_part(snapshot, projection, key, is_main, is_pivot)
    state.store.touch(compiled.reused)
    for message in messages:
        state.store.keep(message)
    if is_pivot:
        _remember(snapshot, table)
    if not compiled.is_folded:
        table = compiled.projection.folded(state.engine, table)
    return Answer(compiled.projection, compiled.plan, measured, table)


def plan(snapshot: Snapshot, question: Question) -> Plan:
    """How a question would be answered."""
    return replanned(snapshot, partial(_plan_with_folds, snapshot, question))


def _plan_with_folds(snapshot: Snapshot, question: Question) -> Plan:
    first = _plan(snapshot, question)
    parts = parts_of(question, snapshot.bind(question).query.folds)
    if not parts:
        return first
    others = [_plan_with_folds(snapshot, part.question) for part in parts]
    return plan_of_parts(_carrying([first, *others], parts))


def _carrying(plans: Sequence[Plan], parts: Sequence[Part]) -> list[Plan]:
    """The plan of a question and those of its folds, which tell what they carry."""
    first, *others = plans
    folding = zip(others, parts, strict=True)
    return [first, *(replace(plan, carries=part.why) for plan, part in folding)]


def _plan(snapshot: Snapshot, question: Question) -> Plan:
    key, projection = question.key, snapshot.bind(question)
    parts = projection.parts
    if len(parts) == 1:
        plan = _plan_part(snapshot, projection, key)
    else:
        plan = plan_of_parts(
            [_plan_part(snapshot, part, part_key(key, at)) for at, part in enumerate(parts)]
        )
    warnings = warnings_of(snapshot, projection.query)
    return replace(plan, warnings=warnings) if warnings else plan


def _plan_part(snapshot: Snapshot, projection: Projection, key: object) -> Plan:
    state = snapshot.state
    plans = snapshot.cache.plans(state.store.epoch)
    compiled = plans.get(key)
    if compiled is None:
        planned = plan_query(snapshot, projection)
        compiled = _compiled(snapshot, planned, planned.available.messages)
    if not compiled.plan.ways:
        compiled = compiled.explained(state.engine)
        if not compiled.plan.refreshed:
            plans.put(key, compiled)
    return compiled.plan


def prepare(snapshot: Snapshot, projection: Projection, key: object, is_main: bool) -> Compiled:
    """The part of this key, planned on what the store holds now; what is stale is refreshed."""
    state, cache = snapshot.state, snapshot.cache
    plans = cache.plans(state.store.epoch)
    known = plans.get(key)
    if known is not None:
        return known
    planned = plan_query(snapshot, projection)
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
    edges = outer_edges(outer.schema, planned.placement.tree.bags)
    absorbed = {(absorb.without, absorb.bag) for absorb in planned.plan.unmatched}
    full = full_joins(outer.schema, planned.placement.query.relations)
    full = [join for join in full if edges[join] in absorbed]
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


def send_messages(
    engine: Engine, compiled: Compiled
) -> tuple[dict[Edge, Message], dict[MessageKey | None, Measured]]:
    """The messages that are computed for an answer, and what all took so far."""
    messages: dict[Edge, Message] = {}
    measured = dict(compiled.refreshing)
    for call in compiled.sends:
        for message, took in call.send(engine, messages):
            messages[message.key.edge] = message
            measured[message.key] = took
    return messages, measured


def run_plan(
    engine: Engine, compiled: Compiled
) -> tuple[Table, list[Message], dict[MessageKey | None, Measured]]:
    """The absorbed table, the messages computed for it, and what they took."""
    messages, measured = send_messages(engine, compiled)
    ((table, measured[None]),) = compiled.absorb.run(engine, messages)
    if compiled.unmatched is not None:
        unmatched = compiled.unmatched.table(engine, messages)
        table = added(engine, compiled.absorb.outputs[0], [table, unmatched])
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
