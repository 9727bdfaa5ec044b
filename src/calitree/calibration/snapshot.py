"""A tree at one version of its relations: what was asked and planned there.

The messages are shared by all versions, in one store: their keys tell to which versions they belong.
A moment never changes, so whoever reads it sees one version, whatever is written meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from sqlglot import exp

from calitree.cache import Lately
from calitree.calibration.adjust import Adjustment, adjustment
from calitree.calibration.maintenance import Maintenance
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.multi_pivot import Calibration, Messages, serving
from calitree.calibration.planning.placement import Behind, Placement, behind_of
from calitree.calibration.planning.plan import Measured, Plan
from calitree.calibration.planning.planner import (
    Planned,
    at_hand,
    plan_calibration,
    plan_query,
    stored_edges,
    with_bindings,
)
from calitree.calibration.planning.reach import within_reach
from calitree.calibration.planning.staleness import Stale
from calitree.calibration.prepared import Prepared, prepare
from calitree.calibration.projection import Question
from calitree.calibration.store import Store
from calitree.calibration.versions import Changes
from calitree.engines.api.contraction import Column, Contraction, Input, Lifted, Output, Table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.api.signed import Linear
from calitree.jointree.hypertree import Edge, Hypertree
from calitree.jointree.schema import Relation, Schema
from calitree.progress import Progress, progress_bar
from calitree.query.aggregates import Measure, measure_of
from calitree.query.binder import Asked, MeasureLike, Query, query_of
from calitree.sql.nodes import cast, kind_of, not_null, number, when
from calitree.sql.parser import expression_of
from calitree.types import Kind

REMEMBERED = 1_000
LARGEST_ANSWER = 1 << 20
"""Bytes of an answer of the pivot that is remembered."""


def new_behind() -> Lately[Behind]:
    return Lately[Behind](REMEMBERED)


@dataclass(eq=False)
class Core:
    """What all versions of a tree share."""

    engine: Engine
    tree: Hypertree
    measures: dict[str, MeasureLike]
    pivot: Asked
    store: Store
    centers: dict[tuple[str, str], float]
    changes: Changes | None = None
    """What has changed between versions; None if messages are computed anew rather than refreshed."""
    missing: frozenset[str] = frozenset()
    """Relations whose rows turned out not to be where they were."""
    behind: Lately[Behind] = field(default_factory=new_behind)
    bound: dict[object, str] | None = None
    """Where the pivot's filters stand, whatever the version."""
    streams: dict[str, int] = field(default_factory=dict)
    """For each stream, the last batch that is in the tree."""
    values: dict[frozenset[str], int] = field(default_factory=dict)
    """How many combinations of values separators had when the tree was last calibrated."""
    further: tuple[Asked, ...] = ()
    """More pivots, those of cubes: their messages are kept and refreshed as the first one's are."""

    @cached_property
    def pivot_key(self) -> object:
        """By which a question is known that asks for the pivot itself."""
        return self.pivot.key


class Words(NamedTuple):
    """What questions and measures mean: that depends on which columns have no NULL."""

    questions: Lately[Question]
    measures: Lately[Measure]

    @classmethod
    def none(cls) -> Words:
        return cls(Lately[Question](REMEMBERED), Lately[Measure](REMEMBERED))


