"""Refreshing stale messages by what has changed behind them (factorised incremental view maintenance).

The rows that came to a relation, and those that went, are sent along the tree in place of the relation:
what arrives at the end is the change of the message. Where several relations have changed, one after the
other is: with those before it as they are now and those after it as they were (telescoping), so that no
combination is missed or counted twice.

Sums take changes by ⊕ and ⊖. Where rows went and there is no ⊖ (MIN, MAX, ∃), or where it would lose
digits, only the keys that the change touches are found, and what belongs to these is computed anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from calitree.cache import cached_property
from calitree.calibration.compiler import Call, Wiring
from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan, Send, Step
from calitree.calibration.planning.staleness import AtHand, Stale
from calitree.calibration.snapshot import Snapshot
from calitree.calibration.store import Store
from calitree.calibration.versions import Changes, table_at
from calitree.engines.api.contraction import Column, Contraction, Input, Output, Stored, Table
from calitree.engines.api.protocol import Engine, updatable
from calitree.engines.api.signed import Linear, Signed
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Relation, Schema
from calitree.query.annotation import COUNT

Versions = Mapping[str, int]
"""Relations that are not to be as they are now, but as they were at these versions."""

NONE: Versions = {}


def refresh_messages(
    snapshot: Snapshot,
    placement: Placement,
    at_hand: AtHand,
    edges: Iterable[Edge],
    is_main: bool,
) -> Maintenance:
    """Refresh some messages, and keep them as those were that they follow; as others' if not `is_main`."""
    state = snapshot.state
    assert state.changes is not None
    stored, stale = at_hand.stored, at_hand.stale
    run = Maintenance(
        state.engine, snapshot.schema, placement, state.store, stored, stale, state.changes
    )
    for edge, message in run.refresh(edges).items():
        if is_main and edge in stale:
            state.store.succeed(stale[edge].message, message)
        else:
            state.store.keep(message)
    return run


