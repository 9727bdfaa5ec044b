"""Engines by name, as tests list them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq

from calitree.engines.hybrid import HybridEngine

LOCAL = ["local", "local, scanning"]
"""The local engine as it is, and such that it treats every table as a large one."""

ON_SPARK = ["spark", "hybrid, files", "hybrid, frames", "hybrid, SQL"]
"""Spark's, and the hybrid engine with every relation on Spark, in each of its ways."""


def engine_named(name: Any) -> Any:
    if name == "local, scanning":
        from calitree.engines.local import LocalEngine

        return LocalEngine(large=0)
    return name


def spark_engine_named(name: str, spark: Any, directory: Path) -> Any:
    if name == "spark":
        from calitree.engines.spark import SparkEngine

        return SparkEngine(spark)
    if name == "hybrid, frames":
        return OnFrames(spark, in_process=-1)
    engine = OnFiles(spark, in_process=-1, broadcast=-1 if name == "hybrid, SQL" else 1 << 20)
    engine.directory, engine.tasks.split = directory, 2
    return engine


class OnFiles(HybridEngine):
    """Every table is given as a file of small row groups."""

    directory: Path

    def load(self, name: str, source: Any) -> Any:
        path = self.directory / f"{uuid4().hex}.parquet"
        pq.write_table(source, path, row_group_size=2)
        return super().load(name, str(path))


class OnFrames(HybridEngine):
    """Every table is given as a frame."""

    def load(self, name: str, source: Any) -> Any:
        return super().load(name, spark_frame(self.session, source))


def spark_frame(spark: Any, table: Any) -> Any:
    """A table that only Spark knows; timestamps without a time zone stay without."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
