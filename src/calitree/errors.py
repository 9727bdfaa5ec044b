"""Every error calitree raises on purpose: it names the thing, the reason and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CalitreeError(Exception):
    """The base of all errors below, so that one `except` catches them."""


class SchemaError(CalitreeError):
    """A relation, column or join that cannot be declared."""


class ExpressionError(CalitreeError):
    """SQL text that does not parse, does not type, or is not a measure we can factorise."""


class TreeError(CalitreeError):
    """A join graph or a hypertree that breaks one of the properties of a junction hypertree."""


class QueryError(CalitreeError):
    """A question that this tree cannot answer as asked."""


class ModelError(CalitreeError):
    """A model file that cannot be read, or that says what means nothing."""


class UpdateError(CalitreeError):
    """Rows that cannot come to a relation or go from it, or a version that is not there."""


class ConflictError(UpdateError):
    """Somebody else has changed the same relations meanwhile."""


class EngineError(CalitreeError):
    """An engine that is not there, or that could not run what it was given."""


class MissingRelationError(EngineError):
    """The rows of a relation are needed, and they are not where they were."""

    def __init__(self, relation: str, reason: str) -> None:
        super().__init__(
            f"This needs the rows of {relation}, and {reason}. What does not need them is still "
            "answered, by the messages that were saved."
        )
        self.relation = relation


class SavedError(CalitreeError):
    """A saved tree that cannot be written, or that cannot be opened."""


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """A sentence offering the nearest of `options`, or listing them where they are few."""
    known = sorted(set(options))
    by_folded = {option.lower(): option for option in known}
    close = [by_folded[match] for match in get_close_matches(name.lower(), by_folded, n=3)]
    if not close:
        tail = name.lower().rsplit(".", 1)[-1]
        close = [option for option in known if option.lower().rsplit(".", 1)[-1] == tail][:3]
    if close:
        return f" Did you mean {' or '.join(close)}?"
    if 0 < len(known) <= 12:
        return f" There are: {', '.join(known)}."
    return ""
