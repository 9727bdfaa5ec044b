"""Why a measure is what it is: which rows, left out, take away what is odd about it.

`why` compares the rows where a condition holds with all others, `explain_change` those of two
conditions or of two versions. Call the first side W, the other R, and the measure over them M(W) and
M(R). What is to be explained is the gap

    G = M(W) - M(R)

A candidate p is a value of a column, or values of several: `items.family = 'DAIRY' AND city IS NULL`.
It is judged by intervention, as Roy and Suciu define it (SIGMOD 2014): its rows go from the join, and
the question is asked again.

    G_p = M(W without p) - M(R without p)

Rows go from *both* sides. If they went from W only, whatever is dear everywhere would "explain" a high
average in one city; so only what is different there does.

- `influence` is the difference that the removal makes, exactly as if it were asked again: of `why`
  M(W) - M(W without p), of `explain_change` G - G_p.
- `closed` is the part of the gap that goes: (G - G_p) / G. It is more than 1 where something else works
  against the cause.
- `support` is the part of W's rows that go (of `explain_change`: of both sides' rows), `rows` how many.
- `risk_ratio` is how many times as likely rows of p are in W as the others are: P(W | p) / P(W | not p)
  (as in MacroBase and DIFF).
- `score` ranks: closed / size ** parsimony, where size is p's part of the rows of W or of R, whichever
  is larger. Scorpion (VLDB 2013) divides likewise. What contains the cause closes the gap as well, but
  is larger; a part of the cause is smaller, but closes less. What chance alone closes grows with the
  root of the size, so with a parsimony of 1/2 no size is favoured by it.

A combination is told only if its score is 10 % better than that of each part of it; else every cause
would come with all its subsets. What widens the gap is no explanation, nor is what leaves next to
nothing of W. A value that is on the other side only has no influence on M(W), but may close the gap: what
is missing is an explanation too.

**Sums and counts** grow with the number of rows, so M(R) must be made comparable: `why` takes

    G = M(W) - λ M(R)

If the condition gives columns one value each (`month = 3`), W is one group among others, and λ is one
over their number: March is compared with the mean month. Otherwise λ is the ratio of their rows. Given
`expected=`, λ makes of M(R) just that. Of `explain_change` λ is 1: the change as it is. Over no rows a
sum counts as 0. For other measures `expected=` stands in the place of M(R), with or without p.

**Columns.** Those with texts, whole numbers, dates and truth values are looked at, but not those with
more than `max_values` values, those of large relations whose values are nearly all different, and those
that the conditions and the measure look at. Columns that are joined are one, and of a key and a name
that tell the same only the name is looked at. Of named ones (`attributes=`) none of this is asked. NULL is
a value like any other.

No candidate is asked for by itself: a question groups by several columns, and `Groups.without` makes of
its answer the measure without each group. How combinations are found is told in `beam`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calitree.application import application
from calitree.apps.explain.options import Options
from calitree.progress import Progress
from calitree.query.binder import MeasureLike
from calitree.wide_table import WideTable

if TYPE_CHECKING:
    from calitree.apps.explain.explanation import Explanation


@application
def why(
    wide: WideTable,
    measure: MeasureLike,
    where: str,
    *,
    expected: float | None = None,
    attributes: Sequence[str] | None = None,
    depth: int = 2,
    limit: int = 20,
    min_support: float = 0.005,
    max_values: int = 1_000,
    parsimony: float = 0.5,
    progress: Progress | bool | None = None,
) -> Explanation:
    """Which rows make a measure what it is where a condition holds, compared with the other rows
    or with what was `expected`.

    Each candidate (a value of a column of any relation, or values of up to `depth` columns, at
    most 3) is judged by intervention: what the measure would be without its rows. The result is a
    table of the `limit` best; `calitree.apps.explain.explain` tells what its columns mean. `attributes`
    are the columns to look at, without it all that have at most `max_values` values; candidates
    with less than `min_support` of the rows are not looked at. The larger `parsimony` is, the
    more a small candidate is preferred to one that closes more of the gap.

    >>> from calitree import JoinGraph
    >>> g = JoinGraph(engine="reference")
    >>> g.add_relation("sales", {"store": [1, 1, 1, 2, 2, 2], "price": [9, 9, 99, 9, 9, 9],
    ...     "channel": ["shop", "app", "web", "shop", "app", "web"]})
    >>> g.add_relation("stores", {"store": [1, 2], "city": ["Quito", "Loja"]})
    >>> g.add_join("sales", "stores", on="store")
    >>> wide = g.calibrate({"mean": "avg(price)"})
    >>> wide.why("mean", where="city = 'Quito'").sentence   # doctest: +NORMALIZE_WHITESPACE
    "Without sales.channel = 'web' (33 % of the rows), mean where city = 'Quito' would be 9
    instead of 39: 100 % of the gap to the other rows (9)."
    """
    from calitree.apps.explain.sides import explained_by_rest

    options = Options(attributes, depth, limit, min_support, max_values, parsimony, progress)
    return explained_by_rest(wide, measure, where, expected, options)


@application
def explain_change(
    wide: WideTable,
    measure: MeasureLike,
    a: str | int,
    b: str | int,
    *,
    attributes: Sequence[str] | None = None,
    depth: int = 2,
    limit: int = 20,
    min_support: float = 0.005,
    max_values: int = 1_000,
    parsimony: float = 0.5,
    progress: Progress | bool | None = None,
) -> Explanation:
    """Which rows make the difference of a measure from `a` to `b`, two conditions or two versions:
    without them it would be smaller, or gone. Conditions may overlap; rows in both are on both
    sides. The options are those of `why`.

        print(wide.explain_change("revenue", a="month = 1", b="month = 2"))
        print(wide.explain_change("revenue", a=wide.version - 1, b=wide.version))
    """
    from calitree.apps.explain.sides import explained_change

    options = Options(attributes, depth, limit, min_support, max_values, parsimony, progress)
    return explained_change(wide, measure, a, b, options)
