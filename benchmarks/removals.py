"""Rows of a star that are supposed away: as calitree is told, and as SQL is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import JOINS
from benchmarks.questions import Question
from calitree import WideTable

ROWS_A_REMOVAL = 10
POOL = 4_000
"""So many different removals take turns."""


@dataclass(frozen=True)
class Removal:
    """Rows that are supposed not to be there: as calitree is told, and what the others meet."""

    relation: str
    given: Any
    rest: str


Removals = tuple[Removal, ...]
"""Each supposed on the one before."""


def without(wide: WideTable, removals: Removals) -> WideTable:
    for removal in removals:
        wide = wide.what_if(delete={removal.relation: removal.given})
    return wide


def sql_without(question: Question, removals: Removals) -> str:
    return replace(question, where=" AND ".join(removal.rest for removal in removals)).sql


def by_keys(relation: str, table: pa.Table, rng: np.random.Generator) -> list[Removals]:
    """Rows told by the columns that they join on."""
    return [
        (Removal(relation, rows.select(JOINS[relation]), rest_of(relation, rows)),)
        for rows in chosen(table, rng)
    ]


def as_rows(relation: str, table: pa.Table, rng: np.random.Generator) -> list[Removals]:
    """Rows told by all their columns."""
    return [(Removal(relation, rows, rest_of(relation, rows)),) for rows in chosen(table, rng)]


def by_condition(items: pa.Table, rng: np.random.Generator) -> list[Removals]:
    """Neighbours among the items, told by a condition that nobody used before."""
    ids = np.sort(items.column("item").to_numpy())
    pool: list[Removals] = []
    for first in rng.permutation(len(ids) - ROWS_A_REMOVAL + 1)[:POOL]:
        condition = f"items.item BETWEEN {ids[first]} AND {ids[first + ROWS_A_REMOVAL - 1]}"
        pool.append((Removal("items", condition, f"NOT ({condition})"),))
    return pool


def chosen(table: pa.Table, rng: np.random.Generator) -> Iterator[pa.Table]:
    """A few rows of a table, as often as there are turns."""
    table = table.combine_chunks()
    for _ in range(POOL):
        yield table.take(rng.choice(table.num_rows, ROWS_A_REMOVAL, replace=False))


def rest_of(relation: str, rows: pa.Table) -> str:
    """What is met by the rows that do not have these keys."""
    keys = JOINS[relation]
    gone = [
        " AND ".join(f"{relation}.{key} = {literal(value)}" for key, value in row.items())
        for row in rows.select(keys).to_pylist()
    ]
    if len(keys) > 1:
        return " AND ".join(f"NOT ({condition})" for condition in gone)
    values = ", ".join(literal(value) for value in rows.column(keys[0]).to_pylist())
    return f"{relation}.{keys[0]} NOT IN ({values})"


def literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"DATE '{value}'"
