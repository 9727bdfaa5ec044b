"""A star of the shape of Favorita's: one table of sales and five that describe them, from a seed.

What makes such data hard is kept: skewed items and stores, a composite key with 8 % of its pairs
missing, dates with two holidays (the join fans out), dates without an oil price (rows that join
nothing) and prices that are NULL. Sales come in blocks that depend only on the seed, the size and
their number, so that any size can be written without being held in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calitree.engines.spark.session.jvm import cache_directory

VERSION = 1
"""Part of the cache's key: to be raised by every change of what is generated."""

DAYS, STORES, ITEMS = 1688, 54, 4100
BLOCK = 1 << 17
"""Rows made at a time, and of a row group: a million rows have eight."""

MISSING_PAIRS = 0.08
RELATIONS = ("sales", "oil", "holiday", "transactions", "stores", "items")
JOINS: dict[str, list[str]] = {
    "oil": ["date"],
    "holiday": ["date"],
    "transactions": ["date", "store"],
    "stores": ["store"],
    "items": ["item"],
}
"""What each of the others shares with sales."""

STATE_OF = {
    "Quito": "Pichincha",
    "Cayambe": "Pichincha",
    "Guayaquil": "Guayas",
    "Daule": "Guayas",
    "Playas": "Guayas",
    "Libertad": "Guayas",
    "Santo Domingo": "Santo Domingo de los Tsachilas",
    "Latacunga": "Cotopaxi",
    "Riobamba": "Chimborazo",
    "Ibarra": "Imbabura",
    "Guaranda": "Bolivar",
    "Puyo": "Pastaza",
    "Ambato": "Tungurahua",
    "Salinas": "Santa Elena",
    "Babahoyo": "Los Rios",
    "Quevedo": "Los Rios",
    "Cuenca": "Azuay",
    "Loja": "Loja",
    "Machala": "El Oro",
    "Esmeraldas": "Esmeraldas",
    "Manta": "Manabi",
    "El Carmen": "Manabi",
}
# fmt: off
FAMILIES = (
    "AUTOMOTIVE", "BABY CARE", "BEAUTY", "BEVERAGES", "BOOKS", "BREAD/BAKERY", "CELEBRATION",
    "CLEANING", "DAIRY", "DELI", "EGGS", "FROZEN FOODS", "GROCERY I", "GROCERY II", "HARDWARE",
    "HOME AND KITCHEN I", "HOME AND KITCHEN II", "HOME APPLIANCES", "HOME CARE", "LADIESWEAR",
    "LAWN AND GARDEN", "LINGERIE", "LIQUOR,WINE,BEER", "MAGAZINES", "MEATS", "PERSONAL CARE",
    "PET SUPPLIES", "PLAYERS AND ELECTRONICS", "POULTRY", "PREPARED FOODS", "PRODUCE",
    "SCHOOL AND OFFICE SUPPLIES", "SEAFOOD",
)
# fmt: on
PERISHABLE = {"BREAD/BAKERY", "DAIRY", "DELI", "EGGS", "MEATS", "POULTRY", "PRODUCE", "SEAFOOD"}
HOLIDAYS = ("Holiday", "Event", "Transfer", "Additional", "Bridge")

Array = np.ndarray[Any, Any]


