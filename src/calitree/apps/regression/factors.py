"""The columns of a model, each as a number around a centre or as levels, and measures of them.

The measures are built here rather than parsed: sums of products of the same few columns are asked for
again and again, and parsing them would cost more than answering them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter
from typing import Any

from sqlglot import exp

from calitree.engines.api.semiring import MAX, MIN, SUM_PRODUCT, Semiring
from calitree.errors import QueryError
from calitree.jointree.schema import Schema
from calitree.memory.budget import Budget
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.query.annotation import COUNT, Aggregate, Lift
from calitree.query.measure import Measure
from calitree.sql.nodes import binary, cast, column, marked, number, ratio
from calitree.sql.parser import expression_of, parse
from calitree.sql.quoting import literal, quote
from calitree.types import Kind

NEITHER = (Kind.NULL, Kind.OTHER, Kind.BINARY, Kind.TIME)
"""Kinds of columns that are no number and have no levels that could be written as literals."""
MAX_CASE_BRANCHES = 8
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
        return quote(self.relation, self.column)

    def around(self, centre: float) -> CentredColumn:
        """Its values as doubles, less a centre."""
        return CentredColumn(self.attribute, self.relation, self.kind, centre)


@dataclass(frozen=True)
class CentredColumn:
    """The values of a column as doubles, less a centre."""

    attribute: str
    relation: str
    kind: Kind
    centre: float

    @property
    def node(self) -> exp.Expr:
        """As an expression."""
        value = marked(column(self.attribute, (self.relation,)), self.kind)
        return binary(exp.Sub, cast(value, Kind.FLOAT), number(self.centre))


def factor_of(schema: Schema, name: str, categorical: Collection[str] = ()) -> Factor:
    """Find a column: text has levels, and so has what is named in `categorical`."""
    resolved = schema.column(name)
    columns = dict(schema.attributes[resolved.attribute].columns)
    relation = resolved.owners[0]
    kind = schema.relations[relation].columns[columns[relation]]
    has_levels = kind is Kind.STRING or name in categorical
    if kind in NEITHER or not (has_levels or kind.is_number or kind is Kind.BOOLEAN):
        way = "" if kind in NEITHER else f", or take its values as levels: categorical=[{name!r}]"
        raise QueryError(
            f"{name} is {kind.phrase}, and a linear model needs numbers; add a numeric column made of "
            f"it{way}."
        )
    return Factor(
        name=name,
        attribute=resolved.attribute,
        relation=relation,
        column=columns[relation],
        kind=kind,
        has_levels=has_levels,
        # Where one of the relations that join on it has no NULL, the join has none, unless it is an outer one.
        nullable=not any(
            column in schema.relations[owner].table.null_free and owner not in schema.nullable
            for owner, column in columns.items()
        ),
    )


def factors_of(
    schema: Schema, target: str, features: Sequence[str], categorical: Collection[str]
) -> tuple[Factor, list[Factor]]:
    """The columns of a model: its target and its features, resolved and checked."""
    for what, given in (("features", features), ("categorical", categorical)):
        if isinstance(given, str) or not isinstance(given, Collection):
            raise QueryError(f"{what} is a list of columns; got {given!r}.")
    for name in features:
        if list(features).count(name) > 1:
            raise QueryError(f"{name!r} is a feature twice.")
    for name in categorical:
        if name not in features:
            raise QueryError(f"{name!r} is categorical, but not among the features.")
    factors = [factor_of(schema, name, categorical) for name in features]
    aim = factor_of(schema, target)
    if aim.has_levels:
        raise QueryError(
            f"The target {target} is text; a linear model predicts a number. Add a numeric column."
        )
    for factor in factors:
        if factor.attribute == aim.attribute:
            raise QueryError(f"{factor.name} is the target; it cannot be a feature too.")
    return aim, factors


def complete_rows(factors: Iterable[Factor], where: str | None) -> str | None:
    """The condition that none of these is NULL, and what else must hold.

    A column that can have no NULL is not mentioned, so that messages without a filter are reused.
    """
    nullable = sorted({factor.sql for factor in factors if factor.nullable})
    parts = [f"({where})"] if where is not None else []
    return " AND ".join([*parts, *(f"{column} IS NOT NULL" for column in nullable)]) or None


PRODUCTS_BYTES = 1 << 24
"""What products of columns may take, for all trees of the process together."""

NBYTES = attrgetter("nbytes")

ROWS = Measure("count(*)", (COUNT,), marked(column("a0"), Kind.INTEGER), None)

_BUDGET = Budget(PRODUCTS_BYTES)
_totals = BudgetedCache[tuple[CentredColumn, ...], Measure](_BUDGET, "measures", NBYTES)
_lifts = BudgetedCache[tuple[CentredColumn, ...], Lift](_BUDGET, "lifts", NBYTES)


def total(*columns: CentredColumn) -> Measure:
    """Σ of the product of these columns over the join."""
    key = tuple(sorted(columns, key=lambda column: (column.attribute, column.relation)))
    return _totals.of(key, lambda: _total(key))


def _total(columns: tuple[CentredColumn, ...]) -> Measure:
    by_relation: dict[str, list[CentredColumn]] = {}
    for own in columns:
        by_relation.setdefault(own.relation, []).append(own)
    lifts = frozenset(_lift(tuple(own)) for own in by_relation.values())
    aggregate = Aggregate(SUM_PRODUCT, lifts)
    return Measure(str(aggregate), (aggregate,), marked(column("a0"), Kind.FLOAT), None)


def extreme(semiring: Semiring, of: CentredColumn) -> Measure:
    """The least or the largest value of a column over the join, less its centre."""
    lift = Lift(of.relation, semiring, (expression_of(of.node),))
    aggregate = Aggregate(semiring, frozenset((lift,)))
    return Measure(str(aggregate), (aggregate,), marked(column("a0"), Kind.FLOAT), None)


def totals(columns: Sequence[CentredColumn]) -> dict[str, Measure]:
    """The number of rows, and the sum of each."""
    return {"rows": ROWS, **{f"s{i}": total(column) for i, column in enumerate(columns)}}


def products_of(columns: Sequence[CentredColumn]) -> dict[str, Measure]:
    """The products of each two, in the order of the upper triangle of a matrix."""
    return {
        f"p{i}_{j}": total(columns[i], columns[j])
        for i in range(len(columns))
        for j in range(i, len(columns))
    }


def extremes_of(columns: Sequence[CentredColumn]) -> dict[str, Measure]:
    """The least value of each, then the largest of each."""
    least = {f"min{i}": extreme(MIN, column) for i, column in enumerate(columns)}
    return least | {f"max{i}": extreme(MAX, column) for i, column in enumerate(columns)}


def _lift(columns: tuple[CentredColumn, ...]) -> Lift:
    """The product of columns of one relation."""
    return _lifts.of(columns, lambda: _product(columns))


def _product(columns: tuple[CentredColumn, ...]) -> Lift:
    node = reduce(lambda a, b: binary(exp.Mul, a, b), (column.node for column in columns))
    return Lift(columns[0].relation, SUM_PRODUCT, (expression_of(node),))


def weighted_mean(
    constant: float, columns: Iterable[tuple[float, CentredColumn]], choices: Iterable[Lift]
) -> Measure:
    """Constant + Σ weight · mean of each column + Σ mean of each choice.

    The sums are those of `total`, so that their messages are reused.
    """
    lifts = [(weight, _lift((column,))) for weight, column in columns]
    lifts += [(1.0, lift) for lift in choices]
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
    text = _case(factor.sql, sorted(values.items(), key=lambda item: item[0]))
    return Lift(factor.relation, SUM_PRODUCT, (parse(text, schema.resolve),))


def _case(column: str, values: Sequence[tuple[Any, float]]) -> str:
    """A binary search over the levels, the last few of which are compared one after the other."""
    if len(values) > MAX_CASE_BRANCHES:
        half = len(values) // 2
        under, over = _case(column, values[:half]), _case(column, values[half:])
        return f"CASE WHEN {column} < {literal(values[half][0])} THEN {under} ELSE {over} END"
    branches = " ".join(
        f"WHEN {column} = {literal(level)} THEN {number(value).sql()}" for level, value in values
    )
    return f"CASE {branches} ELSE {number(0.0).sql()} END"
