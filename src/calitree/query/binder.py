"""Binding a question: its columns, filters, measures and relations, resolved and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from calitree.cache import cached_property
from calitree.errors import QueryError, did_you_mean, shortened
from calitree.jointree.joins.as_of import with_matches
from calitree.jointree.joins.conditions import join_conditions
from calitree.jointree.remainder import connecting_relations, remaining_schema
from calitree.jointree.schema import Schema
from calitree.query.annotation import COUNT, Aggregate
from calitree.query.carried.fold import Fold
from calitree.query.custom.python_value import PythonValue
from calitree.query.grain import GrainMeasure
from calitree.query.groups import DerivedColumn, GroupBy, groups_of
from calitree.query.measure import Custom, Measure
from calitree.sql.limits import flaw_of_name
from calitree.sql.parser import Expression, parse_predicate

MeasureLike = str | GrainMeasure | Measure | Custom
Measures = Sequence[str] | Mapping[str, MeasureLike]
MAX_KEY_CHARACTERS = 1 << 16
"""Of a condition by which a question is recognised; a longer one would be kept for it."""
FOLD = "fold "
"""What the columns of folds are called, and a number."""
VALUE = "value of "
"""What the columns of values that Python returns are called, and the measure's name."""
Compile = Callable[[MeasureLike, tuple[str, ...]], Measure]
"""Compiles a measure, given the relations that are joined."""


class Question(NamedTuple):
    """A question about the wide table: the arguments of `WideTable.query`.

    Attributes:
        group_by: The columns and expressions to group by, or `{name: column or expression}`.
        where: An SQL condition that rows must satisfy; None for all rows.
        measures: Names of the tree's measures, or new ones as `{name: expression}`; None for all of
            the tree's.
        relations: The relations to join, by the joins declared between them; None for all.

    Example:
        >>> from calitree import Question
        >>> question = Question(group_by=["city"], where="price >= 10")
        >>> wide.query(*question).rows()
        [{'city': 'Quito', 'revenue': 30}]
    """

    group_by: GroupBy = ()
    where: str | None = None
    measures: Measures | None = None
    relations: Sequence[str] | None = None

    @property
    def key(self) -> object:
        """A hashable value that equal questions share; None if a part of this one has none."""
        measures = self.measures
        by_name = not isinstance(measures, Mapping)
        chosen = tuple(measures.items()) if isinstance(measures, Mapping) else measures
        group_by = self.group_by
        groups = tuple(group_by.items()) if isinstance(group_by, Mapping) else group_by
        parts = (groups, chosen, self.relations)
        if not all(part is None or isinstance(part, list | tuple) for part in parts):
            return None
        if isinstance(self.where, str) and len(self.where) > MAX_KEY_CHARACTERS:
            return None
        key = (by_name, self.where, *(None if part is None else tuple(part) for part in parts))
        try:
            hash(key)
        except TypeError:
            return None
        return key


@dataclass(frozen=True)
class Query:
    """SELECT group_by, measures FROM relations WHERE where GROUP BY group_by."""

    group_by: tuple[tuple[str, str], ...]
    """Each column as the result calls it, and its attribute."""
    where: tuple[Expression, ...]
    """Conditions that all must hold: those of joins, and `filters`."""
    filters: tuple[Expression, ...]
    """The conditions of the question itself."""
    measures: tuple[tuple[str, Measure], ...]
    relations: frozenset[str]
    """Those that are joined."""
    keep: tuple[str, ...]
    """The attributes grouped by, each once, and in place of those folded the ones they need."""
    aggregates: tuple[Aggregate, ...]
    """Those of all measures, each once."""
    required: tuple[str, ...] = ()
    """Those of an optional side of an outer join whose preserved side is not joined."""
    derived: tuple[DerivedColumn, ...] = ()
    """Columns that relations have for this query only."""
    folded: tuple[tuple[str, Expression], ...] = ()
    """Attributes grouped by in what is absorbed: expressions over some of those kept."""

    @cached_property
    def folds(self) -> dict[Fold, str]:
        """What measures need beside aggregates, each with the column that has it."""
        folds = dict.fromkeys(fold for _, measure in self.measures for fold in measure.folds)
        return {fold: f"{FOLD}{at}" for at, fold in enumerate(folds)}

    @cached_property
    def values(self) -> dict[str, PythonValue]:
        """By measure, how Python elements become the values of those that have some."""
        return {name: m.value for name, m in self.measures if m.value is not None}

    @cached_property
    def parts(self) -> tuple[Query, ...]:
        """The queries that it is answered by: each has the aggregates of one grain.

        All have the same groups, by which their answers are put together.
        """
        grains = dict.fromkeys(aggregate.grain for aggregate in self.aggregates)
        if len(grains) == 1:
            return (self,)
        return tuple(
            replace(self, aggregates=tuple(a for a in self.aggregates if a.grain == grain))
            for grain in grains
        )

    @property
    def grain(self) -> frozenset[str]:
        """The relations whose rows count once, if that is so in all its aggregates."""
        grains = {aggregate.grain for aggregate in self.aggregates}
        return grains.pop() if len(grains) == 1 else frozenset()

    def at_grain(self, grain: frozenset[str]) -> Query:
        """The same query at another grain."""
        return replace(self, aggregates=tuple(replace(a, grain=grain) for a in self.aggregates))

    @cached_property
    def calibrated(self) -> Query:
        """What a tree is calibrated for to answer it: counts of joined rows serve the other parts too."""
        wide = tuple(aggregate for aggregate in self.aggregates if not aggregate.grain)
        return (
            self
            if len(wide) == len(self.aggregates)
            else replace(self, aggregates=wide or (COUNT,))
        )


