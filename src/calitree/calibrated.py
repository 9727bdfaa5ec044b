"""The calibrated junction hypertree: a tree, an engine, and the messages of a pivot query in both
directions.

A query is answered as the paper's §3.4.2 says: its annotations are placed, messages that are in the
store are reused, the others — the Steiner tree — are passed, and the root absorbs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING

from sqlglot import exp

from calitree.engines import Column, Contraction, Engine, Input, Lifted, Output
from calitree.errors import QueryError
from calitree.expressions import expression_of
from calitree.hypertree import Hypertree
from calitree.lately import Lately
from calitree.manifest import Opened, Saves
from calitree.measures import Measure, measure_of
from calitree.nodes import cast, kind_of, not_null, number, when
from calitree.passing import Run, Wiring
from calitree.placement import Behind, Placement, behind_of
from calitree.plan import Plan
from calitree.planner import plan_calibration, plan_query, stored_edges
from calitree.prepared import Prepared, prepare
from calitree.progress import Progress, progress_bar
from calitree.query import Asked, MeasureLike, Measures, Query, query_of
from calitree.question import Question
from calitree.reach import within_reach
from calitree.result import Result
from calitree.saved_tables import MissingRelationError
from calitree.schema import Schema
from calitree.semiring import SUM_PRODUCT
from calitree.store import Store
from calitree.types import Kind

if TYPE_CHECKING:
    from calitree.verify import Verification

REMEMBERED = 1_000


class WideTable:
    """The join of all relations, never built, ready to be asked.

    Made by `JoinGraph.calibrate`. `query` answers, `plan` tells how it would, `verify` checks
    against the join really built.
    """

    def __init__(
        self,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        *,
        measures: Mapping[str, MeasureLike],
        group_by: Sequence[str] = (),
        where: str | None = None,
        memory_limit: int = 1 << 30,
        opened: Opened | None = None,
    ) -> None:
        if tree.relations != {r: frozenset(c) for r, c in schema.columns_of.items()}:
            raise QueryError(
                "The tree was made for another join graph; make it anew with g.hypertree()."
            )
        if not measures:
            raise QueryError("Ask for at least one measure.")
        self.schema = schema
        self.engine = engine
        self.tree = tree
        self.measures = dict(measures)
        self.calibration: Plan | None = None
        """How the messages were last brought up to date: `print` tells."""
        shelved = opened.messages if opened is not None else ()
        self._store = Store(memory_limit, shelved, opened and opened.restore)
        self._centers = dict(opened.centers) if opened is not None else {}
        self.saved = Saves(opened.version if opened is not None else None)
        """Where this tree was saved, or opened from."""
        self._missing: frozenset[str] = frozenset()
        """Relations whose rows turned out not to be where they were."""
        self.pivot = Asked(tuple(group_by), where)
        """What is asked of the tree at rest: its group-by and filter."""
        self._questions = Lately[Question](REMEMBERED)
        self._compiled = Lately[Measure](REMEMBERED)
        self._behind = Lately[Behind](REMEMBERED)
        self._plans = (0, schema), Lately[Prepared](REMEMBERED)
        query = self._query(group_by, where, None, None)
        self._pivot = self._bound(self._placement(query))

    @classmethod
    def calibrated(
        cls,
        schema: Schema,
        engine: Engine,
        tree: Hypertree,
        *,
        measures: Mapping[str, MeasureLike],
        group_by: Sequence[str] = (),
        where: str | None = None,
        memory_limit: int = 1 << 30,
        progress: Progress | bool | None = None,
    ) -> WideTable:
        """A wide table with all its messages passed."""
        wide = cls(
            schema,
            engine,
            tree,
            measures=measures,
            group_by=group_by,
            where=where,
            memory_limit=memory_limit,
        )
        wide.refresh(progress)
        return wide

    def refresh(self, progress: Progress | bool | None = None) -> Plan:
        """Pass every message of the pivot that is not there yet, upward and downward (Algorithm 1)."""
        stored = stored_edges(self._pivot, self._store)
        plan = plan_calibration(self.schema, self._pivot, stored)
        run = Run(self.engine)
        total = len(plan.computed)
        with progress_bar(progress) as listener:
            for call in Wiring(self.schema, self._pivot, stored, plan).sends():
                bag, what = call.sends[0].key.source, ", ".join(str(s.key) for s in call.sends)
                rows, _ = self._rows_at(bag)
                run.send(call, listener.begin(len(run.found), total, bag, what, rows))
            listener.end(total)
        for message in run.found.values():
            self._store.pin(message)
        self.calibration = plan.after(run.measured)
        return self.calibration

    @property
    def is_calibrated(self) -> bool:
        """Whether the pivot's messages are all there, in both directions."""
        return self._pivot.edges <= stored_edges(self._pivot, self._store).keys()

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer a delta query: the same as SQL's on the join, filters and groups included.

        A query says all it wants: the pivot's own group-by and filter are not inherited. `measures`
        are names of the pivot's, or `{name: expression}`; none means all of the pivot's.
        `relations` are those to join.
        """
        asked = Asked(group_by, where, measures, relations)
        try:
            return self._answer(asked)
        except MissingRelationError as error:
            if error.relation in self._missing:
                raise
            # Perhaps there is a way without it.
            self._missing |= {error.relation}
            self._plans = (-1, self.schema), Lately[Prepared](REMEMBERED)
            return self.query(*asked)

    def _answer(self, asked: Asked) -> Result:
        prepared = self._prepared(asked)
        self._store.touch(prepared.reused)
        run = Run(self.engine)
        for call in prepared.sends:
            run.send(call)
        table = run.absorb(prepared.absorb)
        for message in run.found.values():
            self._store.keep(message)
        return Result(prepared.question, prepared.plan, run.measured, self.engine, table)

    def plan(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Plan:
        """How `query` would answer: what it would reuse and what it would compute."""
        return self._prepared(Asked(group_by, where, measures, relations)).plan

    def verify(self, queries: Sequence[Mapping[str, object]] | None = None) -> Verification:
        """Ask these queries (or a set made for this tree) also on the join really built, and
        compare.
        """
        from calitree.verify import verify

        return verify(self, queries)

    def save(self, path: str | PathLike[str], copy_below: int = 64 << 20) -> int:
        """Save to a directory, or to the next version of one, and tell the version's number.

        Messages are written, and what is there already is not written again. So are relations that
        are in this process or have no more than `copy_below` bytes; of larger ones it is noted where
        their rows are. `calitree.open` opens the directory, here or elsewhere, and with another
        engine if that is wanted.
        """
        from calitree.saving import save

        return save(self, path, copy_below)

    def _prepared(self, asked: Asked) -> Prepared:
        """The question, planned on what the store holds now."""
        now = (self._store.version, self.schema)
        planned_on, plans = self._plans
        if planned_on != now:
            # The plans so far may hold messages that are evicted, and miss those that are new.
            plans = Lately[Prepared](REMEMBERED)
            self._plans = now, plans
        return plans.of(asked.key, lambda: self._plan(self._question(asked)))

    def _question(self, asked: Asked) -> Question:
        """The question, resolved."""
        return self._questions.of(
            asked.key,
            lambda: Question(query_of(self.schema, self.measures, self._measure, asked)),
        )

    def _query(
        self,
        group_by: Sequence[str],
        where: str | None,
        measures: Measures | None,
        relations: Sequence[str] | None,
    ) -> Query:
        return self._question(Asked(group_by, where, measures, relations)).query

    def _measure(self, given: MeasureLike, joined: tuple[str, ...]) -> Measure:
        """A measure, compiled; most questions ask for the pivot's."""
        return self._compiled.of(
            (given, joined) if isinstance(given, str) else None,
            lambda: measure_of(given, self.schema, joined, self._center),
        )

    def _plan(self, question: Question) -> Prepared:
        placement = self._placement(question.query)
        schema = within_reach(self.schema, self._missing)
        planned = plan_query(schema, placement, self._pivot, self._store)
        return prepare(self.engine, self.schema, question, *planned)

    def _placement(self, query: Query) -> Placement:
        versions = {name: relation.version for name, relation in self.schema.relations.items()}
        behind = self._behind.of(
            (query.relations, query.aggregates), lambda: behind_of(self.tree, query)
        )
        return Placement(self.tree, query, versions, behind)

    def _bound(self, placement: Placement) -> Placement:
        """Each of the pivot's σ on the smallest bag that can apply it to its own rows."""
        for predicate, options in placement.candidates.items():
            able = [bag for bag in options if placement.can_bind(predicate, bag)]
            if able:
                placement = placement.binding(predicate, min(able, key=self._rows_at))
        return placement

    def _rows_at(self, bag: str) -> tuple[int, str]:
        rows = sum(self.schema.relations[r].table.rows for r in self.tree.bag(bag).relations)
        return rows, bag

    def _center(self, relation: str, node: exp.Expr) -> float:
        """The mean of an expression over its own relation.

        Integers are centred by an integer, which keeps their sums exact.
        """
        key = (relation, node.sql())
        if key not in self._centers:
            total = expression_of(cast(node.copy(), Kind.FLOAT))
            present = expression_of(when(not_null(node), number(1)))
            table = self.schema.relations[relation].table
            columns = tuple(
                Column(name, SUM_PRODUCT, (Lifted(0, (each,)),))
                for name, each in (("total", total), ("present", present))
            )
            one = Input(table, self.schema.columns_of[relation])
            contraction = Contraction((one,), (Output((0,), (), (), columns),))
            sums = self.engine.arrow(self.engine.contract(contraction)[0]).to_pylist()
            rows = sums[0]["present"] if sums else 0
            mean = sums[0]["total"] / rows if rows else 0.0
            if not math.isfinite(mean):
                mean = 0.0
            self._centers[key] = float(round(mean)) if kind_of(node) is Kind.INTEGER else mean
        return self._centers[key]

    def __repr__(self) -> str:
        lines = [
            f"WideTable on {self.engine.name}: {len(self.schema.relations)} relations, "
            f"measures {', '.join(self.measures)}",
            f"  {len(self._store)} messages, {self._store.pinned_bytes:,} bytes pinned, "
            f"{self._store.kept_bytes:,} kept",
        ]
        if self.saved.last is not None:
            lines.append(f"  {self.saved.last}")
        return "\n".join(lines)
