"""Which annotation takes effect at which bag (paper §3.3, §3.4.2).

γ and σ may stand on any bag that has their attributes. To reuse as much as possible they are placed
as near to the root as they can be: behind the edge u → v stands only what *cannot* be applied on
v's side, because all bags that could are behind u. That does not depend on the root, so one
placement gives the keys of all directed edges at once. A σ may also be bound to one bag: the
pivot's are, and so are those that a plan pushes down.

A predicate over attributes that no bag has together is applied where they first meet; until there
they are carried as if they were grouped by (the paper's rewrite of multi-attribute predicates).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from calitree.annotation import Aggregate, Annotation, Exclude, GroupBy, Select, Update
from calitree.expressions import Expression
from calitree.hypertree import Edge, Hypertree
from calitree.message import MessageKey
from calitree.query import Query


@dataclass(frozen=True)
class Placement:
    """A query's annotations on a tree."""

    tree: Hypertree
    query: Query
    versions: Mapping[str, int]
    """The version of each relation; 0, as first loaded, is what no annotation means."""

    bound: Mapping[Expression, str] = field(default_factory=dict)

    @cached_property
    def excluded(self) -> frozenset[str]:
        return frozenset(self.tree.relations) - self.query.relations

    @cached_property
    def candidates(self) -> dict[Expression, frozenset[str]]:
        """For each predicate the bags it may stand on; none if its attributes meet in no bag."""
        return {p: self.tree.holders(p.attributes) for p in self.query.where}

    def at(self, predicate: Expression) -> frozenset[str]:
        """The bags that must all be behind an edge for the predicate to be applied behind it."""
        bag = self.bound.get(predicate)
        if bag is not None:
            return frozenset((bag,))
        here = self.candidates[predicate]
        if here:
            return here
        return frozenset().union(*(self.tree.holders((a,)) for a in predicate.attributes))

    @cached_property
    def _sites(self) -> tuple[tuple[Expression, frozenset[str]], ...]:
        return tuple((p, self.at(p)) for p in self.query.where)

    @cached_property
    def _groups(self) -> tuple[tuple[str, frozenset[str]], ...]:
        return tuple((a, self.tree.holders((a,))) for a in self.query.keep)

    @cached_property
    def _relations_behind(self) -> dict[Edge, frozenset[str]]:
        homes = {relation: self.tree.home(relation) for relation in self.query.relations}
        return {
            (u, v): frozenset(r for r, home in homes.items() if home in self.tree.behind(u, v))
            for u, v in self.tree.directed
        }

    def relations_behind(self, source: str, target: str) -> frozenset[str]:
        """The joined relations behind an edge. If there are none, the message is the identity."""
        return self._relations_behind[source, target]

    @cached_property
    def edges(self) -> frozenset[Edge]:
        """The directed edges whose messages say something: behind the others all is the identity."""
        return frozenset(edge for edge, relations in self._relations_behind.items() if relations)

    @cached_property
    def columns(self) -> dict[Edge, tuple[Aggregate, ...]]:
        """The columns that each message must carry for the query's aggregates."""
        found = {}
        for edge, relations in self._relations_behind.items():
            parts = (aggregate.behind(relations) for aggregate in self.query.aggregates)
            found[edge] = tuple(dict.fromkeys(part for part in parts if not part.is_one))
        return found

    def selected(self, source: str, target: str) -> frozenset[Expression]:
        """The predicates applied behind an edge."""
        bags = self.tree.behind(source, target)
        return frozenset(p for p, sites in self._sites if sites <= bags)

    def carried(self, source: str, target: str) -> frozenset[str]:
        """Attributes that an edge carries beyond its separator: γ's, and those of predicates still
        to come.
        """
        bags = self.tree.behind(source, target)
        result = {a for a, holders in self._groups if holders <= bags}
        for predicate, sites in self._sites:
            if not self.candidates[predicate] and not sites <= bags:
                result |= {a for a in predicate.attributes if self.tree.holders((a,)) <= bags}
        return frozenset(result)

    def keep(self, source: str, target: str) -> tuple[str, ...]:
        """The attributes of the message: the separator and what is carried, as far as relations
        supply them.
        """
        wanted = self.tree.separator(source, target) | self.carried(source, target)
        supplied: set[str] = set()
        for relation in self.relations_behind(source, target):
            supplied |= self.tree.relations[relation]
        return tuple(sorted(wanted & supplied))

    def key(self, source: str, target: str) -> MessageKey:
        """The key of the message source → target under this placement."""
        bags = self.tree.behind(source, target)
        behind: set[Annotation] = {Select(p) for p in self.selected(source, target)}
        behind |= {GroupBy(a) for a in self.carried(source, target)}
        behind |= {Exclude(r) for r in self.excluded if self.tree.home(r) in bags}
        behind |= {
            Update(r, version)
            for r, version in self.versions.items()
            if version and r in self.query.relations and self.tree.home(r) in bags
        }
        return MessageKey(source, target, frozenset(behind))

    @cached_property
    def keys(self) -> dict[Edge, MessageKey]:
        return {(u, v): self.key(u, v) for u, v in self.tree.directed}

    def where(self, bag: str, target: str | None) -> tuple[Expression, ...]:
        """The predicates that this bag applies when it sends to `target`, or absorbs (None)."""
        due = frozenset(self.query.where) if target is None else self.selected(bag, target)
        for other in self.tree.neighbours(bag):
            if other != target:
                due -= self.selected(other, bag)
        return tuple(p for p in self.query.where if p in due)

    def binding(self, predicate: Expression, bag: str) -> Placement:
        """The same placement with one predicate bound to one bag."""
        return replace(self, bound={**self.bound, predicate: bag})

    def can_bind(self, predicate: Expression, bag: str) -> bool:
        """Whether the bag has the predicate's attributes from its own joined relations."""
        own: set[str] = set()
        for relation in self.tree.bag(bag).relations:
            if relation in self.query.relations:
                own |= self.tree.relations[relation]
        return predicate.attributes <= own
