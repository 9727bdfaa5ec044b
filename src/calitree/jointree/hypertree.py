"""The junction hypertree (paper §2, §3.2): bags of attributes joined by the edges of a tree.

A bag without a relation is an *empty bag*: it stands for the identity relation, passes messages on and
materialises a view of its attributes. A wrong tree cannot exist: the three properties are checked on
construction, and the error names what breaks them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from calitree.cache import cached_property
from calitree.errors import TreeError
from calitree.jointree.bag import Bag, Edge, connected, neighbours_of
from calitree.jointree.properties import (
    check_coverage,
    check_running_intersection,
    check_tree,
)
from calitree.jointree.width import Width, width_of


@dataclass(frozen=True)
class Hypertree:
    """A junction hypertree: bags, undirected edges, and the attributes of each relation.

    Vertex coverage: every attribute of a relation is in some bag. Edge coverage: each relation is mapped to
    one bag that has all its attributes. Running intersection: the bags with an attribute are connected.

    Attributes:
        bags: The vertices.
        edges: Pairs of names of bags.
        relations: The attributes of each relation.
        rows: How many rows a relation has, if that is known.
        added: The relations that were added to a tree which had messages already.
        whole: The tree of all relations, if in this one some are left out; see `remaining_tree`.

    Raises:
        TreeError: One of the properties does not hold; the message names the attribute or relation.

    Example:
        >>> print(graph.hypertree())
        sales [sales]   width 1, at most 3 distinct rows
          — stores on sales.store
        stores [stores]   width 1, at most 2 distinct rows
          — sales on sales.store
    """

    bags: tuple[Bag, ...]
    edges: tuple[Edge, ...]
    relations: Mapping[str, frozenset[str]] = field(hash=False)
    rows: Callable[[str], int] | None = field(default=None, compare=False, repr=False)
    added: frozenset[str] = frozenset()
    whole: Hypertree | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_tree(self.bags, self.edges)
        check_coverage(self.bags, self.relations)
        check_running_intersection(self.bags, self.edges)

    @cached_property
    def _by_name(self) -> dict[str, Bag]:
        return {bag.name: bag for bag in self.bags}

    @cached_property
    def _neighbours(self) -> dict[str, tuple[str, ...]]:
        return neighbours_of(self.bags, self.edges)

    @cached_property
    def _subtrees(self) -> dict[Edge, frozenset[str]]:
        return {(u, v): connected(self._neighbours, u, without=v) for u, v in self.directed}

    @cached_property
    def _homes(self) -> dict[str, str]:
        return {relation: bag.name for bag in self.bags for relation in bag.relations}

    @cached_property
    def _holders(self) -> dict[str, frozenset[str]]:
        attributes = frozenset().union(*(bag.attributes for bag in self.bags))
        return {
            a: frozenset(bag.name for bag in self.bags if a in bag.attributes) for a in attributes
        }

    @cached_property
    def detached(self) -> frozenset[str]:
        """The attributes that the tree of all relations does not have."""
        own = frozenset(self._holders)
        return frozenset() if self.whole is None else own.difference(self.whole._holders)

    @cached_property
    def shared(self) -> frozenset[str]:
        """The attributes that several relations or several bags have.

        The others are of one relation alone, and are summed out before anything is joined.
        """
        relations = Counter(a for attributes in self.relations.values() for a in attributes)
        return frozenset(
            a for a, bags in self._holders.items() if relations[a] > 1 or len(bags) > 1
        )

    @cached_property
    def widths(self) -> dict[str, Width]:
        """For each bag, how large the join of its shared attributes can be."""
        return {
            bag.name: width_of(
                bag.attributes & self.shared, bag.relations, self.relations, self.rows
            )
            for bag in self.bags
        }

    @cached_property
    def directed(self) -> tuple[Edge, ...]:
        """Every edge, once in each direction."""
        return tuple(directed for a, b in self.edges for directed in ((a, b), (b, a)))

    def bag(self, name: str) -> Bag:
        """The bag of a name.

        Args:
            name: The name of a bag.

        Returns:
            The bag.

        Raises:
            KeyError: There is no such bag.

        Example:
            >>> sorted(wide.tree.bag("stores").attributes)
            ['sales.store', 'stores.city']
        """
        return self._by_name[name]

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The bags that an edge connects with this one.

        Args:
            name: The name of a bag.

        Returns:
            The names of its neighbours.

        Example:
            >>> wide.tree.neighbours("stores")
            ('sales',)
        """
        return self._neighbours[name]

    def subtree(self, source: str, target: str) -> frozenset[str]:
        """T_u: the bags on the source's side of the edge source → target.

        Args:
            source: The name of a bag.
            target: That of a neighbour.

        Returns:
            The names of the bags that are left with the source if the edge is cut.

        Example:
            >>> wide.tree.subtree("sales", "stores")
            frozenset({'sales'})
        """
        return self._subtrees[source, target]

    def separator(self, a: str, b: str) -> frozenset[str]:
        """The attributes that two bags share.

        Args:
            a: The name of a bag.
            b: That of another.

        Returns:
            The attributes, each named by its first column.

        Example:
            >>> wide.tree.separator("sales", "stores")
            frozenset({'sales.store'})
        """
        return self.bag(a).attributes & self.bag(b).attributes

    def implied(self, a: str, b: str) -> frozenset[str]:
        """What a message keeps if its key says nothing else: the separator as it first was.

        That is the one of the tree with all its relations, before bags were extended for others.

        Args:
            a: The name of a bag.
            b: That of a neighbour.

        Returns:
            The attributes, each named by its first column.

        Example:
            >>> wide.tree.implied("sales", "stores")
            frozenset({'sales.store'})
        """
        tree = self.whole or self
        return tree.separator(a, b) - (tree.bag(a).extra | tree.bag(b).extra)

    def home(self, relation: str) -> str:
        """X(R): the bag that a relation is mapped to.

        Args:
            relation: The name of a relation.

        Returns:
            The name of its bag.

        Example:
            >>> wide.tree.home("sales")
            'sales'
        """
        return self._homes[relation]

    def holders(self, attributes: Iterable[str]) -> frozenset[str]:
        """The bags that have all of these attributes.

        Args:
            attributes: Attributes, each named by its first column.

        Returns:
            The names of the bags.

        Example:
            >>> wide.tree.holders(["sales.price"])
            frozenset({'sales'})
        """
        sets = [self._holders.get(a, frozenset()) for a in attributes]
        return frozenset.intersection(*sets) if sets else frozenset(self._by_name)

    def nearest(self, options: frozenset[str], root: str) -> str:
        """The bag among `options` that is nearest to the root.

        Args:
            options: Names of bags that are connected.
            root: The name of a bag.

        Returns:
            One of the options.

        Example:
            >>> wide.tree.nearest(frozenset({"sales", "stores"}), root="stores")
            'stores'
        """
        bag = root
        while bag not in options:
            bag = next(n for n in self.neighbours(bag) if self.subtree(n, bag) & options)
        return bag

    def upward(self, root: str) -> list[Edge]:
        """The edges towards `root`, leaves first.

        Args:
            root: The name of a bag.

        Returns:
            Each edge as a pair of a child and its parent.

        Example:
            >>> wide.tree.upward("stores")
            [('sales', 'stores')]
        """
        order: list[Edge] = []
        frontier: list[tuple[str, str | None]] = [(root, None)]
        while frontier:
            bag, parent = frontier.pop()
            if parent is not None:
                order.append((bag, parent))
            frontier += [(child, bag) for child in self.neighbours(bag) if child != parent]
        return order[::-1]

    def with_empty_bag(
        self, name: str, attributes: Iterable[str], beside: str | None = None
    ) -> Hypertree:
        """A tree with one more, empty, bag that materialises a view of some attributes (paper §3.2).

        It takes over those neighbours of the bag beside it whose separators it covers.

        Args:
            name: Its name.
            attributes: Its attributes, named as in `Hypertree.bags`.
            beside: A bag that has all of them; the first one if not given.

        Returns:
            The new tree; this one stays as it is.

        Raises:
            TreeError: There are no attributes, or the bag beside it lacks one of them.

        Example:
            >>> print(graph.hypertree().with_empty_bag("by_price", ["sales.price"]).bags[-1].name)
            by_price
        """
        wanted = frozenset(attributes)
        if not wanted:
            raise TreeError(f"Empty bag {name} needs at least one column.")
        hosts = [bag.name for bag in self.bags if wanted <= bag.attributes]
        host = next(iter(hosts), None) if beside is None else beside
        if host is None or host not in hosts:
            raise TreeError(
                f"An empty bag ({', '.join(sorted(wanted))}) must stand beside a bag that has all of these; "
                f"{'none has' if not hosts else ', '.join(hosts) + ' would do'}."
            )
        moved = [n for n in self.neighbours(host) if self.separator(n, host) <= wanted]
        kept = [e for e in self.edges if not (host in e and (set(e) - {host}) <= set(moved))]
        edges = (*kept, (host, name), *((name, other) for other in moved))
        return replace(self, bags=(*self.bags, Bag(name, wanted)), edges=edges)

    def __str__(self) -> str:
        lines = []
        for bag in self.bags:
            held = ", ".join(bag.relations) if bag.relations else "empty"
            lines.append(f"{bag.name} [{held}]   {self.widths[bag.name]}")
            for other in self.neighbours(bag.name):
                equal = sorted(self.separator(bag.name, other))
                lines.append(f"  — {other} on {', '.join(equal) or 'no equal columns'}")
        return "\n".join(lines)
