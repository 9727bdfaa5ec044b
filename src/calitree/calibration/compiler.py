"""From a plan to contractions: a `Call` is one step of it, ready for the engine.

What is compiled serves as long as the store holds the same messages. It holds messages itself, so
whoever keeps it must forget it when the store has changed: otherwise nothing that is evicted would go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from typing import cast

from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Measured, Plan, Send
from calitree.calibration.projection import Projection
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
)
from calitree.engines.api.protocol import Engine
from calitree.engines.api.signed import Linear
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema
from calitree.query.annotation import COUNT, Aggregate


@dataclass(frozen=True)
class Awaited:
    """Stands for the input that will carry a message which the same run computes before."""

    edge: Edge
    attributes: Mapping[str, str]


class Call:
    """One contraction of a plan: what is sent, from which inputs.

    If it awaits nothing it is the same contraction every time, so that an engine can keep with it
    what it has prepared for it. `rows` name the columns of the outputs that count rows.
    """

    def __init__(
        self,
        sends: tuple[Send, ...],
        inputs: tuple[Input | Awaited, ...],
        outputs: tuple[Output, ...],
        rows: tuple[str | None, ...],
    ) -> None:
        self.sends = sends
        self.outputs = outputs
        self.rows = rows
        self.inputs = inputs
        ready = tuple(each for each in inputs if isinstance(each, Input))
        whole = len(ready) == len(inputs)
        self._ready = Linear(Contraction(ready, outputs), rows) if whole else None

    def linear(self, found: Mapping[Edge, Message]) -> Linear:
        """This call, given the messages that the run has computed so far."""
        if self._ready is not None:
            return self._ready
        inputs = tuple(
            each if isinstance(each, Input) else Input(found[each.edge].table, each.attributes)
            for each in self.inputs
        )
        return Linear(Contraction(inputs, self.outputs), self.rows)

    def how(self, engine: Engine) -> str:
        """In which way the engine would compute it, as far as that is known yet."""
        if self._ready is not None:
            return self._ready.how(engine)
        ready = tuple(takewhile(lambda each: isinstance(each, Input), self.inputs))
        known = Contraction(cast(tuple[Input, ...], ready), self.outputs)
        return Linear(known, self.rows).how(engine)


def together(calls: Sequence[Call]) -> Call:
    """Calls of one bag as one, in which each input takes part once."""
    inputs: dict[object, tuple[int, Input | Awaited]] = {}
    outputs: list[Output] = []
    for call in calls:
        place = []
        for each in call.inputs:
            what = id(each.table) if isinstance(each, Input) else each.edge
            known = (what, *each.attributes.items())
            place.append(inputs.setdefault(known, (len(inputs), each))[0])
        outputs += [_moved(output, place) for output in call.outputs]
    sends = tuple(send for call in calls for send in call.sends)
    rows = tuple(name for call in calls for name in call.rows)
    return Call(sends, tuple(each for _, each in inputs.values()), tuple(outputs), rows)


def _moved(output: Output, place: Sequence[int]) -> Output:
    """The same output when its inputs stand in other places."""
    columns = tuple(
        replace(column, factors=tuple(replace(f, input=place[f.input]) for f in column.factors))
        for column in output.columns
    )
    return replace(output, inputs=tuple(place[i] for i in output.inputs), columns=columns)


class Wiring:
    """Makes a plan's calls: finds what arrives at each bag, in the store or among what is sent."""

    def __init__(
        self, schema: Schema, placement: Placement, stored: Mapping[Edge, Message], plan: Plan
    ) -> None:
        self.schema = schema
        self.placement = placement
        self.tree = placement.tree
        self.stored = stored
        self.plan = plan
        self.sent = {
            (send.key.source, send.key.target): column_names(send.aggregates)
            for step in plan.steps
            for send in step.sends
        }

    def sends(self) -> tuple[Call, ...]:
        """The steps of the plan, in order."""
        return tuple(
            self._call(step.bag, {send.key.target: send for send in step.sends}, step.sends)
            for step in self.plan.steps
        )

    def absorb(self) -> Call:
        """The absorption at the root."""
        assert self.plan.absorb is not None
        return self._call(self.plan.absorb.bag, {None: self.plan.absorb}, ())

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
        inputs: list[Input | Awaited] = [
            Input(self.schema.relations[r].table, self.schema.columns_of[r]) for r in relations
        ]
        inputs += [self._arrival((other, bag)) for other in arriving]
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
            outputs.append(Output(joined, want.where, want.keep, columns))
            rows.append(names.get(COUNT))
        return Call(sends, tuple(inputs), tuple(outputs), tuple(rows))

    def _arrival(self, edge: Edge) -> Input | Awaited:
        attributes = {attribute: attribute for attribute in self.placement.keep[edge]}
        if edge in self.sent:
            return Awaited(edge, attributes)
        return Input(self.stored[edge].table, attributes)

    def _factors(
        self,
        aggregate: Aggregate,
        bag: str,
        relations: Mapping[str, int],
        messages: Mapping[str, int],
    ) -> tuple[Factor, ...]:
        """What is multiplied: the lifts of the bag's relations, and what the messages carry."""
        factors: list[Factor] = [
            Lifted(relations[lift.relation], lift.expressions)
            for lift in sorted(aggregate.lifts, key=attrgetter("relation"))
            if lift.relation in relations
        ]
        for other, index in messages.items():
            edge = (other, bag)
            part = aggregate.restricted_to(self.placement.sides[edge].relations)
            if not part.is_one:
                names = self.sent[edge] if edge in self.sent else self.stored[edge].columns
                factors.append(Stored(index, names[part]))
        return tuple(factors)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A question that has been planned, with its contractions made: to answer it is to run them.

    `reused` are the stored messages; `refreshing` tells what it took to bring some of them up to date.
    """

    projection: Projection
    plan: Plan
    sends: tuple[Call, ...]
    absorb: Call
    reused: tuple[Message, ...]
    refreshing: Mapping[MessageKey | None, Measured] = field(default_factory=dict)


def compile_plan(
    engine: Engine,
    schema: Schema,
    projection: Projection,
    plan: Plan,
    placement: Placement,
    stored: Mapping[Edge, Message],
) -> Compiled:
    """Make a plan's contractions."""
    wiring = Wiring(schema, placement, stored, plan)
    reused = tuple(stored[key.edge] for key in (*plan.reused, *plan.refreshed))
    sends, absorb = wiring.sends(), wiring.absorb()
    ways: dict[MessageKey | None, str] = {None: absorb.how(engine)}
    ways |= {send.key: call.how(engine) for call in sends for send in call.sends}
    return Compiled(projection, replace(plan, ways=ways), sends, absorb, reused)
