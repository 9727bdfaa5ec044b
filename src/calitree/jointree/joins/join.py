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


@dataclass(frozen=True)
class AsOf:
    """Which row of `right` a row of `left` meets: the latest of those with its keys at or before its time.

    If several are the latest, it meets them all.

    Attributes:
        left: The relation each row of which meets at most one time.
        right: The relation in which it is looked for.
        keys: Pairs of columns that must be equal, the left one first.
        times: The two columns that are compared.
        tolerance: By how much the right one may be earlier: in its own unit, or in microseconds.
        is_temporal: Whether times are dates or timestamps.
    """

    left: str
    right: str
    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    tolerance: int | float | None = None
    is_temporal: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the matches: the left relation's keys and its time, and the right one's time."""
        at = self.times[1]
        while at in self.left_columns:
            at += "'"
        return (*self.left_columns, at)

    def __str__(self) -> str:
        *tests, (x, y) = (*self.keys, self.times)
        equal = "".join(f"{self.left}.{a} = {self.right}.{b} and " for a, b in tests)
        return f"{self.right} as of {self.left} on {equal}{self.left}.{x} >= {self.right}.{y}"

    @property
    def left_columns(self) -> tuple[str, ...]:
        """The columns of the left relation: its keys and its time."""
        return (*(x for x, _ in self.keys), self.times[0])

    @property
    def right_columns(self) -> tuple[str, ...]:
        """The columns of the right relation: its keys and its time."""
        return (*(y for _, y in self.keys), self.times[1])

    @property
    def relations(self) -> frozenset[str]:
        """The two relations."""
        return frozenset((self.left, self.right))


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
