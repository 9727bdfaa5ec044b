"""Splitting an aggregate's argument by relation: monomials for sums, terms for extremes.

`sum(a.x * (b.y - a.w))` is Σ a.x·b.y - Σ a.x·a.w: two monomials, each a product of factors that one
relation can compute by itself. What cannot be written so (`abs(a.x - b.y)`) is an error that says
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from calitree.engines.api.semiring import SUM_PRODUCT, Semiring
from calitree.errors import ExpressionError
from calitree.jointree.schema import Schema
from calitree.query.annotation import Aggregate, Lift
from calitree.sql.nodes import (
    all_of,
    binary,
    display,
    kind_of,
    marked,
    not_null,
    number,
    owners,
    when,
)
from calitree.sql.parser import expression_of
from calitree.types import Kind


@dataclass(frozen=True)
class Monomial:
    """Π coefficients × Π factors; each factor is computed from one relation."""

    coefficients: tuple[exp.Expr, ...] = ()
    factors: tuple[exp.Expr, ...] = ()

    def __mul__(self, other: Monomial) -> Monomial:
        return Monomial(self.coefficients + other.coefficients, self.factors + other.factors)

    def __neg__(self) -> Monomial:
        return Monomial((number(-1), *self.coefficients), self.factors)


def monomials(node: exp.Expr) -> list[Monomial]:
    """Expand to a sum of products of single-relation factors."""
    found = owners(node)
    if found is None:
        return [Monomial(coefficients=(node,))]
    if found:
        return [Monomial(factors=(node,))]
    if isinstance(node, exp.Paren):
        return monomials(node.this)
    if isinstance(node, exp.Cast) and kind_of(node) is Kind.FLOAT and kind_of(node.this).is_number:
        return monomials(node.this)
    if isinstance(node, exp.Add):
        return monomials(node.left) + monomials(node.right)
    if isinstance(node, exp.Sub):
        return monomials(node.left) + [-each for each in monomials(node.right)]
    if isinstance(node, exp.Neg):
        return [-each for each in monomials(node.this)]
    if isinstance(node, exp.Mul):
        return [a * b for a in monomials(node.left) for b in monomials(node.right)]
    if isinstance(node, exp.Div) and owners(node.expression) != frozenset():
        inverse = exp.Div(this=number(1.0), expression=node.expression.copy())
        reciprocal = monomials(marked(inverse, Kind.FLOAT))
        return [a * b for a in monomials(node.left) for b in reciprocal]
    raise _mixed(node)


def terms(node: exp.Expr, minus: bool = False) -> list[exp.Expr]:
    """Split a sum into single-relation terms: (min, +) and (max, +) lift each by itself."""
    if owners(node) != frozenset():
        return [marked(exp.Neg(this=exp.Paren(this=node)), kind_of(node)) if minus else node]
    if isinstance(node, exp.Paren):
        return terms(node.this, minus)
    if isinstance(node, exp.Add | exp.Sub):
        right = minus != isinstance(node, exp.Sub)
        return terms(node.left, minus) + terms(node.right, right)
    if isinstance(node, exp.Neg):
        return terms(node.this, not minus)
    raise ExpressionError(
        f"the smallest or largest {display(node)} cannot be split by relation; only sums of columns can"
    )


def _mixed(node: exp.Expr) -> ExpressionError:
    used = sorted({r for c in node.find_all(exp.Column) for r in c.meta["owners"]})
    return ExpressionError(
        f"{display(node)} mixes columns of {' and '.join(used)} other than by +, -, * and division by one "
        "relation's columns, so it cannot be split by relation"
    )


@dataclass
class Share:
    """One relation's part in an aggregate: multiply `values` on the rows where all of `masks` hold."""

    values: list[exp.Expr] = field(default_factory=list)
    masks: list[exp.Expr] = field(default_factory=list)

    def lift(self, semiring: Semiring) -> exp.Expr | None:
        """The lift's expression (NULL, thus zero, on masked rows), or None if it is `one` on every
        row.
        """
        combine = exp.Mul if semiring == SUM_PRODUCT else exp.Add
        value: exp.Expr | None = None
        for each in self.values:
            value = each if value is None else binary(combine, value, each)
        if len(self.values) == 1:
            value = bare(self.values[0])
        if not self.masks:
            return value
        one = number(1 if semiring == SUM_PRODUCT else 0)
        return when(all_of(self.masks), one if value is None else value)


class Lifting:
    """Assigns factors, NULL guards and filters to relations, and makes aggregates of them."""

    def __init__(self, schema: Schema, among: Sequence[str]) -> None:
        self.schema = schema
        self.among = tuple(among)

    def product(
        self,
        monomial: Monomial,
        present: Sequence[exp.Expr],
        filters: Sequence[exp.Expr],
    ) -> Aggregate:
        """Σ of a monomial over the rows where nothing in `present` is NULL and all `filters` hold."""
        shares: dict[str, Share] = {}
        for factor in by_scarcity(monomial.factors):
            self._share(factor, shares).values.append(factor)
        shown = {factor.sql() for factor in monomial.factors}
        guards = {
            p.sql(): p
            for each in present
            for m in monomials(each)
            for p in m.coefficients + m.factors
        }
        # A NULL factor is a zero lift already; other parts that may be NULL need a mask.
        for part in by_scarcity([p for text, p in guards.items() if text not in shown]):
            if self.nullable(part):
                self._share(part, shares).masks.append(not_null(bare(part)))
        return self.filtered(SUM_PRODUCT, shares, filters)

    def sum_of_terms(
        self, semiring: Semiring, parts: Sequence[exp.Expr], filters: Sequence[exp.Expr]
    ) -> Aggregate:
        """⊕ over the rows of the sum of single-relation terms, as (min, +) has it."""
        shares: dict[str, Share] = {}
        for term in by_scarcity(parts):
            self._share(term, shares).values.append(term)
        return self.filtered(semiring, shares, filters)

    def filtered(
        self, semiring: Semiring, shares: dict[str, Share], filters: Sequence[exp.Expr]
    ) -> Aggregate:
        for condition in by_scarcity(filters):
            self._share(condition, shares).masks.append(condition)
        lifts = set()
        for relation, share in shares.items():
            node = share.lift(semiring)
            if node is not None:
                lifts.add(Lift(relation, semiring, (expression_of(node),)))
        return Aggregate(semiring, frozenset(lifts))

    def _share(self, node: exp.Expr, shares: dict[str, Share]) -> Share:
        """The share of a relation that can compute `node`; one that takes part already if possible."""
        options = owners(node)
        if options == frozenset():
            raise _mixed(node)
        able = [each for each in (*shares, *self.among) if options is None or each in options]
        return shares.setdefault(able[0], Share())

    def owner(self, node: exp.Expr) -> str | None:
        """The first relation that can compute `node` alone."""
        options = owners(node) or frozenset()
        return next((each for each in self.among if each in options), None)

    def nullable(self, node: exp.Expr) -> bool:
        """Whether this can be NULL on some row. What is never NULL needs no count of its own."""
        if isinstance(node, exp.Column):
            attribute: Mapping[str, str] = dict(self.schema.attributes[node.name].columns)
            return not any(
                attribute[each] in self.schema.relations[each].table.null_free
                for each in node.meta["owners"]
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
        type(node) is exp.Cast and kind_of(node) is kind_of(node.this) is Kind.INTEGER
    ):
        node = node.this
    return node.copy()


def by_scarcity(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Those that only one relation can compute first, so that the others can join them there."""
    return sorted(nodes, key=lambda node: len(owners(node) or ()))
