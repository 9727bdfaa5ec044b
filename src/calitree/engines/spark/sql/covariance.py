"""⊕ of a `covariance` in SQL, in two passes: the means of each group, then deviations from them.

SELECT i0.c1 AS c0, SUM(w) AS c1, ANY_VALUE(z.c2) AS c2, …
FROM calitree_1 AS i0 JOIN
     (SELECT i0.c1 AS c0, …, SUM(w * x) / SUM(w) AS c2 FROM calitree_1 AS i0 GROUP BY i0.c1) AS z
     ON i0.c1 <=> z.c0
GROUP BY i0.c1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from sqlglot import exp

from calitree.engines.api.semiring import Semiring
from calitree.sql.nodes import marked
from calitree.sql.spark import to_spark
from calitree.types import Kind

Z = "z"
"""What SQL calls the first pass in the second."""


@dataclass(frozen=True)
class CovarianceElement:
    """A row's element as SQL: how many rows it stands for, and its other components, NULL nowhere."""

    rows: str
    means: Sequence[str]
    lows: Sequence[str]
    deviations: Sequence[str]

    def centres(self) -> list[str]:
        """The mean of each value by group: what the first pass computes."""
        return [
            f"COALESCE(SUM({self.rows} * {mean}) / NULLIF(SUM({self.rows}), 0D), 0D)"
            for mean in self.means
        ]

    def sums(self, centres: Sequence[str]) -> list[str]:
        """Each component by group, around the columns of the first pass that are the centres."""
        n = f"SUM({self.rows})"
        apart = [
            f"(({mean} - {centre}) + {low})"
            for mean, centre, low in zip(self.means, centres, self.lows, strict=True)
        ]
        rests = [f"SUM({self.rows} * {deviation})" for deviation in apart]
        texts = [n]
        for centre, rest in zip(centres, rests, strict=True):
            texts += [f"ANY_VALUE({centre})", f"COALESCE({rest} / NULLIF({n}, 0D), 0D)"]
        pairs = combinations_with_replacement(range(len(apart)), 2)
        for own, (i, j) in zip(self.deviations, pairs, strict=True):
            products = f"SUM({own} + {self.rows} * {apart[i]} * {apart[j]})"
            text = f"{products} - {rests[i]} / NULLIF({n}, 0D) * {rests[j]}"
            texts.append(f"COALESCE({f'GREATEST({text}, 0D)' if i == j else text}, 0D)")
        return texts


def lifted(values: Sequence[tuple[str, bool]], components: int) -> list[str]:
    """A row of a relation with these values, which may be NULL, one text a component.

    A value comes with whether it is an integer that may have more digits than doubles.
    """
    present = " AND ".join(f"{value} IS NOT NULL" for value, _ in values)
    parts = [f"IF({present}, 1D, 0D)"]
    for value, is_long in values:
        mean, low = f"CAST({value} AS DOUBLE)", "0D"
        if is_long:
            rest = f"CAST({value} - TRY_CAST({mean} AS BIGINT) AS DOUBLE)"
            low = f"IF({present}, COALESCE({rest}, 0D), 0D)"
        parts += [f"IF({present}, {mean}, 0D)", low]
    return [*parts, *["0D"] * (components - len(parts))]


def element_of(
    semiring: Semiring, factors: Sequence[Sequence[str]], weights: Sequence[str]
) -> CovarianceElement:
    """The ⊗-product of elements, so often as the product of the weights says."""
    nodes = [[marked(exp.var(text), Kind.FLOAT) for text in factor] for factor in factors]
    n, *parts = [f"({to_spark(node)})" for node in semiring.product(nodes)]
    last = 2 * semiring.values
    deviations = [" * ".join((part, *weights)) for part in parts[last:]]
    return CovarianceElement(
        f"({' * '.join((n, *weights))})", parts[:last:2], parts[1:last:2], deviations
    )


def is_lost(total: Sequence[str], subtracted: Sequence[str], values: int) -> str:
    """Whether the deviations of a value are mere rounding error of a difference.

    Both are given by the columns of their components; where nothing was subtracted, it has no rows. What
    they were before other updates is not known here, so half must be left. To Spark NaN is the greatest
    number.
    """
    tests = []
    at = 1 + 2 * values
    for i in range(values):
        (mean, low), (other, other_low) = (c[1 + 2 * i : 3 + 2 * i] for c in (total, subtracted))
        apart = f"(({other} - {mean}) + ({other_low} - {low}))"
        less = f"({subtracted[at]} + {subtracted[0]} * {apart} * {apart})"
        tests.append(f"({total[at]} >= {less} / 2 AND {total[at]} < DOUBLE('Infinity'))")
        at += values - i
    changed = f"{subtracted[0]} > 0D AND {total[0]} > 0D"
    return f"({changed} AND NOT ({' AND '.join(tests)}))"
