"""The answers to the parts of a question, put together.

Measures of different grains take different queries (`Query.parts`), each planned and answered by itself. All
have the same groups, so that their answers are one table with the columns of all: the ⊕-sum of tables of which
each has a zero in what the others have computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from calitree.calibration.message import MessageKey, column_names
from calitree.calibration.planning.plan import Measured, Plan
from calitree.engines.api.contraction import Column, Contraction, Input, Output, Stored, Table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.python_contraction import add, contract
from calitree.query.binder import Query

Value = TypeVar("Value")


def together(engine: Engine, query: Query, tables: Sequence[Table]) -> Table:
    """The answer to a question, given those to each of its parts, whose groups are folded already."""
    names = column_names(query.aggregates)
    keep = tuple(dict.fromkeys(attribute for _, attribute in query.group_by))
    renamed: list[Table] = []
    for part, table in zip(query.parts, tables, strict=True):
        columns = tuple(
            Column(names[aggregate], aggregate.semiring, (Stored(0, name),))
            for aggregate, name in column_names(part.aggregates).items()
        )
        given = Input(table, {attribute: attribute for attribute in keep})
        renamed += contract(engine, Contraction((given,), (Output((0,), (), keep, columns),)))
    columns = tuple(Column(name, a.semiring, ()) for a, name in names.items())
    total = add(engine, Output((), (), keep, columns), renamed, (), None)
    assert total is not None  # as nothing is subtracted
    return total


def plan_of_parts(parts: Sequence[Plan]) -> Plan:
    """The plan of a question that is answered in several parts, one after the other."""
    steps = tuple(step for part in parts for step in part.steps)
    computed = {send.key for step in steps for send in step.sends}
    reused = _all(part.reused for part in parts)
    return replace(
        parts[0],
        steps=steps,
        reused=tuple(key for key in reused if key not in computed),
        placed=_all(part.placed for part in parts),
        refreshed=_all(part.refreshed for part in parts),
        unmatched=_all(part.unmatched for part in parts),
        measured=_measured(parts),
        parts=tuple(parts),
    )


def _all(values: Iterable[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(values)))


def _measured(parts: Sequence[Plan]) -> dict[MessageKey | None, Measured]:
    """What the contractions of all took; the absorptions together."""
    measured = {key: took for part in parts for key, took in part.measured.items()}
    absorbed = [part.measured[None] for part in parts if None in part.measured]
    if absorbed:
        measured[None] = replace(absorbed[0], seconds=sum(took.seconds for took in absorbed))
    return measured
