"""The FROM clause of a statement: the inputs of a contraction, joined on their shared attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from sqlglot import exp

from calitree.engines.api.contraction import Input, Match
from calitree.engines.api.pairs import check_pairs
from calitree.engines.spark.fields import DOUBLE, Field
from calitree.engines.spark.sql.whole_numbers import LIMITS, SqlWriter
from calitree.engines.spark.table import SparkTable
from calitree.errors import EngineError, did_you_mean
from calitree.sql.parser import Expression
from calitree.types import Kind

BROADCAST_ROWS = 100_000
"""Inputs known to have no more rows are broadcast, so that the largest need not be shuffled."""

TYPES = {
    Kind.FLOAT: DOUBLE,
    Kind.STRING: "STRING",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP_NTZ",
    Kind.TIMESTAMP_TZ: "TIMESTAMP",
    Kind.BINARY: "BINARY",
}
"""Spark's types of what is derived, by its kind."""

UNKNOWN_ROWS = 2**62
"""Stands for a number of rows that is not known: more than anyone can enumerate."""


@dataclass(frozen=True)
class FromItem:
    """A table in a FROM clause: its position among the inputs, and the column of each attribute."""

    index: int
    table: SparkTable
    attributes: Mapping[str, str]
    fields: Mapping[str, Field]
    """Its columns, and those that are computed for its derived attributes."""
    computed: tuple[str, ...] = ()
    """The derived columns in SQL, with their names."""
    unbounded: frozenset[str] = frozenset()
    """Columns in SQL that, if their bounds were known, might make narrower numbers of those derived."""
    match: Match | None = None

    @classmethod
    def of(cls, inputs: Sequence[Input], index: int, utc: bool) -> FromItem:
        """An input of a contraction; a derived attribute is one more column, in a subquery."""
        given = inputs[index]
        table = cast(SparkTable, given.table)
        item = cls(index, table, given.attributes, table.fields)
        attributes, fields = dict(given.attributes), dict(table.fields)
        computed: list[str] = []
        unbounded: set[str] = set()
        for attribute, expression in given.derived.items():
            label, name = f"\0{attribute}", f"d{len(computed)}"
            text, fields[label], used = item.derived(expression, name, utc)
            attributes[attribute] = label
            computed.append(f"{text} AS {name}")
            unbounded |= used
        return cls(
            index,
            table,
            attributes,
            fields=fields,
            computed=tuple(computed),
            unbounded=frozenset(unbounded),
            match=given.match,
        )

    def derived(self, expression: Expression, name: str, utc: bool) -> tuple[str, Field, set[str]]:
        """An expression over its attributes in SQL, and the column of that name which it makes.

        At the end the columns without whose bounds its numbers need a wider type.
        """
        known = {f"{self.alias}.{field.name}": field for field in self.fields.values()}

        def swap(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            column = self.attribute(node.name)
            return named(column, known[column].kind)

        node, unbounded = expression.node.copy().transform(swap), set[str]()
        for width, limit in LIMITS.items():
            writer = SqlWriter(known, width, utc)
            number = writer.whole(node)
            text = writer.plain(node) if number is None else writer.value(node) or ""
            if writer.peak <= limit:
                break
            unbounded |= writer.used
        if number is None or width == DOUBLE:
            kind = expression.kind if number is None else Kind.FLOAT
            text = f"CAST({text} AS DOUBLE)" if kind is Kind.FLOAT else text
            return text, Field(name, TYPES.get(kind, ""), kind, exact=writer.exact), unbounded
        # As it is, and not as a whole number: it may be joined with a decimal.
        dtype = f"DECIMAL(38,{number.scale})" if number.scale else width
        kind = Kind.DECIMAL if number.scale else Kind.INTEGER
        field = Field(name, dtype, kind, number.scale, number.bound, exact=writer.exact)
        return text, field, unbounded

    @property
    def source(self) -> str:
        """The table in SQL, with its alias."""
        if not self.computed:
            return f"{self.table.view} AS {self.alias}"
        rows = f"{self.table.view} AS {self.alias}"
        return f"(SELECT {self.alias}.*, {', '.join(self.computed)} FROM {rows}) AS {self.alias}"

    @property
    def alias(self) -> str:
        """What SQL calls it."""
        return f"i{self.index}"

    @property
    def rows(self) -> int:
        """How many rows it has, as far as is known."""
        return _rows(self.table)

    def attribute(self, attribute: str) -> str:
        """The column of an attribute in SQL."""
        return self.column(self.attributes[attribute])

    def column(self, name: str) -> str:
        """A column in SQL."""
        fields = self.fields
        if name not in fields:
            hint = did_you_mean(name, fields)
            raise EngineError(f"An input of the contraction has no column {name!r}.{hint}")
        return f"{self.alias}.{fields[name].name}"


@dataclass(frozen=True)
class OuterItem:
    """A message across an outer join, as SQL joins it.

    Its own keys, and those that it is joined with, are looked up among those that are known, and are NULL if
    they are not there: what has no partner on one side is joined with what has none on the other.
    """

    item: FromItem
    match: Match

    @property
    def known(self) -> SparkTable:
        """The keys that have a partner."""
        return cast(SparkTable, self.match.known)

    @property
    def alias(self) -> str:
        """What SQL calls the known keys where those of others are looked up."""
        return f"k{self.item.index}"

    def text(self, seen: Mapping[str, str]) -> str:
        """The joins, given the columns of attributes in the tables before it."""
        item, alias = self.item, self.alias
        columns = [self.known.fields[attribute].name for attribute in self.match.key]
        own = [item.fields[item.attributes[a]].name for a in self.match.key]
        theirs = [f"{seen[a]} = {alias}.{c}" for a, c in zip(self.match.key, columns, strict=True)]
        ours = [f"t.{x} = k.{c}" for x, c in zip(own, columns, strict=True)]
        keys = [f"k.{c} AS k{at}" for at, c in enumerate(columns)]
        same = [f"{alias}.{c} <=> {item.alias}.k{at}" for at, c in enumerate(columns)]
        same += [
            f"{seen[a]} = {item.attribute(a)}"
            for a in item.attributes
            if a in seen and a not in self.match.key
        ]
        return (
            f" LEFT JOIN {self.known.view} AS {alias} ON {' AND '.join(theirs)}"
            f" JOIN (SELECT t.*, {', '.join(keys)} FROM {item.table.view} AS t"
            f" LEFT JOIN {self.known.view} AS k ON {' AND '.join(ours)}) AS {item.alias}"
            f" ON {' AND '.join(same)}"
        )


class FromClause:
    """Tables joined on their shared attributes, in an order without needless products."""

    def __init__(self, items: Sequence[FromItem]) -> None:
        self.items = join_order(items)
        self.rows = max_joined_rows(self.items)
        self.fields = {
            f"{item.alias}.{field.name}": field
            for item in self.items
            for field in item.fields.values()
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
            table = item.source
            own = {attribute: item.attribute(attribute) for attribute in item.attributes}
            if item.match is not None:
                text += OuterItem(item, item.match).text(seen)
                seen = own | seen
                continue
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
        outer = [OuterItem(item, item.match) for item in self.items if item.match is not None]
        small += [item.alias for item in outer if _rows(item.known) <= BROADCAST_ROWS]
        return f"/*+ BROADCAST({', '.join(small)}) */ " if small else ""


def _rows(table: SparkTable) -> int:
    """How many rows a table has, as far as is known."""
    return UNKNOWN_ROWS if table.known_rows is None else table.known_rows


def join_order(items: Sequence[FromItem]) -> list[FromItem]:
    """Relations first, then messages, but never a product where a join is possible.

    Messages across outer joins are last: what they are joined with is known then.
    """
    left = sorted(items, key=lambda item: (item.match is not None, item.table.key is not None))
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
        elif item.match is not None:
            total += item.rows  # those without a partner, if they are not on the other side
        seen.update(item.attributes)
    return min(total, UNKNOWN_ROWS)


def named(name: str, kind: Kind) -> exp.Expr:
    """A column that SQL knows by this name."""
    node = exp.Column(this=exp.to_identifier(name, quoted=False))
    node.meta["kind"] = kind
    return node
