"""Why a measure is what it is: which rows, left out, close the gap to what it is compared with.

`why` compares the rows where a condition holds with all others, `explain_change` those of two
conditions or of two versions. Call the first side W, the other R, and the measure over them M(W) and
M(R). What is to be explained is the gap

    G = M(W) - M(R)

A candidate p is a value of a column, or values of several: `items.family = 'DAIRY' AND city IS NULL`.
It is judged by intervention, as Roy and Suciu define it (SIGMOD 2014): its rows are removed from the join,
and the question is asked again.

    G_p = M(W without p) - M(R without p)

Rows are removed from *both* sides. If they were removed from W only, whatever is expensive everywhere would
"explain" a high average in one city; so only what is different there does.

- `influence` is the difference that the removal makes, exactly as if it were asked again: of `why`
  M(W) - M(W without p), of `explain_change` G - G_p.
- `without` is what remains: M(W without p), or G_p of `explain_change`. `reference` is what `why` compares it
  with then; `before` and `after` are M(R without p) and M(W without p) of `explain_change`.
- `closed` is the part of the gap that is closed: (G - G_p) / G. It is more than 1 where something else works
  against the cause.
- `support` is the part of W's rows that are removed (of `explain_change`: of both sides' rows), `rows` how
  many.
- `risk_ratio` is how many times as likely rows of p are in W as the others are: P(W | p) / P(W | not p)
  (as in MacroBase and DIFF).
- `score` ranks: closed / size ** parsimony, where size is p's part of the rows of W or of R, whichever
  is larger. Scorpion (VLDB 2013) divides likewise. A superset of the cause closes the gap as well, but
  is larger; a subset is smaller, but closes less. What chance alone closes grows with the root of the
  size, so with a parsimony of 1/2 no size is favoured by it.

A combination is listed only if its score is 10 % better than that of each part of it; else every cause
would come with all its subsets. A candidate that widens the gap is no explanation, nor is one that leaves
next to nothing of W. A value that is on the other side only has no influence on M(W), but may close the
gap: missing rows are an explanation too.

**Sums and counts** grow with the number of rows, so M(R) must be made comparable: `why` takes

    G = M(W) - λ M(R)

If the condition gives columns one value each (`month = 3`), W is one group among others, and λ is one
over their number: March is compared with the mean month. Otherwise λ is the ratio of their rows. Given
`expected=`, λ makes of M(R) just that. Of `explain_change` λ is 1: the change as it is. Over no rows a
sum counts as 0. For other measures `expected=` stands in the place of M(R), with or without p.

**A gap that is hardly one** (`Explanation.is_small`) is told as such, and differences in the units of the
measure instead of parts of it. That is a gap

- of nothing, or of what the order of summands may make: there are no explanations then;
- within its standard error, which is known of an average, a sum or a count of different rows (`noise`);
- of which the first explanation closes more than 200 %: it is small beside the causes that make it, some of
  which work against others.

**Columns.** Candidates are columns of text, whole numbers, dates and booleans, but not those with more than
`max_values` values, those of large relations whose values are nearly all different, and those that the
conditions and the measure refer to. Columns that are joined are one, and of a key and a name that
correspond one to one only the name is a candidate. Named columns (`attributes=`) are candidates in any
case. NULL is a value like any other.

No candidate is asked for by itself: a question groups by several columns, and `Groups.without` computes
from its answer the measure without each group. `beam` describes how combinations are searched. While others
update the tree, ask one version of it: `wide.at(wide.version).why(...)`.
"""

from __future__ import annotations

from collections.abc import Sequence

from calitree.application import application
from calitree.apps.explain.explanation import Explanation
from calitree.apps.explain.sides import Options, explained_by_rest, explained_change
from calitree.progress import Progress
from calitree.query.binder import MeasureLike
from calitree.wide_table import WideTable


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
    """Which rows make a measure what it is where a condition holds, compared with the other rows.

    Each candidate, a value of a column of any relation or values of up to `depth` columns, is judged
    by intervention: what the measure would be without its rows.

    Args:
        wide: The wide table.
        measure: One of its measures by name, or an expression such as `avg(price)`.
        where: The condition that selects the rows to be explained.
        expected: What the measure is compared with, instead of the other rows.
        attributes: The columns to look at; None means all that have at most `max_values` values.
        depth: How many columns a candidate has at most: 1, 2 or 3.
        limit: How many candidates to return.
        min_support: The part of the rows that a candidate must have.
        max_values: How many values a column may have if `attributes` does not name it.
        parsimony: The larger it is (at least 0, less than 1), the more a small candidate is
            preferred to one that closes more of the gap.
        progress: A function that is told of each step; True shows a bar, False none, None a bar
            in a terminal.

    Returns:
        The best candidates, best first; `calitree.apps.explain.explain` defines its columns.

    Raises:
        QueryError: An option is out of range, there is no such row, or the measure is NULL, NaN or
            infinite.

    >>> wide.why("avg(price)", "city = 'Quito'", attributes=["price"]).best["explanation"]
    'sales.price = 20'
    """
    options = Options(
        attributes=attributes, depth=depth, limit=limit, min_support=min_support,
        max_values=max_values, parsimony=parsimony, progress=progress,
    )  # fmt: skip
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
    """Which rows make the difference of a measure from `a` to `b`.

    Without the rows of an explanation the difference would be smaller, or gone.

    Args:
        wide: The wide table.
        measure: One of its measures by name, or an expression such as `avg(price)`.
        a: A condition, or the number of a version.
        b: The same; rows for which both conditions hold are on both sides.
        attributes: As for `why`, like all that follow.
        depth: How many columns a candidate has at most.
        limit: How many candidates to return.
        min_support: The part of the rows that a candidate must have.
        max_values: How many values a column may have if `attributes` does not name it.
        parsimony: How much small candidates are preferred.
        progress: A function that is told of each step, or whether to show a bar.

    Returns:
        The best candidates, best first; `calitree.apps.explain.explain` defines its columns.

    Raises:
        QueryError: An option is out of range, there is no such row, or the measure is NULL, NaN or
            infinite.

    >>> wide.explain_change("revenue", a="city = 'Cuenca'", b="city = 'Quito'",
    ...     attributes=["price"]).best["explanation"]
    'sales.price = 20'
    """
    options = Options(
        attributes=attributes, depth=depth, limit=limit, min_support=min_support,
        max_values=max_values, parsimony=parsimony, progress=progress,
    )  # fmt: skip
    return explained_change(wide, measure, a, b, options)
