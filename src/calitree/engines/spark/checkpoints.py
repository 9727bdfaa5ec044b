"""Results that are computed once, and tables of them.

A result is stored by `localCheckpoint`. The plan of a frame that is merely cached contains those of all
frames before it, and under adaptive execution it grows without end. A result without attributes has
one row at most: it is collected at once, which saves a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from calitree.engines.api.contraction import Output
from calitree.engines.spark.fields import Field
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.table import SparkTable, largest
from calitree.engines.spark.watch import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOST = "lost"
"""The column of a frame that says whether digits are lost in a row."""


class Checkpoint(NamedTuple):
    """A frame that is computed, and what was observed on the way."""

    frame: DataFrame
    rows: int
    sizes: Mapping[str, Any]
    """The largest absolute values of some columns, by their own names."""
    lost: bool
    """Whether digits are lost in any row."""

    def recorded_in(self, table: SparkTable) -> SparkTable:
        """The table, which now knows its rows and sizes."""
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

    A frame that is `checked` has another column, LOST; None if that is true in any row.
    """
    sums = frozenset(
        part
        for column in output.columns
        for part, zero in zip(column.parts, column.semiring.zero, strict=True)
        if zero is not None
    )
    label, key = f"the message by {', '.join(output.keep) or 'nothing'}", frozenset(output.keep)
    table = partial(SparkTable, runtime, label, fields, key=key, null_free=sums)
    if output.keep:
        numbers = {name: field.name for name, field in fields.items() if field.coded}
        rows = checkpoint(runtime, frame, numbers, checked)
        return None if rows.lost else rows.recorded_in(table(frame=rows.frame))
    held = frame.toArrow()
    if not checked:
        return table(held=held)
    lost = pc.any(held.column(LOST)).as_py()
    return None if lost else table(held=held.drop([LOST]))


def checkpoint(
    runtime: Runtime, frame: DataFrame, numbers: Mapping[str, str], checked: bool = False
) -> Checkpoint:
    """Compute a frame, and observe its number of rows and the sizes of its `numbers`.

    `numbers` are columns, by their own names.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import expr

    asked = ["COUNT(1) AS n"]
    asked += [f"{f}({c}) AS {f}_{c}" for c in numbers.values() for f in ("MIN", "MAX")]
    asked += [f"BOOL_OR({LOST}) AS {LOST}"] if checked else []
    if is_remote(runtime.session):  # where what is observed during a checkpoint is lost
        computed = frame.localCheckpoint()
        seen, rest = computed.selectExpr(*asked).collect()[0].asDict(), computed.drop(LOST)
    else:
        observation = Observation()
        observed = frame.observe(observation, *map(expr, asked))
        rest = observed.drop(LOST).localCheckpoint()
        seen = observation.get
    sizes = {n: largest((seen[f"MIN_{c}"], seen[f"MAX_{c}"])) for n, c in numbers.items()}
    return Checkpoint(rest, seen["n"], sizes, bool(checked and seen[LOST]))
