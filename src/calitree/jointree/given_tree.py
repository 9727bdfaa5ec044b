"""From a join graph to the hypertree that is asked for: of the user's own bags, or one that is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from calitree.errors import SchemaError, TreeError, did_you_mean
from calitree.jointree.bag import Bag
from calitree.jointree.cycles import Attributes
from calitree.jointree.decompose import check_connected, join_tree, outer_edges
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.schema import Schema


class GivenBags(NamedTuple):
    """What `JoinGraph.hypertree` is given of bags, and what of them is left out."""

    bags: Mapping[str, Sequence[str]] | None
    edges: Iterable[tuple[str, str]] | None
    mapping: Mapping[str, str] | None
    empty: Mapping[str, Sequence[str]] | None


def declared_tree(
    schema: Schema, given: GivenBags, *, redundant: bool, cross_join: bool
) -> Hypertree:
    """The tree of a graph: of these bags, or computed, and with empty bags besides."""
    if given.bags is not None:
        if redundant:
            raise TreeError(
                "redundant=True finds the bags by itself: leave out bags, or write there one bag for "
                "each relation and one that lists only columns."
            )
        check_connected(schema, cross_join)
        tree = _tree(schema, given.bags, given.edges or (), given.mapping or {})
    elif given.edges is not None or given.mapping is not None:
        raise TreeError("edges and mapping describe bags: give bags too.")
    else:
        tree = join_tree(schema, redundant=redundant, cross_join=cross_join)
    for name, columns in (given.empty or {}).items():
        if isinstance(columns, str):
            raise TreeError(f"Empty bag {name} is a list of columns, not one text.")
        tree = tree.with_empty_bag(name, (schema.column(c).attribute for c in columns))
    return tree


def _tree(
    schema: Schema,
    bags: Mapping[str, Sequence[str]],
    edges: Iterable[tuple[str, str]],
    mapping: Mapping[str, str],
) -> Hypertree:
    """The user's own bags: each lists relations (for all their attributes) and columns.

    A relation is mapped to the bag that `mapping` says, else to the first bag that lists it, else
    to the first whose attributes cover it.
    """
    if not isinstance(bags, Mapping):
        raise TreeError(f"bags is {{name: relations and columns}}; got {bags!r}.")
    if not isinstance(edges, Iterable):
        raise TreeError(f"edges is a list of pairs of bags; got {edges!r}.")
    attributes = schema.attributes_of
    listed = {bag: _listed(bag, contents) for bag, contents in bags.items()}
    held = {bag: _attributes(schema, names) for bag, names in listed.items()}
    relations: dict[str, list[str]] = {bag: [] for bag in bags}
    for relation in schema.relations:
        options = [bag for bag in bags if relation in listed[bag]]
        options += [bag for bag in bags if attributes[relation] <= held[bag]]
        bag = mapping.get(relation, next(iter(options), None))
        if bag is None:
            raise TreeError(f"Edge coverage: no bag holds relation {relation}.")
        if bag not in relations:
            raise TreeError(f"{relation} is mapped to {bag!r}, which is no bag.")
        relations[bag].append(relation)
    for name in mapping:
        if name not in schema.relations:
            hint = did_you_mean(str(name), schema.relations)
            raise SchemaError(f"mapping names an unknown relation {name!r}.{hint}")
    tree = Hypertree(
        tuple(Bag(bag, held[bag], tuple(relations[bag])) for bag in bags),
        tuple(tuple(edge) if isinstance(edge, list) else edge for edge in edges),
        attributes,
        schema.rows,
    )
    _check_outer(schema, tree)
    return tree


def _check_outer(schema: Schema, tree: Hypertree) -> None:
    """Bags that are given must have the two sides of each outer join beside each other."""
    for join, (preserved, optional) in outer_edges(schema, tree.bags).items():
        others = set(tree.bag(optional).relations) - join.optional
        if others:
            raise TreeError(
                f"Bag {optional} is the optional side of an outer join, so it cannot have "
                f"{' and '.join(sorted(others))} too."
            )
        if optional not in tree.neighbours(preserved):
            raise TreeError(
                f"{optional} is the optional side of an outer join with {preserved}: there must be an edge "
                "between these bags."
            )


def _listed(bag: str, contents: Iterable[str]) -> tuple[str, ...]:
    if isinstance(contents, str):
        raise TreeError(f"Bag {bag} is a list of relations and columns, not one text.")
    return tuple(contents)


def _attributes(schema: Schema, names: Iterable[str]) -> Attributes:
    """The attributes of some relations and columns."""
    return frozenset().union(
        *(
            schema.columns_of[name]
            if name in schema.relations
            else (schema.column(name).attribute,)
            for name in names
        )
    )
