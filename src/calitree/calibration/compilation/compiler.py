"""From a plan to contractions.

A compiled plan is good as long as the store holds the same messages. It holds messages itself, so whoever
keeps it must drop it when the store has changed: otherwise evicted messages would stay in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from calitree.calibration.compilation.call import Call
from calitree.calibration.compilation.outer import OuterJoins
from calitree.calibration.compilation.wiring import Wiring
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.plan import Measured, Plan, Planned
from calitree.calibration.projection import Projection
from calitree.engines.api.contraction import Match, Output, Table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.python_contraction import add
from calitree.jointree.bag import Edge

MAX_KEPT_BYTES = 16_000
"""Of a part of an answer that is kept with its plan."""


class Unmatched:
    """What full joins keep without a partner. It is the same every time, so if it is small it is kept."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        self.nbytes = sum(call.nbytes for call in calls) + MAX_KEPT_BYTES
        self._table: Table | None = None

    def table(self, engine: Engine, messages: Mapping[Edge, Message]) -> Table:
        """The groups of these rows, of all joins; two threads may both compute them."""
        if self._table is not None:
            return self._table
        tables = [table for call in self.calls for table, _ in call.run(engine, messages)]
        total = added(engine, self.calls[0].outputs[0], tables)
        if total.nbytes <= MAX_KEPT_BYTES:
            self._table = total
        return total


def added(engine: Engine, output: Output, tables: Sequence[Table]) -> Table:
    """The sum of results of one output."""
    total = add(engine, output, tables, (), None)
    assert total is not None  # as nothing is subtracted
    return total


@dataclass(frozen=True, eq=False)
class Compiled:
    """A question that is planned and has its contractions: to answer it is to run them.

    `reused` are the stored messages; `refreshing` is what it took to bring some of them up to date.
    """

    projection: Projection
    plan: Plan
    sends: tuple[Call, ...]
    absorb: Call
    unmatched: Unmatched | None
    reused: tuple[Message, ...]
    refreshing: Mapping[MessageKey | None, Measured] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, without what it means and the messages that it reuses."""
        calls = sum(call.nbytes for call in (*self.sends, self.absorb))
        return 1_500 + calls + (0 if self.unmatched is None else self.unmatched.nbytes)

    @property
    def is_folded(self) -> bool:
        """Whether groups by expressions over several relations are what it absorbs."""
        return self.plan.absorb is not None and bool(self.plan.absorb.by_row)

    def explained(self, engine: Engine) -> Compiled:
        """The same, with the ways in which the engine would compute its contractions."""
        ways: dict[MessageKey | None, str] = {None: self.absorb.how(engine)}
        ways |= {send.key: call.how(engine) for call in self.sends for send in call.sends}
        return replace(self, plan=replace(self.plan, ways=ways))


def compile_plan(
    outer: OuterJoins,
    planned: Planned,
    stored: Mapping[Edge, Message],
    matches: Sequence[Match] = (),
) -> Compiled:
    """The contractions of a plan, given the messages that it reuses.

    `matches` tell what has a partner at the preserved sides of full joins.
    """
    plan = planned.plan
    assert plan.absorb is not None
    wiring = Wiring(outer.schema, planned.placement, stored, plan.steps, outer=outer)
    sends, absorb = tuple(map(wiring.send, plan.steps)), wiring.absorb(plan.absorb)
    calls = [*map(wiring.unmatched, plan.unmatched, matches)]
    unmatched = Unmatched(calls) if calls else None
    reused = tuple(stored[key.edge] for key in (*plan.reused, *plan.refreshed))
    return Compiled(
        planned.projection, plan, sends=sends, absorb=absorb, unmatched=unmatched, reused=reused
    )
