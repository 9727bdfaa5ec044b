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
from typing import NamedTuple

from calitree.cache import cached_property
from calitree.calibration.message import MessageKey
from calitree.jointree.hypertree import Edge, Hypertree
from calitree.query.annotation import (
    Aggregate,
    Annotation,
    Augment,
    Exclude,
    GroupBy,
    Select,
    SumOut,
    Update,
)
from calitree.query.binder import Query
from calitree.sql.parser import Expression


class Side(NamedTuple):
    """What is behind a directed edge, whatever is grouped by or filtered: the bags, the relations joined,
    and the attributes that they supply. `extra` is what is in the separator only because bags were
    extended.
    """

    bags: frozenset[str]
    relations: frozenset[str]
    supplied: frozenset[str]
    separator: frozenset[str]
    extra: frozenset[str]
    columns: tuple[Aggregate, ...]
    """What a message must carry for the aggregates."""


Sides = Mapping[Edge, Side]


def sides_of(tree: Hypertree, query: Query) -> Sides:
    """They depend on the query's relations and aggregates only, so most queries can share them."""
    sides = {}
    for edge in tree.directed:
        bags = tree.subtree(*edge)
        relations = frozenset(r for r in query.relations if tree.home(r) in bags)
        supplied = frozenset().union(*(tree.relations[r] for r in relations))
        parts = (aggregate.restricted_to(relations) for aggregate in query.aggregates)
        columns = tuple(dict.fromkeys(part for part in parts if not part.is_one))
        separator, extra = tree.separator(*edge), tree.extra(*edge)
        sides[edge] = Side(bags, relations, supplied, separator, extra, columns)
    return sides


@dataclass(frozen=True)
class Placement:
    """A query's annotations on a tree."""

    tree: Hypertree
    query: Query
    versions: Mapping[str, int]
    """The version of each relation; 0, as first loaded, is what no annotation means."""

    sides: Sides
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
    def edges(self) -> frozenset[Edge]:
        """The directed edges whose messages say something: behind the others all is the identity."""
        return frozenset(edge for edge, side in self.sides.items() if side.relations)

    @cached_property
    def selected(self) -> dict[Edge, frozenset[Expression]]:
        """The predicates applied behind each edge."""
        found = {}
        for edge, side in self.sides.items():
            # A bag has attributes that a relation left out would supply; then they come from ahead.
            found[edge] = frozenset(
                p
                for p, sites in self._sites
                if sites <= side.bags and p.attributes <= side.supplied
            )
        return found

    @cached_property
    def carried(self) -> dict[Edge, frozenset[str]]:
        """Attributes that an edge carries beyond its separator: γ's, and those of predicates still
        to come.
        """
        found, holders = {}, self.tree.holders
        for edge, side in self.sides.items():
            carried = {a for a, bags in self._groups if bags <= side.bags}
            for predicate, sites in self._sites:
                if predicate not in self.selected[edge] and (
                    sites <= side.bags or not self.candidates[predicate]
                ):
                    carried |= {a for a in predicate.attributes if holders((a,)) <= side.bags}
            found[edge] = frozenset(carried)
        return found

    @cached_property
    def keep(self) -> dict[Edge, tuple[str, ...]]:
        """The attributes of each message: the separator and what is carried, as far as relations
        supply them.
        """
        return {
            edge: tuple(sorted((side.separator | self.carried[edge]) & side.supplied))
            for edge, side in self.sides.items()
        }

    @cached_property
    def _effects(self) -> tuple[tuple[Annotation, str], ...]:
        """R̄, R⁺ and R*, and the bag that must be behind an edge for them to be in effect there.

        Of a relation that was added, absence needs no annotation: so it was at first.
        """
        added = self.tree.added
        changes: list[Exclude | Augment | Update] = [Exclude(r) for r in self.excluded - added]
        changes += [Augment(r) for r in added - self.excluded]
        changes += [Update(r, v) for r, v in self.versions.items() if v and r not in self.excluded]
        return tuple((each, self.tree.home(each.relation)) for each in changes)

    @cached_property
    def keys(self) -> dict[Edge, MessageKey]:
        """The key of each message under this placement."""
        found = {}
        for edge, side in self.sides.items():
            extra = side.extra & side.supplied
            behind: set[Annotation] = {GroupBy(a) for a in self.carried[edge] | extra}
            behind |= {Select(p) for p in self.selected[edge]}
            behind |= {annotation for annotation, bag in self._effects if bag in side.bags}
            found[edge] = MessageKey(*edge, frozenset(behind))
        return found

    def where(self, bag: str, target: str | None) -> tuple[Expression, ...]:
        """The predicates that this bag applies when it sends to `target`, or absorbs (None)."""
        if not self.query.where:
            return ()
        due = frozenset(self.query.where) if target is None else self.selected[bag, target]
        for other in self.tree.neighbours(bag):
            if other != target:
                due -= self.selected[other, bag]
        return tuple(p for p in self.query.where if p in due)

    def placed(self, root: str, pivot: Placement) -> tuple[tuple[Annotation, str], ...]:
        """Where each annotation takes effect, given the root; Σ where the pivot's γ is not wanted."""
        tree, query = self.tree, self.query
        dropped = (attribute for attribute in pivot.query.keep if attribute not in query.keep)
        result: list[tuple[Annotation, str]] = []
        groups: list[GroupBy | SumOut] = [*map(GroupBy, query.keep), *map(SumOut, dropped)]
        for each in groups:
            result.append((each, tree.nearest(tree.holders((each.attribute,)), root)))
        onward = dict(tree.upward(root))
        for bag in (bag.name for bag in tree.bags):
            result += [(Select(p), bag) for p in self.where(bag, onward.get(bag))]
        result += [(Exclude(r), tree.home(r)) for r in sorted(self.excluded - tree.added)]
        result += [(Augment(r), tree.home(r)) for r in sorted(tree.added - self.excluded)]
        lifts = {lift for aggregate in query.aggregates for lift in aggregate.lifts}
        ordered = sorted(lifts, key=lambda lift: [each.text for each in lift.expressions])
        result += [(lift, tree.home(lift.relation)) for lift in ordered]
        return tuple(result)

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


def with_bindings(placement: Placement, pivot: Placement) -> Placement:
    """A σ that the pivot has too stands where the pivot put it, so that its messages are found."""
    for predicate, bag in pivot.bound.items():
        if predicate in placement.query.where and placement.can_bind(predicate, bag):
            placement = placement.binding(predicate, bag)
    return placement


def push_down(placement: Placement, root: str, missing: frozenset[Edge]) -> Placement:
    """Move each free σ as far from the root as edges that are computed anyway allow: no reuse is
    lost.
    """
    for predicate, options in placement.candidates.items():
        if predicate in placement.bound or not options:
            continue
        here = placement.tree.nearest(options, root)
        moved = False
        while True:
            below = [
                child
                for child in placement.tree.neighbours(here)
                if (child, here) in missing
                and child in options
                and placement.can_bind(predicate, child)
            ]
            if not below:
                break
            here, moved = below[0], True
        if moved:
            placement = placement.binding(predicate, here)
    return placement
