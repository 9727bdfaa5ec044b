"""A column that takes part in a model: as a number around a centre, or as levels.

The measures are made here rather than parsed: sums of products of the same few columns are asked for
again and again, and a text of each would cost more than its answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, reduce
from typing import Any

from sqlglot import exp

from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.errors import QueryError
from calitree.jointree.schema import Schema
from calitree.query.annotation import COUNT, Aggregate, Lift
from calitree.query.measure import Measure
from calitree.sql.nodes import binary, cast, column, marked, number, ratio
from calitree.sql.parser import expression_of, parse
from calitree.types import Kind

NEITHER = (Kind.NULL, Kind.OTHER, Kind.BINARY, Kind.TIME)
"""Kinds of columns that are no number and have no levels that could be written down."""
FEW = 8
"""Levels that are compared one after the other."""


@dataclass(frozen=True)
class Factor:
    """A column as it was named, and where its values are read from."""

    name: str
    attribute: str
    relation: str
    column: str
    kind: Kind
    has_levels: bool
    nullable: bool

    @property
    def sql(self) -> str:
        """The column in SQL."""
        return exp.column(self.column, self.relation, quoted=True).sql()

    def around(self, centre: float) -> Number:
        """Its values as doubles, less a centre."""
        return Number(self.attribute, self.relation, self.kind, centre)


@dataclass(frozen=True)
class Number:
    """The values of a column as doubles, less a centre."""

    attribute: str
    relation: str
    kind: Kind
    centre: float

    @property
    def node(self) -> exp.Expr:
        value = marked(column(self.attribute, (self.relation,)), self.kind)
        return binary(exp.Sub, cast(value, Kind.FLOAT), number(self.centre))


def factor_of(schema: Schema, name: str, categorical: Collection[str] = ()) -> Factor:
    """Find a column: text has levels, and so has what is named in `categorical`."""
    found = schema.column(name)
    columns = dict(schema.attributes[found.attribute].columns)
    relation = found.owners[0]
    kind = schema.relations[relation].columns[columns[relation]]
    has_levels = kind is Kind.STRING or name in categorical
    if kind in NEITHER or not (has_levels or kind.is_number or kind is Kind.BOOLEAN):
        way = "" if kind in NEITHER else f", or take its values as levels: categorical=[{name!r}]"
        raise QueryError(
            f"{name} is {kind.phrase}, and a linear model needs numbers; add a numeric column made of "
            f"it{way}."
        )
    # Where one of the relations that join on it has no NULL, the join has none.
    nullable = not any(
        own in schema.relations[each].table.null_free for each, own in columns.items()
    )
    return Factor(name, found.attribute, relation, columns[relation], kind, has_levels, nullable)


def complete_rows(factors: Iterable[Factor], where: str | None) -> str | None:
    """The condition that none of these is NULL, and what else must hold.

    What can have no NULL is not asked for, so that messages without a filter serve.
    """
    nullable = sorted({each.sql for each in factors if each.nullable})
    parts = [f"({where})"] if where is not None else []
    return " AND ".join([*parts, *(f"{each} IS NOT NULL" for each in nullable)]) or None


ROWS = Measure("count(*)", (COUNT,), marked(column("a0"), Kind.INTEGER), None)


def total(*numbers: Number) -> Measure:
    """Σ of the product of these numbers over the join."""
    return _total(tuple(sorted(numbers, key=lambda each: (each.attribute, each.relation))))


@lru_cache(maxsize=10_000)
def _total(numbers: tuple[Number, ...]) -> Measure:
    by_relation: dict[str, list[Number]] = {}
    for each in numbers:
        by_relation.setdefault(each.relation, []).append(each)
    lifts = frozenset(_lift(tuple(each)) for each in by_relation.values())
    aggregate = Aggregate(SUM_PRODUCT, lifts)
    return Measure(str(aggregate), (aggregate,), marked(column("a0"), Kind.FLOAT), None)


@lru_cache(maxsize=10_000)
def _lift(numbers: tuple[Number, ...]) -> Lift:
    """The product of numbers of one relation."""
    node = reduce(lambda a, b: binary(exp.Mul, a, b), (each.node for each in numbers))
    return Lift(numbers[0].relation, SUM_PRODUCT, (expression_of(node),))


def weighted_mean(
    constant: float, numbers: Iterable[tuple[float, Number]], choices: Iterable[Lift]
) -> Measure:
    """constant + Σ weight · mean of each number + Σ mean of each choice.

    The sums are those of `total`, so that their messages serve.
    """
    lifts = [(weight, _lift((each,))) for weight, each in numbers]
    lifts += [(1.0, each) for each in choices]
    aggregates = {COUNT: 0}
    final: exp.Expr = number(constant)
    for weight, lift in lifts:
        aggregate = Aggregate(SUM_PRODUCT, frozenset((lift,)))
        at = aggregates.setdefault(aggregate, len(aggregates))
        mean = ratio(marked(column(f"a{at}"), Kind.FLOAT), marked(column("a0"), Kind.INTEGER))
        final = binary(exp.Add, final, binary(exp.Mul, number(weight), mean))
    return Measure("a linear prediction", tuple(aggregates), final, None)


def choice(schema: Schema, factor: Factor, values: Mapping[Any, float]) -> Lift:
    """A number for each level of a factor, and zero for any other."""
    text = _case(factor.sql, sorted(values.items(), key=lambda each: each[0]))
    return Lift(factor.relation, SUM_PRODUCT, (parse(text, schema.resolve),))


def _case(column: str, values: Sequence[tuple[Any, float]]) -> str:
    """Some levels are compared one after the other. Many are halved, so that a row is compared with few."""
    if len(values) > FEW:
        half = len(values) // 2
        under, over = _case(column, values[:half]), _case(column, values[half:])
        return f"CASE WHEN {column} < {_literal(values[half][0])} THEN {under} ELSE {over} END"
    branches = " ".join(
        f"WHEN {column} = {_literal(level)} THEN {number(value).sql()}" for level, value in values
    )
    return f"CASE {branches} ELSE {number(0.0).sql()} END"


def _literal(level: Any) -> str:
    if isinstance(level, bool | int | float | Decimal):
        return str(level)
    return exp.Literal.string(str(level)).sql()
