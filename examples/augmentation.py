"""Which tables of a folder improve a model of a retailer's sales? Each is tried, and none is joined.

    python -m examples.augmentation            # on the local engine
    python -m examples.augmentation hybrid     # with Spark

The folder has what such folders have: tables that are of use, some that are not, one with two rows for
some days, one that knows half of the items, and one that was made of the sales themselves.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from calitree.apps.search.leaderboard import Search
from examples.retail import DAYS, ITEMS, STORES, retail

TARGET = "sales.units"
FEATURES = ["sales.price", "items.perishable", "stores.format"]
SHOWN = ["table", "on", "gain", "score", "baseline", "deviation", "coverage"]


def main(engine: str = "local") -> tuple[Search, Search]:
    """All tables of the folder, and those that can be trusted."""
    shop = retail(rows=20_000, seed=1)
    wide = shop.graph(engine).calibrate(progress=False)
    with tempfile.TemporaryDirectory() as folder:
        write_lake(Path(folder), shop.tables)

        started = time.perf_counter()
        search = wide.search(folder, TARGET, FEATURES, select=0, progress=False)
        seconds = time.perf_counter() - started
        print(f"{len(search)} tables, each fitted and scored on 5 folds, in {seconds:.2f} s")
        print(search.pandas()[SHOWN].round(4).to_string(index=False), end="\n\n")
        for scored in search.board:
            for text in scored.warnings:
                print(f"{scored.name}: {text}")

        # What leaks is left out. Of the others, the best is taken until none adds a thousandth to R².
        names = [scored.name for scored in search.board if not scored.leaks]
        files = [file for file in sorted(Path(folder).iterdir()) if file.stem in names]
        chosen = wide.search(files, TARGET, FEATURES, select=len(files), progress=False)
        print(f"\n{chosen}", end="\n\n")

        model = chosen.model
        print(f"{TARGET}: R² {model.r2_:.4f} over {model.rows_:,} rows, with the selected tables")
        for label, value in model.coefficients_.items():
            print(f"  {label:<24} {value:>9.4f}")

        print("\nThe wide table has them now:")
        print(chosen.wide.query(["calendar.weekend"], "celsius > 15", {"units": "avg(units)"}))
    return search, chosen


def write_lake(folder: Path, tables: dict[str, pa.Table]) -> None:
    """The tables that are looked at."""
    rng = np.random.default_rng(7)
    days, stores, items = np.arange(DAYS), np.arange(STORES), np.arange(ITEMS)
    weekday = np.asarray(tables["dates"]["weekday"])
    warmth = np.asarray(tables["weather"]["temperature"])
    again, half = rng.choice(days, 40, replace=False), rng.permutation(items)[: ITEMS // 2]
    fairs = {
        "day": np.concatenate([days, again]),
        "visitors": rng.poisson(900, DAYS + len(again)),
    }
    means = tables["sales"].group_by("day").aggregate([("units", "mean")])
    lake = {
        "calendar": {"day": days, "weekend": weekday >= 6, "week": days // 7},
        "stations": {"day": days, "celsius": warmth + rng.normal(0, 1, DAYS)},
        "fairs": fairs,
        "ratings": {"item": half, "stars": rng.uniform(1, 5, len(half))},
        "reported": {"day": means["day"], "demand": means["units_mean"]},
    }
    for name, columns in lake.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    owners = {"store": stores, "owner": [f"owner {i % 5}" for i in stores]}
    csv.write_csv(pa.table(owners), folder / "owners.csv")
    staff = {"store": stores, "staff": rng.integers(3, 60, STORES)}
    csv.write_csv(pa.table(staff), folder / "staff.csv")


if __name__ == "__main__":
    main(*sys.argv[1:2])
