"""Totals of two legs: a table of keys with two others that each have many rows a key.

The join has the product of both, so a plain sum counts a row as often as the other leg has rows of its key.
Three ways to count each row once: symmetric aggregates over the join, as semantic layers write them; the legs
summed up by key before they are joined, which somebody has to write by hand; and a measure at a grain.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.compare import Answer, Answers
from benchmarks.frame import Benchmark, Comparison, Contestant, Heat, Race, at_least, positive
from benchmarks.opponents import DuckDB
from calitree import JoinGraph, WideTable, measure

SYMMETRIC, PREPARED = "DuckDB, symmetric aggregates", "DuckDB, legs summed up first"
OURS = "calitree local"
AGAINST_SYMMETRIC, AGAINST_PREPARED = 50, 5
"""How many times as fast it should be."""

MEASURES = {
    "ordered": measure("sum(orders.amount)", grain="orders"),
    "returned": measure("sum(returns.amount)", grain="returns"),
}


@dataclass(frozen=True)
class GrainQuestion:
    """Both totals, by a column of the keys or not at all."""

    name: str
    by: str | None = None

    @property
    def symmetric(self) -> str:
        """Each value is moved by a hash of its row, so that distinct ones are those of distinct rows."""
        sums = ", ".join(
            f"sum(DISTINCT hash({leg}.id)::HUGEINT * 1024 + {leg}.amount) - "
            f"sum(DISTINCT hash({leg}.id)::HUGEINT * 1024) AS {name}"
            for name, leg in (("ordered", "orders"), ("returned", "returns"))
        )
        source = "customers JOIN orders USING (customer) JOIN returns USING (customer)"
        return self._select(sums, source)

    @property
    def prepared(self) -> str:
        legs = [
            f"(SELECT customer, sum(amount) AS {name} FROM {leg} GROUP BY customer)"
            for name, leg in (("ordered", "orders"), ("returned", "returns"))
        ]
        source = f"customers JOIN {legs[0]} USING (customer) JOIN {legs[1]} USING (customer)"
        return self._select("sum(ordered) AS ordered, sum(returned) AS returned", source)

    def _select(self, sums: str, source: str) -> str:
        if self.by is None:
            return f"SELECT {sums} FROM {source}"
        return f"SELECT {self.by}, {sums} FROM {source} GROUP BY {self.by}"

    def ask(self, wide: WideTable) -> pa.Table:
        return wide.query([] if self.by is None else [self.by]).arrow()

    def answers(self, table: pa.Table) -> Answers:
        return {self.name: Answer(table, 0 if self.by is None else 1)}


def tables(keys: int, rows: int, seed: int) -> Mapping[str, pa.Table]:
    """Customers, and two legs of so many rows for each; one customer in ten has no row in one of them."""
    random = np.random.default_rng([seed, keys, rows])
    customers = np.arange(keys)

    def leg(missing: int) -> pa.Table:
        some = customers[customers % 10 != missing]
        customer = random.permutation(np.repeat(some, rows))
        amount = random.integers(0, 1_000, len(customer))
        return pa.table({"id": np.arange(len(customer)), "customer": customer, "amount": amount})

    regions = pa.array([f"region {i % 20}" for i in range(keys)])
    return {
        "customers": pa.table({"customer": customers, "region": regions}),
        "orders": leg(1),
        "returns": leg(2),
    }


def options(parser: ArgumentParser) -> None:
    parser.add_argument("--keys", type=positive, default=10_000, help="customers")
    parser.add_argument("--rows", type=positive, default=100, help="rows of a customer in each leg")


def run(given: Namespace, race: Race) -> None:
    data = tables(given.keys, given.rows, given.seed)
    duck, graph = DuckDB({}), JoinGraph(engine="local")
    for name, rows in data.items():
        graph.add_relation(name, rows)
        duck.connection.register("given", rows)
        duck.connection.execute(f"CREATE TABLE {name} AS FROM given")
    graph.add_join("customers", "orders", on="customer")
    graph.add_join("customers", "returns", on="customer")
    wide = graph.calibrate(MEASURES, progress=False)
    for question in (GrainQuestion("total"), GrainQuestion("by region", "region")):
        race.run(heat(question, wide, duck))


def heat(question: GrainQuestion, wide: WideTable, duck: DuckDB) -> Heat:
    contestants = (
        Contestant(OURS, lambda: question.ask(wide), question.answers),
        Contestant(SYMMETRIC, lambda: duck.ask(question.symmetric), question.answers),
        Contestant(PREPARED, lambda: duck.ask(question.prepared), question.answers),
    )
    lines = (
        Comparison(f"{question.name}: symmetric", OURS, SYMMETRIC, (at_least(AGAINST_SYMMETRIC),)),
        Comparison(f"{question.name}: prepared", OURS, PREPARED, (at_least(AGAINST_PREPARED),)),
    )
    return Heat(contestants, lines)


BENCHMARK = Benchmark(
    "grain", "two legs of one table: totals that count each row once, against DuckDB", options, run
)
