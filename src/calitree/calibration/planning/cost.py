"""Estimated work of messages, in rows: enough to tell a fact table from a dimension, no more.

Known sizes (relations, stored messages) are used where there are any. An attribute has at most as many
values as the smallest relation that has it; the pivot's message over a separator tells how many values
that has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import inf, prod

from calitree.calibration.message import Message
from calitree.calibration.planning.placement import Placement
from calitree.calibration.planning.staleness import Available
from calitree.calibration.state import TreeState
from calitree.engines.api.contraction import Table
from calitree.jointree.bag import Edge
from calitree.jointree.schema import Schema

ABSORBING = 1.02
"""How much more absorbing costs than sending, where messages are kept for other queries: an answer is not."""


class Cost:
    """Estimates for one placement.

    `stored` are the messages that there are, `keeps` tells whether new ones are kept, `refreshing` is the
    work that stale ones still need, `cardinalities` how many combinations of values some attributes have.
    """

    def __init__(
        self,
        schema: Schema,
        placement: Placement,
        stored: Mapping[Edge, Message],
        *,
        keeps: bool = True,
        refreshing: Mapping[Edge, float] | None = None,
        cardinalities: Mapping[frozenset[str], int] | None = None,
    ) -> None:
        self.absorbing = ABSORBING if keeps else 1.0
        self.schema, self.placement, self.tree = schema, placement, placement.tree
        self.stored, self.keep = stored, placement.keep
        self.neighbours = {bag.name: self.tree.neighbours(bag.name) for bag in self.tree.bags}
        self.relations = {
            bag.name: [r for r in bag.relations if r in placement.query.relations]
            for bag in self.tree.bags
        }
        self.cardinalities = cardinalities or {}
        self._distinct: dict[str, float] = {}
        self._fanout: dict[Edge, float] = {}
        self._rows: dict[Edge, float] = {}
        self._work: dict[Edge, float] = dict(refreshing or {})

    def distinct(self, attribute: str) -> float:
        """How many values an attribute has at most."""
        if attribute not in self._distinct:
            rows = [
                self.schema.relations[relation].table.rows
                for relation, _ in self.schema.attributes[attribute].columns
                if relation in self.placement.query.relations
            ]
            known = self.cardinalities.get(frozenset((attribute,)))
            self._distinct[attribute] = max(1, min(rows, default=1) if known is None else known)
        return self._distinct[attribute]

    def rows(self, source: str, target: str) -> float:
        """How many rows the message has."""
        edge = (source, target)
        if edge not in self._rows:
            if edge in self.stored:
                self._rows[edge] = self.stored[edge].table.rows
            else:
                values = prod(self.distinct(a) for a in self.keep[edge])
                self._rows[edge] = min(self.joined(source, target), values)
        return self._rows[edge]

    def largest(self, bag: str) -> int | None:
        """The rows of the bag's largest joined relation, if there is one."""
        relations = self.relations[bag]
        return max([self.schema.relations[r].table.rows for r in relations], default=None)

    def joined(self, bag: str, target: str | None) -> float:
        """How many rows are joined at a bag when it sends to `target` (None: absorbs)."""
        here = self.largest(bag)
        incoming = [w for w in self.neighbours[bag] if w != target]
        if here is None:
            return max((self.rows(w, bag) for w in incoming), default=1)
        return here * prod([self.fanout(w, bag) for w in incoming])

    def fanout(self, source: str, target: str) -> float:
        """How many rows of the message join one row at most: one, if it keeps only its separator."""
        edge = (source, target)
        if edge not in self._fanout:
            if self.placement.beyond_separator[edge]:
                separator = self.placement.subtrees[edge].separator
                keys = self.cardinalities.get(separator) or prod(map(self.distinct, separator))
                self._fanout[edge] = max(1.0, self.rows(source, target) / keys)
            else:
                self._fanout[edge] = 1.0
        return self._fanout[edge]

    def contraction(self, bag: str, target: str | None) -> float:
        """The rows joined at a bag, and those of the messages that arrive there."""
        incoming = (w for w in self.neighbours[bag] if w != target)
        return self.joined(bag, target) + sum(self.rows(w, bag) for w in incoming)

    def message(self, source: str, target: str) -> float:
        """The work to have the message: none if it is stored, else its own and that of those it needs."""
        edge = (source, target)
        if edge not in self._work:
            if edge in self.stored or edge not in self.placement.edges:
                return 0.0
            needed = (w for w in self.neighbours[source] if w != target)
            own = self.contraction(source, target) + self.rows(source, target)
            self._work[edge] = own + sum(self.message(w, source) for w in needed)
        return self._work[edge]

    def least(self, root: str) -> float:
        """A lower bound of `answer` that looks at no message."""
        return self.absorbing * (self.largest(root) or 0)

    def answer(self, root: str) -> float:
        """The work to answer at this root."""
        sent = sum(self.message(w, root) for w in self.neighbours[root])
        return self.absorbing * self.contraction(root, None) + sent


def choose_root(
    state: TreeState,
    schema: Schema,
    placement: Placement,
    available: Available,
    among: Collection[str] | None = None,
) -> str:
    """Single-query optimisation (§3.3.1): the cheapest bag, of all or `among` some."""
    cost = Cost(
        schema,
        placement,
        available.messages,
        # What is worth keeping beside a cube is in the cube.
        keeps=not state.cube_pivots and state.store.memory_limit > 0,
        refreshing={edge: stale.work for edge, stale in available.stale.items()},
        cardinalities=state.cardinalities,
    )
    return cheapest_root(cost, among)


def cheapest_root(cost: Cost, among: Collection[str] | None = None) -> str:
    """The bag that answers with the least work; at equal work, one that has what is grouped by."""
    keep = frozenset(cost.placement.query.keep)
    bags = [bag for bag in cost.tree.bags if among is None or bag.name in among]
    best = (inf, 0, 0)
    for least, i in sorted((cost.least(bag.name), i) for i, bag in enumerate(bags)):
        if least > best[0]:
            break  # nor can those after it be cheaper
        best = min(best, (cost.answer(bags[i].name), len(keep - bags[i].attributes), i))
    return bags[best[-1]].name


class UnreadableTable:
    """Stands for a table that cannot be read: larger than any other, where plans are compared."""

    rows = 1 << 62
    nbytes = 0
    exact = True

    def __init__(self, table: Table) -> None:
        self.kinds, self.null_free = table.kinds, table.null_free
        self.unsupported = table.unsupported


def avoiding(schema: Schema, missing: Collection[str]) -> Schema:
    """The schema to plan with, so that missing relations are read only if there is no other way."""
    unreadable = {
        name: replace(relation, table=UnreadableTable(relation.table))
        for name, relation in schema.relations.items()
        if name in missing
    }
    return schema.having(unreadable)
