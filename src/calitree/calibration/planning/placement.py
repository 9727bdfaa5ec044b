"""Which annotation takes effect at which bag (paper §3.3, §3.4.2).

γ and σ may stand on any bag that has their attributes. To reuse as much as possible they are placed as
near to the root as they can be: on u's side of the edge u → v stands only what *cannot* be applied on v's
side, because all bags that could are on u's. That does not depend on the root, so one placement gives the
keys of all directed edges at once. A σ may also be bound to one bag: the pivot's are, and so are those
that a plan pushes down.

A predicate over attributes that no bag has together is applied where all of them are first available; up
to there they are kept as if they were grouped by (the paper's rewrite of multi-attribute predicates).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calitree.cache import cached_property
from calitree.calibration.message import MessageKey
from calitree.jointree.bag import Edge
from calitree.jointree.hypertree import Hypertree
from calitree.query.annotation import (
    Aggregate,
    Annotation,
    Augment,
    Detach,
    Exclude,
    GroupBy,
    Require,
    Select,
    SumOut,
    Update,
)
from calitree.query.binder import Query
from calitree.sql.parser import Expression


class Subtree(NamedTuple):
    """The source's side of a directed edge, as far as it does not depend on γ and σ."""

    bags: frozenset[str]
    relations: frozenset[str]
    """Those that the query joins."""
    supplied: frozenset[str]
    """The attributes of these relations."""
    separator: frozenset[str]
    implied: frozenset[str]
    """What a message keeps if its key says nothing else."""
    detached: tuple[Detach, ...]
    columns: tuple[Aggregate, ...]
    """The parts of the aggregates that a message along the edge must have."""


Subtrees = Mapping[Edge, Subtree]


def subtrees_of(tree: Hypertree, query: Query) -> Subtrees:
    """They depend on the query's relations and aggregates only, so most queries can share them."""
    subtrees = {}
    for edge in tree.directed:
        bags = tree.subtree(*edge)
        relations = frozenset(r for r in query.relations if tree.home(r) in bags)
        parts = (aggregate.restricted_to(relations) for aggregate in query.aggregates)
        subtrees[edge] = Subtree(
            bags=bags,
            relations=relations,
            supplied=frozenset().union(*(tree.relations[r] for r in relations)),
            separator=tree.separator(*edge),
            implied=tree.implied(*edge),
            detached=detached_among(tree, relations),
            columns=tuple(dict.fromkeys(part for part in parts if not part.is_one)),
        )
    return subtrees


def detached_among(tree: Hypertree, relations: Iterable[str]) -> tuple[Detach, ...]:
    """The attributes that came of leaving relations out, as far as these relations have them."""
    ordered = sorted(relations)
    owners = {a: tuple(r for r in ordered if a in tree.relations[r]) for a in sorted(tree.detached)}
    return tuple(Detach(attribute, names) for attribute, names in owners.items() if names)


