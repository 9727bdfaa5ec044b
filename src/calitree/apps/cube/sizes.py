"""How large messages can become, told before they are computed.

A message is known by its edge and by what it carries: some attributes of which all bags are behind the
edge. It has no more rows than there are values of what it keeps, nor than rows are joined behind it, and
with each attribute more it has at most as many times the rows as that has values. Values are counted in
the relations; messages that are there already are known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, prod

from calitree.calibration.message import Message, MessageKey
from calitree.calibration.planning.staleness import stored_edges
from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Input,
    Output,
    Stored,
    stored_parts,
)
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.api.signed import Linear
from calitree.errors import MissingRelationError
from calitree.jointree.bag import Edge
from calitree.query.annotation import COUNT, GroupBy
from calitree.query.binder import Question
from calitree.wide_table import WideTable

Carried = frozenset[str]
State = tuple[Edge, Carried]
"""A message: its edge, and what it carries."""

NONE: Carried = frozenset()
CELL = 8
"""Bytes of a value."""


class Sizes:
    """Sizes of the messages that group by some of these columns, where a condition holds."""

    def __init__(self, wide: WideTable, columns: Iterable[str], where: str | None) -> None:
        now = wide.snapshot
        self.engine: Engine = wide.engine
        self.schema, self.tree = now.schema, wide.tree
        self.plain = now.cube_pivot(Question((), where))
        every = now.cube_pivot(Question(tuple(columns), where))
        self.inside: dict[Edge, Carried] = {
            edge: every.beyond_separator[edge] - self.plain.beyond_separator[edge]
            for edge in self.plain.edges
        }
        """For each edge, the attributes that a message along it may carry."""
        self._own = frozenset(now.pivot.keys.values())
        self._stored = stored_edges(self.plain, wide.state.store)
        self._distinct: dict[str, int] = {}
        self._joined: dict[Edge, float] = {}
        self._known: dict[State, Message] = {(e, NONE): m for e, m in self._stored.items()}
        self._rows: dict[State, float] = {}
        self._cell = self._bytes_of_a_cell()
        self._count(every.query.keep)

    def learn(self, messages: Iterable[Message]) -> None:
        """These are there by now."""
        for message in messages:
            carried = frozenset(
                each.attribute for each in message.key.annotations if isinstance(each, GroupBy)
            )
            edge = message.key.edge
            state = edge, carried & self.inside[edge]
            if self.key(state) == message.key:
                self._known[state] = message
        self._rows.clear()

    def key(self, state: State) -> MessageKey:
        edge, carried = state
        plain = self.plain.keys[edge]
        return MessageKey(*edge, plain.annotations | {GroupBy(each) for each in carried})

    def is_own(self, state: State) -> bool:
        """Whether it is a message of the tree's own pivot, which is there in any case."""
        return self.key(state) in self._own

    def rows(self, state: State) -> float:
        """At most so many."""
        if state in self._known:
            return self._known[state].table.rows
        if state not in self._rows:
            self._rows[state] = self._bound(*state)
        return self._rows[state]

    def bytes(self, state: State) -> float:
        if state in self._known:
            return self._known[state].table.nbytes
        return self.rows(state) * self._cells(state) * self._cell

    def _bound(self, edge: Edge, carried: Carried) -> float:
        if not carried:
            keep = self.plain.keep[edge]
            self._count(keep)
            return prod(self._distinct[each] for each in keep)
        least = inf
        for attribute in carried:
            least = min(least, self._distinct[attribute] * self.rows((edge, carried - {attribute})))
        for relation in self.plain.subtrees[edge].relations:
            here = carried & self.tree.relations[relation]
            if len(here) > 1:
                rest = self.rows((edge, carried - here))
                least = min(least, self.schema.rows(relation) * rest)
        largest = max(map(self.schema.rows, self.plain.subtrees[edge].relations))
        return min(least, self._joined_behind(edge)) if least > largest else least

    def _joined_behind(self, edge: Edge) -> float:
        """How many rows are joined behind an edge, if its message without anything more tells."""
        if edge not in self._joined:
            self._joined[edge] = inf
            message = self._stored.get(edge)
            if message is not None and COUNT in message.columns:
                count = Column("n", SUM_PRODUCT, (Stored(0, message.columns[COUNT]),))
                given = Input(message.table, {each: each for each in self.plain.keep[edge]})
                total = Contraction((given,), (Output((0,), (), (), (count,)),))
                (found,) = self.engine.contract(total)
                rows = self.engine.arrow(found).to_pylist()
                self._joined[edge] = rows[0]["n"] if rows else 0
        return self._joined[edge]

    def _count(self, attributes: Iterable[str]) -> None:
        """Count the values of attributes, each in the smallest relation that has it."""
        wanted: dict[str, list[str]] = {}
        for attribute in attributes:
            if attribute not in self._distinct:
                holders = self.schema.attributes[attribute].relations
                wanted.setdefault(min(holders, key=self.schema.rows), []).append(attribute)
        for relation, here in wanted.items():
            table = self.schema.relations[relation].table
            outputs = tuple(Output((0,), (), (each,), ()) for each in here)
            given = Contraction((Input(table, self.schema.columns_of[relation]),), outputs)
            try:
                found = Linear(given, (None,) * len(here)).tables(self.engine)
                self._distinct |= {a: t.rows for a, t in zip(here, found, strict=True)}
            except MissingRelationError:  # of an opened tree; it is enough to know its size
                self._distinct |= dict.fromkeys(here, table.rows)

    def _cells(self, state: State) -> int:
        edge, carried = state
        columns = self.plain.subtrees[edge].columns
        parts = sum(len(stored_parts("", each.semiring)) for each in columns)
        return len(self.plain.keep[edge]) + len(carried) + parts

    def _bytes_of_a_cell(self) -> float:
        """At least what a value takes; more if the messages at hand take more."""
        cells = sum(m.table.rows * self._cells((e, NONE)) for e, m in self._stored.items())
        held = sum(message.table.nbytes for message in self._stored.values())
        return max(CELL, held / cells) if cells else CELL
