"""Which columns may explain something, and how their values are written as a condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calitree.errors import QueryError
from calitree.jointree.schema import Schema
from calitree.sql.quoting import column_text, literal
from calitree.types import Kind

DISCRETE = (Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.DATE)
"""Kinds whose single values say something. Columns of the others are candidates only if they are named."""
NAMEABLE = (*DISCRETE, Kind.DECIMAL, Kind.FLOAT, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)

MAX_BLOCK_COMBINATIONS = 1_500
"""Columns are asked for together while they have at most so many combinations of values."""


def candidate_columns(
    schema: Schema, given: Sequence[str] | None, used: frozenset[str]
) -> dict[str, str]:
    """The columns to look at, as they are written, with their attributes.

    Columns that are joined are one attribute. What is `used` by the question itself explains it
    trivially, and is left out unless it is named.
    """
    if isinstance(given, str):
        raise QueryError(f"attributes is a list of columns; write attributes=[{given!r}].")
    if given is None:
        names = [
            attribute.name
            for attribute in schema.attributes.values()
            if attribute.kind in DISCRETE
            and attribute.name not in used
            and not attribute.match
            and not schema.matches.keys() >= set(attribute.relations)
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


def predicate_text(column: str, value: Any) -> str:
    """The condition that a column has a value, which may be NULL."""
    return f"{column} IS NULL" if value is None else f"{column} = {literal(value)}"


def home_of(schema: Schema, attribute: str) -> str:
    """The smallest relation that has an attribute."""
    relations = schema.attributes[attribute].relations
    named = (name for name in relations if name not in schema.matches)
    return min(named, key=lambda name: (schema.rows(name), name))


@dataclass(frozen=True, order=True)
class Block:
    """Columns that one question groups by, and how many combinations of values they have at most."""

    bound: int
    columns: tuple[str, ...]

    def __add__(self, other: Block) -> Block:
        return Block(self.bound * other.bound, self.columns + other.columns)


def blocks_of(schema: Schema, columns: Mapping[str, str], sizes: Mapping[str, int]) -> list[Block]:
    """The columns in blocks: those of one relation, and others for which there is still room.

    A relation has no more combinations of values than rows.
    """
    homes: dict[str, list[str]] = {}
    for column, attribute in columns.items():
        homes.setdefault(home_of(schema, attribute), []).append(column)

    def block(home: str, columns: tuple[str, ...]) -> Block:
        product = math.prod(sizes[column] for column in columns)
        return Block(max(1, min(product, schema.rows(home))), columns)

    blocks: list[Block] = []
    for home, own in homes.items():
        together: tuple[str, ...] = ()
        for column in own:
            if together and block(home, (*together, column)).bound > MAX_BLOCK_COMBINATIONS:
                blocks.append(block(home, together))
                together = ()
            together = (*together, column)
        blocks.append(block(home, together))
    packed: list[Block] = []
    for candidate in sorted(blocks, reverse=True):
        for at, other in enumerate(packed):
            if other.bound * candidate.bound <= MAX_BLOCK_COMBINATIONS:
                packed[at] += candidate
                break
        else:
            packed.append(candidate)
    return packed
