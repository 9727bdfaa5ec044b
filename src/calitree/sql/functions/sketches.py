"""Functions that questions do not have by themselves: what sketches group by."""

from __future__ import annotations

from sqlglot import exp

from calitree.sql.functions.function import CALL, Function, named
from calitree.sql.rules import sketches
from calitree.types import Kind

SKETCHES: dict[type[exp.Expr] | str, Function] = {
    sketches.CELL: Function(
        "", "", sketches.cell, "sketches.cells.cell", CALL,
        bound=sketches.RANKS << sketches.REGISTER_BITS, spark=sketches.spark_cell, result=Kind.INTEGER,
    ),
    sketches.BUCKET: named(
        "", "", (Kind.FLOAT,), Kind.INTEGER, "sketches.buckets.bucket", bound=2048 << sketches.BUCKET_BITS,
        spark=sketches.spark_bucket,
    ),
}  # fmt: skip
