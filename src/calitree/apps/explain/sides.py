"""The two sides that are compared, and the gap between them that is to be explained."""

from __future__ import annotations

import math

from calitree.apps.explain.beam import Search
from calitree.apps.explain.candidates import column_text
from calitree.apps.explain.explanation import Explanation, shown
from calitree.apps.explain.gap import Gap, NamedMeasure, Side, fixed_columns
from calitree.apps.explain.options import Options
from calitree.apps.explain.removals import Inquiry
from calitree.errors import QueryError
from calitree.progress import progress_bar
from calitree.query.binder import MeasureLike
from calitree.wide_table import WideTable


def explained_by_rest(
    wide: WideTable,
    measure: MeasureLike,
    where: str,
    expected: float | None,
    options: Options,
) -> Explanation:
    """What makes a measure what it is where a condition holds."""
    if not isinstance(where, str):
        raise QueryError(f"where= is a condition that tells which rows are odd; got {where!r}.")
    asked = NamedMeasure.of(wide, measure)
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


def explained_change(
    wide: WideTable,
    measure: MeasureLike,
    a: str | int,
    b: str | int,
    options: Options,
) -> Explanation:
    """What makes a measure change from a to b."""
    asked = NamedMeasure.of(wide, measure)
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


def _side_of(wide: WideTable, given: str | int, asked: NamedMeasure) -> Side:
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
