"""Tables that may improve a model of the star's transactions, some more and some less (paper §6).

Ten join on the date, ten on the store and ten on the item. Each has one value a key: the mean of the
target by this key, blurred; how much is drawn from the paper's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.data import JOINS
from benchmarks.opponents import DuckDB

TARGET = "transactions.transactions"
FEATURES = ("sales.unit_sales", "stores.cluster", "items.perishable")
KEYS = ("date", "store", "item")
TABLES_PER_KEY = 10
"""Tables that join on each key."""


@dataclass(frozen=True, eq=False)
class Extra:
    """A table that may be of use: a key, and a value that tells `phi` of the target's mean."""

    name: str
    key: str
    phi: float
    table: pa.Table

    @property
    def feature(self) -> str:
        return f"{self.name}.val"


def extra_tables(duck: DuckDB, seed: int) -> list[Extra]:
    """The first of each key, then the second, and so on."""
    rng = np.random.default_rng([seed, 30])
    means = {key: target_by(duck, key) for key in KEYS}
    extras = []
    for number in range(TABLES_PER_KEY):
        for key in KEYS:
            known = means[key]
            phi = float(min(1.0, 1 / rng.exponential(10)))
            values = phi * np.asarray(known["mean"]) + (1 - phi) * rng.normal(0, 1, len(known))
            table = pa.table({key: known[key], "val": values})
            extras.append(Extra(f"{key}{number}", key, phi, table))
    return extras


def target_by(duck: DuckDB, key: str) -> pa.Table:
    """The mean of the target by a key, in standard deviations."""
    table = duck.ask(
        f"SELECT sales.{key} AS {key}, avg({TARGET}) AS mean FROM {joined()} GROUP BY 1 ORDER BY 1"
    )
    mean = np.asarray(table["mean"])
    return table.set_column(1, "mean", pa.array((mean - mean.mean()) / (mean.std() or 1.0)))


def joined() -> str:
    """The star's join."""
    return " ".join(["sales", *(f"JOIN {r} USING ({', '.join(on)})" for r, on in JOINS.items())])
