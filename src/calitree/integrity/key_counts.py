"""How often the keys of a join occur on one of its sides: a message.

Each relation sends the number of its rows by key, for all its joins in one contraction, as it would in a
calibration. No relation is joined, and what comes to this process are the few keys that serve as examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calitree.engines.api.contraction import (
    Column,
    Contraction,
    Input,
    Lifted,
    Output,
    Stored,
    Table,
)
from calitree.engines.api.protocol import Engine, Watch, updatable
from calitree.engines.api.semiring import COUNT, MIN
from calitree.engines.api.signed import Linear
from calitree.grouping import canonical
from calitree.sql.analysis import Resolved
from calitree.sql.parser import Expression, parse, parse_predicate
from calitree.sql.quoting import literal, quote
from calitree.types import Kind

ROWS = "rows"
"""The column of a message that counts rows; no attribute is called so, as these have a dot in them."""

EXAMPLES = 5
"""Keys that a finding shows."""

MAX_COLLECTED_KEYS = 100_000
"""Of more keys only those with the most rows come to this process."""

ORDERED = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.STRING, Kind.DATE, Kind.TIMESTAMP)
"""Kinds of keys of which the least can be told."""

MORE_THAN_ONE = f"{ROWS} > 1"
"""The condition for keys that repeat."""

MAX_QUOTED_TEXT = 200
"""Characters of a key that stands in a condition."""

Columns = tuple[tuple[str, str], ...]
"""The attributes of a key, and the column of a relation that holds each."""

RowCount = tuple[tuple[Any, ...], int]
"""A key and how many rows have it."""


def counts_by_key(
    engine: Engine, given: Input, keys: Sequence[Columns], watch: Watch | None = None
) -> list[Table]:
    """For each of some keys of a relation, its number of rows by that key. NULL is counted too."""
    outputs = tuple(
        Output((0,), (), tuple(a for a, _ in key), (Column(ROWS, COUNT, ()),)) for key in keys
    )
    contraction = Contraction((given,), outputs)
    return list(Linear(contraction, [ROWS] * len(keys)).tables(engine, watch))


class KeyCounts:
    """The rows of one side by key, or those of some of its keys.

    Args:
        engine: Who computes.
        table: A message of `counts_by_key`.
        kinds: The kind of each attribute of the key.
        nullable: Those of the attributes that may be NULL.
    """

    def __init__(
        self, engine: Engine, table: Table, kinds: Mapping[str, Kind], nullable: frozenset[str]
    ) -> None:
        self.engine, self.table = engine, table
        self.kinds, self.nullable = kinds, nullable

    def condition(self, text: str) -> tuple[Expression, ...]:
        """A condition over attributes and `ROWS`; none if the text is empty."""
        return parse_predicate(text, self._resolve) if text else ()

    def _resolve(self, table: str | None, name: str) -> Resolved:
        return Resolved(name, (), self.kinds.get(name, Kind.INTEGER))

    @property
    def known(self) -> tuple[Expression, ...]:
        """That no part of the key is NULL."""
        named = (quote(a) for a in self.kinds if a in self.nullable)
        return self.condition(" and ".join(f"{name} is not null" for name in named))

    def without(self, keys: Table) -> KeyCounts:
        """All keys but these; NULL is left."""
        rest = updatable(self.engine).apart(self.table, keys)
        return KeyCounts(self.engine, rest, self.kinds, self.nullable)

    def most_frequent(self, number: int, condition: str = "") -> list[RowCount]:
        """The keys that have no NULL and meet a condition, those with the most rows first.

        If most of very many keys have equally many rows, it is the least key of them; none if the keys
        have no order.
        """
        where = (*self.known, *self.condition(condition))
        for narrowed in self._narrowed(where):
            keys = self._keys_where(narrowed)
            if keys.rows <= MAX_COLLECTED_KEYS:
                return self._collected(keys, number)
        return []

    def _narrowed(self, where: tuple[Expression, ...]) -> Iterator[tuple[Expression, ...]]:
        """Conditions that fewer and fewer keys meet."""
        if self.table.rows <= MAX_COLLECTED_KEYS:
            yield where
            return
        where = (*where, *self.condition(f"{ROWS} >= {self._frequency(where)}"))
        yield where
        for attribute, kind in self.kinds.items():
            least = self._least(attribute, where) if kind in ORDERED else None
            if least is not None and is_quotable(least):
                where = (*where, *self.condition(f"{quote(attribute)} = {literal(least)}"))
                yield where

    def _frequency(self, where: tuple[Expression, ...]) -> int:
        """How many rows a key must have to be one of the few with the most."""
        output = Output((0,), where, (ROWS,), (Column("keys", COUNT, ()),))
        (table,) = self.engine.contract(Contraction((self.keys_and_rows,), (output,)))
        rows = self.engine.arrow(table).select([ROWS, "keys"]).to_pylist()
        keys, least = 0, 0
        for row in sorted(rows, key=lambda row: -int(row[ROWS])):
            keys += int(row["keys"])
            if least and keys > MAX_COLLECTED_KEYS:
                break
            least = int(row[ROWS])
        return least

    def _least(self, attribute: str, where: tuple[Expression, ...]) -> Any:
        value = Lifted(0, (parse(quote(attribute), self._resolve),))
        output = Output((0,), where, (), (Column("least", MIN, (value,)),))
        (table,) = self.engine.contract(Contraction((self.keys_and_rows,), (output,)))
        values = self.engine.arrow(table).column("least").to_pylist()
        return values[0] if values else None

    def _keys_where(self, where: tuple[Expression, ...]) -> Table:
        output = Output((0,), where, tuple(self.kinds), (Column(ROWS, COUNT, (Stored(0, ROWS),)),))
        (table,) = self.engine.contract(Contraction((self.keys_and_rows,), (output,)))
        return table

    def _collected(self, table: Table, number: int) -> list[RowCount]:
        """The keys with the most rows, and of those with equally many the least; NaN is the greatest."""
        columns = self.engine.arrow(table).select([ROWS, *self.kinds])
        names = [f"c{i}" for i in range(columns.num_columns)]
        order = [(name, "ascending" if i else "descending") for i, name in enumerate(names)]
        ordered = columns.rename_columns(names).sort_by(order).slice(0, number)
        rows = zip(*(column.to_pylist() for column in ordered.columns), strict=True)
        return [(tuple(map(canonical, key)), int(count)) for count, *key in rows]

    @property
    def keys(self) -> Input:
        """The message by its key."""
        return Input(self.table, {a: a for a in self.kinds})

    @property
    def keys_and_rows(self) -> Input:
        """The message with its count as one more attribute."""
        return Input(self.table, {**{a: a for a in self.kinds}, ROWS: ROWS})


def is_quotable(value: Any) -> bool:
    """Whether a value can stand in a condition: a text may be too long, or have a NUL in it."""
    return not isinstance(value, str) or (len(value) <= MAX_QUOTED_TEXT and "\0" not in value)
