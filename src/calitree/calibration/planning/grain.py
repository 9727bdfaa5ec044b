"""Where a measure at a grain is absorbed: at a relation whose rows count once.

What arrives there is joined with its rows by keys: each message is a set of keys and groups, so a row meets
each group once, however often the join repeats it. Several relations of a grain send each other sums, and all
others send sets.

A relation in which each row of the grain has one partner at most, as keys are there once, may be in the grain
too: that changes nothing (`closure`). So sales at their own grain can be absorbed at stores, from the same
message as the sum over all joined rows; and where nothing repeats a row, the two are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.plan import Absorb
from calitree.calibration.planning.uniqueness import is_unique
from calitree.calibration.snapshot import Snapshot
from calitree.errors import QueryError
from calitree.jointree.bag import Edge
from calitree.jointree.schema import Schema


def at_closure(snapshot: Snapshot, schema: Schema, placement: Placement) -> Placement:
    """The placement of the same query with as many relations in its grain as change nothing.

    That is not so where a condition or a group would repeat rows: these are told apart in one relation.
    """
    query = placement.query
    _check_sides(schema, query.grain)
    grain = closure(snapshot, schema, placement)
    if grain == query.grain:
        return placement
    wider = query.at_grain(frozenset() if grain == query.relations else grain)
    other = snapshot.placement(wider)
    return placement if wider.grain and _repeats(other) else other


def closure(snapshot: Snapshot, schema: Schema, placement: Placement) -> frozenset[str]:
    """The grain, and relations in which each of its rows has one partner at most, by inner joins."""
    query, tree = placement.query, placement.tree
    alone = {
        bag.name: relations[0]
        for bag in tree.bags
        if len(relations := [r for r in bag.relations if r in query.relations]) == 1
    }
    grain, reached = set(query.grain), [tree.home(name) for name in query.grain]
    if not all(bag in alone for bag in reached):
        return query.grain
    while reached:
        bag = reached.pop()
        for other in tree.neighbours(bag):
            name = alone.get(other)
            if name is None or name in grain or {name, alone[bag]} & schema.optional.keys():
                continue
            key = tree.relations[alone[bag]] & tree.relations[name]
            if is_unique(snapshot, schema, name, key):
                grain.add(name)
                reached.append(other)
    return frozenset(grain)


def grain_bags(placement: Placement) -> set[str]:
    """The bags that a query of one grain may be absorbed at."""
    query, tree = placement.query, placement.tree
    homes = {tree.home(name) for name in query.grain}
    bags = _bags_between(placement, next(iter(sorted(homes))))
    others = {r for bag in bags for r in tree.bag(bag).relations} & query.relations - query.grain
    if others and len(query.grain) > 1:
        named = " and ".join(sorted(others))
        raise QueryError(
            f"Rows of {_named(query.grain)} are joined through {named}, which may repeat them: add "
            f"{named} to the grain."
        )
    return homes


def _check_sides(schema: Schema, grain: frozenset[str]) -> None:
    """An error if a joined row may have a row of one relation of a grain and none of another."""
    outer = schema.optional
    sides = {outer[name].optional if name in outer else frozenset() for name in grain}
    if len(sides) > 1:
        raise QueryError(
            f"{_named(grain)} are joined by an outer join, so that a row of one may have no partner "
            "in another; name one of them as the grain."
        )


def at_row(absorb: Absorb, placement: Placement) -> Absorb:
    """The absorption, which tells rows of the grain apart if what arrives at the root would repeat them."""
    query, tree = placement.query, placement.tree
    others = query.relations.intersection(tree.bag(absorb.bag).relations) - query.grain
    if not (others or _repeats(placement)):
        return absorb
    if len(query.grain) > 1:
        raise QueryError(
            f"A condition, join or group over several relations would repeat rows of "
            f"{_named(query.grain)}, of which each joined row counts once. Name one relation as the grain, "
            "or leave the grain out."
        )
    (relation,) = query.grain
    return replace(absorb, by_row=relation)


def edges_with_grain(placement: Placement, full: Sequence[Edge]) -> list[Edge]:
    """Those full joins that keep rows of the grain without a partner, from the optional side to the other."""
    query, tree = placement.query, placement.tree
    homes = {tree.home(name) for name in query.grain}
    kept = []
    for bag, preserved in full:
        if homes <= tree.subtree(preserved, bag):
            continue  # rows of the other side have none of the grain's
        if homes != {bag}:
            raise QueryError(
                f"{_named(query.grain)} is joined with one side of a full join, whose rows without a partner "
                f"would repeat it. Name {_named(frozenset(tree.bag(bag).relations))} as the grain."
            )
        kept.append((bag, preserved))
    if kept and query.folded:
        raise QueryError(
            "Groups by an expression over several relations are not supported yet for a measure at the grain "
            "of one side of a full join. Group by its columns."
        )
    return kept


def _bags_between(placement: Placement, root: str) -> set[str]:
    """The bags on the paths between the grain's relations, of which one is at the root."""
    parents = dict(placement.tree.upward(root))
    bags = {root}
    for relation in placement.query.grain:
        bag = placement.tree.home(relation)
        while bag not in bags:
            bags.add(bag)
            bag = parents[bag]
    return bags


def _repeats(placement: Placement) -> bool:
    """Whether more arrives at the grain's relations than their own attributes and groups: it repeats rows."""
    query, tree = placement.query, placement.tree
    if query.folded:
        return True
    own = frozenset[str]().union(query.keep, *(tree.relations[name] for name in query.grain))
    homes = {tree.home(name) for name in query.grain}
    bags = _bags_between(placement, next(iter(sorted(homes))))
    arriving = [edge for edge in placement.edges if edge[1] in bags]
    return not own.issuperset(a for edge in arriving for a in placement.keep[edge])


def _named(grain: frozenset[str]) -> str:
    return " and ".join(sorted(grain))
