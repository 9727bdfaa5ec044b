"""How many rows the join of a bag can have: the AGM bound (paper, appendix on complexity).

Give every relation a weight so that each attribute is covered by weights of at least 1 in all. The
product of the relations' sizes, each to the power of its weight, bounds their join; the lightest
such weights are a linear program. R(A,B), S(B,C) and T(A,C) with n rows each need ½ + ½ + ½: their
join has at most n^1.5 rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import inf, log2

SCIENTIFIC_FROM = 10**15
"""Rows from which a bound is printed in scientific notation."""


@dataclass(frozen=True)
class Width:
    """The fractional edge cover number of a bag, and with known sizes the rows that follow."""

    exponent: float
    rows: float | None = None

    def __str__(self) -> str:
        if self.rows is None:
            return f"width {self.exponent:.3g}"
        shown = f"{self.rows:,.0f}" if self.rows < SCIENTIFIC_FROM else f"{self.rows:.1e}"
        return f"width {self.exponent:.3g}, at most {shown} distinct rows"


def width_of(
    attributes: frozenset[str],
    mapped: Collection[str],
    relations: Mapping[str, frozenset[str]],
    rows: Callable[[str], int] | None,
) -> Width:
    """The width of a bag with these attributes, which any relation may cover in part.

    One relation that has them all, a mapped one if there is one, needs no linear program: that is
    every bag of an acyclic graph.
    """
    able = [name for name in mapped if attributes <= relations[name]]
    able = able or [name for name, held in relations.items() if attributes <= held]
    if able:
        return Width(1.0, None if rows is None else float(min(map(rows, able))))
    exponent = cover(attributes, relations, dict.fromkeys(relations, 1.0))
    if rows is None:
        return Width(exponent)
    bits = cover(attributes, relations, bits_of(relations, rows))
    return Width(exponent, 2.0**bits if bits < 1024 else inf)


def bits_of(relations: Collection[str], rows: Callable[[str], int]) -> dict[str, float]:
    """The logarithm of each relation's size; an empty one counts as one row."""
    return {name: log2(max(1, rows(name))) for name in relations}


def cover(
    attributes: frozenset[str], relations: Mapping[str, frozenset[str]], costs: Mapping[str, float]
) -> float:
    """ρ*: the cost of the cheapest fractional edge cover of the attributes.

    >>> triangle = {"R": frozenset("AB"), "S": frozenset("BC"), "T": frozenset("AC")}
    >>> cover(frozenset("ABC"), triangle, {"R": 1, "S": 1, "T": 1})
    1.5
    """
    from scipy.optimize import linprog

    near = [name for name, held in relations.items() if held & attributes]
    least = [[-1.0 if a in relations[name] else 0.0 for name in near] for a in sorted(attributes)]
    solution = linprog([costs[name] for name in near], A_ub=least, b_ub=[-1.0] * len(least))
    # A solver's last digits must not decide between bags that are as good as each other.
    return round(float(solution.fun), 9)
