"""From a plan to contractions: a `Call` is one step of it, ready for the engine.

A compiled plan is good as long as the store holds the same messages. It holds messages itself, so whoever
keeps it must drop it when the store has changed: otherwise evicted messages would stay in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from operator import attrgetter
from typing import cast

from calitree.calibration.message import Message, MessageKey, column_names
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Measured, Plan, Planned, Send, Step
from calitree.calibration.projection import Projection
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Factor,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
    Weight,
)
from calitree.engines.api.protocol import Engine, Watch
from calitree.engines.api.signed import Linear
from calitree.jointree.bag import Edge
from calitree.jointree.schema import Schema
from calitree.query.annotation import COUNT, Aggregate


@dataclass(frozen=True)
class Awaited:
    """Stands for an input: a message that the same run computes before."""

    edge: Edge
    attributes: Mapping[str, str]


class Call:
    """One contraction of a plan: the messages that it sends, its inputs and outputs.

    If it awaits no message it is the same contraction every time, so that an engine can keep with it what it
    has prepared for it. `rows` are the outputs' columns that count rows.
    """

    def __init__(
        self,
        sends: tuple[Send, ...],
        inputs: tuple[Input | Awaited, ...],
        outputs: tuple[Output, ...],
        rows: tuple[str | None, ...],
    ) -> None:
        self.sends, self.inputs, self.outputs, self.rows = sends, inputs, outputs, rows
        ready = tuple(given for given in inputs if isinstance(given, Input))
        self._ready = self._linear(ready) if len(ready) == len(inputs) else None

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, without its inputs' rows."""
        columns = sum(len(output.columns) for output in self.outputs)
        return 1_000 + 300 * len(self.inputs) + 500 * columns + 2_000 * len(self.sends)

    def linear(self, messages: Mapping[Edge, Message]) -> Linear:
        """Its contraction, given the messages that the run has computed so far."""
        return self._ready or self._linear(
            given
            if isinstance(given, Input)
            else Input(messages[given.edge].table, given.attributes)
            for given in self.inputs
        )

    def run(
        self, engine: Engine, messages: Mapping[Edge, Message], watch: Watch | None = None
    ) -> list[tuple[Table, Measured]]:
        """Its results, which share the seconds that the contraction took."""
        started = time.perf_counter()
        linear = self.linear(messages)
        tables = linear.tables(engine, watch)
        seconds, how = time.perf_counter() - started, linear.how(engine)
        return [(table, Measured(table.rows, seconds, how)) for table in tables]

    def send(
        self, engine: Engine, messages: Mapping[Edge, Message], watch: Watch | None = None
    ) -> list[tuple[Message, Measured]]:
        """The messages of one step, computed in one contraction."""
        results = zip(self.sends, self.run(engine, messages, watch), strict=True)
        return [
            (Message(send.key, table, column_names(send.aggregates)), measured)
            for send, (table, measured) in results
        ]

    def how(self, engine: Engine) -> str:
        """In which way the engine would compute it, as far as that is known yet."""
        known = takewhile(lambda given: isinstance(given, Input), self.inputs)
        linear = self._ready or self._linear(cast(Iterable[Input], known))
        return linear.how(engine)

    def _linear(self, inputs: Iterable[Input]) -> Linear:
        return Linear(Contraction(tuple(inputs), self.outputs), self.rows)


def merged_call(calls: Sequence[Call]) -> Call:
    """Calls of one bag as one call that has each input once."""
    inputs: dict[object, tuple[int, Input | Awaited]] = {}
    outputs: list[Output] = []
    for call in calls:
        place = []
        for given in call.inputs:
            what = id(given.table) if isinstance(given, Input) else given.edge
            key = (what, *given.attributes.items())
            at, known = inputs.setdefault(key, (len(inputs), given))
            if isinstance(known, Input) and isinstance(given, Input):
                inputs[key] = at, replace(known, derived={**known.derived, **given.derived})
            place.append(at)
        outputs += [_moved(output, place) for output in call.outputs]
    sends = tuple(send for call in calls for send in call.sends)
    rows = tuple(name for call in calls for name in call.rows)
    return Call(sends, tuple(given for _, given in inputs.values()), tuple(outputs), rows)


