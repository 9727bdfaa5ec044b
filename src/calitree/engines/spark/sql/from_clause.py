"""The FROM clause of a statement: the inputs of a contraction, joined on their shared attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from sqlglot import exp

from calitree.engines.api.contraction import Input
from calitree.engines.api.pairs import check_pairs
from calitree.engines.spark.table import SparkTable
from calitree.errors import EngineError, did_you_mean
from calitree.sql.parser import Expression
from calitree.types import Kind

BROADCAST_ROWS = 100_000
"""Inputs known to have no more rows are broadcast, so that the largest need not be shuffled."""

UNKNOWN_ROWS = 2**62
"""Stands for a number of rows that is not known: more than anyone can enumerate."""


@dataclass(frozen=True)
class FromItem:
    """A table in a FROM clause: its position among the inputs, and the column of each attribute."""

    index: int
    table: SparkTable
    attributes: Mapping[str, str]

    @classmethod
    def of(cls, inputs: Sequence[Input], index: int) -> FromItem:
        """An input of a contraction."""
        return cls(index, cast(SparkTable, inputs[index].table), inputs[index].attributes)

    @property
    def alias(self) -> str:
        """What SQL calls it."""
        return f"i{self.index}"

    @property
    def rows(self) -> int:
        """How many rows it has, as far as is known."""
        return UNKNOWN_ROWS if self.table.known_rows is None else self.table.known_rows

    def attribute(self, attribute: str) -> str:
        """The column of an attribute in SQL."""
        return self.column(self.attributes[attribute])

    def column(self, name: str) -> str:
        """A column in SQL."""
        fields = self.table.fields
        if name not in fields:
            hint = did_you_mean(name, fields)
            raise EngineError(f"An input of the contraction has no column {name!r}.{hint}")
        return f"{self.alias}.{fields[name].name}"


class FromClause:
    """Tables joined on their shared attributes, in an order without needless products."""

    def __init__(self, items: Sequence[FromItem]) -> None:
        self.items = join_order(items)
        self.rows = max_joined_rows(self.items)
        self.fields = {
            f"{item.alias}.{field.name}": field
            for item in self.items
            for field in item.table.fields.values()
        }

    def holder(self, attribute: str) -> FromItem:
        """The first table that has an attribute."""
        for item in self.items:
            if attribute in item.attributes:
                return item
        known = {name for item in self.items for name in item.attributes}
        raise EngineError(
            f"No input of the contraction has {attribute!r}.{did_you_mean(attribute, known)}"
        )

    def located(self, expression: Expression, item: FromItem | None) -> exp.Expr:
        """The expression over columns as SQL names them: those of `item`, or else of any table."""

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            name = (item or self.holder(node.name)).attribute(node.name)
            return named(name, self.fields[name].kind)

        return expression.node.copy().transform(swap)

    def check_pairs(self) -> None:
        """Refuse a product of more rows than anybody would wait for."""
        parts: list[list[FromItem]] = []
        for item in self.items:
            near = [p for p in parts if any(i.attributes.keys() & item.attributes for i in p)]
            apart = [p for p in parts if p not in near]
            parts = [*apart, [item, *(i for part in near for i in part)]]
        if len(parts) > 1:
            pairs = prod(max(item.table.rows for item in part) for part in parts)
            check_pairs(pairs, "A join of tables without equal columns")

    def __str__(self) -> str:
        text = ""
        seen: dict[str, str] = {}
        for item in self.items:
            table = f"{item.table.view} AS {item.alias}"
            own = {attribute: item.attribute(attribute) for attribute in item.attributes}
            same = [f"{seen[a]} = {column}" for a, column in own.items() if a in seen]
            if same:
                text += f" JOIN {table} ON {' AND '.join(same)}"
            else:
                text += f" CROSS JOIN {table}" if text else table
            seen = own | seen
        return text or "(SELECT 1)"  # the product of no inputs is one row

    @property
    def hint(self) -> str:
        """Small inputs are broadcast; if all are small, all but the largest."""
        largest = max(self.items, key=lambda item: item.rows, default=None)
        small = [
            item.alias for item in self.items if item is not largest and item.rows <= BROADCAST_ROWS
        ]
        return f"/*+ BROADCAST({', '.join(small)}) */ " if small else ""


def join_order(items: Sequence[FromItem]) -> list[FromItem]:
    """Relations first, then messages, but never a product where a join is possible."""
    left = sorted(items, key=lambda item: item.table.key is not None)
    ordered: list[FromItem] = []
    seen: set[str] = set()
    while left:
        following = next((item for item in left if not seen.isdisjoint(item.attributes)), left[0])
        left.remove(following)
        ordered.append(following)
        seen.update(following.attributes)
    return ordered


def max_joined_rows(items: Sequence[FromItem]) -> int:
    """An upper bound: a row joins at most one row of a message whose whole key is given."""
    total, seen = 1, set[str]()
    for item in items:
        given = {column for attribute, column in item.attributes.items() if attribute in seen}
        if item.table.key is None or not item.table.key <= given:
            total *= item.rows
        seen.update(item.attributes)
    return min(total, UNKNOWN_ROWS)


def named(name: str, kind: Kind) -> exp.Expr:
    """A column that SQL knows by this name."""
    node = exp.Column(this=exp.to_identifier(name, quoted=False))
    node.meta["kind"] = kind
    return node
