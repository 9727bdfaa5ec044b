"""Which aggregates of a measure are folded of carried values, and their plain SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from calitree.errors import ExpressionError
from calitree.jointree.schema import Schema
from calitree.query.carried.approximate import COUNT_DISTINCT, exact
from calitree.query.carried.fold import Fold
from calitree.query.carried.folds import CARRIED, HOLISTIC
from calitree.query.carried.holistic_call import Holistic, class_of, parsed_call, text_of
from calitree.query.formula import Formula
from calitree.query.grain import counted_once, is_null_without, owning_relations
from calitree.sql.nodes import all_of, column, marked, quoted_sql, ratio
from calitree.sql.parser import Expression
from calitree.types import Kind

AT_ANY_GRAIN = ("min", "max", "arg_min", "arg_max", COUNT_DISTINCT)
"""Folds for which it does not matter how often there is a row; nor does it for distinct values."""
Scalar = Callable[[exp.Expr], Expression]
SomeGrain = Literal["owner"] | frozenset[str] | None
"""The relations whose rows count once."""


class Carrying:
    """The folds of one measure."""

    def __init__(self, scalar: Scalar, schema: Schema) -> None:
        self.scalar, self.schema = scalar, schema
        self.folds: list[Fold] = []

    def takes(self, call: exp.Expr) -> bool:
        """Whether an aggregate is always folded: that of distinct values, and one that is no sum."""
        if class_of(call) in HOLISTIC:
            return True
        if call.find(exp.Distinct) is None:
            return False
        if class_of(call) not in CARRIED and not isinstance(call, exp.Avg):
            listed = ", ".join([*(name for name, _ in CARRIED.values()), "avg"])
            raise ExpressionError(
                f"{quoted_sql(call)} takes no DISTINCT here; there are {listed}, and median, quantiles, "
                "list and string_agg"
            )
        return True

    def folds_any_argument(self, call: exp.Expr) -> bool:
        """Whether an aggregate whose argument is of several relations can be folded."""
        return class_of(call) in CARRIED or isinstance(call, exp.Avg)

    def formula(self, call: exp.Expr, condition: exp.Expr | None, grain: SomeGrain) -> Formula:
        """The value of an aggregate over the rows where a condition holds, which lifts can tell."""
        keys = ("Sum", "Count") if isinstance(call, exp.Avg) else (class_of(call),)
        folded = [self._holistic(call, key, condition, grain) for key in keys]
        values = [self._column(holistic) for holistic in folded]
        final = ratio(*values) if isinstance(call, exp.Avg) else values[0]
        return Formula(final, self._plain(call, condition, frozenset(folded[0].fold.grain)))

    @property
    def error(self) -> str:
        """How far the folds may be from the exact values; empty if they are exact."""
        return ", ".join(dict.fromkeys(fold.error for fold in self.folds if fold.error))

    def where(
        self, call: exp.Expr, condition: exp.Expr, alone: tuple[Kind, str], grain: SomeGrain
    ) -> Formula:
        """The value of an aggregate over the rows where a condition across relations holds.

        `alone` are the kind and the error of the aggregate without a condition.
        """
        kind, error = alone
        if grain is not None:
            raise ExpressionError(
                f"{quoted_sql(condition)} is a condition of several relations, which would repeat the "
                "rows that count once; filter with where="
            )
        used = self._relations([call, condition])
        fold = Fold("value", (), text_of(call), text_of(condition), relations=used, error=error)
        return Formula(self._column(Holistic(fold, kind)), self._plain(call, condition))

    def _holistic(
        self, call: exp.Expr, key: str, condition: exp.Expr | None, grain: SomeGrain
    ) -> Holistic:
        name, rule = CARRIED[key] if key in CARRIED else (HOLISTIC[key].name, HOLISTIC[key].rule)
        parsed = parsed_call(call, name, self.scalar)
        holistic = rule(parsed)
        if condition is not None:
            weight = f"{holistic.fold.weight} filter (where {text_of(condition)})"
            holistic = holistic._replace(fold=replace(holistic.fold, weight=weight))
        if grain is not None:
            carried = parsed.arguments[: len(holistic.fold.carried)]
            nodes = [self.scalar(argument).node for argument in carried]
            relations = owning_relations(nodes) if grain == "owner" else grain
            at_any = parsed.distinct or holistic.fold.function in AT_ANY_GRAIN
            if not (at_any and is_null_without(relations, nodes, self.schema)):
                _check_owners(carried[0], owning_relations(nodes), relations)
                fold = replace(holistic.fold, grain=tuple(sorted(relations)))
                holistic = holistic._replace(fold=fold)
        used = self._relations([call, *([] if condition is None else [condition])])
        return holistic._replace(fold=replace(holistic.fold, relations=used))

    def _relations(self, nodes: Sequence[exp.Expr]) -> frozenset[str]:
        return owning_relations([self._over_attributes(node) for node in nodes])

    def _column(self, holistic: Holistic) -> exp.Expr:
        """The column under which the measure's formula has the value of a fold."""
        if holistic.fold not in self.folds:
            self.folds.append(holistic.fold)
        return marked(column(f"f{self.folds.index(holistic.fold)}"), holistic.kind)

    def _plain(
        self, call: exp.Expr, condition: exp.Expr | None, grain: frozenset[str] = frozenset()
    ) -> exp.Expr:
        """The call over attributes: exact if it is approximate, and in our order if it depends on that."""
        plain = self._over_attributes(call)
        _ordered(plain)
        kept = [] if condition is None else [self._over_attributes(condition)]
        kept += counted_once(grain)
        where = exp.Where(this=all_of(kept)) if kept else None
        if class_of(call) in ("ApproxDistinct", "ApproxQuantile"):
            argument = parsed_call(call, "", self.scalar).arguments[0]
            return exact(plain, where, self.scalar(argument).kind)
        return plain if where is None else exp.Filter(this=plain, expression=where)

    def _over_attributes(self, node: exp.Expr) -> exp.Expr:
        def resolved(part: exp.Expr) -> exp.Expr:
            return self.scalar(part).node.copy() if isinstance(part, exp.Column) else part

        return node.copy().transform(resolved)


def _check_owners(argument: exp.Expr, owning: frozenset[str], grain: frozenset[str]) -> None:
    """An error if a fold takes columns of relations that are not in its grain."""
    for relation in sorted(owning - grain):
        raise ExpressionError(
            f"{quoted_sql(argument)} is computed from {relation}, but only rows of "
            f"{' and '.join(sorted(grain))} count. Add {relation} to the grain"
        )


def _ordered(call: exp.Expr) -> None:
    """Let what depends on the order of rows see them by value: of several, the smallest comes first."""
    if isinstance(call, exp.Mode | exp.ArrayAgg | exp.GroupConcat):
        if not isinstance(call.this, exp.Order):
            listed: Sequence[exp.Expr] = (
                call.this.expressions if isinstance(call.this, exp.Distinct) else [call.this]
            )
            call.set("this", _by(call.this, listed[0]))
    elif isinstance(call, exp.ArgMin | exp.ArgMax):
        call.set("expression", _by(call.expression, call.this))


def _by(node: exp.Expr, value: exp.Expr) -> exp.Order:
    return exp.Order(this=node.copy(), expressions=[exp.Ordered(this=value.copy())])
