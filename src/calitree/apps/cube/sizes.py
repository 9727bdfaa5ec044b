"""How large messages can become, estimated before they are computed.

A message is identified by its edge and by the dimensions that it groups by: some attributes that occur only
on the source's side of the edge. Its rows are bounded by the number of values of what it keeps and by the
rows that are joined on that side; each further dimension multiplies them at most by its number of values.
Values are counted in the relations; messages that are in the store have a known size.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
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
from calitree.engines.api.elements import engine_table
from calitree.engines.api.protocol import Engine
from calitree.engines.api.semiring import SUM_PRODUCT
from calitree.engines.api.signed import Linear
from calitree.errors import DamagedError, MissingRelationError
from calitree.jointree.bag import Edge
from calitree.query.annotation import COUNT, GroupBy
from calitree.query.binder import Question
from calitree.wide_table import WideTable

Dimensions = frozenset[str]
"""Attributes that are grouped by."""
MessageId = tuple[Edge, Dimensions]
"""A message of a cube: its edge, and the dimensions that it groups by."""

NONE: Dimensions = frozenset()
MIN_CELL_BYTES = 8


class Sizes:
    """Sizes of the messages that group by some of these columns, where a condition holds."""

    def __init__(self, wide: WideTable, columns: Iterable[str], where: str | None) -> None:
        snapshot = wide.snapshot
        self.engine: Engine = wide.engine
        self.plain = snapshot.cube_pivot(Question((), where))
        every = snapshot.cube_pivot(Question(tuple(columns), where))
        self.schema, self.tree = snapshot.schema_of(every.query), every.tree
        self.dimensions: dict[Edge, Dimensions] = {
            edge: every.beyond_separator[edge] - self.plain.beyond_separator[edge]
            for edge in self.plain.edges
        }
        """For each edge, the dimensions that a message along it may group by."""
        self._own = frozenset(snapshot.pivot.keys.values())
        self._stored = stored_edges(self.plain, wide.state.store)
        self._distinct: dict[str, int] = {}
        self._joined: dict[Edge, float] = {}
        self._known: dict[MessageId, Message] = {(e, NONE): m for e, m in self._stored.items()}
        self._rows: dict[MessageId, float] = {}
        self._cell = self._cell_bytes()
        self._count(every.query.keep)

    def learn(self, messages: Iterable[Message]) -> None:
        """These are in the store by now."""
        for message in messages:
            annotations, edge = message.key.annotations, message.key.edge
            grouped = frozenset(a.attribute for a in annotations if isinstance(a, GroupBy))
            own = edge, grouped & self.dimensions[edge]
            if self.key(own) == message.key:
                self._known[own] = message
        self._rows.clear()

    def key(self, message: MessageId) -> MessageKey:
        """Its key in the store."""
        edge, dimensions = message
        plain = self.plain.keys[edge]
        return MessageKey(*edge, plain.annotations | {GroupBy(name) for name in dimensions})

    def is_own(self, message: MessageId) -> bool:
        """Whether it is a message of the tree's own pivot, which is there in any case."""
        return self.key(message) in self._own

    def rows(self, message: MessageId) -> float:
        """An upper bound of its rows; if it is in the store, their number."""
        if message in self._known:
            return self._known[message].table.rows
        if message not in self._rows:
            self._rows[message] = self._bound(*message)
        return self._rows[message]

    def bytes(self, message: MessageId) -> float:
        """About what it takes; if it is in the store, what it takes."""
        if message in self._known:
            return self._known[message].table.nbytes
        return self.rows(message) * self._cells(message) * self._cell

    def _bound(self, edge: Edge, dimensions: Dimensions) -> float:
        if not dimensions:
            keep = self.plain.keep[edge]
            self._count(keep)
            return prod(self._distinct[attribute] for attribute in keep)
        bound = inf
        for attribute in dimensions:
            rest = self.rows((edge, dimensions - {attribute}))
            bound = min(bound, self._distinct[attribute] * rest)
        relations = self.plain.subtrees[edge].relations
        for relation in relations:
            own = dimensions & self.tree.relations[relation]
            if len(own) > 1:
                rest = self.rows((edge, dimensions - own))
                rows = self.schema.rows(relation) + self._default_rows(relation)
                bound = min(bound, rows * rest)
        largest = max(map(self.schema.rows, relations))
        return min(bound, self._joined_rows(edge)) if bound > largest else bound

    def _joined_rows(self, edge: Edge) -> float:
        """How many rows are joined on the source's side of an edge, if its plain message counts them."""
        if edge not in self._joined:
            self._joined[edge] = inf
            message = self._stored.get(edge)
            if message is not None and COUNT in message.columns:
                count = Column("n", SUM_PRODUCT, (Stored(0, message.columns[COUNT]),))
                keep = self.plain.keep[edge]
                given = Input(engine_table(message.table), {name: name for name in keep})
                total = Contraction((given,), (Output((0,), (), (), (count,)),))
                with suppress(
                    DamagedError
                ):  # of an opened tree; who needs the message will be told
                    (table,) = self.engine.contract(total)
                    rows = self.engine.arrow(table).to_pylist()
                    self._joined[edge] = rows[0]["n"] if rows else 0
        return self._joined[edge]

    def _count(self, attributes: Iterable[str]) -> None:
        """Count the values of attributes, each in the smallest relation that has it.

        Both sides of an outer join have keys that the other does not have.
        """
        homes: dict[str, list[str]] = {}
        for attribute in attributes:
            if attribute not in self._distinct:
                known = self.schema.attributes[attribute]
                smallest = min(known.relations, key=self.schema.rows)
                for holder in known.relations if known.match else (smallest,):
                    homes.setdefault(holder, []).append(attribute)
        for relation, own in homes.items():
            table = self.schema.relations[relation].table
            outputs = tuple(Output((0,), (), (attribute,), ()) for attribute in own)
            given = Contraction((self.schema.input_of(relation, own),), outputs)
            try:
                counted = Linear(given, (None,) * len(own)).tables(self.engine)
                rows = {a: values.rows for a, values in zip(own, counted, strict=True)}
            except MissingRelationError:  # of an opened tree; it is enough to know its size
                rows = dict.fromkeys(own, table.rows)
            for attribute, count in rows.items():
                known_rows = self._distinct.get(attribute, 0)
                self._distinct[attribute] = max(known_rows, count + self._default_rows(relation))

    def _default_rows(self, relation: str) -> int:
        """How many rows of NULLs a relation has beside its own, for what has no partner in it."""
        return int(relation in self.schema.nullable)

    def _cells(self, message: MessageId) -> int:
        edge, dimensions = message
        columns = self.plain.subtrees[edge].columns
        parts = sum(len(stored_parts("", column.semiring)) for column in columns)
        return len(self.plain.keep[edge]) + len(dimensions) + parts

    def _cell_bytes(self) -> float:
        """What a value takes in the messages that are in the store, but no less than `MIN_CELL_BYTES`."""
        cells = sum(m.table.rows * self._cells((e, NONE)) for e, m in self._stored.items())
        held = sum(message.table.nbytes for message in self._stored.values())
        return max(MIN_CELL_BYTES, held / cells) if cells else MIN_CELL_BYTES