def _moved(output: Output, place: Sequence[int]) -> Output:
    """The same output when its inputs stand in other places."""
    columns = tuple(
        replace(column, factors=tuple(replace(f, input=place[f.input]) for f in column.factors))
        for column in output.columns
    )
    return replace(output, inputs=tuple(place[i] for i in output.inputs), columns=columns)


class Wiring:
    """Compiles calls: what arrives at each bag is in the store, or sent by one of the `steps`."""

    def __init__(
        self,
        schema: Schema,
        placement: Placement,
        stored: Mapping[Edge, Message],
        steps: Sequence[Step] = (),
    ) -> None:
        self.schema, self.placement, self.tree = schema, placement, placement.tree
        self.stored = stored
        sends = [send for step in steps for send in step.sends]
        self.sent = {send.key.edge: column_names(send.aggregates) for send in sends}

    def send(self, step: Step) -> Call:
        """All messages of a step."""
        return self._call(step.bag, {send.key.target: send for send in step.sends}, step.sends)

    def absorb(self, absorb: Absorb) -> Call:
        """The absorption at a root."""
        return self._call(absorb.bag, {None: absorb}, ())

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
        inputs: list[Input | Awaited] = [
            self.schema.input_of(r, self._derived(r, relations, needed)) for r in relations
        ]
        inputs += arrivals
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
            rows.append(names.get(COUNT))
        return Call(sends, tuple(inputs), tuple(outputs), tuple(rows))

    def _derived(
        self, relation: str, joined: Sequence[str], needed: Iterable[Iterable[str]]
    ) -> list[str]:
        """The derived attributes of a relation that are kept or joined on; others are inlined."""
        columns = self.schema.columns_of
        others = (columns[other] for other in joined if other != relation)
        wanted = {attribute for names in (*needed, *others) for attribute in names}
        return [a for a in self.schema.derived_of[relation] if a in wanted]

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
        """What is multiplied: the lifts of the bag's relations, and columns of the messages."""
        factors: list[Factor] = [
            Lifted(
                relations[lift.relation],
                tuple(self.schema.inlined(e, (lift.relation,)) for e in lift.expressions),
            )
            for lift in sorted(aggregate.lifts, key=attrgetter("relation"))
            if lift.relation in relations
        ]
        for other, index in messages.items():
            edge = (other, bag)
            part = aggregate.restricted_to(self.placement.subtrees[edge].relations)
            if not part.is_one:
                names = self.sent[edge] if edge in self.sent else self.stored[edge].columns
                is_weight = part.semiring != aggregate.semiring
                factors.append((Weight if is_weight else Stored)(index, names[part]))
        return tuple(factors)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A question that is planned and has its contractions: to answer it is to run them.

    `reused` are the stored messages; `refreshing` is what it took to bring some of them up to date.
    """

    projection: Projection
    plan: Plan
    sends: tuple[Call, ...]
    absorb: Call
    reused: tuple[Message, ...]
    refreshing: Mapping[MessageKey | None, Measured] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, without what it means and the messages that it reuses."""
        return 1_500 + sum(call.nbytes for call in (*self.sends, self.absorb))

    def explained(self, engine: Engine) -> Compiled:
        """The same, with the ways in which the engine would compute its contractions."""
        ways: dict[MessageKey | None, str] = {None: self.absorb.how(engine)}
        ways |= {send.key: call.how(engine) for call in self.sends for send in call.sends}
        return replace(self, plan=replace(self.plan, ways=ways))


def compile_plan(schema: Schema, planned: Planned, stored: Mapping[Edge, Message]) -> Compiled:
    """The contractions of a plan, given the messages that it reuses."""
    plan = planned.plan
    assert plan.absorb is not None
    wiring = Wiring(schema, planned.placement, stored, plan.steps)
    sends, absorb = tuple(map(wiring.send, plan.steps)), wiring.absorb(plan.absorb)
    reused = tuple(stored[key.edge] for key in (*plan.reused, *plan.refreshed))
    return Compiled(planned.projection, plan, sends, absorb, reused)
