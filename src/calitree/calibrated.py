"""The calibrated junction hypertree: a tree, an engine, and the messages of a pivot query in both directions.

A query is answered as the paper's §3.4.2 says: its annotations are placed, messages that are in the store are reused,
the others — the Steiner tree — are passed, and the root absorbs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from calitree.annotation import Aggregate, Lift
from calitree.engines import (
    Column,
    Contraction,
    Engine,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
)
from calitree.errors import QueryError
from calitree.expressions import expression_of
from calitree.hypertree import Hypertree
from calitree.joingraph import Schema
from calitree.message import Message, MessageKey
from calitree.nodes import cast, kind_of
from calitree.placement import Placement
from calitree.plan import Absorb, Measured, Plan, Send, Step
from calitree.planner import needed, plan_calibration, plan_query
from calitree.progress import Progress, progress_bar
from calitree.query import MeasureLike, Measures, Query, query_of
from calitree.result import Result
from calitree.semiring import SUM_PRODUCT
from calitree.store import Store
from calitree.types import Kind

if TYPE_CHECKING:
    from calitree.verify import Verification

Found = dict[MessageKey, Message]


class WideTable:
    """The join of all relations, never built, ready to be asked.

    Made by `JoinGraph.calibrate`. `query` answers, `plan` tells how it would, `verify` checks against the
    join really built.
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
    ) -> None:
        if tree.relations != {r: frozenset(c) for r, c in schema.columns_of.items()}:
            raise QueryError("The tree was made for another join graph; make it anew with g.hypertree().")
        if not measures:
            raise QueryError("Ask for at least one measure.")
        self.schema = schema
        self.engine = engine
        self.tree = tree
        self.measures = dict(measures)
        self._store = Store(memory_limit)
        self._centers: dict[tuple[str, str], float] = {}
        self._queries: dict[object, Query] = {}
        query = self._query(group_by, where, None, None)
        self._pivot = self._bound(Placement(tree, query))

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
        plan = plan_calibration(self.schema, self._pivot, self._store)
        measured: dict[MessageKey | None, Measured] = {}
        found: Found = {}
        total = len(plan.computed)
        with progress_bar(progress, "calibrating") as tell:
            for step in plan.steps:
                tell(len(measured), total, ", ".join(str(send.key) for send in step.sends))
                self._pass(step, self._pivot, found, measured)
            tell(total, total, "")
        for message in found.values():
            self._store.pin(message)
        return plan.after(measured)

    @property
    def is_calibrated(self) -> bool:
        """Whether the pivot's messages are all there, in both directions."""
        return not plan_calibration(self.schema, self._pivot, self._store).steps

    def query(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Result:
        """Answer a delta query: the same as SQL's on the join, filters and groups included.

        A query says all it wants: the pivot's own group-by and filter are not inherited. `measures` are names of
        the pivot's, or `{name: expression}`; none means all of the pivot's. `relations` are those to join.
        """
        query = self._query(group_by, where, measures, relations)
        plan, placement = self._plan(query)
        measured: dict[MessageKey | None, Measured] = {}
        found: Found = {}
        for step in plan.steps:
            self._pass(step, placement, found, measured)
        assert plan.absorb is not None
        started = time.perf_counter()
        table, names = self._absorb(plan.absorb, placement, found)
        measured[None] = Measured(table.rows, time.perf_counter() - started)
        for message in found.values():
            self._store.keep(message)
        return Result(query, plan.after(measured), self.engine, table, names)

    def plan(
        self,
        group_by: Sequence[str] = (),
        where: str | None = None,
        measures: Measures | None = None,
        relations: Sequence[str] | None = None,
    ) -> Plan:
        """How `query` would answer: what it would reuse and what it would compute."""
        return self._plan(self._query(group_by, where, measures, relations))[0]

    def verify(self, queries: Sequence[Mapping[str, object]] | None = None) -> Verification:
        """Ask these queries (or a set made for this tree) also on the join really built, and compare."""
        from calitree.verify import verify

        return verify(self, queries)

    def _query(
        self,
        group_by: Sequence[str],
        where: str | None,
        measures: Measures | None,
        relations: Sequence[str] | None,
    ) -> Query:
        key = _cache_key(group_by, where, measures, relations)
        query = self._queries.get(key)
        if query is None:
            query = query_of(
                self.schema, self.measures, self._center, group_by, where, measures, relations
            )
            if key is not None:
                self._queries[key] = query
        return query

    def _plan(self, query: Query) -> tuple[Plan, Placement]:
        return plan_query(self.schema, Placement(self.tree, query), self._pivot, self._store)

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

    def _center(self, relation: str, node: exp.Expression) -> float:
        """The mean of an expression over its own relation, to two digits: all that centring needs.

        Integers are centred by an integer, which keeps their sums exact.
        """
        key = (relation, node.sql())
        if key not in self._centers:
            value = expression_of(cast(node.copy(), Kind.FLOAT))
            total = Lifted(0, (value,))
            table = self.schema.relations[relation].table
            one = Input(table, self.schema.columns_of[relation])
            columns = (Column("s", SUM_PRODUCT, (total,)), Column("n", SUM_PRODUCT, ()))
            output = Output((0,), (), (), columns)
            rows = self.engine.arrow(self.engine.contract(Contraction((one,), (output,)))[0])
            sums = rows.to_pylist()
            mean = sums[0]["s"] / sums[0]["n"] if sums else 0.0
            digits = float(f"{mean:.2g}") if abs(mean) < 1e300 else 0.0
            self._centers[key] = float(round(mean)) if kind_of(node) is Kind.INTEGER else digits
        return self._centers[key]

    # -- passing messages ------------------------------------------------------------------------

    def _pass(
        self,
        step: Step,
        placement: Placement,
        found: Found,
        measured: dict[MessageKey | None, Measured],
    ) -> None:
        """Compute all messages of one step in one contraction."""
        started = time.perf_counter()
        inputs, places = self._inputs(step.bag, placement, found, [s.key.target for s in step.sends])
        outputs = tuple(
            self._output(step.bag, send.key.target, send, placement, inputs, places, found)
            for send in step.sends
        )
        tables = self.engine.contract(Contraction(tuple(inputs), outputs))
        seconds = time.perf_counter() - started
        for send, table in zip(step.sends, tables, strict=True):
            columns = {aggregate: f"c{i}" for i, aggregate in enumerate(send.aggregates)}
            found[send.key] = Message(send.key, table, columns)
            measured[send.key] = Measured(table.rows, seconds)

    def _absorb(
        self, absorb: Absorb, placement: Placement, found: Found
    ) -> tuple[Table, dict[Aggregate, str]]:
        """Join all that arrives at the root, and sum by what is asked."""
        inputs, places = self._inputs(absorb.bag, placement, found, [None])
        output = self._output(absorb.bag, None, absorb, placement, inputs, places, found)
        table = self.engine.contract(Contraction(tuple(inputs), (output,)))[0]
        return table, {aggregate: f"c{i}" for i, aggregate in enumerate(absorb.aggregates)}

    def _inputs(
        self, bag: str, placement: Placement, found: Found, targets: Sequence[str | None]
    ) -> tuple[list[Input], dict[str, int]]:
        """The bag's joined relations, then the messages that some target needs; where each one is."""
        inputs: list[Input] = []
        places: dict[str, int] = {}
        for relation in self.tree.bag(bag).relations:
            if relation in placement.query.relations:
                places[relation] = len(inputs)
                table = self.schema.relations[relation].table
                inputs.append(Input(table, self.schema.columns_of[relation]))
        for other in self.tree.neighbours(bag):
            if targets == [other] or not placement.relations_behind(other, bag):
                continue
            message = self._message(other, bag, placement, found)
            places[_arrow(other)] = len(inputs)
            keep = placement.keep(other, bag)
            inputs.append(Input(message.table, {attribute: attribute for attribute in keep}))
        return inputs, places

    def _message(self, source: str, target: str, placement: Placement, found: Found) -> Message:
        key = placement.keys[source, target]
        message = found.get(key)
        if message is None:
            message = self._store.find(key, frozenset(needed(placement, source, target)))
        assert message is not None, f"{key} was planned but is not there"
        return message

    def _output(
        self,
        bag: str,
        target: str | None,
        want: Send | Absorb,
        placement: Placement,
        inputs: list[Input],
        places: Mapping[str, int],
        found: Found,
    ) -> Output:
        """One output of a contraction: which inputs it joins, and the factors of each aggregate."""
        incoming = {
            other: self._message(other, bag, placement, found)
            for other in self.tree.neighbours(bag)
            if other != target and _arrow(other) in places
        }
        joined = [places[r] for r in self.tree.bag(bag).relations if r in places]
        joined += [places[_arrow(other)] for other in incoming]
        columns = []
        for i, aggregate in enumerate(want.aggregates):
            lifts = {lift.relation: lift for lift in aggregate.lifts}
            factors: list[Factor] = []
            for relation in self.tree.bag(bag).relations:
                lift: Lift | None = lifts.get(relation)
                if lift is not None:
                    factors.append(Lifted(places[relation], lift.expressions))
            for other, message in incoming.items():
                part = aggregate.behind(placement.relations_behind(other, bag))
                if not part.is_one:
                    factors.append(Stored(places[_arrow(other)], message.columns[part]))
            columns.append(Column(f"c{i}", aggregate.semiring, tuple(factors)))
        return Output(tuple(joined), want.where, want.keep, tuple(columns))

    def __repr__(self) -> str:
        lines = [
            f"WideTable on {self.engine.name}: {len(self.schema.relations)} relations, "
            f"measures {', '.join(self.measures)}",
            f"  {len(self._store)} messages, {self._store.pinned_bytes:,} bytes pinned, "
            f"{self._store.kept_bytes:,} kept",
        ]
        return "\n".join(lines)


def _arrow(bag: str) -> str:
    """The place of the message from a bag, apart from a relation of the same name."""
    return f"→{bag}"


def _cache_key(
    group_by: Sequence[str],
    where: str | None,
    measures: Measures | None,
    relations: Sequence[str] | None,
) -> object:
    """A hashable form of a question in text, or None if it cannot be had."""
    asked = tuple(measures.items()) if isinstance(measures, Mapping) else measures
    parts = (group_by, asked, relations)
    if any(isinstance(part, str) for part in parts):
        return None
    frozen = tuple(part if part is None else tuple(part) for part in parts)
    try:
        hash((frozen, where))
    except TypeError:
        return None
    return (frozen, isinstance(measures, Mapping), where)



