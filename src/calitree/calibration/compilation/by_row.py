"""Absorbing at a grain where what arrives would repeat rows of the relation that counts once.

A condition over several relations, or another relation in the same bag, meets a row more than once for one
group. Then the relation is summed up first, by those of its attributes that matter, and joined; of the joined
rows those that differ in these attributes or in the group are kept, once each; and these are summed up by
group. A sum stays what it is while it is joined, so of rows that repeat it the largest is it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from calitree.calibration.compilation.call import Call
from calitree.calibration.message import Message
from calitree.calibration.planning.plan import Measured
from calitree.engines.api.contraction import Column, Contraction, Input, Output, Stored, Table
from calitree.engines.api.protocol import Engine, Watch
from calitree.engines.api.semiring import MAX
from calitree.engines.api.signed import Linear
from calitree.jointree.bag import Edge
from calitree.query.binder import Query


class CallByRow(Call):
    """An absorption in which each row of the input `at` counts once in each group."""

    def __init__(self, call: Call, at: int, query: Query) -> None:
        super().__init__(call.sends, call.inputs, call.outputs, call.rows)
        self.at, self.query = at, query
        (self.output,) = call.outputs
        own = call.inputs[at]
        assert isinstance(own, Input)
        self.own = own
        used = set[str]()
        for other in (given for i, given in enumerate(call.inputs) if i != at):
            used.update(other.attributes, other.derived if isinstance(other, Input) else ())
        used.update(self.output.keep, *(predicate.attributes for predicate in self.output.where))
        self.attributes = tuple(a for a in (*own.attributes, *own.derived) if a in used)

    def run(
        self, engine: Engine, messages: Mapping[Edge, Message], watch: Watch | None = None
    ) -> list[tuple[Table, Measured]]:
        """The groups, folded already where they are expressions over several relations."""
        started = time.perf_counter()
        contraction = self.linear(messages).contraction
        inputs = list(contraction.inputs)
        inputs[self.at] = _result(self._summed(engine), self.attributes)
        keep = tuple(dict.fromkeys((*self.output.keep, *self.attributes)))
        output = replace(self.output, keep=keep, columns=self._largest(self.at))
        (rows,) = Linear(Contraction(tuple(inputs), (output,)), (None,)).tables(engine, watch)
        groups = self.output.keep
        if self.query.folded:
            groups = tuple(dict.fromkeys(attribute for _, attribute in self.query.group_by))
            folded = replace(_result(rows, keep), derived=dict(self.query.folded))
            keep = tuple(dict.fromkeys((*groups, *self.attributes)))
            (rows,) = engine.contract(
                Contraction((folded,), (Output((0,), (), keep, self._largest(0)),))
            )
        columns = tuple(replace(c, factors=(Stored(0, c.name),)) for c in self.output.columns)
        total = Contraction((_result(rows, keep),), (Output((0,), (), groups, columns),))
        (table,) = engine.contract(total)
        return [(table, Measured(table.rows, time.perf_counter() - started, self.how(engine)))]

    def _summed(self, engine: Engine) -> Table:
        """The relation, summed up by the attributes that matter."""
        columns = tuple(
            replace(column, factors=tuple(replace(factor, input=0) for factor in column.factors))
            for column in self.output.columns
        )
        output = Output((0,), (), self.attributes, columns)
        (table,) = Linear(Contraction((self.own,), (output,)), self.rows).tables(engine)
        return table

    def _largest(self, at: int) -> tuple[Column, ...]:
        """The components of all columns, of an input that has them."""
        parts = (part for column in self.output.columns for part in column.parts)
        return tuple(Column(part, MAX, (Stored(at, part),)) for part in parts)


def _result(table: Table, attributes: tuple[str, ...]) -> Input:
    return Input(table, {attribute: attribute for attribute in attributes})
