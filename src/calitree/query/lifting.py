"""Assigning the factors, NULL guards and filters of an aggregate to relations: its lifts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from calitree.engines.api.semiring import SUM_PRODUCT, Role, Semiring, covariance
from calitree.errors import ExpressionError
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate, Lift
from calitree.query.monomials import Monomial, leaves, mixed
from calitree.sql.nodes import (
    all_of,
    combined,
    kind_of,
    not_null,
    number,
    owners,
    sql_text,
    when,
)
from calitree.sql.parser import expression_of
from calitree.sql.rules.conversions import bits_of
from calitree.types import Kind


@dataclass(frozen=True)
class SpreadValue:
    """A value of a `covariance`: a sum or a product of parts, each of which one relation can compute."""

    role: Role
    parts: tuple[exp.Expr, ...]


@dataclass
class Share:
    """What one relation contributes to each value of an aggregate, where all of `masks` hold."""

    values: defaultdict[int, list[exp.Expr]] = field(default_factory=lambda: defaultdict(list))
    masks: list[exp.Expr] = field(default_factory=list)

    def lift(self, roles: Sequence[Role]) -> tuple[exp.Expr, ...]:
        """An expression for each value; the first is NULL (thus the lift zero) on masked rows."""
        first, *others = (_combined(role, self.values[at]) for at, role in enumerate(roles))
        return (when(all_of(self.masks), first) if self.masks else first, *others)


def _combined(role: Role, parts: Sequence[exp.Expr]) -> exp.Expr:
    """The sum or the product of what a relation contributes to a value, which may be nothing."""
    if not parts:
        return number(1 if role == "product" else 0)
    operator = exp.Mul if role == "product" else exp.Add
    return combined(operator, parts) if len(parts) > 1 else bare(parts[0])


class Lifting:
    """Assigns factors, NULL guards and filters to relations, and makes aggregates of them."""

    def __init__(
        self, schema: Schema, among: Sequence[str], grain: frozenset[str] = frozenset()
    ) -> None:
        self.schema, self.grain = schema, grain
        self.among = tuple(sorted(among, key=lambda name: name not in grain))
        """Where a factor can go: to the relations of the grain first."""

    def product(
        self, monomial: Monomial, present: Sequence[exp.Expr], filters: Sequence[exp.Expr]
    ) -> Aggregate:
        """Σ of a monomial over the rows where nothing in `present` is NULL and all `filters` hold."""
        shares: dict[str, Share] = {}
        for factor in by_owner_count(monomial.factors):
            self._share(factor, shares).values[0].append(factor)
        self._guard(shares, present, lifted=monomial.factors)
        return self.filtered(SUM_PRODUCT, ("product",), shares, filters)

    def covariance(
        self,
        values: Sequence[SpreadValue],
        lifted: Sequence[exp.Expr],
        present: Sequence[exp.Expr],
        filters: Sequence[exp.Expr],
    ) -> Aggregate:
        """The means and co-moments of values over the rows that `product` sums over."""
        shares: dict[str, Share] = {}
        roles = tuple(value.role for value in values)
        parts = [(at, part) for at, value in enumerate(values) for part in value.parts]
        for at, part in sorted(parts, key=lambda entry: len(owners(entry[1]) or ())):
            self._share(part, shares).values[at].append(part)
        self._guard(shares, present, lifted)
        return self.filtered(covariance(roles), roles, shares, filters)

    def _guard(
        self,
        shares: dict[str, Share],
        present: Sequence[exp.Expr],
        lifted: Sequence[exp.Expr],
    ) -> None:
        """Mask the rows where something in `present` is NULL.

        Where what is lifted is NULL, the lift is zero already; other parts that may be NULL need a mask.
        """
        shown = {sql_text(factor) for factor in lifted}
        guards = {text: part for node in present for text, part in leaves(node).items()}
        for part in by_owner_count([part for text, part in guards.items() if text not in shown]):
            if self.nullable(part):
                self._share(part, shares).masks.append(not_null(bare(part)))

    def sum_of_terms(
        self, semiring: Semiring, parts: Sequence[exp.Expr], filters: Sequence[exp.Expr]
    ) -> Aggregate:
        """⊕ over the rows of the sum of single-relation terms, as (min, +) has it."""
        shares: dict[str, Share] = {}
        for term in by_owner_count(parts):
            self._share(term, shares).values[0].append(term)
        return self.filtered(semiring, ("sum",), shares, filters)

    def filtered(
        self,
        semiring: Semiring,
        roles: Sequence[Role],
        shares: dict[str, Share],
        filters: Sequence[exp.Expr],
    ) -> Aggregate:
        """The aggregate of these shares over the rows where all filters hold."""
        for condition in by_owner_count(filters):
            self._share(condition, shares).masks.append(condition)
        lifts = frozenset(
            Lift(relation, semiring, tuple(map(expression_of, share.lift(roles))))
            for relation, share in shares.items()
        )
        for lift in lifts:
            if self.grain and lift.relation not in self.grain:
                raise self._outside(lift)
        return Aggregate(semiring, lifts, self.grain)

    def _outside(self, lift: Lift) -> ExpressionError:
        grain, used = " and ".join(sorted(self.grain)), lift.expressions[0]
        return ExpressionError(
            f"{used} is computed from {lift.relation}, but only rows of {grain} count. Add "
            f"{lift.relation} to the grain, or filter with where="
        )

    def _share(self, node: exp.Expr, shares: dict[str, Share]) -> Share:
        """The share of a relation that can compute `node`; one that takes part already if possible."""
        options = owners(node)
        if options == frozenset():
            raise mixed(node)
        able = [name for name in (*shares, *self.among) if options is None or name in options]
        return shares.setdefault(able[0], Share())

    def stored(self, aggregate: Aggregate, parts: Sequence[exp.Expr]) -> tuple[str, str] | None:
        """The relation and the column whose values an extreme of these parts is one of, if it is."""
        part = bare(parts[0])
        if len(parts) > 1 or not isinstance(part, exp.Column):
            return None
        columns: Mapping[str, str] = dict(self.schema.attributes[part.name].columns)
        holding = (
            lift.relation
            for lift in aggregate.lifts
            if lift.relation in columns and part.name in lift.expressions[0].attributes
        )
        relation = next(holding, None)
        if relation is None or columns[relation] in self.schema.relations[relation].derived:
            return None
        return relation, columns[relation]

    def nullable(self, node: exp.Expr) -> bool:
        """Whether this can be NULL on some row. What is never NULL needs no count of its own."""
        if isinstance(node, exp.Column):
            columns: Mapping[str, str] = dict(self.schema.attributes[node.name].columns)
            return not any(
                columns[owner] in self.schema.relations[owner].table.null_free
                and owner not in self.schema.nullable
                for owner in node.meta["owners"]
            )
        if isinstance(node, exp.Literal | exp.Boolean):
            return False
        if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Neg | exp.Paren | exp.Abs):
            return any(self.nullable(child) for child in node.iter_expressions())
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            from_number = kind_of(node.this).is_number or isinstance(node.this, exp.Literal)
            if from_number and kind_of(node).is_number:
                return self.nullable(node.this)
        return True


def bare(node: exp.Expr) -> exp.Expr:
    """A factor that stands alone, without the parentheses and 64 bits that arithmetic gave it.

    Engines lift whole numbers to 64 bits in any case, and so `sum(x)` and `sum(x * y)` share x.
    """
    while isinstance(node, exp.Paren) or (
        type(node) is exp.Cast
        and kind_of(node) is kind_of(node.this) is Kind.INTEGER
        and bits_of(node) == 64
    ):
        node = node.this
    return node.copy()


def by_owner_count(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Nodes that only one relation can compute first, so that others can go to the same relation."""
    return sorted(nodes, key=lambda node: len(owners(node) or ()))