@dataclass(frozen=True)
class Placement:
    """A query's annotations on a tree."""

    tree: Hypertree
    query: Query
    revisions: Mapping[str, int]
    """The revision of each relation; 0, as first loaded, is what no annotation means."""

    subtrees: Subtrees
    bound: Mapping[Expression, str] = field(default_factory=dict)
    """The bag of each predicate that must stand on one."""
    skipped: frozenset[Edge] = frozenset()
    """Edges whose messages are not wanted, with all that need them."""

    @cached_property
    def excluded(self) -> frozenset[str]:
        """The relations that the query leaves out."""
        return frozenset(self.tree.relations) - self.query.relations

    @cached_property
    def candidates(self) -> dict[Expression, frozenset[str]]:
        """For each predicate the bags it may stand on; none if no bag has all its attributes."""
        return {p: self.tree.holders(p.attributes) for p in self.query.where}

    @cached_property
    def _sites(self) -> dict[Expression, frozenset[str]]:
        """For each predicate the bags that must all be on an edge's source side for it to be applied there.

        There are none for one whose attributes no bag has together: it waits only for them.
        """

        def sites(predicate: Expression) -> frozenset[str]:
            if predicate in self.bound:
                return frozenset((self.bound[predicate],))
            return self.candidates[predicate]

        return {predicate: sites(predicate) for predicate in self.query.where}

    @cached_property
    def edges(self) -> frozenset[Edge]:
        """The directed edges that have messages: without a relation on the source's side there is none."""
        sending = (edge for edge, subtree in self.subtrees.items() if subtree.relations)
        return frozenset(sending) - self.skipped

    @cached_property
    def selected(self) -> dict[Edge, frozenset[Expression]]:
        """The predicates applied on the source's side of each edge."""
        # A bag has attributes that a relation left out would supply; then they come from the target's side.
        return {
            edge: frozenset(
                predicate
                for predicate, sites in self._sites.items()
                if sites <= subtree.bags and predicate.attributes <= subtree.supplied
            )
            for edge, subtree in self.subtrees.items()
        }

    @cached_property
    def beyond_separator(self) -> dict[Edge, frozenset[str]]:
        """Attributes that a message keeps beside its separator: γ's, and those of predicates to come."""
        wanted = frozenset(self.query.keep).union(*(p.attributes for p in self.query.where))
        holders = {attribute: self.tree.holders((attribute,)) for attribute in wanted}
        kept = {}
        for edge, subtree in self.subtrees.items():
            attributes = set(self.query.keep)
            for predicate, sites in self._sites.items():
                if predicate not in self.selected[edge] and (
                    sites <= subtree.bags or not self.candidates[predicate]
                ):
                    attributes |= predicate.attributes
            kept[edge] = frozenset(a for a in attributes if holders[a] <= subtree.bags)
        return kept

    @cached_property
    def keep(self) -> dict[Edge, tuple[str, ...]]:
        """The attributes of each message, as far as its relations supply them."""
        return {
            edge: tuple(
                sorted((subtree.separator | self.beyond_separator[edge]) & subtree.supplied)
            )
            for edge, subtree in self.subtrees.items()
        }

    @cached_property
    def _effects(self) -> tuple[tuple[Exclude | Require | Augment | Update, str], ...]:
        """R̄, R⁺ and R*, each with the bag of its relation.

        Of a relation that was added, absence needs no annotation: so it was at first.
        """
        added = self.tree.added
        effects: list[Exclude | Require | Augment | Update] = [
            *(Exclude(r) for r in sorted(self.excluded - added)),
            *map(Require, self.query.required),
            *(Augment(r) for r in sorted(added - self.excluded)),
            *(Update(r, v) for r, v in self.revisions.items() if v and r not in self.excluded),
        ]
        return tuple((effect, self.tree.home(effect.relation)) for effect in effects)

    @cached_property
    def keys(self) -> dict[Edge, MessageKey]:
        """The key of each message under this placement."""
        keys = {}
        for edge, subtree in self.subtrees.items():
            kept = frozenset(self.keep[edge])
            annotations: set[Annotation] = {
                *map(GroupBy, kept - subtree.implied),
                *map(SumOut, (subtree.implied & subtree.supplied) - kept),
                *map(Select, self.selected[edge]),
                *subtree.detached,
                *(effect for effect, bag in self._effects if bag in subtree.bags),
            }
            keys[edge] = MessageKey(*edge, frozenset(annotations))
        return keys

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
        groups: list[tuple[GroupBy | SumOut, Hypertree]] = [
            *((GroupBy(attribute), tree) for attribute in query.keep),
            *((SumOut(attribute), pivot.tree) for attribute in dropped),
        ]
        result: list[tuple[Annotation, str]] = [
            (group, tree.nearest(holding.holders((group.attribute,)), root))
            for group, holding in groups
        ]
        parents = dict(tree.upward(root))
        for bag in tree.bags:
            result += [(Select(p), bag.name) for p in self.where(bag.name, parents.get(bag.name))]
        result += [(e, bag) for e, bag in self._effects if not isinstance(e, Update)]
        detached = detached_among(tree, query.relations)
        result += [(detach, tree.home(detach.relations[0])) for detach in detached]
        lifts = {lift for aggregate in query.aggregates for lift in aggregate.lifts}
        ordered = sorted(lifts, key=lambda lift: [e.text for e in lift.expressions])
        result += [(lift, tree.home(lift.relation)) for lift in ordered]
        return tuple(result)

    def binding(self, predicate: Expression, bag: str) -> Placement:
        """The same placement with one predicate bound to one bag."""
        return replace(self, bound={**self.bound, predicate: bag})

    def can_bind(self, predicate: Expression, bag: str) -> bool:
        """Whether the bag has the predicate's attributes from its own joined relations."""
        joined = (r for r in self.tree.bag(bag).relations if r in self.query.relations)
        return predicate.attributes <= frozenset().union(*(self.tree.relations[r] for r in joined))


def with_bindings(placement: Placement, pivot: Placement) -> Placement:
    """A σ that the pivot has too stands where the pivot put it, so that its messages are reused."""
    for predicate, bag in pivot.bound.items():
        if predicate in placement.query.where and placement.can_bind(predicate, bag):
            placement = placement.binding(predicate, bag)
    return placement


def push_down(placement: Placement, root: str, missing: frozenset[Edge]) -> Placement:
    """Move each free σ away from the root along edges that are computed anyway: no reuse is lost."""
    for predicate, options in placement.candidates.items():
        if predicate in placement.bound or not options:
            continue
        top = bag = placement.tree.nearest(options, root)
        while True:
            able = (
                child
                for child in placement.tree.neighbours(bag)
                if (child, bag) in missing
                and child in options
                and placement.can_bind(predicate, child)
            )
            child = next(able, None)
            if child is None:
                break
            bag = child
        if bag != top:
            placement = placement.binding(predicate, bag)
    return placement