def bind(
    schema: Schema, known: Mapping[str, MeasureLike], compile: Compile, question: Question
) -> Query:
    """Resolve and check a question. `known` are the measures that may be asked for by name."""
    joined = _joined(schema, question.relations)
    whole, schema = schema, remaining_schema(schema, joined)
    groups = groups_of(schema, question.group_by, joined)
    filters: tuple[Expression, ...] = ()
    if question.where is not None:
        filters = parse_predicate(
            question.where, lambda table, name: schema.resolve(table, name, joined)
        )
    chosen = _chosen(known, question.measures)
    _check_names(chosen, [name for name, _ in groups.columns])
    measures = tuple((name, compile(given, joined)) for name, given in chosen.items())
    for name, measure in measures:
        missing = sorted(measure.relations - set(joined))
        if missing:
            raise QueryError(
                f"Measure {name!r} needs {missing[0]}, which is left out of this query."
            )
    return Query(
        group_by=groups.columns,
        where=tuple(dict.fromkeys((*join_conditions(schema, joined), *filters))),
        filters=filters,
        measures=measures,
        relations=frozenset(joined),
        keep=groups.keep,
        aggregates=_aggregates([measure for _, measure in measures], schema.nullable),
        required=tuple(
            name for name in joined if name in whole.optional and name not in schema.optional
        ),
        derived=groups.derived,
        folded=groups.folded,
    )


def check_list(name: str, value: object, items: str) -> None:
    """Refuse an argument that is no list: a text would be taken apart into letters."""
    if isinstance(value, str):
        raise QueryError(f"{name} is a list of {items}; write {name}=[{value!r}].")
    if not isinstance(value, Collection):
        raise QueryError(f"{name} is a list of {items}; got {type(value).__name__}.")


def _check_names(measures: Iterable[str], columns: Collection[str]) -> None:
    for name in measures:
        if not isinstance(name, str) or not name:
            raise QueryError(f"A measure needs a name, got {name!r}.")
        flaw = flaw_of_name(name)
        if flaw:
            raise QueryError(f"{shortened(name)} is no name for a measure: {flaw}.")
        if name in columns:
            raise QueryError(
                f"{name!r} names both a measure and a group-by column; rename the measure."
            )


def _aggregates(measures: Sequence[Measure], nullable: frozenset[str]) -> tuple[Aggregate, ...]:
    """Sums come with a count of rows, which is zero where deleted rows have left a group empty.

    Where a relation of a grain may be NULL, a group may have none of its rows, but has joined ones. Of
    folds alone the groups are known by their number of rows.
    """
    aggregates = dict.fromkeys(part for measure in measures for part in measure.aggregates)
    sums = [aggregate for aggregate in aggregates or [COUNT] if aggregate.semiring.minus]
    rows = [aggregate.rows for aggregate in sums]
    if any(not nullable.isdisjoint(aggregate.grain) for aggregate in aggregates):
        rows.append(COUNT)
    return tuple(dict.fromkeys((*aggregates, *rows)))


def _joined(schema: Schema, relations: Sequence[str] | None) -> tuple[str, ...]:
    """The relations to join, in the graph's order, checked to be connected."""
    if relations is None:
        return tuple(schema.relations)
    check_list("relations", relations, "names")
    wanted = {schema.relation(name).name for name in relations}
    if not wanted:
        raise QueryError("relations=[] leaves nothing to join; name at least one relation.")
    joined = with_matches(schema, wanted)
    parts = schema.components(joined)
    whole = [part for part in schema.components() if not wanted.isdisjoint(part)]
    if len(parts) > len(whole):  # a graph that had several parts was meant to be a cross product
        listed = "; ".join(", ".join(n for n in part if n not in schema.matches) for part in parts)
        between = connecting_relations(schema, joined)
        missing = ", ".join(name for name in between if name not in schema.matches)
        raise QueryError(
            f"No declared joins connect these relations without the ones left out: {listed}. "
            f"Add {missing or 'others'}, or declare a join between them with add_join."
        )
    return joined


def _chosen(known: Mapping[str, MeasureLike], measures: Measures | None) -> dict[str, MeasureLike]:
    if measures is None:
        return dict(known)
    if isinstance(measures, str) or not isinstance(measures, Collection):
        given = repr(measures) if isinstance(measures, str) else type(measures).__name__
        raise QueryError(f"measures is a list of names or {{name: expression}}; got {given}.")
    if len(measures) == 0:
        raise QueryError("Ask for at least one measure.")
    if isinstance(measures, Mapping):
        return dict(measures)
    for name in measures:
        if not isinstance(name, str) or name not in known:
            hint = did_you_mean(str(name), known)
            raise QueryError(
                f"There is no measure {name!r}.{hint} A new one is given as {{name: expression}}."
            )
    return {name: known[name] for name in measures}
