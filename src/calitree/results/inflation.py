"""How many times more a measure is where each joined row counts than where each row counts once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from calitree.errors import QueryError
from calitree.query.binder import MeasureLike, Question
from calitree.query.grain import GrainMeasure

Ask = Callable[[Question], list[dict[str, Any]]]
"""The rows that answer a question."""


def inflation(
    ask: Ask, question: Question, known: Mapping[str, MeasureLike]
) -> dict[str, float | None]:
    """For each measure of a question, its total over joined rows divided by that at its grain.

    A measure without a grain is compared with the grain of the relations that own its columns. None if there
    is no such ratio: the measure is no number or zero, is not SQL, or cannot be at that grain.
    """
    measures = known if question.measures is None else question.measures
    chosen = measures if isinstance(measures, Mapping) else {name: known[name] for name in measures}
    return {name: _ratio(ask, question, given) for name, given in chosen.items()}


def _ratio(ask: Ask, question: Question, given: MeasureLike) -> float | None:
    if not isinstance(given, str | GrainMeasure):
        return None
    text = given if isinstance(given, str) else given.text
    grain = None if isinstance(given, str) else given.grain
    both: dict[str, MeasureLike] = {
        "wide": GrainMeasure(text, None),
        "once": GrainMeasure(text, grain or "owner"),
    }
    try:
        (row,) = ask(Question((), question.where, both, question.relations))
    except QueryError:
        return None
    try:
        return float(row["wide"]) / float(row["once"])
    except (TypeError, ValueError, ZeroDivisionError):
        return None
