"""Keys that would have a partner if blanks and case did not count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from calitree.integrity.key_counts import KeyCounts, RowCount, is_quotable
from calitree.sql.quoting import literal, quote
from calitree.types import Kind

MAX_COMPARED = 1_000
"""Keys that are looked for in other spellings."""


class Respelled(NamedTuple):
    """How many keys were looked for, and those that were there otherwise, with their partners."""

    compared: int
    matches: list[tuple[RowCount, RowCount]]


def respelled(ours: KeyCounts, theirs: KeyCounts) -> Respelled | None:
    """Which of the most frequent of our keys are among theirs in another spelling.

    None if none is, or the key has no text. Only their keys that may be meant come to this process.
    """
    texts = [a for a, kind in ours.kinds.items() if kind is theirs.kinds[a] is Kind.STRING]
    frequent = ours.most_frequent(MAX_COMPARED) if texts else []
    sample = [(key, rows) for key, rows in frequent if all(map(is_quotable, key))]
    if not sample:
        return None
    places = [list(ours.kinds).index(attribute) for attribute in texts]
    conditions = [
        f"lower(trim({quote(a)})) in ({_listed(_folded(key)[at] for key, _ in sample)})"
        for a, at in zip(texts, places, strict=True)
    ]
    near = theirs.most_frequent(len(sample) * MAX_COMPARED, " and ".join(conditions))
    known = {_folded(key): (key, rows) for key, rows in reversed(near)}
    matches = [(own, known[_folded(own[0])]) for own in sample if _folded(own[0]) in known]
    return Respelled(len(sample), matches) if matches else None


def _folded(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.strip(" ").lower() if isinstance(v, str) else v for v in key)


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(literal(value) for value in dict.fromkeys(values))
