"""An engine made of two: what is small is computed in this process, a scan of a large relation in
Spark's tasks.

    graph = JoinGraph(engine="hybrid")
    graph.add_relation("sales", "data/sales/*.parquet")   # large: read by Spark's tasks
    graph.add_relation("stores", stores_frame)             # small: here

Messages are small, so they come home, and a question that needs no large relation never calls
Spark. Spark is started when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calitree.engines import Contraction, Table
from calitree.engines.local import LocalEngine
from calitree.engines.local.tables import Message, Relation
from calitree.errors import EngineError
from calitree.parquet import ParquetColumns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calitree.engines.spark_tasks import Tasks

IN_PROCESS = 256 << 20
"""Bytes of a relation, as its files tell, that are still held in this process."""


class HybridEngine:
    """The `Engine` protocol over a local engine and Spark.

    `in_process` is how many bytes a relation given as Parquet files may have to be held here; what
    is given as a table or frame is here already.
    """

    name = "hybrid"

    def __init__(self, session: SparkSession | None = None, in_process: int = IN_PROCESS) -> None:
        self.local = LocalEngine()
        self.in_process = in_process
        self._session = session
        self._tasks: Tasks | None = None

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        if self._session is None:
            from calitree.spark_session import spark_session

            self._session = spark_session()
        return self._session

    def load(self, name: str, source: Any) -> Relation:
        if getattr(source, "sparkSession", None) is not None:
            raise EngineError(
                f"{name}: a Spark DataFrame needs engine='spark'; the hybrid engine takes its files."
            )
        return self.local.load(name, source)

    def arrow(self, table: Table) -> pa.Table:
        return self.local.arrow(table)

    def contract(self, contraction: Contraction) -> list[Message]:
        """In Spark's tasks if a large relation takes part, else here."""
        inputs = contraction.inputs
        relations = [at for at, each in enumerate(inputs) if isinstance(each.table, Relation)]
        large = [at for at in relations if self._is_large(inputs[at].table)]
        if not large:
            return self.local.contract(contraction)
        if len(relations) > 1:
            raise EngineError(
                "Relations that share a bag are joined in this process by the hybrid engine, and one "
                "of these is too large for that. Use engine='spark', or raise in_process."
            )
        return self._in_tasks(contraction, large[0])

    def _is_large(self, table: Table) -> bool:
        columns = getattr(table, "columns", None)
        return isinstance(columns, ParquetColumns) and columns.decoded_bytes > self.in_process

    def _in_tasks(self, contraction: Contraction, relation: int) -> list[Message]:
        if self._tasks is None:
            from calitree.engines.spark_jobs import Jobs
            from calitree.engines.spark_tasks import Tasks

            self._tasks = Tasks(self.local, Jobs())
        return self._tasks.contract(self.session, contraction, relation)