class Star:
    """The data of one seed. The small tables are the same whatever the number of rows."""

    def __init__(self, rows: int, seed: int = 0) -> None:
        self.rows, self.seed = rows, seed
        rng = np.random.default_rng([seed, 0])
        start = np.datetime64(date(2013, 1, 1), "D").astype(np.int32)
        self.days: Array = start + np.arange(DAYS, dtype=np.int32)
        self.store_ids: Array = np.arange(1, STORES + 1, dtype=np.int32)
        self.item_ids: Array = np.sort(rng.choice(2_000_000, ITEMS, replace=False)).astype(np.int32)
        self.popular_stores = _zipf(rng, STORES, 0.5)
        self.popular_items = _zipf(rng, ITEMS, 0.8)
        weekly = 1 + 0.35 * (self.days % 7 < 2) + np.linspace(0, 0.6, DAYS)
        per_day = rng.multinomial(rows, weekly / weekly.sum())
        self.last_row_of_day: Array = np.cumsum(per_day)
        self.small = {
            "oil": self._oil(rng),
            "holiday": self._holiday(rng),
            "transactions": self._transactions(rng),
            "stores": self._stores(rng),
            "items": self._items(rng),
        }

    def _dates(self, days: Array) -> pa.Array:
        return pa.array(days.astype(np.int32)).cast(pa.date32())

    def _oil(self, rng: np.random.Generator) -> pa.Table:
        known = np.sort(rng.permutation(DAYS)[: DAYS - DAYS // 50])
        prices = 70 + np.cumsum(rng.normal(0, 0.8, DAYS))
        price = np.round(np.maximum(prices, 20), 2)[known]
        null = rng.random(len(known)) < 0.03
        return pa.table(
            {"date": self._dates(self.days[known]), "price": pa.array(price, mask=null)}
        )

    def _holiday(self, rng: np.random.Generator) -> pa.Table:
        """Every date once, most as a work day, and one in ten a second time."""
        special = rng.integers(0, len(HOLIDAYS), DAYS)
        kinds = np.where(rng.random(DAYS) < 0.85, "Work Day", np.array(HOLIDAYS)[special])
        again = np.sort(rng.permutation(DAYS)[: DAYS // 10])
        extra = np.array(HOLIDAYS)[rng.integers(0, len(HOLIDAYS), len(again))]
        days = np.concatenate([self.days, self.days[again]])
        order = np.argsort(days, kind="stable")
        types = np.concatenate([kinds, extra])[order]
        return pa.table({"date": self._dates(days[order]), "type": pa.array(types.tolist())})

    def _transactions(self, rng: np.random.Generator) -> pa.Table:
        pairs = DAYS * STORES
        there = np.sort(rng.permutation(pairs)[: pairs - round(MISSING_PAIRS * pairs)])
        day, store = np.divmod(there, STORES)
        count = rng.poisson(400 + 60_000 * self.popular_stores[store]).astype(np.int32)
        columns = {"store": self.store_ids[store], "transactions": count}
        return pa.table({"date": self._dates(self.days[day]), **columns})

    def _stores(self, rng: np.random.Generator) -> pa.Table:
        """Each city has a store; the rest are mostly in the two largest."""
        cities = list(STATE_OF)
        weight = np.ones(len(cities))
        weight[[0, 2]] = 20
        more = rng.choice(len(cities), STORES - len(cities), p=weight / weight.sum())
        city = [cities[i] for i in rng.permutation(np.concatenate([np.arange(len(cities)), more]))]
        return pa.table(
            {
                "store": self.store_ids,
                "city": city,
                "state": [STATE_OF[name] for name in city],
                "type": np.array(list("ABCDE"))[rng.integers(0, 5, STORES)].tolist(),
                "cluster": rng.integers(1, 18, STORES).astype(np.int32),
            }
        )

    def _items(self, rng: np.random.Generator) -> pa.Table:
        chance = _zipf(rng, len(FAMILIES), 1.0)
        more = rng.choice(len(FAMILIES), ITEMS - len(FAMILIES), p=chance)
        family = rng.permutation(np.concatenate([np.arange(len(FAMILIES)), more]))
        names = [FAMILIES[i] for i in family]
        return pa.table(
            {
                "item": self.item_ids,
                "family": names,
                "class": (1000 + family * 40 + rng.integers(0, 11, ITEMS)).astype(np.int32),
                "perishable": [name in PERISHABLE for name in names],
            }
        )

    def sales_blocks(self) -> Iterator[pa.Table]:
        """The sales in order of date, `BLOCK` rows at a time."""
        for number, start in enumerate(range(0, self.rows, BLOCK)):
            size = min(BLOCK, self.rows - start)
            rng = np.random.default_rng([self.seed, 1, number])
            day = np.searchsorted(
                self.last_row_of_day, np.arange(start, start + size), side="right"
            )
            store = _draw(rng, self.popular_stores, size)
            item = _draw(rng, self.popular_items, size)
            units = np.round(np.exp(rng.normal(1.2, 1.0, size)), 3)
            units[rng.random(size) < 0.003] *= -1  # goods returned
            promoted = pa.array(rng.random(size) < 0.08, mask=day < DAYS // 6)
            yield pa.table(
                {
                    "date": self._dates(self.days[day]),
                    "store": self.store_ids[store],
                    "item": self.item_ids[item],
                    "unit_sales": units,
                    "onpromotion": promoted,
                }
            )

    def tables(self) -> dict[str, pa.Table]:
        """All six in memory."""
        blocks = list(self.sales_blocks())
        # Of no rows there is no block; the schema is that of one row's.
        sales = pa.concat_tables(blocks) if blocks else next(Star(1).sales_blocks()).slice(0, 0)
        return {"sales": sales, **self.small}

    def write(self, directory: Path) -> None:
        """All six as Parquet files in `directory`, which must not exist."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Under another name until it is whole, so that a killed run leaves nothing half done.
        partial = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            for name, table in self.small.items():
                pq.write_table(table, partial / f"{name}.parquet")
            writer: pq.ParquetWriter | None = None
            for block in self.sales_blocks():
                if writer is None:
                    writer = pq.ParquetWriter(partial / "sales.parquet", block.schema)
                writer.write_table(block)
            if writer is None:
                pq.write_table(self.tables()["sales"], partial / "sales.parquet")
            else:
                writer.close()
            partial.rename(directory)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            if not directory.is_dir():  # else another run was quicker, which is as good
                raise


def star_files(rows: int, seed: int = 0, cache: Path | None = None) -> dict[str, Path]:
    """The Parquet file of each relation, made when it is first asked for."""
    directory = (cache or default_cache()) / f"star-v{VERSION}-{rows}-{seed}"
    if not directory.is_dir():
        Star(rows, seed).write(directory)
    return {name: directory / f"{name}.parquet" for name in RELATIONS}


def default_cache() -> Path:
    return cache_directory() / "benchmarks"


def _zipf(rng: np.random.Generator, count: int, exponent: float) -> Array:
    """Probabilities that fall with the rank, the ranks dealt out at random."""
    weight = 1 / np.arange(2, count + 2) ** exponent
    dealt: Array = rng.permutation(weight / weight.sum())
    return dealt


def _draw(rng: np.random.Generator, chance: Array, size: int) -> Array:
    """`rng.choice` with probabilities, in half the time."""
    edges = np.cumsum(chance)
    edges[-1] = 1.0  # what rounding has left of it
    positions: Array = np.searchsorted(edges, rng.random(size), side="right")
    return positions
