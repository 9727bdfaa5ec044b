"""The vertices of a hypertree, and which of them the edges connect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Edge = tuple[str, str]


@dataclass(frozen=True)
class Bag:
    """A vertex of a hypertree.

    Attributes:
        name: Its name; found automatically, that of its relations.
        attributes: The attributes it has, each named by its first column.
        relations: The relations mapped to it (X⁻¹); an empty bag has none.
        extra: Those of its attributes that were added for a relation that joined the tree later.

    Example:
        >>> wide.tree.bag("stores").relations
        ('stores',)
    """

    name: str
    attributes: frozenset[str]
    relations: tuple[str, ...] = ()
    extra: frozenset[str] = frozenset()


def neighbours_of(bags: Iterable[Bag], edges: Iterable[Edge]) -> dict[str, tuple[str, ...]]:
    """For each bag those that an edge connects it with."""
    near: dict[str, list[str]] = {bag.name: [] for bag in bags}
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    return {name: tuple(others) for name, others in near.items()}


def connected(
    neighbours: Mapping[str, Iterable[str]], start: str, without: str | None = None
) -> frozenset[str]:
    """The bags connected with one, if its edge to the bag `without` is left out."""
    seen, frontier = {start}, [start]
    while frontier:
        bag = frontier.pop()
        new = set(neighbours[bag]) - seen - ({without} if bag == start else set())
        seen |= new
        frontier += new
    return frozenset(seen)
