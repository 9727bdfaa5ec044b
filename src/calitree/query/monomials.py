"""Splitting an argument by relation: a polynomial of factors that one relation each can compute.

`sum(a.x * (b.y - a.w))` is Σ a.x·b.y - Σ a.x·a.w: two monomials. Like terms are collected, so the cube of
a sum over three relations has ten monomials and not twenty-seven. What cannot be written so
(`abs(a.x - b.y)`) is an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce

from sqlglot import exp

from calitree.errors import ExpressionError, MixedRelationsError
from calitree.sql.nodes import display, kind_of, marked, number, owners, sql_text
from calitree.sql.rules.conversions import bits_of
from calitree.types import Kind

MAX_MONOMIALS = 256
"""So many sums of products one aggregate may take."""

MAX_EXPONENT = 64
"""Up to this power a sum of columns of several relations is multiplied out."""


@dataclass(frozen=True)
class Monomial:
    """A number × Π constants × Π factors; each factor is computed from one relation."""

    times: int = 1
    constants: tuple[exp.Expr, ...] = ()
    factors: tuple[exp.Expr, ...] = ()
    texts: tuple[str, ...] = ()
    """The constants and factors as text, sorted: like terms have the same."""

    @property
    def coefficients(self) -> tuple[exp.Expr, ...]:
        """All that the sum of the factors' product is multiplied by."""
        return self.constants if self.times == 1 else (number(self.times), *self.constants)

    def __mul__(self, other: Monomial) -> Monomial:
        return Monomial(
            self.times * other.times,
            self.constants + other.constants,
            self.factors + other.factors,
            tuple(sorted(self.texts + other.texts)),
        )

    def __neg__(self) -> Monomial:
        return replace(self, times=-self.times)


def monomials(node: exp.Expr) -> list[Monomial]:
    """Expand to a sum of products of single-relation factors."""
    relations = owners(node)
    if relations is None:
        return [Monomial(constants=(node,), texts=(sql_text(node),))]
    if relations:
        return [Monomial(factors=(node,), texts=(sql_text(node),))]
    expand = _EXPANSIONS.get(type(node))
    if expand is None:
        raise mixed(node)
    collected = _collected(expand(node))
    if len(collected) > MAX_MONOMIALS:
        raise ExpressionError(
            f"multiplied out, {display(node)} is a sum of more than {MAX_MONOMIALS} products across "
            "relations. Use a smaller power, or fewer columns in each sum"
        )
    return collected


def _collected(terms: Iterable[Monomial]) -> list[Monomial]:
    """Like terms as one, in the order of their first. One that is zero stays: ∞ - ∞ is no zero."""
    collected: dict[tuple[str, ...], Monomial] = {}
    for term in terms:
        known = collected.get(term.texts)
        collected[term.texts] = (
            term if known is None else replace(known, times=known.times + term.times)
        )
        if len(collected) > MAX_MONOMIALS:
            break
    return list(collected.values())


def _negative(node: exp.Expr) -> list[Monomial]:
    return [-monomial for monomial in monomials(node)]


def _product(left: exp.Expr, right: exp.Expr) -> list[Monomial]:
    return _multiplied(monomials(left), monomials(right))


def _multiplied(left: list[Monomial], right: list[Monomial]) -> list[Monomial]:
    return _collected(a * b for a in left for b in right)


def _quotient(node: exp.Expr) -> list[Monomial]:
    """A quotient as a product with 1/divisor, of which one relation has all columns."""
    return _product(node.this, _reciprocal(node))


def _reciprocal(node: exp.Expr) -> exp.Expr:
    if owners(node.expression) == frozenset():
        raise mixed(node)
    reciprocal = exp.Div(this=number(1.0), expression=node.expression.copy())
    return marked(reciprocal, Kind.FLOAT)


def _power(node: exp.Expr) -> list[Monomial]:
    """A power as a product, if the exponent is a whole number."""
    exponent, base = _exponent(node), monomials(node.this)
    return reduce(_multiplied, [base] * exponent)


def _exponent(node: exp.Expr) -> int:
    given = node.expression.this if isinstance(node.expression, exp.Cast) else node.expression
    exponent = int(given.name) if isinstance(given, exp.Literal) and given.is_int else 0
    if not 1 <= exponent <= MAX_EXPONENT:
        raise mixed(node)
    return exponent


def _double(node: exp.Expr) -> list[Monomial]:
    """A sum of numbers as a double is the sum of their products."""
    if not (kind_of(node) is Kind.FLOAT and kind_of(node.this).is_number and bits_of(node) == 64):
        raise mixed(node)
    return monomials(node.this)


_EXPANSIONS: dict[type[exp.Expr], Callable[[exp.Expr], list[Monomial]]] = {
    exp.Paren: lambda node: monomials(node.this),
    exp.Add: lambda node: monomials(node.this) + monomials(node.expression),
    exp.Sub: lambda node: monomials(node.this) + _negative(node.expression),
    exp.Neg: lambda node: _negative(node.this),
    exp.Mul: lambda node: _product(node.this, node.expression),
    exp.Div: _quotient,
    exp.Pow: _power,
    exp.Cast: _double,
    exp.TryCast: _double,
}


def leaves(node: exp.Expr) -> dict[str, exp.Expr]:
    """What a polynomial is made of, by its text: it is NULL where one of these is."""
    if owners(node) != frozenset():
        return {sql_text(node): node}
    if type(node) not in _EXPANSIONS:
        raise mixed(node)
    if isinstance(node, exp.Div):
        return leaves(node.this) | leaves(_reciprocal(node))
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Pow):
        return leaves(node.this) | leaves(node.expression)
    return leaves(node.this)


def terms(node: exp.Expr, minus: bool = False) -> list[exp.Expr]:
    """Split a sum into single-relation terms, which (min, +) and (max, +) lift one by one."""
    if owners(node) != frozenset():
        return [marked(exp.Neg(this=exp.Paren(this=node)), kind_of(node)) if minus else node]
    if isinstance(node, exp.Paren):
        return terms(node.this, minus)
    if isinstance(node, exp.Add | exp.Sub):
        right = minus != isinstance(node, exp.Sub)
        return terms(node.left, minus) + terms(node.right, right)
    if isinstance(node, exp.Neg):
        return terms(node.this, not minus)
    raise MixedRelationsError(
        f"the smallest or largest {display(node)} cannot be split by relation; only sums of columns can"
    )


def mixed(node: exp.Expr) -> MixedRelationsError:
    """What is wrong with an expression that no relation can compute, nor several their factors of it."""
    used = sorted({name for column in node.find_all(exp.Column) for name in column.meta["owners"]})
    return MixedRelationsError(
        f"{display(node)} mixes columns of {' and '.join(used)} other than by +, -, *, whole powers and "
        "division by one relation's columns, so it cannot be split by relation"
    )