class Moment:
    """The relations at one version. `number` tells which, to those who count them."""

    def __init__(self, core: Core, number: int, schema: Schema, words: Words | None = None) -> None:
        self.core, self.number, self.schema = core, number, schema
        self.words = Words.none() if words is None else words
        self.plans = -1, Lately[Prepared](REMEMBERED)
        self.before: tuple[Moment, str] | None = None
        """The moment before, if only one relation has changed since."""
        self._answer: Table | None = None
        self._adjustments: dict[str, Adjustment | None] = {}

    def then(self, number: int, changed: Mapping[str, Relation]) -> Moment:
        """The moment when these relations are others."""
        old = self.schema.relations
        same = all(old[n].table.null_free == each.table.null_free for n, each in changed.items())
        words = self.words if same else None
        other = Moment(self.core, number, self.schema.having(changed), words)
        if same and len(changed) == 1:
            (relation,) = changed
            other.before = self, relation
            if relation in self._adjustments:  # what arrives at its bag does not depend on it
                other._adjustments = {relation: self._adjustments[relation]}
        return other

    def forget_plans(self) -> None:
        self.plans = -1, Lately[Prepared](REMEMBERED)

    @cached_property
    def versions(self) -> dict[str, int]:
        return {name: relation.version for name, relation in self.schema.relations.items()}

    def changed_from(self, other: Moment) -> dict[str, Relation]:
        """The relations that are not as they were at another moment."""
        then = other.versions
        return {n: each for n, each in self.schema.relations.items() if each.version != then[n]}

    # -- what is asked ---------------------------------------------------------------------------

    def question(self, asked: Asked) -> Question:
        """The question, resolved."""
        return self.words.questions.of(
            asked.key,
            lambda: Question(query_of(self.schema, self.core.measures, self._measure, asked)),
        )

    def _measure(self, given: MeasureLike, joined: tuple[str, ...]) -> Measure:
        """A measure, compiled; most questions ask for the pivot's."""
        return self.words.measures.of(
            (given, joined) if isinstance(given, str) else None,
            lambda: measure_of(given, self.schema, joined, self._center),
        )

    def placement(self, query: Query) -> Placement:
        behind = self.core.behind.of(
            (query.relations, query.aggregates), lambda: behind_of(self.core.tree, query)
        )
        return Placement(self.core.tree, query, self.versions, behind)

    @property
    def pivots(self) -> list[Placement]:
        """The pivot, and those of its cubes."""
        return [self.pivot, *map(self.further, self.core.further)]

    def further(self, asked: Asked) -> Placement:
        """One more pivot; its filters stand where the first one's do."""
        return with_bindings(self.placement(self.question(asked).query), self.pivot)

    @cached_property
    def pivot(self) -> Placement:
        """The pivot's annotations; its filters stand where they stood from the start."""
        placement = self.placement(self.question(self.core.pivot).query)
        if self.core.bound is None:
            placement = self._bound(placement)
            self.core.bound = {str(p): bag for p, bag in placement.bound.items()}
            return placement
        bound = {
            p: self.core.bound[str(p)] for p in placement.query.where if str(p) in self.core.bound
        }
        return replace(placement, bound=bound) if bound else placement

    def _bound(self, placement: Placement) -> Placement:
        """Each of the pivot's σ on the smallest bag that can apply it to its own rows."""
        for predicate, options in placement.candidates.items():
            able = [bag for bag in options if placement.can_bind(predicate, bag)]
            if able:
                placement = placement.binding(predicate, min(able, key=self.rows_at))
        return placement

    def rows_at(self, bag: str) -> tuple[int, str]:
        rows = sum(self.schema.rows(r) for r in self.core.tree.bag(bag).relations)
        return rows, bag

    def _center(self, relation: str, node: exp.Expr) -> float:
        """The mean of an expression over its own relation.

        Integers are centred by an integer, which keeps their sums exact.
        """
        key = (relation, node.sql())
        centers, engine = self.core.centers, self.core.engine
        if key not in centers:
            total = expression_of(cast(node.copy(), Kind.FLOAT))
            present = expression_of(when(not_null(node), number(1)))
            table = self.schema.relations[relation].table
            columns = tuple(
                Column(name, SUM_PRODUCT, (Lifted(0, (each,)),))
                for name, each in (("total", total), ("present", present))
            )
            one = Input(table, self.schema.columns_of[relation])
            contraction = Contraction((one,), (Output((0,), (), (), columns),))
            (found,) = Linear(contraction, (None,)).tables(engine)
            sums = engine.arrow(found).to_pylist()
            rows = sums[0]["present"] if sums else 0
            mean = sums[0]["total"] / rows if rows else 0.0
            if not math.isfinite(mean):
                mean = 0.0
            centers[key] = float(round(mean)) if kind_of(node) is Kind.INTEGER else mean
        return centers[key]

    # -- the pivot's answer ----------------------------------------------------------------------

    def remember(self, answer: Table) -> None:
        """Take note of the pivot's answer: others can be made of it, by what changes."""
        if answer.nbytes <= LARGEST_ANSWER:
            self._answer = answer

    def adjusted(self) -> tuple[Plan, Table, Measured] | None:
        """The pivot's answer, made of the one before; None if that is not known, or does not do."""
        began = time.perf_counter()
        core = self.core
        if self.before is None or core.changes is None:
            return None
        before, relation = self.before
        adjust = before._adjustment(relation)
        if before._answer is None or adjust is None:
            return None
        if self._answer is None:
            then, now = (m.schema.relations[relation] for m in (before, self))
            if core.changes.touched(then.version, now) is None:
                return None
            change = core.changes.since(then.version, now)
            answer = adjust(core.engine, before._answer, change)
            if answer is None:
                return None
            self.remember(answer)
        else:
            answer = self._answer
        return adjust.plan, answer, Measured(answer.rows, time.perf_counter() - began)

    def _adjustment(self, relation: str) -> Adjustment | None:
        if self._adjustments.get(relation) is None:
            stored = stored_edges(self.pivot, self.core.store)
            self._adjustments[relation] = adjustment(self.schema, self.pivot, stored, relation)
        return self._adjustments[relation]

    # -- how it is answered ----------------------------------------------------------------------

    def prepared(self, asked: Asked, main: bool = True) -> Prepared:
        """The question, planned on what the store holds now; what is stale is refreshed."""
        found = self._plans().get(asked.key)
        if found is None:
            found = self._prepare(self.question(asked), main)
            fresh = found.plan.refreshed_already  # as the next one will find it
            self._plans().put(asked.key, replace(found, plan=fresh, refreshing={}))
        return found

    def plan(self, asked: Asked) -> Plan:
        """How the question would be answered."""
        found = self._plans().get(asked.key)
        if found is None:
            question = self.question(asked)
            planned = self._planned(question)
            stale = {edge: each.message for edge, each in planned.stale.items()}
            found = self._made(question, planned, {**planned.stored, **stale})
            if not found.plan.refreshed:
                self._plans().put(asked.key, found)
        return found.plan

    def _plans(self) -> Lately[Prepared]:
        """Those made on what the store holds now. The others may hold messages that are evicted, and
        miss those that are new.
        """
        version, plans = self.plans
        if version != self.core.store.version:
            self.plans = _, plans = self.core.store.version, Lately[Prepared](REMEMBERED)
        return plans

    def _planned(self, question: Question) -> Planned:
        core = self.core
        placement = self.placement(question.query)
        schema = within_reach(self.schema, core.missing)
        # What is worth keeping beside a cube is in the cube.
        keeps = not core.further
        return plan_query(
            schema, placement, self.pivot, core.store, core.changes, keeps, core.values
        )

    def _prepare(self, question: Question, main: bool) -> Prepared:
        planned = self._planned(question)
        stored = planned.stored
        measured: dict[MessageKey | None, Measured] = {}
        if planned.plan.refreshed:
            edges = [(key.source, key.target) for key in planned.plan.refreshed]
            run = self._refreshed(planned.placement, stored, planned.stale, edges, main)
            stored, measured = {**stored, **run.found}, run.measured
        return replace(self._made(question, planned, stored), refreshing=measured)

    def _made(
        self, question: Question, planned: Planned, stored: Mapping[Edge, Message]
    ) -> Prepared:
        plan, placement = planned.plan, planned.placement
        return prepare(self.core.engine, self.schema, question, plan, placement, stored)

    def _refreshed(
        self,
        placement: Placement,
        stored: Mapping[Edge, Message],
        stale: Mapping[Edge, Stale],
        edges: list[Edge],
        main: bool,
    ) -> Maintenance:
        """Refresh some messages, and keep them as those were that they follow."""
        core = self.core
        assert core.changes is not None
        run = Maintenance(
            core.engine, self.schema, placement, core.store, stored, stale, core.changes
        )
        for edge, message in run.refresh(edges).items():
            if main and edge in stale:
                core.store.succeed(stale[edge].message, message)
            else:
                core.store.keep(message)
        return run

    def refresh(self, progress: Progress | bool | None, main: bool = True) -> Plan:
        """Pass every message of the pivots that is not there yet, upward and downward (Algorithm 1);
        those that are stale take what has changed.
        """
        store = self.core.store
        plan, messages = self.calibrate(self.pivots, progress, main)
        for message in (each for alike in messages.values() for each in alike):
            store.pin(message) if main else store.keep(message)
        return plan

    def calibrate(
        self, pivots: Sequence[Placement], progress: Progress | bool | None, main: bool = True
    ) -> tuple[Plan, Messages]:
        """All messages of some pivots, for the caller to keep, and how they were come by."""
        core = self.core
        known: dict[MessageKey, list[Message]] = {}
        measured: dict[MessageKey | None, Measured] = {}
        refreshed: dict[MessageKey, None] = {}
        for pivot in pivots:
            stored, stale = at_hand(self.schema, pivot, core.store, core.changes)
            if stale:
                run = self._refreshed(pivot, stored, stale, list(stale), main)
                stored, measured = {**stored, **run.found}, {**measured, **run.measured}
                refreshed |= dict.fromkeys(pivot.keys[edge] for edge in stale)
            for message in stored.values():
                alike = known.setdefault(message.key, [])
                if message not in alike:
                    alike.append(message)
        plan = plan_calibration(self.schema, pivots, known, tuple(refreshed))
        passing = Calibration(core.engine, self.schema, pivots, known, plan)
        total = len(plan.computed)
        if plan.steps:
            with progress_bar(progress) as listener:
                for step in passing.batches():
                    rows, _ = self.rows_at(step.bag)
                    done = len(passing.found)
                    passing.send(step, listener.begin(done, total, step.bag, str(step), rows))
                listener.end(total)
        core.values = self._values(passing.messages)
        return plan.after({**measured, **passing.measured}), passing.messages

    def _values(self, messages: Messages) -> dict[frozenset[str], int]:
        """How many values each separator has that both sides may meet in, as the pivot's messages tell."""
        found: dict[frozenset[str], int] = {}
        for edge in self.pivot.edges:
            message = serving(messages, self.pivot, edge)
            if message is not None and not self.pivot.carried(*edge):
                separator, rows = self.core.tree.separator(*edge), message.table.rows
                found[separator] = min(rows, found.get(separator, rows))
        return found
