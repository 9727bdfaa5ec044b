"""How one value a group is folded of values that are carried."""

from __future__ import annotations

from dataclasses import dataclass, field

from calitree.query.carried.approximate import COUNT_DISTINCT, QUANTILE, STATED, carried_phrase

Option = str | int | float | bool | None
COUNTS = ("count(", "regr_count(", "count_star", "approx_distinct(")
"""How the texts of aggregates begin that are 0 over no rows."""


@dataclass(frozen=True)
class Fold:
    """How a value is folded of the groups and of what is carried beside them.

    Attributes:
        function: The name of the fold; `value` for an aggregate by itself, over the rows of `where`.
        carried: The SQL text of each value that is carried.
        weight: The aggregate, in SQL, that each of these values has: most often their number of rows.
        where: A condition over several relations that rows satisfy besides; None for all rows.
        distinct: Whether each value counts once.
        options: What else the function needs to know.
        grain: The relations whose rows count once; none if each joined row counts.
        relations: Those that have the columns.
        error: How far it may be from the exact value; empty if it is exact.
    """

    function: str
    carried: tuple[str, ...]
    weight: str = "count(*)"
    where: str | None = None
    distinct: bool = False
    options: tuple[Option, ...] = ()
    grain: tuple[str, ...] = ()
    relations: frozenset[str] = field(default=frozenset(), compare=False)
    error: str = field(default="", compare=False)

    @property
    def over_nothing(self) -> int | None:
        """Its value over no rows."""
        counts = self.weight.lower().startswith(COUNTS)
        is_count = self.function in ("count", COUNT_DISTINCT)
        return 0 if is_count or (self.function == "value" and counts) else None

    @property
    def approximation(self) -> str:
        """The aggregate that carries less, and is about the same; empty if there is none."""
        if self.function == "count" and self.distinct and len(self.carried) == 1:
            return COUNT_DISTINCT
        return QUANTILE if self.function in ("quantile_cont", "quantile_disc") else ""

    def __str__(self) -> str:
        listed = ", ".join(self.carried)
        if self.function == "value":
            return f"{self.weight} where {self.where}"
        if self.function in STATED:
            return carried_phrase(self.function, *self.carried)
        return f"{listed} for {self.function}{' of distinct values' if self.distinct else ''}"
