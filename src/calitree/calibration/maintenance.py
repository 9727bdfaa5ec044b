"""Refreshing stale messages (factorised incremental view maintenance).

A message joins the relations R₁ … Rₖ of its source's side, and each has changed by ΔRᵢ since the message was
computed. Joins distribute over ⊕, so the change of the message is a telescoped sum:

    Δm = Σᵢ m(R₁ now, …, Rᵢ₋₁ now, ΔRᵢ, Rᵢ₊₁ then, …, Rₖ then)

A `Delta` is one summand. Its rows are sent along the tree in place of the relation; what arrives at the
message is to be added to it. No combination of changes is missed or counted twice.

Sums take changes by ⊕ and ⊖. Where rows went and there is no ⊖ (MIN, MAX, ∃), or where it would lose digits,
only the keys that the change touches are sent, and what belongs to these keys is computed anew.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from calitree.calibration.compilation.call import Call
from calitree.calibration.compilation.wiring import Wiring
from calitree.calibration.message import Message, MessageKey, column_names, rows_column
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Send, Step
from calitree.calibration.planning.staleness import Available
from calitree.calibration.snapshot import Snapshot
from calitree.engines.api.contraction import Column, Contraction, Input, Output, Stored, Table
from calitree.engines.api.protocol import updatable
from calitree.engines.api.python_contraction import add, apart, contract
from calitree.engines.api.signed import Linear, Signed
from calitree.jointree.bag import Edge
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate

Past = frozenset[tuple[str, int]]
"""Relations that are not read as they are now, each with the revision that it is read at."""

NOW: Past = frozenset()


@dataclass(frozen=True)
class Delta:
    """The change of one relation since a revision, joined with some other relations as they were.

    `rows` are those that came (plus) and went (minus). With `only_keys` they cannot be subtracted: both are
    taken as rows that touch keys, and the values of these keys are not sent.
    """

    relation: str
    since: int
    past: Past
    rows: Signed = field(compare=False)
    only_keys: bool = field(compare=False)


def refresh_messages(
    snapshot: Snapshot,
    placement: Placement,
    available: Available,
    edges: Iterable[Edge],
    is_main: bool,
) -> Maintenance:
    """Refresh some messages; on the tree's own branch (`is_main`) a new one is pinned if the old one was."""
    store, run = snapshot.state.store, Maintenance(snapshot, placement, available)
    for edge, message in run.refresh(edges).items():
        if is_main and edge in available.stale:
            store.succeed(available.stale[edge].message, message)
        else:
            store.keep(message)
    return run


