"""How many pairs of rows a join by a condition may try one by one."""

from __future__ import annotations

from calitree.errors import EngineError

MAX_PAIRS = 1_000_000_000
"""Pairs of rows that are tried for one result; set it higher to let a join take longer."""


def check_pairs(pairs: int, what: str) -> None:
    """Refuse to try so many pairs of rows."""
    if pairs > MAX_PAIRS:
        raise EngineError(
            f"{what} would have to try about {pairs:,} pairs of rows, one by one; that is more than "
            f"{MAX_PAIRS:,}. Compare columns by =, <, <=, > or >=, filter the relations, or allow more: "
            f"calitree.engines.api.pairs.MAX_PAIRS = {pairs:,}."
        )
