"""Frames that are computed once and kept, and tables made of them.

A result is kept by `localCheckpoint`. Frames that are merely cached carry the plan of everything
before them, and under adaptive execution that plan grows without end. A result without attributes has
one row at most: it comes to this process at once, which saves a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from calitree.engines.api.contraction import Output
from calitree.engines.spark.numbers import Field
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.table import SparkTable, furthest
from calitree.engines.spark.watch import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOST = "lost"
"""The column of a frame that says whether digits are lost in a row."""


class Kept(NamedTuple):
    """A frame that is computed, and what was seen on the way."""

    frame: DataFrame
    rows: int
    sizes: Mapping[str, Any]
    lost: bool

    def noted(self, table: SparkTable) -> SparkTable:
        """A table of this frame, which then knows it too."""
        table.learn(self.rows, self.sizes)
        return table


def result(
    runtime: Runtime,
    output: Output,
    frame: DataFrame,
    fields: dict[str, Field],
    checked: bool = False,
) -> SparkTable | None:
    """What a frame computes for an output, as a table.

    One that is `checked` has a column `lost` besides; if that is true in any row, it is None.
    """
    sums = frozenset(
        part
        for column in output.columns
        for part, zero in zip(column.parts, column.semiring.zero, strict=True)
        if zero is not None
    )
    label, key = f"the message by {', '.join(output.keep) or 'nothing'}", frozenset(output.keep)
    made = partial(SparkTable, runtime, label, fields, key=key, null_free=sums)
    if output.keep:
        numbers = {name: each.name for name, each in fields.items() if each.coded}
        found = kept(runtime, frame, numbers, checked)
        return None if found.lost else found.noted(made(frame=found.frame))
    held = frame.toArrow()
    if not checked:
        return made(held=held)
    lost = pc.any(held.column(LOST)).as_py()
    return None if lost else made(held=held.drop([LOST]))


def kept(
    runtime: Runtime, frame: DataFrame, numbers: Mapping[str, str], checked: bool = False
) -> Kept:
    """A frame that is computed once. How many rows and how large, Spark observes on the way.

    `numbers` are the columns to look at, by their names to us.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import expr

    asked = ["COUNT(1) AS n"]
    asked += [f"{f}({c}) AS {f}_{c}" for c in numbers.values() for f in ("MIN", "MAX")]
    asked += [f"BOOL_OR({LOST}) AS {LOST}"] if checked else []
    if is_remote(runtime.session):  # where what is observed during a checkpoint is lost
        whole = frame.localCheckpoint()
        seen, rest = whole.selectExpr(*asked).collect()[0].asDict(), whole.drop(LOST)
    else:
        observation = Observation()
        observed = frame.observe(observation, *map(expr, asked))
        rest = observed.drop(LOST).localCheckpoint()
        seen = observation.get
    sizes = {n: furthest((seen[f"MIN_{c}"], seen[f"MAX_{c}"])) for n, c in numbers.items()}
    return Kept(rest, seen["n"], sizes, bool(checked and seen[LOST]))
