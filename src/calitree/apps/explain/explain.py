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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calitree.apps.explain.beam import Search
from calitree.apps.explain.candidates import column_text
from calitree.apps.explain.explanation import Explanation, shown
from calitree.apps.explain.gap import Asked, Gap, Side, fixed_columns
from calitree.apps.explain.removals import Inquiry
from calitree.errors import QueryError
from calitree.progress import Progress, progress_bar
from calitree.query.binder import MeasureLike

if TYPE_CHECKING:
    from calitree.wide_table import WideTable


@dataclass(frozen=True)
class Options:
    """What is looked at, and what is worth telling."""

    attributes: Sequence[str] | None
    depth: int
    limit: int
    min_support: float
    max_values: int
    parsimony: float
    progress: Progress | bool | None

    def __post_init__(self) -> None:
        if self.depth not in (1, 2, 3):
            raise QueryError(f"depth is 1, 2 or 3 columns; got {self.depth!r}.")
        if not 0 < self.min_support < 1:
            raise QueryError(
                f"min_support is a part of the rows, like 0.01; got {self.min_support}."
            )
        if not 0 <= self.parsimony < 1:
            raise QueryError(f"parsimony is at least 0 and less than 1; got {self.parsimony}.")
        if self.limit < 1:
            raise QueryError(f"limit is the number of explanations wanted; got {self.limit}.")


def why(
    wide: WideTable,
    measure: MeasureLike,
    where: str,
    expected: float | None,
    options: Options,
) -> Explanation:
    """What makes a measure what it is where a condition holds. See `WideTable.why`."""
    if not isinstance(where, str):
        raise QueryError(f"where= is a condition that tells which rows are odd; got {where!r}.")
    asked = Asked.of(wide, measure)
    side = Side(wide, where, asked, f"where {where}")
    side.check()
    other = side.rest
    if expected is not None:
        gap = _expected(side, other, expected)
    elif not other.rows:
        raise QueryError(
            f"{where} holds for every row, so there is nothing to compare them with. "
            "Say what you would have expected with expected=."
        )
    else:
        gap = _others(side, other)
    return _explained(side, other, gap, options, is_change=False)


def explain_change(
    wide: WideTable,
    measure: MeasureLike,
    a: str | int,
    b: str | int,
    options: Options,
) -> Explanation:
    """What makes a measure change from a to b. See `WideTable.explain_change`."""
    asked = Asked.of(wide, measure)
    before, after = (_side_of(wide, each, asked) for each in (a, b))
    before.check()
    after.check()
    return _explained(after, before, Gap(1.0, 0.0, before.phrase), options, is_change=True)


def _explained(side: Side, other: Side, gap: Gap, options: Options, is_change: bool) -> Explanation:
    asked = Inquiry(side, other, gap, options.min_support, options.parsimony)
    if not asked.total:
        raise QueryError(
            f"{side.measure.name} is {shown(side.value)} {side.phrase}, the same as {gap.phrase}: "
            "there is nothing to explain."
        )
    with progress_bar(options.progress) as listener:
        search = Search(asked, listener, options.max_values)
        found = search.run(options.attributes, options.depth, options.limit)
        listener.end(search.questions)
    return Explanation(asked, found, is_change, search.questions)


def _side_of(wide: WideTable, given: str | int, asked: Asked) -> Side:
    """The rows of a condition, or of a version."""
    if isinstance(given, str):
        return Side(wide, given, asked, f"where {given}")
    if isinstance(given, int) and not isinstance(given, bool):
        return Side(wide.at(given), None, asked, f"at version {given}")
    raise QueryError(f"a= and b= are conditions, or numbers of versions; got {given!r}.")


def _expected(side: Side, other: Side, expected: float) -> Gap:
    if isinstance(expected, bool) or not isinstance(expected, int | float):
        raise QueryError(f"expected= is a number; got {expected!r}.")
    if not math.isfinite(expected):
        raise QueryError(f"expected= is a number; got {expected}.")
    phrase = f"the {shown(expected)} expected"
    if side.additive and other.value:
        return Gap(expected / float(other.value), 0.0, phrase)
    return Gap(0.0, float(expected), phrase)


def _others(side: Side, other: Side) -> Gap:
    """Compared with the other rows: their measure, made comparable if it is a sum."""
    value = float(other.check())
    if not side.additive:
        return Gap(1.0, 0.0, f"the other rows ({shown(value)})")
    columns = fixed_columns(side.query)
    if columns:
        attributes = side.wide.schema.attributes
        groups = len(other.ask([column_text(*attributes[name].columns[0]) for name in columns]))
        return Gap(1 / groups, 0.0, f"the mean of the {groups} others ({shown(value / groups)})")
    scale = side.rows / other.rows
    return Gap(scale, 0.0, f"as many of the other rows ({shown(scale * value)})")
