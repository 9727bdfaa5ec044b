"""A model file and the few rows that it speaks of, as a new user would write them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

MODEL = """\
[relations]
sales = "data/sales/*.parquet"
stores = "data/stores.csv"

[[joins]]
left = "sales"
right = "stores"
on = {store = "id"}

[measures]
n = "count(*)"
revenue = "sum(price)"
"""

DAY = datetime.date(2024, 1, 31)
SALES = {
    "store": pa.array([1, 1, 2, 3, None]),
    "price": pa.array([10, 20, 5, 40, 9]),
    "paid": pa.array([Decimal(text) for text in ("1.50", "2.25", "0.10", "7.00", "1.00")]),
    "day": pa.array([DAY, DAY, DAY, None, DAY]),
    "at": pa.array([datetime.datetime(2024, 1, 31, 12, 30)] * 5, pa.timestamp("us", "UTC")),
    "ratio": pa.array([0.5, float("nan"), float("inf"), float("-inf"), 1.0]),
    "code": pa.array([b"\xff\x00", b"a", b"a", None, b""]),
    "note": pa.array(["", 'say "é", twice', "", None, ""]),
    "large": pa.array([2**62] * 5),
}


def write(directory: Path, model: str = MODEL) -> Path:
    """The model file, with its data beside it."""
    (directory / "data" / "sales").mkdir(parents=True)
    table = pa.table(SALES)
    for part in range(2):
        path = directory / "data" / "sales" / f"{part}.parquet"
        parquet.write_table(table.slice(3 * part, 3), path)
    (directory / "data" / "stores.csv").write_text("id,city\n1,Quito\n2,Cuenca\n3,\n")
    file = directory / "model.toml"
    file.write_text(model, encoding="utf-8")
    return file
