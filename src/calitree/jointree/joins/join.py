"""Joins as they are declared, and outer joins as they are in effect."""

from __future__ import annotations

from dataclasses import dataclass

ColumnName = tuple[str, str]
Pair = tuple[ColumnName, ColumnName]
"""Two columns that a join compares."""


@dataclass(frozen=True)
class Join:
    """Equality of one or more pairs of columns, and a condition, of which one may be missing."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    how: str = "inner"
    condition: str = ""
    """As SQL over the columns of the two; equalities among `pairs` may be in it too."""

    @property
    def compared(self) -> list[Pair]:
        """The columns compared."""
        return [((self.left, a), (self.right, b)) for a, b in self.pairs]

    def __str__(self) -> str:
        tests = [f"{self.left}.{a} = {self.right}.{b}" for a, b in self.pairs]
        on = " and ".join([*tests, self.condition] if self.condition else tests)
        return f"{self.left} {JOIN_SYMBOLS[self.how]} {self.right} on {on}"


JOIN_SYMBOLS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗"}


@dataclass(frozen=True)
class OuterJoin:
    """Rows of the preserved side stay if they have no partner; the optional side is NULL there.

    Attributes:
        preserved: The relations whose columns are compared on the preserved side.
        optional: All relations that are NULL together where there is no partner.
        pairs: The columns compared, that of the preserved side first.
        is_full: Whether rows of the optional side stay without a partner too.
        key: The attribute, a match, of each pair.
    """

    preserved: frozenset[str]
    optional: frozenset[str]
    pairs: tuple[Pair, ...]
    is_full: bool = False
    key: tuple[str, ...] = ()

    @property
    def linked(self) -> frozenset[str]:
        """The relations whose columns are compared on the optional side."""
        return frozenset(relation for _, (relation, _) in self.pairs)
