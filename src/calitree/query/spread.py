"""Splitting the arguments of VAR, COVAR and CORR by relation: values of a `covariance`.

An argument of one relation is one value. Where it is a sum of columns of several relations these
contribute summands to one value, so that nothing cancels that is not in the data. Products across
relations are values of their own, and the argument is a linear combination of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from sqlglot import exp

from calitree.query.lifting import SpreadValue, bare
from calitree.query.monomials import Monomial, monomials
from calitree.sql.nodes import binary, owners

Term = tuple[tuple[exp.Expr, ...], int]
"""A value, by its position, and the coefficients that it is multiplied by."""


@dataclass
class SpreadValues:
    """The distinct values of some arguments, and the factors that are NULL where a value is."""

    values: list[SpreadValue] = field(default_factory=list)
    factors: list[exp.Expr] = field(default_factory=list)

    def split(self, argument: exp.Expr) -> list[Term]:
        """An argument as a combination of values; constants are left out, as they do not vary."""
        sums: list[exp.Expr] = []
        terms: list[Term] = []
        for monomial in monomials(argument):
            self.factors += monomial.factors
            if _is_single(monomial):
                parts = (*monomial.coefficients, *monomial.factors)
                sums.append(reduce(partial(binary, exp.Mul), parts) if parts[1:] else parts[0])
            elif monomial.factors:
                at = self._position(SpreadValue("product", monomial.factors))
                terms.append((monomial.coefficients, at))
        if sums:
            parts = (bare(sums[0]),) if len(sums) == 1 else tuple(sums)
            terms.append(((), self._position(SpreadValue("sum", parts))))
        return terms

    def _position(self, value: SpreadValue) -> int:
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)


def _is_single(monomial: Monomial) -> bool:
    """Whether one relation can compute all factors, of which there are some."""
    able: Sequence[frozenset[str]] = [owners(factor) or frozenset() for factor in monomial.factors]
    return bool(able) and bool(reduce(frozenset.intersection, able))
