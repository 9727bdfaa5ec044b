"""The properties that make bags and edges a junction hypertree (paper §2), each checked by a function.

An error names the relation, the attribute or the bag that breaks a property.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from calitree.errors import TreeError, did_you_mean
from calitree.jointree.bag import Bag, Edge, connected, neighbours_of


def check_tree(bags: Sequence[Bag], edges: Sequence[Edge]) -> None:
    """The edges connect the bags into a tree."""
    names = [bag.name for bag in bags]
    if not names:
        raise TreeError("A hypertree needs at least one bag: add a relation first.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise TreeError(f"Two bags are called {twice[0]!r}.")
    for edge in edges:
        if not isinstance(edge, tuple) or len(edge) != 2:
            raise TreeError(f"An edge is a pair of bags, not {edge!r}.")
        for end in edge:
            if end not in names:
                hint = did_you_mean(str(end), names)
                raise TreeError(f"Edge {edge} ends in {end!r}, which is no bag.{hint}")
    apart = sorted(set(names) - connected(neighbours_of(bags, edges), names[0]))
    if apart or len(edges) != len(names) - 1:
        problem = f"{', '.join(apart)} cannot be reached" if apart else "they close a cycle"
        raise TreeError(f"The edges must connect the bags into a tree, but {problem}.")


def check_coverage(bags: Sequence[Bag], relations: Mapping[str, frozenset[str]]) -> None:
    """Each relation is mapped to one bag that has its attributes, and bags have no others."""
    mapped: dict[str, Bag] = {}
    for bag in bags:
        for relation in bag.relations:
            if relation not in relations:
                hint = did_you_mean(relation, relations)
                raise TreeError(f"Bag {bag.name} maps an unknown relation {relation!r}.{hint}")
            if relation in mapped:
                raise TreeError(
                    f"{relation} is mapped to two bags, {mapped[relation].name} and {bag.name}; "
                    "it would be counted twice."
                )
            mapped[relation] = bag
    for relation, attributes in relations.items():
        if relation not in mapped:
            raise TreeError(f"Edge coverage: no bag holds relation {relation}.")
        missing = sorted(attributes - mapped[relation].attributes)
        if missing:
            raise TreeError(
                f"Edge coverage: bag {mapped[relation].name} lacks {missing[0]} of {relation}."
            )
    known = frozenset().union(*relations.values())
    for bag in bags:
        unknown = sorted(bag.attributes - known)
        if unknown:
            raise TreeError(f"Vertex coverage: {unknown[0]} in bag {bag.name} is in no relation.")


def check_running_intersection(bags: Sequence[Bag], edges: Sequence[Edge]) -> None:
    """The bags that have an attribute are connected."""
    attributes = {bag.name: bag.attributes for bag in bags}
    holding = Counter(a for bag in bags for a in bag.attributes)
    spanned = Counter(a for one, other in edges for a in attributes[one] & attributes[other])
    for attribute, count in sorted(holding.items()):
        # In a tree, the bags of an attribute are connected iff they span one edge less than bags.
        if spanned[attribute] != count - 1:
            holders = [bag.name for bag in bags if attribute in bag.attributes]
            raise TreeError(
                f"Running intersection: the bags with {attribute} ({', '.join(holders)}) are not connected."
            )
