"""The two slices that are compared, and the gap between them that is to be explained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from calitree.apps.explain.beam import BeamSearch
from calitree.apps.explain.explanation import Explanation, shown
from calitree.apps.explain.gap import ROWS, Gap, NamedMeasure, Slice, fixed_columns
from calitree.apps.explain.removals import Comparison
from calitree.errors import QueryError
from calitree.progress import Progress, progress_bar
from calitree.query.binder import MeasureLike
from calitree.sql.quoting import column_text
from calitree.wide_table import WideTable


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that `why` and `explain_change` share; `why` documents them."""

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


def explained_by_rest(
    wide: WideTable, measure: MeasureLike, where: str, expected: float | None, options: Options
) -> Explanation:
    """What makes a measure what it is where a condition holds."""
    if not isinstance(where, str):
        raise QueryError(f"where= is a condition that tells which rows are odd; got {where!r}.")
    side = Slice(wide, where, NamedMeasure.of(wide, measure), f"where {where}")
    side.check()
    other = side.rest
    errors = [side.error]
    if expected is not None:
        gap = _expected(side, other, expected)
    elif not other.rows:
        raise QueryError(
            f"{where} holds for every row, so there is nothing to compare them with. "
            "Say what you would have expected with expected=."
        )
    else:
        gap = _others(side, other)
        errors.append(None if other.error is None else gap.scale * other.error)
    comparison = Comparison(
        side, other, gap, options.min_support, options.parsimony, error=_together(errors)
    )
    return _explained(comparison, options, is_change=False)


def explained_change(
    wide: WideTable, measure: MeasureLike, a: str | int, b: str | int, options: Options
) -> Explanation:
    """What makes a measure change from a to b."""
    named = NamedMeasure.of(wide, measure)
    before, after = (_slice(wide, rows, named) for rows in (a, b))
    before.check()
    after.check()
    gap = Gap(1.0, 0.0, before.phrase)
    comparison = Comparison(after, before, gap, options.min_support, options.parsimony)
    if isinstance(a, str) and isinstance(b, str):
        by_chance = replace(comparison, error=_together([after.error, before.error]))
        # Rows that are on both sides make no difference by chance.
        if by_chance.is_noise and not _overlap(wide, a, b):
            comparison = by_chance
    return _explained(comparison, options, is_change=True)


def _together(errors: Sequence[float | None]) -> float | None:
    """The standard error of a difference, if that of both sides is known."""
    known = [error for error in errors if error is not None]
    return math.hypot(*known) if len(known) == len(errors) else None


def _overlap(wide: WideTable, a: str, b: str) -> int:
    """How many rows meet both conditions."""
    rows: int = wide.query([], f"({a}) and ({b})", {ROWS: "count(*)"}).rows()[0][ROWS]
    return rows


def _explained(comparison: Comparison, options: Options, is_change: bool) -> Explanation:
    side, gap = comparison.side, comparison.gap
    if not math.isfinite(comparison.total):
        raise QueryError(
            f"The gap between {side.measure.name} {side.phrase} and {gap.phrase} is too large for a "
            "floating-point number; divide the measure by one."
        )
    if comparison.is_rounding:
        return Explanation(comparison, [], is_change, questions=0)
    with progress_bar(options.progress) as listener:
        search = BeamSearch(comparison, listener, options.max_values)
        best = search.run(options.attributes, options.depth, options.limit)
        listener.end(search.questions)
    return Explanation(comparison, best, is_change, search.questions)


def _slice(wide: WideTable, given: str | int, measure: NamedMeasure) -> Slice:
    """The rows of a condition, or of a version."""
    if isinstance(given, str):
        return Slice(wide, given, measure, f"where {given}")
    if isinstance(given, int) and not isinstance(given, bool):
        return Slice(wide.at(given), None, measure, f"at version {given}")
    raise QueryError(f"a= and b= are conditions, or numbers of versions; got {given!r}.")


def _expected(side: Slice, other: Slice, expected: float) -> Gap:
    is_number = isinstance(expected, int | float) and not isinstance(expected, bool)
    if not (is_number and math.isfinite(expected)):
        raise QueryError(f"expected= is a number; got {expected!r}.")
    phrase = f"the {shown(expected)} expected"
    scale = expected / float(other.value) if side.additive and other.value else 0.0
    if math.isfinite(scale) and scale:
        return Gap(scale, 0.0, phrase)
    return Gap(0.0, float(expected), phrase)


def _others(side: Slice, other: Slice) -> Gap:
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
