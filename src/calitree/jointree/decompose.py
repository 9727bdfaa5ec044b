"""From a join graph to a hypertree that is computed.

An acyclic graph has a join tree, with one bag a relation. Of a cyclic one the ears, such as dimension
tables, keep a bag each, and the relations of its core share bags, or stand around them (`redundant`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import combinations, pairwise

from calitree.errors import TreeError
from calitree.jointree.bag import Bag, Edge
from calitree.jointree.cycles import Attributes, Cut, cuts, cyclic_core
from calitree.jointree.hypertree import Hypertree
from calitree.jointree.joins.join import OuterJoin
from calitree.jointree.schema import Schema
from calitree.jointree.width import bits_of, cover

Contents = tuple[Attributes, tuple[str, ...]]
"""Of a bag: attributes, and the relations mapped to it."""

NO_RELATION = "The graph has no relation yet; add one with add_relation."


def join_tree(schema: Schema, *, redundant: bool = False, cross_join: bool = False) -> Hypertree:
    """One bag a relation where the graph is acyclic, shared bags where it is not.

    `redundant` gives every relation a bag of its own also there, around empty bags (paper,
    appendix on latency): those of the decomposition that no relation covers. Of a triangle that is
    one empty bag with three leaves, of longer cycles several, as one with all attributes of the
    core would hold more. An acyclic graph gets the same tree as without.
    """
    if not schema.relations:
        raise TreeError(NO_RELATION)
    check_connected(schema, cross_join)
    attributes = {r: a for r, a in schema.attributes_of.items() if r not in schema.optional}
    core = cyclic_core(attributes)
    if not core:
        return _tree(schema, [(held, (name,)) for name, held in attributes.items()])
    costs = bits_of(schema.attributes_of, schema.rows)
    values = {name: min(costs[r] for r in a.relations) for name, a in schema.attributes.items()}
    layout = _redundant if redundant else _shared
    trees = [_tree(schema, layout(attributes, core, c)) for c in cuts(core, values)]
    return min(trees, key=_work(costs)) if len(trees) > 1 else trees[0]


def _optional_bags(schema: Schema) -> list[Contents]:
    """A bag for the optional side of each outer join: its relations are NULL together, or not at all."""
    attributes = schema.attributes_of
    blocks = [tuple(r for r in schema.relations if r in join.optional) for join in schema.outer]
    return [(frozenset().union(*(attributes[r] for r in block)), block) for block in blocks]


def outer_edges(schema: Schema, bags: Iterable[Bag]) -> dict[OuterJoin, Edge]:
    """For each outer join the bag of its preserved side and that of its optional side.

    Each side must be in one bag: only there it is known whether a row has a partner.
    """
    home = {relation: bag for bag in bags for relation in bag.relations}
    edges: dict[OuterJoin, Edge] = {}
    for join in schema.outer:
        preserved = {home[relation].name for relation in join.preserved}
        optional = {home[relation].name for relation in join.optional}
        for names, relations in ((preserved, join.preserved), (optional, join.optional)):
            if len(names) > 1:
                raise TreeError(
                    f"{' and '.join(sorted(relations))} are one side of an outer join, so they must share "
                    f"a bag; they are in {' and '.join(sorted(names))}."
                )
        edges[join] = preserved.pop(), optional.pop()
    return edges


def check_connected(schema: Schema, cross_join: bool) -> None:
    """Refuse a graph of several parts, unless all combinations of their rows are wanted."""
    components = schema.components()
    if len(components) > 1 and any(join.is_full for join in schema.outer):
        raise TreeError(
            "A graph of several parts with a full join in one of them is not supported."
        )
    if len(components) > 1 and not cross_join:
        listed = "; ".join(", ".join(part) for part in components)
        raise TreeError(
            f"The join graph is not connected; its parts are: {listed}. Join them with add_join, or "
            "have all combinations of their rows with cross_join=True."
        )


def _shared(
    attributes: Mapping[str, Attributes], core: Mapping[str, Attributes], cut: Cut
) -> list[Contents]:
    """A bag for each ear, and the cut's bags with the relations of the core.

    A relation that fits into several bags goes where there are fewest.
    """
    options = {r: [i for i, bag in enumerate(cut) if held <= bag] for r, held in core.items()}
    homes: list[list[str]] = [[] for _ in cut]
    for relation in sorted(core, key=lambda r: len(options[r])):
        homes[min(options[relation], key=lambda i: len(homes[i]))].append(relation)
    ears: list[Contents] = [(attributes[r], (r,)) for r in attributes if r not in core]
    mapped = [tuple(r for r in core if r in home) for home in homes]
    return ears + list(zip(cut, mapped, strict=True))


def _redundant(
    attributes: Mapping[str, Attributes], core: Mapping[str, Attributes], cut: Cut
) -> list[Contents]:
    """A bag for each relation, and empty ones where the cut has a bag that no relation covers."""
    own: list[Contents] = [(held, (name,)) for name, held in attributes.items()]
    return own + [(held, ()) for held in cut if not any(map(held.issubset, core.values()))]


def _bags(attributes: Mapping[str, Attributes], contents: Iterable[Contents]) -> tuple[Bag, ...]:
    """Bags with all attributes of their relations, named by these, or if empty by attributes."""
    bags: dict[str, Bag] = {}
    for held, relations in contents:
        name = "+".join(relations) or f"({', '.join(sorted(held))})"
        while name in bags:  # A relation may be called so.
            name += "'"
        bags[name] = Bag(name, held.union(*(attributes[r] for r in relations)), relations)
    return tuple(bags.values())


def _tree(schema: Schema, contents: Iterable[Contents]) -> Hypertree:
    """Bags of these contents, connected by a maximum spanning tree, and the optional ones beside them.

    With edges weighted by the number of shared attributes, a maximum spanning tree is a join tree
    if and only if the bags are acyclic (Bernstein and Goodman). Ties go to declared joins, so that
    the tree looks like what was declared. Bags that share nothing are connected where a condition
    joins their relations, and else, of a graph of several parts, anywhere.
    """
    import networkx as nx

    bags = _bags(schema.attributes_of, [*contents, *_optional_bags(schema)])
    core = bags[: len(bags) - len(schema.outer)]
    declared = {frozenset((join.left, join.right)) for join in schema.joins}
    by_condition = any(join.condition for join in schema.joins)
    graph = nx.Graph()
    graph.add_nodes_from(bag.name for bag in core)
    for a, b in combinations(core, 2):
        shared = len(a.attributes & b.attributes)
        if shared or by_condition:
            joined = any(frozenset((r, s)) in declared for r in a.relations for s in b.relations)
            if shared or joined:
                graph.add_edge(a.name, b.name, weight=shared + (0.5 if joined else 0))
    order = {bag.name: position for position, bag in enumerate(core)}
    parts = sorted(min(part, key=order.__getitem__) for part in nx.connected_components(graph))
    graph.add_edges_from(pairwise(parts), weight=0)
    spanning = nx.maximum_spanning_edges(graph, data=False)
    pairs = sorted((tuple(sorted(edge, key=order.__getitem__)) for edge in spanning), key=str)
    edges: tuple[Edge, ...] = tuple((a, b) for a, b in pairs)
    edges += tuple(outer_edges(schema, bags).values())
    return Hypertree(bags, edges, schema.attributes_of, schema.rows)


def _work(costs: Mapping[str, float]) -> Callable[[Hypertree], tuple[float, float]]:
    """What a tree costs: the AGM bounds of all its joins, the largest first, then their sum.

    A bag joins everything when it absorbs, but only what is on its side of an edge when it sends. That
    can be more rows, as fewer relations limit them (the paper's remark on indicator projections).
    """
    known: dict[tuple[Attributes, Attributes], float] = {}

    def bits(held: Attributes, relations: Mapping[str, Attributes]) -> float:
        near = {name: attributes & held for name, attributes in relations.items()}
        near = {name: attributes for name, attributes in near.items() if attributes}
        key = held, frozenset(near)
        if key not in known:
            known[key] = cover(held, near, costs)
        return known[key]

    def work(tree: Hypertree) -> tuple[float, float]:
        bounds = []
        for bag in tree.bags:
            counted = bag.attributes & tree.shared
            if any(counted <= tree.relations[r] for r in bag.relations):
                continue  # It joins no more rows than that relation has, in whichever tree.
            subtrees = [tree.subtree(bag.name, other) for other in tree.neighbours(bag.name)]
            for bags in (frozenset(bag.name for bag in tree.bags), *subtrees):
                joined = {r: a for r, a in tree.relations.items() if tree.home(r) in bags}
                bounds.append(bits(counted & frozenset().union(*joined.values()), joined))
        largest = max(bounds)
        return largest, round(sum(2 ** (bound - largest) for bound in bounds), 9)

    return work
