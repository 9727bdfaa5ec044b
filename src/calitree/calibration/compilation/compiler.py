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
from calitree.engines.api.contraction import Match, Table
from calitree.engines.api.protocol import Engine
from calitree.jointree.bag import Edge

MAX_KEPT_BYTES = 16_000
"""Of a part of an answer that is kept with its plan."""


class Unmatched:
    """What a full join keeps without a partner. It is the same every time, so if it is small it is kept."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.nbytes = call.nbytes + MAX_KEPT_BYTES
        self._table: Table | None = None

    def table(self, engine: Engine, messages: Mapping[Edge, Message]) -> Table:
        """The groups of these rows; two threads may both compute them."""
        if self._table is not None:
            return self._table
        ((table, _),) = self.call.run(engine, messages)
        if table.nbytes <= MAX_KEPT_BYTES:
            self._table = table
        return table


@dataclass(frozen=True, eq=False)
class Compiled:
    """A question that is planned and has its contractions: to answer it is to run them.

    `reused` are the stored messages; `refreshing` is what it took to bring some of them up to date.
    """

    projection: Projection
    plan: Plan
    sends: tuple[Call, ...]
    absorb: Call
    unmatched: tuple[Unmatched, ...]
    reused: tuple[Message, ...]
    refreshing: Mapping[MessageKey | None, Measured] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, without what it means and the messages that it reuses."""
        calls = sum(call.nbytes for call in (*self.sends, self.absorb))
        return 1_500 + calls + sum(unmatched.nbytes for unmatched in self.unmatched)

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
    calls = map(wiring.unmatched, plan.unmatched, matches)
    unmatched = tuple(map(Unmatched, calls))
    reused = tuple(stored[key.edge] for key in (*plan.reused, *plan.refreshed))
    return Compiled(
        planned.projection, plan, sends=sends, absorb=absorb, unmatched=unmatched, reused=reused
    )
