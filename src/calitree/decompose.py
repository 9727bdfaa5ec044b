"""From a join graph to a hypertree: a join tree where the graph is acyclic, or the user's own bags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from calitree.errors import SchemaError, TreeError, did_you_mean
from calitree.hypertree import Bag, Hypertree
from calitree.schema import Schema


def join_tree(schema: Schema) -> Hypertree:
    """One bag a relation, connected by a maximum spanning tree.

    With edges weighted by the number of shared attributes, a maximum spanning tree is a join tree
    if and only if the graph is acyclic (Bernstein and Goodman). Ties go to declared joins, so that
    the tree looks like what was declared.
    """
    import networkx as nx

    if not schema.relations:
        raise TreeError("The graph has no relation yet; add one with add_relation.")
    components = schema.components()
    if len(components) > 1:
        listed = "; ".join(", ".join(part) for part in components)
        raise TreeError(
            f"The join graph is not connected; its parts are: {listed}. Join them with add_join."
        )
    attributes = {name: frozenset(columns) for name, columns in schema.columns_of.items()}
    declared = {frozenset((join.left, join.right)) for join in schema.joins}
    graph = nx.Graph()
    graph.add_nodes_from(schema.relations)
    for a, b in combinations(schema.relations, 2):
        shared = len(attributes[a] & attributes[b])
        if shared:
            graph.add_edge(a, b, weight=shared + (0.5 if frozenset((a, b)) in declared else 0))
    order = {name: position for position, name in enumerate(schema.relations)}
    found = nx.maximum_spanning_edges(graph, data=False)
    edges = sorted((tuple(sorted(edge, key=order.__getitem__)) for edge in found), key=str)
    bags = tuple(Bag(name, attributes[name], (name,)) for name in schema.relations)
    total = sum(len(attributes[a] & attributes[b]) for a, b in edges)
    if total != sum(len(a.columns) - 1 for a in schema.attributes.values()):
        raise TreeError(_describe_cycle(attributes))
    return Hypertree(bags, tuple((a, b) for a, b in edges), attributes)


def _describe_cycle(attributes: Mapping[str, frozenset[str]]) -> str:
    """Name one cycle among the relations that GYO reduction cannot remove."""
    import networkx as nx

    left = dict(attributes)
    changed = True
    while changed:
        changed = False
        for name in list(left):
            others = [left[other] for other in left if other != name]
            shared = left[name] & frozenset().union(*others)
            if shared != left[name]:
                left[name], changed = shared, True
            if any(shared <= other for other in others):
                del left[name]
                changed = True
    # Attributes in brackets: no relation is called so, and the cycle reads well.
    links = [(name, f"[{a}]") for name, columns in left.items() for a in sorted(columns)]
    graph = nx.Graph(links)
    walks = []
    for relation, attribute in links:
        rest = nx.restricted_view(graph, (), [(relation, attribute)])
        if nx.has_path(rest, relation, attribute):
            walks.append(nx.shortest_path(rest, relation, attribute))
    walk = min(walks, key=len)
    return (
        f"The join graph is cyclic: {' — '.join([*walk, walk[0]])}. Leave one of these joins out, "
        "or add a relation a second time under another name where two different rows are meant."
    )


def given_tree(
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
    attributes = {name: frozenset(columns) for name, columns in schema.columns_of.items()}
    held: dict[str, set[str]] = {}
    listed: dict[str, str] = {}
    for bag, contents in bags.items():
        held[bag] = set()
        if isinstance(contents, str):
            raise TreeError(f"Bag {bag} is a list of relations and columns, not one text.")
        for each in contents:
            if each in schema.relations:
                held[bag] |= attributes[each]
                listed.setdefault(each, bag)
            else:
                held[bag].add(schema.column(each).attribute)
    homes: dict[str, list[str]] = {bag: [] for bag in bags}
    for relation in schema.relations:
        cover = [bag for bag in bags if attributes[relation] <= held[bag]]
        home = mapping.get(relation, listed.get(relation, cover[0] if cover else None))
        if home is None:
            raise TreeError(f"Edge coverage: no bag holds relation {relation}.")
        if home not in homes:
            raise TreeError(f"{relation} is mapped to {home!r}, which is no bag.")
        homes[home].append(relation)
    unknown = [name for name in mapping if name not in schema.relations]
    if unknown:
        hint = did_you_mean(str(unknown[0]), schema.relations)
        raise SchemaError(f"mapping names an unknown relation {unknown[0]!r}.{hint}")
    made = tuple(Bag(bag, frozenset(held[bag]), tuple(homes[bag])) for bag in bags)
    pairs = tuple(tuple(edge) if isinstance(edge, list) else edge for edge in edges)
    return Hypertree(made, pairs, attributes)