class Maintenance:
    """One refresh of some messages of one placement. `messages` are those brought up to date."""

    def __init__(self, snapshot: Snapshot, placement: Placement, available: Available) -> None:
        state = snapshot.state
        assert state.changes is not None
        self.engine, self.store, self.changes = updatable(state.engine), state.store, state.changes
        self.outer = snapshot.outer_joins(placement.query)
        self.schema = self.outer.schema
        self.placement, self.tree = placement, placement.tree
        self.stored, self.stale = available.stored, available.stale
        self._can_subtract = all(a.semiring.minus for a in placement.query.aggregates)
        self.messages: dict[Edge, Message] = {}
        self.measured: dict[MessageKey | None, Measured] = {}
        self._wanted: tuple[Edge, ...] = ()
        self._past: dict[MessageKey, Message] = {}
        self._sent: dict[tuple[Edge, Delta], Signed] = {}

    def refresh(self, edges: Iterable[Edge]) -> dict[Edge, Message]:
        """Bring these messages up to date, and those that they need."""
        self._wanted = tuple(edges)
        for edge in self._wanted:
            self._message(edge, NOW)
        return self.messages

    def _message(self, edge: Edge, past: Past) -> Message:
        """The message of an edge, with some relations as they were."""
        past = self._restricted(past, edge)
        if past:
            return self._past_message(edge, past)
        if edge in self.stored:
            return self.stored[edge]
        if edge not in self.messages:
            began = time.perf_counter()
            key = self.placement.keys[edge]
            table = self._refreshed(edge) if edge in self.stale else self._computed(edge, NOW)
            self.messages[edge] = Message(key, table, self._columns(edge))
            self.measured[key] = Measured(table.rows, time.perf_counter() - began)
        return self.messages[edge]

    def _past_message(self, edge: Edge, past: Past) -> Message:
        subtree = self.placement.subtrees[edge]
        now = {name: self.placement.revisions[name] for name in subtree.relations}
        key = self.placement.keys[edge].at({**now, **dict(past)})
        if key not in self._past:
            stored = self.store.find(key, subtree.columns)
            self._past[key] = stored or Message(
                key, self._computed(edge, past), self._columns(edge)
            )
        return self._past[key]

    def _computed(self, edge: Edge, past: Past) -> Table:
        """A message computed from all that arrives at its source."""
        call = self._call([edge], self._schema_at(past), self._arrivals([edge], past))
        (table,) = call.linear({}).tables(self.engine)
        return table

    def _restricted(self, past: Past, edge: Edge) -> Past:
        """Those of some relations that are on the source's side of an edge."""
        relations = self.placement.subtrees[edge].relations
        return frozenset((name, revision) for name, revision in past if name in relations)

    # -- the telescoped sum ----------------------------------------------------------------------

    def _refreshed(self, edge: Edge) -> Table:
        """The stale message of an edge, and its change."""
        deltas = self._deltas(self.stale[edge].since)
        changes = [self._sent_along(edge, delta) for delta in deltas]
        plus = [table for change in changes for table in change.plus]
        minus = [table for change in changes for table in change.minus]
        old = self._table_of(edge, self.stale[edge].message)
        if not plus and not minus:
            return old
        if any(delta.only_keys for delta in deltas):
            return self._recomputed(edge, old, plus + minus)
        rows = rows_column(self._columns(edge))
        table = add(self.engine, self._output(edge), [old, *plus], minus, rows)
        return self._recomputed(edge, old, plus + minus) if table is None else table

    def _deltas(self, since: Mapping[str, int]) -> list[Delta]:
        """The summands: relations before the changed one are as they are now, those after it as they were."""
        changed = [(name, since[name]) for name in self.schema.relations if name in since]
        deltas = []
        for at, (name, revision) in enumerate(changed):
            rows = self.changes.since(revision, self.schema.relations[name])
            only_keys = bool(rows.minus) and not self._can_subtract
            if only_keys:
                rows = Signed((*rows.plus, *rows.minus))
            past = frozenset(changed[at + 1 :])
            deltas.append(Delta(name, revision, past, rows, only_keys))
        return deltas

    def _sent_along(self, edge: Edge, delta: Delta) -> Signed:
        """How a delta changes the message of an edge."""
        delta = replace(delta, past=self._restricted(delta.past, edge))
        if (edge, delta) not in self._sent:
            edges = [edge, *self._others_needed(edge, delta)]
            for sent, change in zip(edges, self._changes_of(edges, delta), strict=True):
                self._sent[sent, delta] = change
        return self._sent[edge, delta]

    def _others_needed(self, edge: Edge, delta: Delta) -> list[Edge]:
        """More edges of the same bag whose messages the delta changes: they are computed in the same scan.

        The delta must be all that has changed for a message that is wanted and reached through the edge.
        """
        if delta.past:
            return []
        source, target = edge
        changed = {delta.relation: delta.since}
        wanted = [w for w in self._wanted if w in self.stale and self.stale[w].since == changed]
        others = [(source, other) for other in self.tree.neighbours(source) if other != target]
        return [
            (u, v)
            for u, v in others
            if delta.relation in self.placement.subtrees[u, v].relations
            and any((u, v) == w or w[0] in self.tree.subtree(v, u) for w in wanted)
        ]

    def _changes_of(self, edges: Sequence[Edge], delta: Delta) -> list[Signed]:
        """How a delta changes the messages that one bag sends along some edges."""
        source, home = edges[0][0], self.tree.home(delta.relation)
        schema = self._schema_at(delta.past)
        if delta.only_keys:
            schema = _without_deletions(schema)
        arrivals: dict[Edge, Message] = {}
        if home == source:
            relation = schema.relations[delta.relation]
            schema = schema.having({delta.relation: replace(relation, table=delta.rows)})
        else:
            neighbours = self.tree.neighbours(source)
            near = next(n for n in neighbours if home in self.tree.subtree(n, source))
            change = self._sent_along((near, source), delta)
            if not change.plus and not change.minus:
                return [change for _ in edges]
            arrivals[near, source] = self._as_message((near, source), change, delta)
        arrivals = self._arrivals(edges, delta.past, arrivals)
        changed = delta.relation if home == source else None
        call = self._call(edges, schema, arrivals, delta.only_keys, changed)
        linear = call.linear({})
        if delta.only_keys or self._can_subtract:
            sums = linear.sums(self.engine)
        else:  # one table that is added, as no other bag may subtract
            sums = [Signed((table,)) for table in linear.tables(self.engine)]
        return [self._merged(output, s) for output, s in zip(call.outputs, sums, strict=True)]

    def _as_message(self, edge: Edge, change: Signed, delta: Delta) -> Message:
        """The change of a message, in place of the message."""
        table = change.plus[0] if len(change.plus) == 1 and not change.minus else change
        columns = {} if delta.only_keys else self._columns(edge)
        return Message(self.placement.keys[edge], table, columns)

    def _merged(self, output: Output, sums: Signed) -> Signed:
        """At most one table that is added and one that is subtracted; none that is empty."""

        def merged(tables: Sequence[Table]) -> list[Table]:
            some = [table for table in tables if table.rows]
            return some if len(some) < 2 else [self._sum(output, some)]

        return Signed(merged(sums.plus), merged(sums.minus))

    # -- recomputing the keys that are touched ---------------------------------------------------

    def _recomputed(self, edge: Edge, old: Table, changes: Sequence[Table]) -> Table:
        """The message, in which what belongs to the keys of the changes is computed anew."""
        keep, separator = self.placement.keep[edge], self.tree.separator(*edge)
        by = tuple(a for a in keep if a in separator and self._is_key(edge, a))
        if not by:
            return self._computed(edge, NOW)
        touched = Output((0,), (), by, ())
        parts = [
            contract(self.engine, Contraction((_input(table, keep),), (touched,)))[0]
            for table in changes
        ]
        keys = parts[0] if len(parts) == 1 else self._sum(touched, parts)
        call = self._call([edge], self.schema, self._arrivals([edge], NOW))
        whole = call.linear({}).contraction
        outputs = tuple(replace(o, inputs=(*o.inputs, len(whole.inputs))) for o in whole.outputs)
        semi_joined = Contraction((*whole.inputs, _input(keys, by)), outputs)
        (anew,) = Linear(semi_joined, call.rows).tables(self.engine)
        return self._sum(self._output(edge), [apart(self.engine, old, keys), anew])

    def _is_key(self, edge: Edge, attribute: str) -> bool:
        """Whether rows where this is NULL, which equals no key, have no effect.

        They have none where the attribute is joined, but they have one in a message to an empty bag.
        """
        source, target = edge
        if self.schema.attributes[attribute].match:
            return False
        if attribute in self.placement.subtrees[target, source].supplied:
            return True
        columns = self.schema.columns_of
        holders = [r for r in self.placement.subtrees[edge].relations if attribute in columns[r]]
        return len(holders) > 1 or all(
            columns[r][attribute] in self.schema.relations[r].table.null_free for r in holders
        )

    # -- contractions ----------------------------------------------------------------------------

    def _call(
        self,
        edges: Sequence[Edge],
        schema: Schema,
        arrivals: Mapping[Edge, Message],
        only_keys: bool = False,
        changed: str | None = None,
    ) -> Call:
        """One contraction of all messages that a bag sends along some edges."""
        sends = [Send.of(self.placement, edge) for edge in edges]
        if only_keys:
            sends = [replace(send, aggregates=()) for send in sends]
        wiring = Wiring(schema, self.placement, arrivals, outer=self.outer, changed=changed)
        return wiring.send(Step(edges[0][0], tuple(sends)))

    def _arrivals(
        self, edges: Sequence[Edge], past: Past, given: Mapping[Edge, Message] | None = None
    ) -> dict[Edge, Message]:
        """The messages that a bag needs to send along some edges, beside those that are given."""
        arrivals = dict(given or {})
        for source, target in edges:
            for other in self.tree.neighbours(source):
                arriving = (other, source)
                if other != target and arriving in self.placement.edges.difference(arrivals):
                    arrivals[arriving] = self._message(arriving, past)
        return arrivals

    def _schema_at(self, past: Past) -> Schema:
        """The graph with some relations as they were."""
        relations = {}
        for name, revision in past:
            relation = self.schema.relations[name]
            table = self.changes.table_then(revision, relation)
            relations[name] = replace(relation, table=table, revision=revision)
        return self.schema.having(relations)

    def _columns(self, edge: Edge) -> dict[Aggregate, str]:
        return column_names(self.placement.subtrees[edge].columns)

    def _output(self, edge: Edge) -> Output:
        """The shape of a message of this edge."""
        columns = (Column(name, a.semiring, ()) for a, name in self._columns(edge).items())
        return Output((), (), self.placement.keep[edge], tuple(columns))

    def _table_of(self, edge: Edge, message: Message) -> Table:
        """A message with its columns named as here, and no others."""
        names, keep = self._columns(edge), self.placement.keep[edge]
        if len(message.columns) == len(names) and all(
            message.columns[aggregate] == name for aggregate, name in names.items()
        ):
            return message.table
        columns = tuple(
            Column(name, aggregate.semiring, (Stored(0, message.columns[aggregate]),))
            for aggregate, name in names.items()
        )
        output = Output((0,), (), keep, columns)
        return contract(self.engine, Contraction((_input(message.table, keep),), (output,)))[0]

    def _sum(self, output: Output, tables: Sequence[Table]) -> Table:
        table = add(self.engine, output, tables, (), None)
        assert table is not None
        return table


def _input(table: Table, attributes: Iterable[str]) -> Input:
    """A result as an input: its columns are named by their attributes."""
    return Input(table, {attribute: attribute for attribute in attributes})


def _without_deletions(schema: Schema) -> Schema:
    """The graph as if no row had gone: it has all rows that a change may be joined with."""
    relations = {
        name: replace(relation, table=Signed(relation.table.plus))
        for name, relation in schema.relations.items()
        if isinstance(relation.table, Signed) and relation.table.minus
    }
    return schema.having(relations)
