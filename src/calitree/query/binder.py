"""What is asked: group-bys, filters, measures and the relations joined, resolved and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from calitree.errors import QueryError, did_you_mean
from calitree.jointree.schema import Schema
from calitree.query.aggregates import Custom, Measure
from calitree.query.annotation import COUNT, Aggregate
from calitree.sql.parser import Expression, parse_predicate

MeasureLike = str | Measure | Custom
Measures = Sequence[str] | Mapping[str, MeasureLike]
Compile = Callable[[MeasureLike, tuple[str, ...]], Measure]
"""Given a measure and the relations that are joined, what to compute for it."""


class Question(NamedTuple):
    """A question as it was put."""

    group_by: Sequence[str] = ()
    where: str | None = None
    measures: Measures | None = None
    relations: Sequence[str] | None = None

    @property
    def key(self) -> object:
        """What two questions put in the same words share; None if it cannot be had."""
        measures = self.measures
        by_name = not isinstance(measures, Mapping)
        chosen = tuple(measures.items()) if isinstance(measures, Mapping) else measures
        parts = (self.group_by, chosen, self.relations)
        if not all(part is None or isinstance(part, list | tuple) for part in parts):
            return None
        key = (by_name, self.where, *(None if part is None else tuple(part) for part in parts))
        try:
            hash(key)
        except TypeError:
            return None
        return key


@dataclass(frozen=True)
class Query:
    """SELECT group_by, measures FROM relations WHERE where GROUP BY group_by.

    `group_by` pairs each column as written with its attribute; `where` is a conjunction;
    `relations` are those that are joined. `keep` are the attributes grouped by, and `aggregates` those
    of all measures, each once.
    """

    group_by: tuple[tuple[str, str], ...]
    where: tuple[Expression, ...]
    measures: tuple[tuple[str, Measure], ...]
    relations: frozenset[str]
    keep: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]


def bind(
    schema: Schema, known: Mapping[str, MeasureLike], compile: Compile, asked: Question
) -> Query:
    """What a question asked in text means. `known` are the measures that may be asked by name."""
    group_by, where, measures, relations = asked
    joined = _joined(schema, relations)
    if isinstance(group_by, str):
        raise QueryError(f"group_by is a list of columns; write group_by=[{group_by!r}].")
    if not isinstance(group_by, Collection):
        raise QueryError(f"group_by is a list of columns; got {type(group_by).__name__}.")
    pairs = tuple((text, schema.column(text, joined).attribute) for text in group_by)
    written = [text for text, _ in pairs]
    for text in written:
        if written.count(text) > 1:
            raise QueryError(f"{text!r} is grouped by twice.")
    filters: tuple[Expression, ...] = ()
    if where is not None:
        filters = parse_predicate(where, lambda table, name: schema.resolve(table, name, joined))
    chosen = _chosen(known, measures)
    for name in chosen:
        if not isinstance(name, str) or not name:
            raise QueryError(f"A measure needs a name, got {name!r}.")
        if name in written:
            raise QueryError(
                f"{name!r} names both a measure and a group-by column; rename the measure."
            )
    compiled = tuple((name, compile(given, joined)) for name, given in chosen.items())
    for name, measure in compiled:
        missing = sorted(measure.relations - set(joined))
        if missing:
            raise QueryError(
                f"Measure {name!r} needs {missing[0]}, which is left out of this query."
            )
    keep = tuple(dict.fromkeys(attribute for _, attribute in pairs))
    aggregates = _aggregates(measure for _, measure in compiled)
    return Query(pairs, filters, compiled, frozenset(joined), keep, aggregates)


def _aggregates(measures: Iterable[Measure]) -> tuple[Aggregate, ...]:
    """Sums come with a count of rows, which tells when rows that go have left a group empty."""
    found = dict.fromkeys(each for measure in measures for each in measure.aggregates)
    if any(aggregate.semiring.minus for aggregate in found):
        found.setdefault(COUNT)
    return tuple(found)


def _joined(schema: Schema, relations: Sequence[str] | None) -> tuple[str, ...]:
    """The relations to join, in the graph's order, checked to hang together."""
    if relations is None:
        return tuple(schema.relations)
    if isinstance(relations, str):
        raise QueryError(f"relations is a list of names; write relations=[{relations!r}].")
    if not isinstance(relations, Collection):
        raise QueryError(f"relations is a list of names; got {type(relations).__name__}.")
    wanted = {schema.relation(name).name for name in relations}
    if not wanted:
        raise QueryError("relations=[] leaves nothing to join; name at least one relation.")
    joined = tuple(name for name in schema.relations if name in wanted)
    parts = schema.components(joined)
    if len(parts) > 1:
        listed = "; ".join(", ".join(part) for part in parts)
        raise QueryError(
            f"These relations do not hang together without the ones left out: {listed}. "
            "Keep the relations that connect them."
        )
    return joined


def _chosen(known: Mapping[str, MeasureLike], measures: Measures | None) -> dict[str, MeasureLike]:
    if measures is None:
        return dict(known)
    if isinstance(measures, str) or not isinstance(measures, Collection):
        given = repr(measures) if isinstance(measures, str) else type(measures).__name__
        raise QueryError(f"measures is a list of names or {{name: expression}}; got {given}.")
    if isinstance(measures, Mapping):
        chosen = dict(measures)
    else:
        chosen = {}
        for name in measures:
            if not isinstance(name, str) or name not in known:
                hint = did_you_mean(str(name), known)
                raise QueryError(
                    f"There is no measure {name!r}.{hint} A new one is given as {{name: expression}}."
                )
            chosen[name] = known[name]
    if not chosen:
        raise QueryError("Ask for at least one measure.")
    return chosen
