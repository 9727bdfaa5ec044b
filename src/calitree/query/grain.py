"""Measures at a grain: each row of some relations counts once, however often the join repeats it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from calitree.errors import ExpressionError, QueryError
from calitree.jointree.schema import Schema
from calitree.sql.nodes import column, marked
from calitree.types import Kind

DefaultGrain = Literal["owner"] | None
"""How often rows count in measures that do not say it."""

Grain = tuple[str, ...] | DefaultGrain
"""The relations whose rows count once; "owner" for those that have the columns of each aggregate; None if each
joined row counts."""


@dataclass(frozen=True)
class GrainMeasure:
    """A measure in SQL that counts each row of some relations once, as `measure` returns it.

    Attributes:
        text: The measure in SQL.
        grain: The relations whose rows count once, `"owner"` for those that own the columns of each
            aggregate, or None if each joined row counts.

    Example:
        >>> from calitree import measure
        >>> measure("count(*)", grain="stores").grain
        ('stores',)
    """

    text: str
    grain: Grain

    def __str__(self) -> str:
        grain = self.grain if isinstance(self.grain, str) else " and ".join(self.grain or ())
        return f"{self.text} at grain {grain}" if grain else self.text


def measure(text: str, grain: str | Sequence[str] | None = None) -> GrainMeasure:
    """A measure that counts each row of a relation once in each group, however often the join repeats it.

    A row counts if the join has it at all: if it has partners, or an outer join keeps it without one.

    Args:
        text: The measure in SQL. Its aggregates are over columns of the grain's relations.
        grain: The relation whose rows count once; several, if their joined rows do; `"owner"` for the
            relations that have the columns of each aggregate. None if each joined row counts.

    Returns:
        The measure, for `JoinGraph.calibrate` or `WideTable.query`.

    Raises:
        ExpressionError: If an argument is of another type.

    Example:
        >>> from calitree import measure
        >>> wide.query(measures={"wide": "count(*)", "stores": measure("count(*)", grain="stores")}).rows()
        [{'wide': 3, 'stores': 2}]
    """
    if not isinstance(text, str):
        raise ExpressionError(f"measure needs SQL text; got {type(text).__name__}.")
    if grain is None:
        return GrainMeasure(text, None)
    if grain == "owner":
        return GrainMeasure(text, "owner")
    relations = (grain,) if isinstance(grain, str) else grain
    if not isinstance(relations, list | tuple) or not all(isinstance(r, str) for r in relations):
        raise ExpressionError(f"grain is a relation, a list of them, or 'owner'; got {grain!r}.")
    if not relations:
        raise ExpressionError(
            "grain=[] names no relation; leave it out for each joined row to count."
        )
    return GrainMeasure(text, tuple(relations))


def default_grain(given: object) -> DefaultGrain:
    """The grain of a graph's measures that do not say it, checked."""
    if given is None:
        return None
    if given != "owner":
        raise QueryError(
            f"The grain of a graph is 'owner' or None; got {given!r}. Give a measure one of its own: "
            "calitree.measure(text, grain=...)."
        )
    return "owner"


def owning_relations(arguments: Sequence[exp.Expr]) -> frozenset[str]:
    """The relations that own the columns of an aggregate's arguments.

    A column that joins relations is of the one that owns another column too, or else as it is written.
    """
    columns = [column for argument in arguments for column in argument.find_all(exp.Column)]
    owners = [tuple(column.meta["owners"]) for column in columns]
    relations = {names[0] for names in owners if len(names) == 1}
    for names in owners:
        if relations.isdisjoint(names):
            relations.add(names[0])
    return frozenset(relations)


def is_null_without(grain: frozenset[str], arguments: Sequence[exp.Expr], schema: Schema) -> bool:
    """Whether arguments of an aggregate are NULL in each joined row that has no row of the grain.

    So they are where each joined row has one, and so are plain columns of the grain. If it does not matter
    how often there is a value, the aggregate is then the same over all joined rows.
    """
    if schema.nullable.isdisjoint(grain):
        return True
    plain = all(isinstance(argument, exp.Column) for argument in arguments)
    return len(grain) == 1 and plain and owning_relations(arguments) == grain


def once_column(grain: frozenset[str]) -> str:
    """In plain SQL, the column that is true in one of the rows of a group that repeat a row of the grain."""
    return f"{', '.join(sorted(grain))} once"


def counted_once(grain: frozenset[str]) -> list[exp.Expr]:
    """The filter of an aggregate in plain SQL, if it has a grain."""
    return [marked(column(once_column(grain)), Kind.BOOLEAN)] if grain else []
