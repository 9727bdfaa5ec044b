"""The pivot's answer, adjusted by what has changed in one relation.

The answer is one more message: from the root to whoever asks. So it can be kept, and take a change like any
other: the rows that came and went are absorbed at their own bag with what arrives there, and the result is
added and subtracted. No message is sent, and no row is read that has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calitree.calibration.compilation.outer import OuterJoins
from calitree.calibration.compilation.wiring import Wiring
from calitree.calibration.message import Message
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb, Plan
from calitree.engines.api.contraction import Contraction, Table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.python_contraction import add, contract
from calitree.engines.api.signed import Linear, Signed, can_subtract
from calitree.jointree.bag import Edge


@dataclass(frozen=True, eq=False)
class Adjustment:
    """How changes of one relation change the answer, given the messages of the other relations."""

    plan: Plan
    contraction: Contraction
    at: int
    """Which of its inputs is the relation."""
    rows: str | None
    """The column that counts rows."""
    is_alone: bool
    """Whether no other input is a formal sum."""

    def __call__(self, engine: Engine, answer: Table, change: Signed) -> Table | None:
        """The answer after a change; None if it cannot be computed from the one before."""
        (output,) = self.contraction.outputs
        if change.minus and not can_subtract(output, self.rows):
            return None
        if self.is_alone:
            plus, minus = self._absorbed(engine, change.plus), self._absorbed(engine, change.minus)
        else:
            (sums,) = Linear(self.contraction.having(self.at, change), (self.rows,)).sums(engine)
            plus, minus = list(sums.plus), list(sums.minus)
        return add(engine, output, [answer, *plus], minus, self.rows)

    def _absorbed(self, engine: Engine, parts: Sequence[Table]) -> list[Table]:
        return [contract(engine, self.contraction.having(self.at, part))[0] for part in parts]


def adjustment(
    outer: OuterJoins, placement: Placement, stored: Mapping[Edge, Message], relation: str
) -> Adjustment | None:
    """For changes of this relation, if all messages that arrive at its bag are stored.

    A change of the optional side of an outer join also changes which rows have a partner; there is none.
    """
    tree, query = placement.tree, placement.query
    if relation in outer.schema.optional:
        return None
    bag = tree.home(relation)
    arriving = [(n, bag) for n in tree.neighbours(bag) if (n, bag) in placement.edges]
    if not all(edge in stored for edge in arriving):
        return None
    absorb = Absorb(bag, query.keep, placement.where(bag, None), query.aggregates)
    reused = tuple(placement.keys[edge] for edge in arriving)
    plan = Plan(bag, (), reused, absorb, placement.placed(bag, placement), adjusts=relation)
    call = Wiring(outer.schema, placement, stored, outer=outer).absorb(absorb)
    relations = [r for r in tree.bag(bag).relations if r in query.relations]
    contraction, at = call.linear({}).contraction, relations.index(relation)
    others = (other.table for i, other in enumerate(contraction.inputs) if i != at)
    alone = not any(isinstance(table, Signed) for table in others)
    return Adjustment(plan, contraction, at, call.rows[0], alone)
