"""From the steps of a plan to calls: what a contraction joins, and what it multiplies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from calitree.calibration.compilation.by_row import CallByRow
from calitree.calibration.compilation.call import Awaited, Call, moved
from calitree.calibration.compilation.outer import OuterJoins, joins_by_edge, key_filters
from calitree.calibration.message import Message, column_names, rows_column
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Send, Step
from calitree.engines.api.contraction import (
    Column,
    Factor,
    Input,
    Match,
    Output,
    Stored,
    Weight,
)
from calitree.jointree.bag import Edge
from calitree.jointree.joins.join import OuterJoin
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate


class Wiring:
    """Compiles calls: what arrives at each bag is in the store, or sent by one of the `steps`.

    Of the relation that is `changed`, if any, `schema` has only what has come and gone.
    """

    def __init__(
        self,
        schema: Schema,
        placement: Placement,
        stored: Mapping[Edge, Message],
        steps: Sequence[Step] = (),
        *,
        outer: OuterJoins,
        changed: str | None = None,
    ) -> None:
        self.schema, self.placement, self.tree = schema, placement, placement.tree
        self.stored, self.outer = stored, outer
        self.joins = joins_by_edge(self.tree, outer.schema)
        self.optional = {
            self.tree.home(next(iter(join.linked))): join
            for join in self.joins.values()
            if changed not in join.optional
        }
        sends = [send for step in steps for send in step.sends]
        self.sent = {send.key.edge: column_names(send.aggregates) for send in sends}

    def send(self, step: Step) -> Call:
        """All messages of a step."""
        return self._call(step.bag, {send.key.target: send for send in step.sends}, step.sends)

    def absorb(self, absorb: Absorb) -> Call:
        """The absorption at a root."""
        call = self._call(absorb.bag, {None: absorb}, ())
        if not absorb.by_row:
            return call
        query = self.placement.query
        relations = [r for r in self.tree.bag(absorb.bag).relations if r in query.relations]
        return CallByRow(call, relations.index(absorb.by_row), query)

    def unmatched(self, absorb: Absorb, match: Match) -> Call:
        """The absorption of rows that a full join keeps without a partner, at its optional side.

        Everything on the other side is its default row, which is joined with what does not `match`.
        """
        tree, query = self.tree, self.placement.query
        bag, preserved = absorb.bag, absorb.without
        relations = [r for r in tree.bag(bag).relations if r in query.relations]
        others = frozenset(
            r for r in query.relations if tree.home(r) in tree.subtree(preserved, bag)
        )
        arriving = [
            other
            for other in tree.neighbours(bag)
            if other != preserved and (other, bag) in self.placement.edges
        ]
        arrivals = [self._arrival((other, bag)) for other in arriving]
        needed = [absorb.keep, match.key, *(a.attributes for a in arrivals)]
        default = replace(self.outer.default_message(others), match=match)
        inputs = [*self._relations(relations, needed), default, *arrivals]
        place = {r: i for i, r in enumerate(relations)} | dict.fromkeys(others, len(relations))
        used = {other: i for i, other in enumerate(arriving, len(relations) + 1)}
        names = column_names(absorb.aggregates)
        columns = tuple(
            Column(name, aggregate.semiring, self._factors(aggregate, bag, place, used))
            for aggregate, name in names.items()
        )
        where = tuple(self.schema.inlined(p, query.relations) for p in absorb.where)
        output = Output(tuple(range(len(inputs))), where, absorb.keep, columns)
        return Call((), tuple(inputs), (output,), (rows_column(names),))

    def _call(
        self, bag: str, wanted: Mapping[str | None, Send | Absorb], sends: tuple[Send, ...]
    ) -> Call:
        """The bag's relations, and the messages that some target needs."""
        relations = [r for r in self.tree.bag(bag).relations if r in self.placement.query.relations]
        arriving = [
            other
            for other in self.tree.neighbours(bag)
            if wanted.keys() != {other} and (other, bag) in self.placement.edges
        ]
        arrivals = [self._arrival((other, bag)) for other in arriving]
        needed = [*(want.keep for want in wanted.values()), *(a.attributes for a in arrivals)]
        inputs = [*self._relations(relations, needed), *arrivals]
        place = {r: i for i, r in enumerate(relations)}
        outputs, rows = [], []
        for target, want in wanted.items():
            names = column_names(want.aggregates)
            used = {m: i for i, m in enumerate(arriving, len(relations)) if m != target}
            columns = tuple(
                Column(name, aggregate.semiring, self._factors(aggregate, bag, place, used))
                for aggregate, name in names.items()
            )
            joined = (*place.values(), *used.values())
            where = tuple(self.schema.inlined(p, relations) for p in want.where)
            outputs.append(Output(joined, where, want.keep, columns))
            rows.append(rows_column(names))
        call = Call(sends, tuple(inputs), tuple(outputs), tuple(rows))
        join = self._optional_side(bag)
        return call if join is None else self._with_default(call, join, len(relations))

    def _relations(
        self, joined: Sequence[str], needed: Iterable[Iterable[str]]
    ) -> list[Input | Awaited]:
        """The relations of a bag, with the derived attributes that are kept or joined on.

        Others are inlined.
        """
        columns, known = self.schema.columns_of, [set(names) for names in needed]
        inputs: list[Input | Awaited] = []
        for relation in joined:
            others = (columns[other] for other in joined if other != relation)
            wanted = set[str]().union(*known, *others)
            derived = [a for a in self.schema.derived_of[relation] if a in wanted]
            inputs.append(self.schema.input_of(relation, derived))
        return inputs

    def _optional_side(self, bag: str) -> OuterJoin | None:
        """The outer join whose optional side a bag is, if there is one."""
        joins = (self.joins.get(frozenset((bag, other))) for other in self.tree.neighbours(bag))
        own = self.placement.query.relations.intersection(self.tree.bag(bag).relations)
        return next((join for join in joins if join and own <= join.optional), None)

    def _with_default(self, call: Call, join: OuterJoin, relations: int) -> Call:
        """The call without rows whose key is NULL, and with the default row in place of its relations too."""
        filters = key_filters(self.schema, join)
        own = [given for given in call.inputs[:relations] if isinstance(given, Input)]
        # At a grain the default row counts nowhere: it is no row of the relation.
        at_grain = not call.sends and self.placement.query.grain
        has_default = join in self.optional.values() and not at_grain
        completed = self.outer.completed(join) if has_default and not filters else None
        if completed is not None:
            inputs = (replace(own[0], table=completed), *call.inputs[1:])
            return Call(call.sends, inputs, call.outputs, call.rows)
        outputs = tuple(replace(o, where=(*o.where, *filters)) for o in call.outputs)
        if not has_default:
            return Call(call.sends, call.inputs, outputs, call.rows)
        place = [0] * relations + list(range(1, 1 + len(call.inputs) - relations))
        by_row = (moved(output, place) for output in call.outputs)
        default = Call(
            call.sends,
            (self.outer.default_row(join.optional, own), *call.inputs[relations:]),
            tuple(replace(o, inputs=tuple(dict.fromkeys(o.inputs))) for o in by_row),
            call.rows,
        )
        return Call(call.sends, call.inputs, outputs, call.rows, default=default)

    def _arrival(self, edge: Edge) -> Input | Awaited:
        attributes = {attribute: attribute for attribute in self.placement.keep[edge]}
        join = self.joins.get(frozenset(edge))
        match = None if join is None else self.outer.match(join)
        if edge in self.sent:
            return Awaited(edge, attributes, match)
        return Input(self.stored[edge].table, attributes, match=match)

    def _factors(
        self,
        aggregate: Aggregate,
        bag: str,
        relations: Mapping[str, int],
        messages: Mapping[str, int],
    ) -> tuple[Factor, ...]:
        """What is multiplied: the lifts of the bag's relations, and columns of the messages."""
        factors: list[Factor] = [
            lift.factor(
                relations[lift.relation],
                tuple(self.schema.inlined(e, (lift.relation,)) for e in lift.expressions),
            )
            for lift in sorted(aggregate.lifts, key=attrgetter("relation"))
            if lift.relation in relations
        ]
        for other, index in messages.items():
            edge = (other, bag)
            joined = self.placement.subtrees[edge].relations
            if aggregate.grain and aggregate.grain.isdisjoint(joined):
                continue  # whether there is a partner, not how many
            part = aggregate.restricted_to(joined)
            if not part.is_one:
                names = self.sent[edge] if edge in self.sent else self.stored[edge].columns
                is_weight = part.semiring != aggregate.semiring
                factors.append((Weight if is_weight else Stored)(index, names[part]))
        return tuple(factors)
