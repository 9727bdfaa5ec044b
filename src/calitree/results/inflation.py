"""How many times more a measure is where each joined row counts than where each row counts once."""

from __future__ import annotations

from collections.abc import Mapping

from calitree.errors import ExpressionError, QueryError
from calitree.query.binder import MeasureLike
from calitree.query.grain import GrainMeasure
from calitree.results.asked import Asked


def inflation(asked: Asked) -> dict[str, float | None]:
    """For each measure of a question, its total over joined rows divided by that at its grain.

    A measure without a grain is compared with the grain of the relations that own its columns. None if there
    is no such ratio: the measure is no number or zero, is not SQL, or cannot be at that grain.
    """
    known, measures = asked.snapshot.state.measures, asked.question.measures
    measures = known if measures is None else measures
    chosen = measures if isinstance(measures, Mapping) else {name: known[name] for name in measures}
    return {name: _ratio(asked, given) for name, given in chosen.items()}


def _ratio(asked: Asked, given: MeasureLike) -> float | None:
    if not isinstance(given, str | GrainMeasure):
        return None
    text = given if isinstance(given, str) else given.text
    grain = None if isinstance(given, str) else given.grain
    both: dict[str, MeasureLike] = {
        "wide": GrainMeasure(text, None),
        "once": GrainMeasure(text, grain or "owner"),
    }
    try:
        (row,) = asked.ask(asked.question._replace(group_by=(), measures=both)).rows()
    except (QueryError, ExpressionError):
        return None
    try:
        return float(row["wide"]) / float(row["once"])
    except (TypeError, ValueError, ZeroDivisionError):
        return None
