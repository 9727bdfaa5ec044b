"""A `Call` is one step of a plan as a contraction, ready for the engine."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import cast

from calitree.calibration.message import Message, column_names
from calitree.calibration.planning.plan import Measured, Send
from calitree.engines.api.contraction import Contraction, Input, Match, Output, Table
from calitree.engines.api.protocol import Engine, Watch
from calitree.engines.api.signed import Linear
from calitree.jointree.bag import Edge


@dataclass(frozen=True)
class Awaited:
    """Stands for an input: a message that the same run computes before."""

    edge: Edge
    attributes: Mapping[str, str]
    match: Match | None = None


class Call:
    """One contraction of a plan: the messages that it sends, its inputs and outputs.

    If it awaits no message it is the same contraction every time, so that an engine can keep with it what it
    has prepared for it. `rows` are the outputs' columns that count rows. At the optional side of an outer
    join, `default` is what its default row adds.
    """

    def __init__(
        self,
        sends: tuple[Send, ...],
        inputs: tuple[Input | Awaited, ...],
        outputs: tuple[Output, ...],
        rows: tuple[str | None, ...],
        *,
        default: Call | None = None,
    ) -> None:
        self.sends, self.inputs, self.outputs, self.rows = sends, inputs, outputs, rows
        self.default = default
        ready = tuple(given for given in inputs if isinstance(given, Input))
        self._ready = self._linear(ready, {}) if len(ready) == len(inputs) else None

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes, without its inputs' rows."""
        columns = sum(len(output.columns) for output in self.outputs)
        return 1_000 + 300 * len(self.inputs) + 500 * columns + 2_000 * len(self.sends)

    def linear(self, messages: Mapping[Edge, Message]) -> Linear:
        """Its contraction, given the messages that the run has computed so far."""
        return self._ready or self._linear(
            (
                given
                if isinstance(given, Input)
                else Input(messages[given.edge].table, given.attributes, match=given.match)
                for given in self.inputs
            ),
            messages,
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
        inputs = cast(Iterable[Input], known)
        linear = self._ready or Linear(Contraction(tuple(inputs), self.outputs), self.rows)
        return linear.how(engine)

    def _linear(self, inputs: Iterable[Input], messages: Mapping[Edge, Message]) -> Linear:
        default = None if self.default is None else self.default.linear(messages)
        return Linear(Contraction(tuple(inputs), self.outputs), self.rows, default)


def merged_call(calls: Sequence[Call]) -> Call:
    """Calls of one bag as one call that has each input once."""
    inputs: dict[object, tuple[int, Input | Awaited]] = {}
    outputs: list[Output] = []
    for call in calls:
        place = []
        for given in call.inputs:
            what = id(given.table) if isinstance(given, Input) else given.edge
            key = (what, given.match and given.match.key, *given.attributes.items())
            at, known = inputs.setdefault(key, (len(inputs), given))
            if isinstance(known, Input) and isinstance(given, Input):
                inputs[key] = at, replace(known, derived={**known.derived, **given.derived})
            place.append(at)
        outputs += [moved(output, place) for output in call.outputs]
    sends = tuple(send for call in calls for send in call.sends)
    rows = tuple(name for call in calls for name in call.rows)
    defaults = [call.default for call in calls if call.default is not None]
    return Call(
        sends,
        tuple(given for _, given in inputs.values()),
        tuple(outputs),
        rows,
        default=merged_call(defaults) if defaults else None,
    )


def moved(output: Output, place: Sequence[int]) -> Output:
    """The same output when its inputs stand in other places."""
    columns = tuple(
        replace(column, factors=tuple(replace(f, input=place[f.input]) for f in column.factors))
        for column in output.columns
    )
    return replace(output, inputs=tuple(place[i] for i in output.inputs), columns=columns)
