"""Proposition 1 as a type: two equal keys carry equal messages, whatever the root and the order.

The message u → v is the sum, over everything behind u, of the product of everything behind u. So
its rows depend on the *set* of annotations in effect behind u — not on which of the bags there each
one stands — and each of its columns on the lifts behind u. That is a little more than the paper's
proposition, which compares the annotated subtrees bag by bag, and it makes Σ_A cancel γ_A by
construction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from calitree.annotation import Aggregate, Annotation
from calitree.engines import Table


@dataclass(frozen=True)
class MessageKey:
    """What the rows of the message source → target depend on.

    `behind` holds the γ, σ, R̄ and R* in effect behind the edge. γ_A is left out where A is in the
    separator: there it is kept in any case.
    """

    source: str
    target: str
    behind: frozenset[Annotation] = frozenset()

    def __str__(self) -> str:
        return f"{self.source}→{self.target}"


@dataclass(frozen=True, eq=False)
class Message:
    """A computed message: its table, and under which name each aggregate's column is found there."""

    key: MessageKey
    table: Table
    columns: dict[Aggregate, str]

    def carries(self, aggregates: Iterable[Aggregate]) -> bool:
        return all(aggregate in self.columns for aggregate in aggregates)


def column_names(aggregates: Iterable[Aggregate]) -> dict[Aggregate, str]:
    """The column that each aggregate gets in a contraction's result."""
    return {aggregate: f"c{i}" for i, aggregate in enumerate(aggregates)}
