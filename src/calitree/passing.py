"""Passing messages: a plan's steps become contractions for the engine.

A `Run` is one execution of one plan. It finds each message among those it has just computed or in
the store, hands the engine everything that one bag must send at one time, and remembers rows and
times.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from calitree.annotation import Aggregate
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
from calitree.hypertree import Edge
from calitree.message import Message, MessageKey
from calitree.placement import Placement
from calitree.plan import Absorb, Measured, Send, Step
from calitree.schema import Schema


class Run:
    """One plan being executed.

    `stored` are the messages that it may reuse, `found` are its new ones, and `measured` tells what
    those turned out to be.
    """

    def __init__(
        self,
        schema: Schema,
        engine: Engine,
        placement: Placement,
        stored: Mapping[Edge, Message],
    ) -> None:
        self.schema = schema
        self.engine = engine
        self.placement = placement
        self.tree = placement.tree
        self.stored = stored
        self.found: dict[Edge, Message] = {}
        self.measured: dict[MessageKey | None, Measured] = {}

    def send(self, step: Step) -> None:
        """Compute all messages of one step in one contraction."""
        tables, seconds = self._contract(step.bag, {s.key.target: s for s in step.sends})
        for send, table in zip(step.sends, tables, strict=True):
            edge = (send.key.source, send.key.target)
            self.found[edge] = Message(send.key, table, _names(send.aggregates))
            self.measured[send.key] = Measured(table.rows, seconds)

    def absorb(self, absorb: Absorb) -> tuple[Table, dict[Aggregate, str]]:
        """Join all that arrives at the root, and sum by what is asked."""
        (table,), seconds = self._contract(absorb.bag, {None: absorb})
        self.measured[None] = Measured(table.rows, seconds)
        return table, _names(absorb.aggregates)

    def _contract(
        self, bag: str, wanted: Mapping[str | None, Send | Absorb]
    ) -> tuple[Sequence[Table], float]:
        """One contraction: the bag's relations and the messages that some target needs."""
        started = time.perf_counter()
        relations = [r for r in self.tree.bag(bag).relations if r in self.placement.query.relations]
        arriving = {
            other: self.found.get((other, bag)) or self.stored[other, bag]
            for other in self.tree.neighbours(bag)
            if set(wanted) != {other} and (other, bag) in self.placement.edges
        }
        inputs = [
            Input(self.schema.relations[r].table, self.schema.columns_of[r]) for r in relations
        ]
        for other, message in arriving.items():
            keep = self.placement.keep(other, bag)
            inputs.append(Input(message.table, {attribute: attribute for attribute in keep}))
        place = {r: i for i, r in enumerate(relations)}
        outputs = []
        for target, want in wanted.items():
            used = {m: i for i, m in enumerate(arriving, len(relations)) if m != target}
            columns = tuple(
                Column(
                    name, aggregate.semiring, self._factors(aggregate, bag, place, used, arriving)
                )
                for aggregate, name in _names(want.aggregates).items()
            )
            joined = (*place.values(), *used.values())
            outputs.append(Output(joined, want.where, want.keep, columns))
        tables = self.engine.contract(Contraction(tuple(inputs), tuple(outputs)))
        return tables, time.perf_counter() - started

    def _factors(
        self,
        aggregate: Aggregate,
        bag: str,
        relations: Mapping[str, int],
        messages: Mapping[str, int],
        arriving: Mapping[str, Message],
    ) -> tuple[Factor, ...]:
        """What is multiplied: the lifts of the bag's relations, and what the messages carry."""
        factors: list[Factor] = [
            Lifted(relations[lift.relation], lift.expressions)
            for lift in sorted(aggregate.lifts, key=str)
            if lift.relation in relations
        ]
        for other, index in messages.items():
            part = aggregate.behind(self.placement.relations_behind(other, bag))
            if not part.is_one:
                factors.append(Stored(index, arriving[other].columns[part]))
        return tuple(factors)


def _names(aggregates: Sequence[Aggregate]) -> dict[Aggregate, str]:
    """The column that each aggregate gets in a contraction's result."""
    return {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates)}
