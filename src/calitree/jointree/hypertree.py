"""The junction hypertree (paper §2, §3.2): bags of attributes joined by the edges of a tree.

A bag without a relation is an *empty bag*: it stands for the identity relation, passes messages
through and keeps a view of its attributes close at hand. A wrong tree cannot exist: the three
properties are checked on construction, and the error names what breaks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from calitree.cache import cached_property
from calitree.errors import TreeError, did_you_mean
from calitree.jointree.width import Width, width_of

Edge = tuple[str, str]


@dataclass(frozen=True)
class Bag:
    """A vertex of the tree: its attributes, and the relations mapped to it (X⁻¹).

    `extra` are those of its attributes that it got later, for a relation that was added.
    """

    name: str
    attributes: frozenset[str]
    relations: tuple[str, ...] = ()
    extra: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hypertree:
    """Bags, undirected edges, and for each relation its attributes.

    Vertex coverage: every attribute of a relation is in some bag. Edge coverage: each relation is
    mapped to one bag that has all its attributes. Running intersection: the bags with an attribute
    are connected.
    """

    bags: tuple[Bag, ...]
    edges: tuple[Edge, ...]
    relations: Mapping[str, frozenset[str]] = field(hash=False)
    rows: Callable[[str], int] | None = field(default=None, compare=False, repr=False)
    """How many rows a relation has, if that is known."""
    added: frozenset[str] = frozenset()
    """The relations that were added to a tree which had messages already."""

    def __post_init__(self) -> None:
        self._check_tree()
        self._check_coverage()
        self._check_running_intersection()

    def _check_tree(self) -> None:
        names = [bag.name for bag in self.bags]
        if not names:
            raise TreeError("A hypertree needs at least one bag: add a relation first.")
        for name in names:
            if names.count(name) > 1:
                raise TreeError(f"Two bags are called {name!r}.")
        for edge in self.edges:
            if not isinstance(edge, tuple) or len(edge) != 2:
                raise TreeError(f"An edge is a pair of bags, not {edge!r}.")
            for end in edge:
                if end not in names:
                    hint = did_you_mean(str(end), names)
                    raise TreeError(f"Edge {edge} ends in {end!r}, which is no bag.{hint}")
        reached = self._reach(names[0], None)
        if len(self.edges) != len(names) - 1 or len(reached) != len(names):
            apart = sorted(set(names) - reached)
            problem = f"{', '.join(apart)} cannot be reached" if apart else "they close a cycle"
            raise TreeError(f"The edges must connect the bags into a tree, but {problem}.")

    def _check_coverage(self) -> None:
        mapped: dict[str, Bag] = {}
        for bag in self.bags:
            for relation in bag.relations:
                if relation not in self.relations:
                    hint = did_you_mean(relation, self.relations)
                    raise TreeError(f"Bag {bag.name} maps an unknown relation {relation!r}.{hint}")
                if relation in mapped:
                    raise TreeError(
                        f"{relation} is mapped to two bags, {mapped[relation].name} and {bag.name}; "
                        "it would be counted twice."
                    )
                mapped[relation] = bag
        for relation, attributes in self.relations.items():
            if relation not in mapped:
                raise TreeError(f"Edge coverage: no bag holds relation {relation}.")
            missing = sorted(attributes - mapped[relation].attributes)
            if missing:
                raise TreeError(
                    f"Edge coverage: bag {mapped[relation].name} lacks {missing[0]} of {relation}."
                )
        known = frozenset().union(*self.relations.values()) if self.relations else frozenset()
        for bag in self.bags:
            unknown = sorted(bag.attributes - known)
            if unknown:
                raise TreeError(
                    f"Vertex coverage: {unknown[0]} in bag {bag.name} is in no relation."
                )

    def _check_running_intersection(self) -> None:
        holders: dict[str, int] = {}
        shared: dict[str, int] = {}
        for bag in self.bags:
            for attribute in bag.attributes:
                holders[attribute] = holders.get(attribute, 0) + 1
        for a, b in self.edges:
            for attribute in self.bag(a).attributes & self.bag(b).attributes:
                shared[attribute] = shared.get(attribute, 0) + 1
        for attribute, count in sorted(holders.items()):
            # In a tree, the bags of an attribute are connected iff they span one edge less than
            # bags.
            if shared.get(attribute, 0) != count - 1:
                bags = [bag.name for bag in self.bags if attribute in bag.attributes]
                raise TreeError(
                    f"Running intersection: the bags with {attribute} ({', '.join(bags)}) are not connected."
                )

    def _reach(self, start: str, barrier: str | None) -> set[str]:
        near: dict[str, list[str]] = {}
        for a, b in self.edges:
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
        seen, frontier = {start}, [start]
        while frontier:
            here = frontier.pop()
            for other in near.get(here, ()):
                if other not in seen and not (here == start and other == barrier):
                    seen.add(other)
                    frontier.append(other)
        return seen

    @cached_property
    def _by_name(self) -> dict[str, Bag]:
        return {bag.name: bag for bag in self.bags}

    @cached_property
    def _neighbours(self) -> dict[str, tuple[str, ...]]:
        near: dict[str, list[str]] = {bag.name: [] for bag in self.bags}
        for a, b in self.edges:
            near[a].append(b)
            near[b].append(a)
        return {name: tuple(others) for name, others in near.items()}

    @cached_property
    def _subtrees(self) -> dict[Edge, frozenset[str]]:
        return {(u, v): frozenset(self._reach(u, v)) for u, v in self.directed}

    @cached_property
    def _homes(self) -> dict[str, str]:
        return {relation: bag.name for bag in self.bags for relation in bag.relations}

    @cached_property
    def _holders(self) -> dict[str, frozenset[str]]:
        attributes = {a for bag in self.bags for a in bag.attributes}
        return {
            a: frozenset(bag.name for bag in self.bags if a in bag.attributes) for a in attributes
        }

    @cached_property
    def shared(self) -> frozenset[str]:
        """The attributes that several relations or several bags have.

        The others are of one relation alone, and are summed out before anything is joined.
        """
        seen: set[str] = set()
        again: set[str] = set()
        for held in self.relations.values():
            again |= seen & held
            seen |= held
        return frozenset(a for a, bags in self._holders.items() if a in again or len(bags) > 1)

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
        return tuple(each for a, b in self.edges for each in ((a, b), (b, a)))

    def bag(self, name: str) -> Bag:
        return self._by_name[name]

    def neighbours(self, name: str) -> tuple[str, ...]:
        return self._neighbours[name]

    def subtree(self, source: str, target: str) -> frozenset[str]:
        """T_u: the bags on the source's side of the edge source → target."""
        return self._subtrees[source, target]

    def separator(self, a: str, b: str) -> frozenset[str]:
        return self.bag(a).attributes & self.bag(b).attributes

    def extra(self, a: str, b: str) -> frozenset[str]:
        """What is in the separator only because the bags were extended. In a message it is like γ."""
        one, other = self.bag(a), self.bag(b)
        if not (one.extra or other.extra):
            return frozenset()
        return (one.attributes & other.attributes) & (one.extra | other.extra)

    def home(self, relation: str) -> str:
        """X(R): the bag that a relation is mapped to."""
        return self._homes[relation]

    def holders(self, attributes: Iterable[str]) -> frozenset[str]:
        """The bags that have all of these attributes."""
        sets = [self._holders.get(a, frozenset()) for a in attributes]
        return frozenset.intersection(*sets) if sets else frozenset(self._by_name)

    def nearest(self, options: frozenset[str], root: str) -> str:
        """The bag among `options` (connected bags) that is nearest to the root."""
        here = root
        while here not in options:
            here = next(n for n in self.neighbours(here) if self.subtree(n, here) & options)
        return here

    def upward(self, root: str) -> list[Edge]:
        """The edges towards `root`, leaves first."""
        order: list[Edge] = []
        frontier: list[tuple[str, str | None]] = [(root, None)]
        while frontier:
            here, parent = frontier.pop()
            if parent is not None:
                order.append((here, parent))
            frontier += [(child, here) for child in self.neighbours(here) if child != parent]
        return order[::-1]

    def with_empty_bag(
        self, name: str, attributes: Iterable[str], beside: str | None = None
    ) -> Hypertree:
        """A tree with one more, empty, bag that keeps a view of `attributes` (paper §3.2).

        It stands beside a bag that has all of them (`beside`, or the first found) and takes over
        those of its neighbours whose separators it covers. Attributes are named as in
        `Hypertree.bags`.
        """
        wanted = frozenset(attributes)
        if not wanted:
            raise TreeError(f"Empty bag {name} needs at least one column.")
        hosts = [bag.name for bag in self.bags if wanted <= bag.attributes]
        host = beside if beside is not None else (hosts[0] if hosts else None)
        if host is None or host not in hosts:
            raise TreeError(
                f"An empty bag ({', '.join(sorted(wanted))}) must stand beside a bag that has all of these; "
                f"{'none has' if not hosts else ', '.join(hosts) + ' would do'}."
            )
        moved = [n for n in self.neighbours(host) if self.separator(n, host) <= wanted]
        kept = [e for e in self.edges if not (host in e and (set(e) - {host}) <= set(moved))]
        edges = (*kept, (host, name), *((name, other) for other in moved))
        return Hypertree(
            (*self.bags, Bag(name, wanted)), edges, self.relations, self.rows, self.added
        )

    def __str__(self) -> str:
        lines = []
        for bag in self.bags:
            held = ", ".join(bag.relations) if bag.relations else "empty"
            lines.append(f"{bag.name} [{held}]   {self.widths[bag.name]}")
            for other in self.neighbours(bag.name):
                lines.append(f"  — {other} on {', '.join(sorted(self.separator(bag.name, other)))}")
        return "\n".join(lines)
