"""What options of the command line say of a question: its groups and its measures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from calitree.errors import CalitreeError, QueryError, did_you_mean
from calitree.jointree.schema import Schema
from calitree.query.binder import MeasureLike
from calitree.query.groups import GroupBy
from calitree.results.result import Result
from calitree.results.tabular import Tabular

NAMED = re.compile(r"\s*([^\W\d]\w*)\s*=\s*(.+)", re.DOTALL)
"""A new measure: its name, and its SQL."""


def groups(given: Sequence[str], schema: Schema) -> GroupBy:
    """Columns and expressions by name; those without one have their text as their name.

    What is a column as it stands is one, whatever signs are in its name.
    """
    named_groups: dict[str, str] = {}
    for option in given:
        named = None if _is_column(option, schema) else NAMED.fullmatch(option)
        name, text = (named[1], named[2]) if named else (option, option)
        if name in named_groups:
            raise QueryError(f"{name!r} is grouped by twice.")
        named_groups[name] = text
    return named_groups


def _is_column(text: str, schema: Schema) -> bool:
    try:
        schema.column(text)
    except CalitreeError:
        return False
    return True


def measures(given: list[str] | None, known: Mapping[str, MeasureLike]) -> Any:
    """The tree's own measures by name, and new ones, in the order they were given.

    A new one without a name has its text as its name.
    """
    if not given:
        return None
    chosen: dict[str, MeasureLike] = {}
    for option in given:
        named = NAMED.fullmatch(option)
        name, measure = (named[1], named[2]) if named else (option, option)
        if not named and "(" not in option:
            if option not in known:
                hint = did_you_mean(option, known)
                raise QueryError(
                    f"There is no measure {option!r}.{hint} A new one is given as name=EXPRESSION."
                )
            measure = known[option]
        if name in chosen:
            raise QueryError(f"There are two measures {name!r}; give one another name.")
        chosen[name] = measure
    return chosen


def beside(result: Result, compare: str | None, cumulative: bool, share: bool) -> Tabular:
    """A result, or what one of these options puts beside its measures."""
    if (compare is not None) + cumulative + share > 1:
        raise QueryError("Give one of --compare, --cumulative and --share.")
    if compare is not None:
        return result.compare(compare)
    if cumulative:
        return result.cumulative()
    return result.share() if share else result
