"""Sales with columns of all kinds and the tables around them: larger than what Hypothesis makes."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

import calitree as ct
from calitree.wide_table import WideTable

Question = Mapping[str, Any]
JOINS = (
    ("sales", "oil", ["date"]),
    ("sales", "stores", ["store"]),
    ("sales", "visits", ["date", "store"]),
    ("sales", "items", ["item"]),
    ("sales", "offers", ["item"]),
)
SHAPE = (40, 12, 250)  # dates, stores, items


def database(rows: int = 6000, nulls: bool = False) -> dict[str, pa.Table]:
    """Sales with columns of all kinds; keys that no dimension has, and, if wanted, that are NULL."""
    rng = np.random.default_rng(rows)
    dates, stores, items = SHAPE
    day = datetime.date(2024, 1, 1)

    def mask() -> Any:
        return rng.random(rows) < 0.05 if nulls else np.zeros(rows, bool)

    sales = {
        "date": pa.array(rng.integers(0, dates, rows), mask=mask()),
        "store": pa.array(rng.integers(0, stores, rows).astype(np.int16), mask=mask()),
        "item": pa.array(rng.integers(0, items + 10, rows), mask=mask()),
        "price": pa.array(rng.normal(size=rows), mask=mask()),
        "units": pa.array(rng.integers(-3, 40, rows).astype(np.int32), mask=mask()),
        "paid": pa.array(rng.integers(-500, 900, rows), mask=mask()).cast(pa.decimal128(38, 0)),
        "label": pa.array([f"l{i}" for i in rng.integers(0, 30, rows)], mask=mask()),
        "day": pa.array(rng.integers(0, 9999, rows).astype(np.int32), mask=mask()).cast(
            pa.date32()
        ),
        "at": pa.array(rng.integers(0, 10**9, rows), mask=mask()).cast(pa.timestamp("ms")),
        "flag": pa.array(rng.random(rows) < 0.01, mask=mask()),
    }
    sales["paid"] = pa.Array.from_buffers(pa.decimal128(9, 2), rows, sales["paid"].buffers())
    return {
        "sales": pa.table(sales),
        "oil": pa.table({"date": range(dates), "oil": rng.random(dates)}),
        "stores": pa.table({"store": range(stores), "city": [f"c{i % 5}" for i in range(stores)]}),
        "visits": pa.table(
            {"date": np.repeat(range(dates), stores), "store": np.tile(range(stores), dates),
             "guests": rng.integers(0, 50, dates * stores)}
        ),
        "items": pa.table(
            {"item": range(items), "family": np.arange(items) % 7,
             "cost": pa.array([Decimal(i) / 1000 for i in range(items)], pa.decimal128(7, 3)),
             "since": [day + datetime.timedelta(i) for i in range(items)]}
        ),
        "offers": pa.table(
            {"item": np.arange(2 * items) // 2, "offer": ["a", "b"] * items, "rank": range(2 * items)}
        ),
    }  # fmt: skip


def graph(tables: Mapping[str, pa.Table], engine: Any) -> ct.JoinGraph:
    join_graph = ct.JoinGraph(engine)
    for name, table in tables.items():
        join_graph.add_relation(name, table)
    for left, right, on in JOINS:
        if right in tables:
            join_graph.add_join(left, right, on=on)
    return join_graph


def without(tables: Mapping[str, pa.Table], *names: str) -> dict[str, pa.Table]:
    return {name: table for name, table in tables.items() if name not in names}


def right(wide: WideTable, *questions: Question) -> None:
    """DuckDB finds the same on the join."""
    verified = wide.verify(questions)
    assert verified, verified
