"""Which columns may explain something, and how their values are written as a condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from calitree.errors import ExpressionError, QueryError
from calitree.jointree.schema import Schema
from calitree.sql.parser import parse_node
from calitree.types import Kind

DISCRETE = (Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.DATE)
"""Kinds whose single values say something. Columns of the others are looked at when they are named."""
NAMEABLE = (*DISCRETE, Kind.DECIMAL, Kind.FLOAT, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)

BLOCK = 1_500
"""Up to so many combinations of values, columns are asked for together."""


def candidate_columns(
    schema: Schema, given: Sequence[str] | None, used: frozenset[str]
) -> dict[str, str]:
    """The columns to look at, as they are written, with their attributes. Columns that are joined are
    one attribute. What is `used` by the question itself explains it trivially, and is left out
    unless it is named.
    """
    if isinstance(given, str):
        raise QueryError(f"attributes is a list of columns; write attributes=[{given!r}].")
    if given is None:
        names = [
            each.name
            for each in schema.attributes.values()
            if each.kind in DISCRETE and each.name not in used
        ]
    else:
        names = list(dict.fromkeys(schema.column(text).attribute for text in given))
        for name in names:
            kind = schema.attributes[name].kind
            if kind not in NAMEABLE:
                raise QueryError(
                    f"{name} is {kind.phrase}, whose values cannot be told apart here."
                )
    return {column_text(*schema.attributes[name].columns[0]): name for name in names}


def column_text(relation: str, column: str) -> str:
    """A column as SQL, with quotes only where it needs them."""
    plain = f"{relation}.{column}"
    try:
        node = parse_node(plain)
    except ExpressionError:
        node = exp.Null()
    if isinstance(node, exp.Column) and [part.name for part in node.parts] == [relation, column]:
        return plain
    return exp.column(column, relation, quoted=True).sql()


def predicate_text(column: str, value: Any) -> str:
    """The condition that a column has a value; NULL is one."""
    if value is None:
        return f"{column} IS NULL"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{column} = CAST('{value}' AS DOUBLE)"
    if isinstance(value, bool | int | float | Decimal):
        return f"{column} = {str(value).upper()}"
    return f"{column} = {exp.Literal.string(str(value)).sql()}"


def home_of(schema: Schema, attribute: str) -> str:
    """The smallest relation that has an attribute."""
    relations = schema.attributes[attribute].relations
    return min(relations, key=lambda name: (schema.rows(name), name))


@dataclass(frozen=True, order=True)
class Block:
    """Columns to be asked for together, and how many combinations of values they have at most."""

    bound: int
    columns: tuple[str, ...]

    def __add__(self, other: Block) -> Block:
        return Block(self.bound * other.bound, self.columns + other.columns)


def blocks_of(schema: Schema, columns: Mapping[str, str], sizes: Mapping[str, int]) -> list[Block]:
    """The columns in blocks: those of one relation, which has few combinations of them, and what fits
    beside.
    """
    homes: dict[str, list[str]] = {}
    for column, attribute in columns.items():
        homes.setdefault(home_of(schema, attribute), []).append(column)
    made: list[Block] = []
    for home, there in homes.items():
        block: tuple[str, ...] = ()
        for column in there:
            if block and _block(schema, home, (*block, column), sizes).bound > BLOCK:
                made.append(_block(schema, home, block, sizes))
                block = ()
            block = (*block, column)
        made.append(_block(schema, home, block, sizes))
    packed: list[Block] = []
    for each in sorted(made, reverse=True):
        fits = (i for i, other in enumerate(packed) if other.bound * each.bound <= BLOCK)
        at = next(fits, None)
        if at is None:
            packed.append(each)
        else:
            packed[at] += each
    return packed


def _block(schema: Schema, home: str, columns: tuple[str, ...], sizes: Mapping[str, int]) -> Block:
    product = math.prod(sizes[column] for column in columns)
    return Block(max(1, min(product, schema.rows(home))), columns)
