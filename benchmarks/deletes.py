"""Single rows of a relation that are deleted one after the other, in the three forms that rows are told by.

Each deletion is an update of its own and makes a version. A turn deletes all of them and then asks for the
total by family; the tree that it starts with, or DuckDB's table, is made anew before it.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.compare import Answer, Answers
from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race, positive, within
from calitree import JoinGraph, WideTable

FAMILIES, ITEMS, DAYS = 30, 4_000, 365
MAX_SECONDS = 2.0
"""For 5,000 rows of 100,000."""

Row = dict[str, Any]
FORMS: dict[str, Callable[[Row], Any]] = {
    "some values": lambda row: [{"id": row["id"]}],
    "whole rows": lambda row: [row],
    "a condition": lambda row: f"id = {row['id']}",
}


def tables(rows: int, seed: int) -> dict[str, pa.Table]:
    random = np.random.default_rng([seed, rows])
    first = date(2024, 1, 1)
    days = [first + timedelta(int(day)) for day in random.integers(0, DAYS, rows)]
    prices = [Decimal(int(cents)).scaleb(-2) for cents in random.integers(1, 100_000, rows)]
    sales = {
        "id": pa.array(np.arange(rows), pa.int64()),
        "item": pa.array(random.integers(0, ITEMS, rows), pa.int32()),
        "day": pa.array(days, pa.date32()),
        "units": pa.array(random.integers(1, 50, rows), pa.int64()),
        "price": pa.array(prices, pa.decimal128(9, 2)),
        "note": pa.array([f"note {number}" for number in random.integers(0, 500, rows)]),
    }
    items = {"item": pa.array(range(ITEMS), pa.int32()), "family": np.arange(ITEMS) % FAMILIES}
    return {"sales": pa.table(sales), "items": pa.table(items)}


class Trees:
    """A calibrated tree, one for each turn."""

    def __init__(self, data: dict[str, pa.Table]) -> None:
        self.data = data
        self.wide: WideTable

    def renew(self) -> None:
        graph = JoinGraph(engine="local")
        for name, table in self.data.items():
            graph.add_relation(name, table)
        graph.add_join("sales", "items", on="item")
        self.wide = graph.calibrate({"n": "count(*)", "paid": "sum(price)"}, progress=False)

    def delete(self, given: Sequence[Any]) -> pa.Table:
        for what in given:
            self.wide.update("sales", delete=what)
        return self.wide.query(group_by=["family"]).arrow()


class DuckTables:
    """DuckDB's tables, made for each turn; its sales have an index of their ids."""

    def __init__(self, data: dict[str, pa.Table]) -> None:
        self.connection = duckdb.connect()
        for name, table in data.items():
            self.connection.register(f"{name} given", table)

    def renew(self) -> None:
        for name in ("sales", "items"):
            self.connection.execute(f'CREATE OR REPLACE TABLE {name} AS FROM "{name} given"')
        self.connection.execute("CREATE UNIQUE INDEX ids ON sales (id)")

    def delete(self, ids: Sequence[int]) -> pa.Table:
        for number in ids:
            self.connection.execute(f"DELETE FROM sales WHERE id = {number}")
        return self.connection.sql(
            "SELECT family, count(*) AS n, sum(price) AS paid FROM sales JOIN items USING (item) GROUP BY 1"
        ).to_arrow_table()


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--rows", type=positive, default=100_000, help="rows of the relation")
    parser.add_argument("--deletes", type=positive, default=5_000, help="rows that are deleted")


def run(arguments: Namespace, race: Race) -> None:
    data = tables(arguments.rows, arguments.seed)
    random = np.random.default_rng([arguments.seed, 1])
    chosen = random.choice(arguments.rows, min(arguments.deletes, arguments.rows), replace=False)
    rows = data["sales"].take(chosen).to_pylist()
    race.run(heat(data, rows))


def heat(data: dict[str, pa.Table], rows: Sequence[Row]) -> Heat:
    """All forms, and DuckDB's."""
    trees, duck = Trees(data), DuckTables(data)
    ids = [row["id"] for row in rows]
    contestants = [Contestant("DuckDB", lambda: duck.delete(ids), _answers, duck.renew)]
    lines = []
    for form, told in FORMS.items():
        given = list(map(told, rows))
        name = f"calitree, by {form}"
        contestants.append(
            Contestant(name, lambda given=given: trees.delete(given), _answers, trees.renew)
        )
        lines.append(
            Comparison(f"{len(rows):,} rows by {form}", name, "DuckDB", (within(MAX_SECONDS),))
        )
    return Heat(tuple(contestants), tuple(lines))


def _answers(table: pa.Table) -> Answers:
    return {"by family": Answer(table, 1)}


BENCHMARK = Benchmark(
    "deletes", "single rows deleted one after the other, in three forms", options, run
)
