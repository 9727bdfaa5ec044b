"""A process that asks one tree many different questions, and changes it often: how much memory it takes.

    python -m tests.torture.memory_soak QUESTIONS MEASURES UPDATES LIMIT

It prints a line of JSON for each tenth of the way, and at last one with what must hold.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import calitree as ct

ROWS, STORES, ITEMS = 20_000, 100, 500
BATCH = 500


def resident() -> int:
    """The bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def tree(limit: int) -> ct.WideTable:
    random = np.random.default_rng(0)
    graph = ct.JoinGraph(engine="local")
    graph.add_relation(
        "sales",
        pa.table(
            {
                "id": np.arange(ROWS),
                "store": random.integers(0, STORES, ROWS),
                "item": random.integers(0, ITEMS, ROWS),
                "price": random.integers(1, 1_000, ROWS),
                "qty": random.integers(1, 10, ROWS),
            }
        ),
    )
    cities = [f"city {i % 20}" for i in range(STORES)]
    sizes = random.integers(1, 50, STORES)
    graph.add_relation("stores", {"store": np.arange(STORES), "city": cities, "size": sizes})
    families = [f"family {i % 30}" for i in range(ITEMS)]
    weights = random.integers(1, 50, ITEMS)
    graph.add_relation("items", {"item": np.arange(ITEMS), "family": families, "w": weights})
    graph.add_join("sales", "stores", on="store")
    graph.add_join("sales", "items", on="item")
    measures = {"n": "count(*)", "revenue": "sum(price)"}
    return graph.calibrate(measures, memory_limit=limit, progress=False)


GROUPS = [["city"], ["family"], ["city", "family"], ["size", "family"], []]


def ask(wide: ct.WideTable, i: int) -> None:
    """A question that nobody has asked before."""
    filters = [
        f"price > {i % 997} and w <= {i // 400} and qty <> {i % 7}",
        f"price between {i % 89} and {i} or size = {i % 50}",
        f"city <> 'city {i}' and price + w > {i % 1_000}",
        f"family like '%{i % 10}' and price * qty > {i}",
    ]
    groups = GROUPS[i % len(GROUPS)]
    if i % 3 == 0:  # by an expression that nobody has grouped by before
        groups = [*groups, (f"price % 100 + {i}", f"w * {i}", f"qty + size + {i}")[i % 9 // 3]]
    wide.query(groups, where=filters[i % len(filters)]).arrow()


def measure(wide: ct.WideTable, i: int) -> None:
    """A measure that nobody has asked for before."""
    texts = [
        f"sum(price * {i} + qty)",
        f"avg(price * w + {i})",
        f"max(price - {i})",
        f"sum(case when price > {i % 1_000} then qty * {i} else 0 end) / count(*)",
        f"count(distinct price % 300 + {i})",
        f"median(w + {i})",
        f"max(qty * w + {i})",
    ]
    wide.query(GROUPS[i % len(GROUPS)], measures={"m": texts[i % len(texts)]}).arrow()


class Updates:
    """Rows that come, change and go, one by one and many at once, and what is there after that."""

    def __init__(self, wide: ct.WideTable) -> None:
        self.wide, self.next = wide, ROWS
        (row,) = wide.query().rows()
        self.rows, self.revenue = row["n"], row["revenue"]

    def run(self, i: int) -> None:
        count = BATCH if i % 100 < 2 else 1
        if i % 2 == 0:
            rows = [
                {"id": self.next + k, "store": k % STORES, "item": i % ITEMS, "price": k, "qty": 1}
                for k in range(count)
            ]
            self.wide.update("sales", insert=rows)
            self.next += count
            self.rows, self.revenue = self.rows + count, self.revenue + sum(range(count))
        else:
            self.wide.update("sales", delete=f"id >= {self.next - count}")
            self.rows, self.revenue = self.rows - count, self.revenue - sum(range(count))
            self.next -= count
        if i % 10 == 5:
            changed = [{"store": i % STORES, "city": f"city {i % 25}", "size": i % 50}]
            self.wide.update("stores", upsert=changed, key="store")
        self.wide.query(["city"]).arrow()
        assert self.wide.query().rows() == [{"n": self.rows, "revenue": self.revenue}]


def main(questions: int, measures: int, updates: int, limit: int) -> None:
    wide = tree(limit)
    changes = Updates(wide)
    steps: list[tuple[str, int, Callable[[int], Any]]] = [
        ("questions", questions, lambda i: ask(wide, i)),
        ("measures", measures, lambda i: measure(wide, i)),
        ("updates", updates, changes.run),
    ]
    for _, _, step in steps:  # whatever is loaded or compiled once
        for i in range(20):
            step(i)
    gc.collect()
    base = resident() - wide.memory().kept_bytes
    for name, count, step in steps:
        for i in range(20, count + 20):
            step(i)
            if i % max(1, count // 10) == 0:
                memory = wide.memory()
                assert memory.kept_bytes <= limit == memory.limit
                line = {"step": name, "at": i, "resident": resident(), "kept": memory.kept_bytes}
                print(json.dumps(line), flush=True)
    memory = wide.memory()
    print(memory, file=sys.stderr)
    last = {"base": base, "resident": resident(), "limit": limit, "data": memory.data_bytes}
    print(json.dumps(last), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
