"""A question that has been planned, with its contractions made: to answer it is to run them.

It serves as long as the store holds the same messages. It holds messages itself, so whoever
remembers it must forget it when the store has changed: otherwise nothing that is evicted would go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calitree.calibration.compiler import Call, Wiring
from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Measured, Plan
from calitree.calibration.projection import Question
from calitree.engines.api.protocol import Engine
from calitree.jointree.hypertree import Edge
from calitree.jointree.schema import Schema


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is asked, what to send, and what to absorb at last. `reused` are the stored messages;
    `refreshing` tells what it took to bring some of them up to date.
    """

    question: Question
    plan: Plan
    sends: tuple[Call, ...]
    absorb: Call
    reused: tuple[Message, ...]
    refreshing: Mapping[MessageKey | None, Measured] = field(default_factory=dict)


def prepare(
    engine: Engine,
    schema: Schema,
    question: Question,
    plan: Plan,
    placement: Placement,
    stored: Mapping[Edge, Message],
) -> Prepared:
    """Make a plan's contractions."""
    wiring = Wiring(schema, placement, stored, plan)
    at_hand = (*plan.reused, *plan.refreshed)
    reused = tuple(stored[key.source, key.target] for key in at_hand)
    sends, absorb = wiring.sends(), wiring.absorb()
    ways: dict[MessageKey | None, str] = {None: absorb.how(engine)}
    ways |= {send.key: call.how(engine) for call in sends for send in call.sends}
    return Prepared(question, replace(plan, ways=ways), sends, absorb, reused)
