"""A retailer's year, made from a seed: what the examples look at.

Sales, and five tables that describe them. Nothing in it is even: some stores and items sell more, some
sales have no promotion, a few have no known channel (NULL), and weekends and warm days sell more. A
`cause` can be planted: in one month, the sales that it names are several times as large.

    shop = retail(rows=20_000, seed=1, cause={"items.family": "DAIRY"}, month=3)
    shop.graph("local").calibrate({"revenue": "sum(sales.price * sales.units)"})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import calitree as ct

JOINS = {"stores": "store", "items": "item", "dates": "day", "promotions": "promotion"}
"""What each table shares with the sales; the weather is that of a day in the table of dates."""

CITIES = {
    "Quito": "Sierra",
    "Cuenca": "Sierra",
    "Loja": "Sierra",
    "Guayaquil": "Costa",
    "Manta": "Costa",
    "Salinas": "Costa",
    "Tena": "Oriente",
    "Puyo": "Oriente",
}
FORMATS = ("express", "market", "hyper")
FAMILIES = ("BAKERY", "BEVERAGES", "CLEANING", "DAIRY", "DELI", "GROCERY", "MEATS", "PRODUCE")
PERISHABLE = {"BAKERY", "DAIRY", "DELI", "MEATS", "PRODUCE"}
BRANDS = ("Andes", "Bello", "Condor", "Delta", "Ecua", "Fresco")
CHANNELS = ("shop", "web", "app", "phone")
KINDS = {"none": 0.0, "flyer": 0.05, "coupon": 0.1, "display": 0.0, "bundle": 0.2}
SKIES = ("sun", "cloud", "rain", "fog")
STORES, ITEMS, DAYS = 48, 400, 364

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Retail:
    """The tables, and what was planted in them."""

    tables: dict[str, pa.Table]
    cause: Mapping[str, str]
    month: int

    def graph(self, engine: Any = "local") -> ct.JoinGraph:
        """The tables, joined."""
        graph = ct.JoinGraph(engine=engine)
        for name, table in self.tables.items():
            graph.add_relation(name, table)
        for name, key in JOINS.items():
            graph.add_join("sales", name, on=key)
        graph.add_join("dates", "weather", on="day")
        return graph


def retail(
    rows: int = 20_000,
    seed: int = 0,
    *,
    cause: Mapping[str, str] | None = None,
    month: int = 3,
    factor: float = 3.0,
) -> Retail:
    """The tables of one seed. In `month`, the units of the sales for which every column in `cause` has
    the value given (`{"items.family": "DAIRY"}`) are `factor` times what they would have been.
    """
    rng = np.random.default_rng([seed, rows])
    tables = {
        "stores": _stores(rng),
        "items": _items(rng),
        "dates": _dates(),
        "promotions": _promotions(),
        "weather": _weather(rng),
    }
    keys = {
        "store": rng.choice(STORES, rows, p=_skewed(rng, STORES)),
        "item": rng.choice(ITEMS, rows, p=_skewed(rng, ITEMS)),
        "day": np.sort(rng.integers(0, DAYS, rows)),
        "promotion": rng.choice(len(KINDS), rows, p=[0.6, 0.15, 0.1, 0.1, 0.05]),
    }
    channel = np.array(CHANNELS, dtype=object)[rng.choice(4, rows, p=[0.5, 0.25, 0.2, 0.05])]
    channel[rng.random(rows) < 0.01] = None
    tables = {"sales": pa.table({**keys, "channel": pa.array(channel, pa.string())}), **tables}

    def of_sale(column: str) -> Array:
        """A column of any table, for each sale."""
        name, _, field = column.partition(".")
        if name == "sales":
            return np.asarray(tables[name][field].to_pylist(), dtype=object)
        values = np.asarray(tables[name][field].to_pylist(), dtype=object)
        of_rows: Array = values[keys["day" if name == "weather" else JOINS[name]]]
        return of_rows

    usual = 3.0 + 1.5 * (of_sale("dates.weekday") >= 6) + 0.05 * of_sale("weather.temperature")
    units = rng.poisson(usual.astype(float)) + 1
    planted = of_sale("dates.month") == month
    for column, value in (cause or {}).items():
        planted &= of_sale(column) == value
    if cause:
        units = np.where(planted, np.rint(units * factor).astype(units.dtype), units)
    listed = of_sale("items.list_price").astype(float) * (
        1 - of_sale("promotions.discount").astype(float)
    )
    price = np.round(listed * rng.normal(1.0, 0.05, rows).clip(0.8, 1.2), 2)
    sales = tables["sales"].append_column("units", pa.array(units))
    tables["sales"] = sales.append_column("price", pa.array(price))
    return Retail(tables, dict(cause or {}), month)


def _stores(rng: np.random.Generator) -> pa.Table:
    """Six stores in every city, two of each format."""
    order = rng.permutation(STORES)
    cities = [list(CITIES)[i % len(CITIES)] for i in order]
    return pa.table(
        {
            "store": np.arange(STORES),
            "city": cities,
            "region": [CITIES[city] for city in cities],
            "format": [FORMATS[i // len(CITIES) % len(FORMATS)] for i in order],
            "area": rng.integers(200, 4_000, STORES).astype(float),
        }
    )


def _items(rng: np.random.Generator) -> pa.Table:
    """Every family has all brands, and a level of prices."""
    order = rng.permutation(ITEMS)
    families = [FAMILIES[i % len(FAMILIES)] for i in order]
    level = dict(zip(FAMILIES, rng.uniform(2, 8, len(FAMILIES)), strict=True))
    prices = [level[family] for family in families] * rng.uniform(0.6, 1.6, ITEMS)
    return pa.table(
        {
            "item": np.arange(ITEMS),
            "family": families,
            "brand": [BRANDS[i // len(FAMILIES) % len(BRANDS)] for i in order],
            "perishable": [family in PERISHABLE for family in families],
            "weight": np.round(rng.gamma(2.0, 0.4, ITEMS), 3),
            "list_price": np.round(prices, 2),
        }
    )


def _dates() -> pa.Table:
    days = [date(2024, 1, 1) + timedelta(days=i) for i in range(DAYS)]
    return pa.table(
        {
            "day": np.arange(DAYS),
            "date": days,
            "month": [day.month for day in days],
            "weekday": [day.isoweekday() for day in days],
            "holiday": [day.day in (1, 24) for day in days],
        }
    )


def _promotions() -> pa.Table:
    return pa.table(
        {
            "promotion": np.arange(len(KINDS)),
            "kind": list(KINDS),
            "discount": list(KINDS.values()),
        }
    )


def _weather(rng: np.random.Generator) -> pa.Table:
    warmth = 14 + 6 * np.sin(np.arange(DAYS) / DAYS * 2 * np.pi)
    return pa.table(
        {
            "day": np.arange(DAYS),
            "sky": np.array(SKIES)[rng.choice(4, DAYS, p=[0.4, 0.3, 0.25, 0.05])].tolist(),
            "temperature": np.round(warmth + rng.normal(0, 3, DAYS), 1),
        }
    )


def _skewed(rng: np.random.Generator, count: int) -> Array:
    """Probabilities of which the largest is a few times the smallest."""
    weight = rng.gamma(4.0, 1.0, count) + 1
    shares: Array = weight / weight.sum()
    return shares