class Maintenance:
    """One refresh of some messages of one placement. `found` are those that are up to date."""

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        placement: Placement,
        store: Store,
        stored: Mapping[Edge, Message],
        stale: Mapping[Edge, Stale],
        changes: Changes,
    ) -> None:
        self.engine, self.schema, self.placement = updatable(engine), schema, placement
        self.tree, self.store, self.stored, self.stale = placement.tree, store, stored, stale
        self.changes = changes
        self.found: dict[Edge, Message] = {}
        self.measured: dict[MessageKey | None, Measured] = {}
        self._wanted: set[Edge] = set()
        self._past: dict[MessageKey, Message] = {}
        self._deltas: dict[tuple[object, ...], Signed] = {}

    def refresh(self, edges: Iterable[Edge]) -> dict[Edge, Message]:
        """Bring these up to date, and whatever they need."""
        wanted = list(edges)
        self._wanted.update(wanted)
        for edge in wanted:
            self.message(edge)
        return self.found

    def message(self, edge: Edge, past: Versions = NONE) -> Message:
        """The message of an edge, with some relations as they were."""
        behind = self.placement.sides[edge].relations
        past = {name: version for name, version in past.items() if name in behind}
        if past:
            return self._message_then(edge, past)
        if edge in self.stored:
            return self.stored[edge]
        if edge not in self.found:
            began = time.perf_counter()
            key = self.placement.keys[edge]
            table = self._refreshed(edge) if edge in self.stale else self._computed(edge, NONE)
            self.found[edge] = Message(key, table, column_names(self.placement.sides[edge].columns))
            self.measured[key] = Measured(table.rows, time.perf_counter() - began)
        return self.found[edge]

    def _message_then(self, edge: Edge, past: Versions) -> Message:
        now = {r: self.placement.versions[r] for r in self.placement.sides[edge].relations}
        key = self.placement.keys[edge].at({**now, **past})
        if key not in self._past:
            columns = self.placement.sides[edge].columns
            known = self.store.find(key, columns)
            if known is None:
                known = Message(key, self._computed(edge, past), column_names(columns))
            self._past[key] = known
        return self._past[key]

    def _computed(self, edge: Edge, past: Versions) -> Table:
        """A message from all that is behind it."""
        call = self._call(
            edge[0], [self._send(edge)], self._schema(past), self._arrivals(edge, past)
        )
        (table,) = call.linear({}).tables(self.engine)
        return table

    # -- by ⊕ and ⊖ ------------------------------------------------------------------------------

    def _refreshed(self, edge: Edge) -> Table:
        stale = self.stale[edge]
        order = [name for name in self.schema.relations if name in stale.since]
        changes = []
        for at, name in enumerate(order):
            still = {later: stale.since[later] for later in order[at + 1 :]}
            changes.append(self._delta(edge, name, stale.since[name], still))
        plus = [table for change in changes for table in change.plus]
        minus = [table for change in changes for table in change.minus]
        old = self._named(edge, stale.message)
        if not plus and not minus:
            return old
        if any(self._marks(name, stale.since[name]) for name in order):
            return self._replaced(edge, old, plus + minus)
        rows = column_names(self.placement.sides[edge].columns).get(COUNT)
        table = self.engine.add(self._output(edge), [old, *plus], minus, rows)
        return self._replaced(edge, old, plus + minus) if table is None else table

    def _output(self, edge: Edge) -> Output:
        """What a message of this edge looks like."""
        names = column_names(self.placement.sides[edge].columns)
        columns = tuple(Column(name, each.semiring, ()) for each, name in names.items())
        return Output((), (), self.placement.keep[edge], columns)

    def _named(self, edge: Edge, message: Message) -> Table:
        """A message with its columns as they are called here, and no others."""
        names = column_names(self.placement.sides[edge].columns)
        if len(message.columns) == len(names) and all(
            message.columns[aggregate] == name for aggregate, name in names.items()
        ):
            return message.table
        columns = tuple(
            Column(name, aggregate.semiring, (Stored(0, message.columns[aggregate]),))
            for aggregate, name in names.items()
        )
        keep = self.placement.keep[edge]
        given = Input(message.table, {attribute: attribute for attribute in keep})
        contraction = Contraction((given,), (Output((0,), (), keep, columns),))
        return self.engine.contract(contraction)[0]

    def _marks(self, relation: str, since: int) -> bool:
        """Whether only the keys are found that a change touches, as it cannot be subtracted."""
        return not self._subtracts and bool(self._change(relation, since).minus)

    @cached_property
    def _subtracts(self) -> bool:
        return all(aggregate.semiring.minus for aggregate in self.placement.query.aggregates)

    def _change(self, relation: str, since: int) -> Signed:
        return self.changes.since(since, self.schema.relations[relation])

    def _delta(self, edge: Edge, relation: str, since: int, past: Versions) -> Signed:
        """How the change of a relation changes a message."""
        behind = self.placement.sides[edge].relations
        past = {name: version for name, version in past.items() if name in behind}
        key = (edge, relation, since, frozenset(past.items()))
        if key not in self._deltas:
            source = edge[0]
            targets = [edge[1]] if past else self._targets(edge, relation, since)
            edges = [(source, target) for target in targets]
            for each, delta in zip(edges, self._sent(edges, relation, since, past), strict=True):
                self._deltas[each, relation, since, frozenset(past.items())] = delta
        return self._deltas[key]

    def _targets(self, edge: Edge, relation: str, since: int) -> list[str]:
        """All neighbours whose message from the same bag will change in the same way, in one go."""
        source, _ = edge
        alike = [
            (source, other)
            for other in self.tree.neighbours(source)
            if (source, other) != edge and relation in self.placement.sides[source, other].relations
        ]
        needed = [
            each
            for each in alike
            if any(self._leads(each, w, relation, since) for w in self._wanted)
        ]
        return [edge[1], *(target for _, target in needed)]

    def _leads(self, edge: Edge, wanted: Edge, relation: str, since: int) -> bool:
        """Whether the change passes this edge on its way to one that is wanted."""
        stale = self.stale.get(wanted)
        if stale is None or dict(stale.since) != {relation: since}:
            return False
        return edge == wanted or wanted[0] in self.tree.subtree(edge[1], edge[0])

    def _sent(
        self, edges: Sequence[Edge], relation: str, since: int, past: Versions
    ) -> list[Signed]:
        source = edges[0][0]
        marks = self._marks(relation, since)
        schema = self._schema(past)
        if marks:  # what was there or is there is enough to know what may be touched
            schema = schema.having({n: _positive(each) for n, each in schema.relations.items()})
        arrivals: dict[Edge, Message] = {}
        if self.tree.home(relation) == source:
            change = self._change(relation, since)
            if marks:
                change = Signed((*change.plus, *change.minus))
            here = replace(schema.relations[relation], table=change)
            schema = schema.having({relation: here})
        else:
            onward = next(
                (other, source)
                for other in self.tree.neighbours(source)
                if self.tree.home(relation) in self.tree.subtree(other, source)
            )
            change = self._delta(onward, relation, since, past)
            if not change.plus and not change.minus:
                return [change for _ in edges]
            columns = () if marks else self.placement.sides[onward].columns
            sent = change.plus[0] if len(change.plus) == 1 and not change.minus else change
            arrivals[onward] = Message(self.placement.keys[onward], sent, column_names(columns))
        for edge in edges:
            for arriving in self._arriving(edge):
                if arriving not in arrivals:
                    arrivals[arriving] = self.message(arriving, past)
        sends = [self._send(edge) for edge in edges]
        if marks:
            sends = [replace(send, aggregates=()) for send in sends]
        call = self._call(source, sends, schema, arrivals)
        linear = call.linear({})
        if marks or self._subtracts:
            sums = linear.sums(self.engine)
        else:  # rows that come stay so, as further on nothing may be subtracted
            sums = [Signed((table,)) for table in linear.tables(self.engine)]
        return [self._few(output, each) for output, each in zip(call.outputs, sums, strict=True)]

    def _few(self, output: Output, sums: Signed) -> Signed:
        """At most one table that comes and one that goes; none that is empty."""

        def one(tables: Sequence[Table]) -> list[Table]:
            some = [table for table in tables if table.rows]
            if len(some) < 2:
                return some
            together = self.engine.add(output, some, (), None)
            assert together is not None
            return [together]

        return Signed(one(sums.plus), one(sums.minus))

    # -- by the keys that are touched ------------------------------------------------------------

    def _replaced(self, edge: Edge, old: Table, changes: Sequence[Table]) -> Table:
        """The message with what belongs to the keys of the changes computed anew."""
        keep = self.placement.keep[edge]
        by = tuple(a for a in keep if a in self.tree.separator(*edge) and self._is_key(edge, a))
        if not by:
            return self._computed(edge, NONE)
        touched = Output((0,), (), by, ())
        names = {attribute: attribute for attribute in keep}
        found = [
            self.engine.contract(Contraction((Input(each, names),), (touched,)))[0]
            for each in changes
        ]
        keys = found[0] if len(found) == 1 else self.engine.add(touched, found, (), None)
        assert keys is not None
        call = self._call(edge[0], [self._send(edge)], self.schema, self._arrivals(edge, NONE))
        whole = call.linear({}).contraction
        only = Input(keys, {attribute: attribute for attribute in by})
        outputs = tuple(replace(o, inputs=(*o.inputs, len(whole.inputs))) for o in whole.outputs)
        part = Linear(Contraction((*whole.inputs, only), outputs), call.rows)
        (anew,) = part.tables(self.engine)
        rest = self.engine.apart(old, keys)
        table = self.engine.add(self._output(edge), [rest, anew], (), None)
        assert table is not None
        return table

    def _is_key(self, edge: Edge, attribute: str) -> bool:
        """Whether no row matters where this is NULL, which equals no key: not those that are to be
        joined, but those that go to an empty bag.
        """
        source, target = edge
        if attribute in self.placement.sides[target, source].supplied:
            return True
        columns = self.schema.columns_of
        holders = [r for r in self.placement.sides[edge].relations if attribute in columns[r]]
        return len(holders) > 1 or all(
            columns[r][attribute] in self.schema.relations[r].table.null_free for r in holders
        )

    # -- contractions ----------------------------------------------------------------------------

    def _send(self, edge: Edge) -> Send:
        return Send.of(self.placement, edge)

    def _call(
        self,
        bag: str,
        sends: Sequence[Send],
        schema: Schema,
        arrivals: Mapping[Edge, Message],
    ) -> Call:
        plan = Plan(bag, (Step(bag, tuple(sends)),), (), None)
        (call,) = Wiring(schema, self.placement, arrivals, plan).sends()
        return call

    def _arriving(self, edge: Edge) -> list[Edge]:
        source, target = edge
        arriving = [(other, source) for other in self.tree.neighbours(source) if other != target]
        return [each for each in arriving if each in self.placement.edges]

    def _arrivals(self, edge: Edge, past: Versions) -> dict[Edge, Message]:
        return {each: self.message(each, past) for each in self._arriving(edge)}

    def _schema(self, past: Versions) -> Schema:
        """The graph with some relations as they were."""
        changed = {}
        for name, version in past.items():
            then = table_at(self.engine, version, self.schema.relations[name])
            assert then is not None
            changed[name] = replace(self.schema.relations[name], table=then, version=version)
        return self.schema.having(changed)


def _positive(relation: Relation) -> Relation:
    table = relation.table
    if isinstance(table, Signed) and table.minus:
        return replace(relation, table=Signed(table.plus))
    return relation
