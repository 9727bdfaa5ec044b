"""The options of a search for explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calitree.errors import QueryError
from calitree.progress import Progress


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
