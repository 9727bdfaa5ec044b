"""Contractions in Spark's tasks, as the driver prepares and collects them.

Spark's reader hands rows to Python over a pipe, which costs more than all the rest. So of files
Spark only says who reads what: its rows are the numbers of *splits*. A task returns the messages
of its splits, and they are summed here, or first by other tasks where there are many. That is
right for files that are read as they are, and for nothing else: a table may have deleted rows,
filters and permissions, of which only Spark knows. Of a table, tasks get the rows from Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from calitree.engines.api.contraction import Contraction, Input, Lifted, Output
from calitree.engines.api.protocol import Watch
from calitree.engines.hybrid.packaging import runnable, ship
from calitree.engines.hybrid.worker import (
    SCHEMA,
    FileSplits,
    MergeTask,
    ScanTask,
    SparkRows,
    merged,
    rows_of,
    sent_input,
    table_of,
)
from calitree.engines.local import LocalEngine
from calitree.engines.local.tables.lazy import files_of
from calitree.engines.local.tables.legs import Leg
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.engines.spark.jobs import Jobs, explained
from calitree.engines.spark.table import SparkTable, arrow_schema
from calitree.engines.spark.watch import is_remote
from calitree.storage.parquet import Filter, ParquetColumns, Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT_ROWS = 1 << 20
"""Rows that a task reads at a time."""

TASK_ROWS = 4_000_000
"""Rows that are worth a task of their own."""

MAX_TASKS_PER_SLOT = 4

MAX_TASKS_MERGED_BY_DRIVER = 32
"""Where more tasks return partial messages, other tasks merge these."""

MAX_MERGE_TASKS = 64

MAX_PRUNING_ROWS = 100_000
"""Rows of a message whose keys are compared with the bounds of row groups."""


@dataclass(frozen=True)
class TaskScan:
    """A contraction as one scan of one relation; all other inputs are messages of this process."""

    contraction: Contraction
    relation: int
    """The position of the relation among the inputs."""

    @property
    def table(self) -> EncodedRelation | SparkTable:
        """The relation."""
        table = self.contraction.inputs[self.relation].table
        assert isinstance(table, EncodedRelation | SparkTable)
        return table

    @property
    def messages(self) -> dict[int, EncodedMessage]:
        """The other inputs, by their positions."""
        messages = {}
        for at, given in enumerate(self.contraction.inputs):
            if at != self.relation:
                assert isinstance(given.table, EncodedMessage)
                messages[at] = given.table
        return messages

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of the relation that are needed, and their columns."""
        inputs = self.contraction.inputs
        others = inputs[: self.relation] + inputs[self.relation + 1 :]
        needed = {attribute for given in others for attribute in given.attributes}
        for output in self.contraction.outputs:
            needed |= set(output.keep).union(*(p.attributes for p in output.where))
            for column in output.columns:
                for factor in column.factors:
                    if isinstance(factor, Lifted) and factor.input == self.relation:
                        needed = needed.union(*(e.attributes for e in factor.expressions))
        own = inputs[self.relation].attributes
        for attribute, expression in inputs[self.relation].derived.items():
            if attribute in needed:
                needed |= expression.attributes
        return {name: column for name, column in own.items() if name in needed}

    @property
    def files(self) -> ParquetColumns:
        """The relation's files, if that is where it is."""
        assert isinstance(self.table, EncodedRelation)
        files = files_of(self.table)
        assert files is not None
        return files

    @property
    def row_groups(self) -> Selection:
        """The row groups of the files in which some output may find a row."""
        keys = {at: self._keys(at, message) for at, message in self.messages.items()}
        filters = [
            Filter(output.where, [key for at in output.inputs for key in keys.get(at, ())])
            for output in self.contraction.outputs
        ]
        return self.files.select(filters, self.attributes)

    def _keys(self, at: int, message: EncodedMessage) -> list[tuple[str, pa.Array]]:
        """The values of each attribute of a message that the relation has too.

        Across an outer join, rows with other values count too if the message has a row for those without a
        partner.
        """
        given = self.contraction.inputs[at]
        leg = Leg(message, given.attributes, match=given.match)
        if message.rows > MAX_PRUNING_ROWS or leg.has_unmatched:
            return []
        return [
            (attribute, message.distinct(attribute))
            for attribute in message.attributes
            if attribute in self.attributes
        ]

    def in_process(self, engine: LocalEngine) -> Contraction:
        """The contraction with the rows that are needed read into this process."""
        rows = self.files.read(self.row_groups, self.attributes.values())
        return self._over(engine, rows, self.contraction.outputs)

    def of_no_rows(self, engine: LocalEngine, output: Output) -> Contraction:
        """The contraction for one output as if the relation were empty."""
        table = self.table
        schema = table.columns.schema if isinstance(table, EncodedRelation) else arrow_schema(table)
        return self._over(engine, schema.empty_table(), (output,))

    def _over(self, engine: LocalEngine, rows: pa.Table, outputs: Sequence[Output]) -> Contraction:
        inputs = list(self.contraction.inputs)
        inputs[self.relation] = Input(
            EncodedRelation(engine.book, ArrowColumns(rows)),
            self.attributes,
            inputs[self.relation].derived,
        )
        return Contraction(tuple(inputs), tuple(outputs))


class Tasks:
    """Runs scans of a large relation in Spark's tasks, and sums the partial messages they return.

    `limit` is how many bytes all parts of one message together may have to be collected, `split`
    how many rows a task reads at a time.
    """

    def __init__(self, engine: LocalEngine, jobs: Jobs, limit: int, split: int) -> None:
        self.engine, self.jobs, self.limit, self.split = engine, jobs, limit, split
        self._slots: int | None = None

    def contract(
        self, session: SparkSession, scan: TaskScan, watch: Watch | None = None
    ) -> list[EncodedMessage | None]:
        """Every output; None where it is too large to be collected."""
        ship(session)
        if isinstance(scan.table, SparkTable):
            frame, what = self._of_rows(session, scan, scan.table)
        else:
            frame, what = self._of_splits(session, scan)
        with explained(f"compute messages from {what}"):
            (rows,) = self.jobs.run(session, [frame.toArrow], watch)
        parts = [list[bytes | None]() for _ in scan.contraction.outputs]
        for number, _, data in rows_of(rows):
            parts[number].append(data)
        return list(map(partial(self._message, scan), scan.contraction.outputs, parts))

    def _message(
        self, scan: TaskScan, output: Output, parts: Sequence[bytes | None]
    ) -> EncodedMessage | None:
        if not parts:
            return self.engine.contract(scan.of_no_rows(self.engine, output))[0]
        if None in parts:
            return None
        return merged(self.engine, output, [table_of(data) for data in parts if data is not None])

    def _of_splits(self, session: SparkSession, scan: TaskScan) -> tuple[DataFrame, str]:
        files = scan.files
        files.check()
        types = {label: files.schema.field(label).type for label in scan.attributes.values()}
        row_groups, slots = scan.row_groups, self._parallelism(session)
        # A task costs some tens of milliseconds whatever it does; where rows are many, several for
        # each slot even out what one slot is slower than another.
        waves = ceil(row_groups.rows / (slots * TASK_ROWS))
        tasks = slots * min(MAX_TASKS_PER_SLOT, max(1, waves))
        task_rows = max(1, ceil(row_groups.rows / tasks))
        splits = tuple(row_groups.splits(ceil(task_rows / ceil(task_rows / self.split))))
        tasks = min(tasks, len(splits))
        numbers = session.range(0, len(splits), 1, numPartitions=tasks)
        mergers = 0 if tasks <= MAX_TASKS_MERGED_BY_DRIVER else self._merge_tasks(session)
        source = FileSplits(splits, types, scan.attributes)
        frame = self._partial_messages(numbers, scan, source, mergers, tasks)
        return frame, f"{files.name} ({len(splits)} splits)"

    def _of_rows(
        self, session: SparkSession, scan: TaskScan, table: SparkTable
    ) -> tuple[DataFrame, str]:
        names = {a: table.fields[label].name for a, label in scan.attributes.items()}
        columns = dict.fromkeys(names.values())  # one column may be several attributes
        # Of rows without columns Spark would not hand over how many they are.
        rows = table.frame.select(*columns) if columns else table.frame.selectExpr("1 AS c0")
        # How many tasks they are, only Spark knows.
        mergers = self._merge_tasks(session)
        source = SparkRows(table.label, names)
        return self._partial_messages(rows, scan, source, mergers), table.label

    def _partial_messages(
        self,
        rows: DataFrame,
        scan: TaskScan,
        source: FileSplits | SparkRows,
        mergers: int,
        tasks: int = 1,
    ) -> DataFrame:
        """The frame whose rows are parts of messages, summed by so many `mergers` if there are any."""
        inputs, outputs = scan.contraction.inputs, scan.contraction.outputs
        task = ScanTask(
            name=uuid4().hex,
            source=source,
            relation=scan.relation,
            derived=inputs[scan.relation].derived,
            messages={at: sent_input(inputs[at]) for at in scan.messages},
            outputs=outputs,
            limit=self.limit // (mergers or tasks),
            buckets=mergers or 1,
        )
        session = rows.sparkSession
        frame = rows.mapInArrow(runnable(session, task), SCHEMA)
        if not mergers:
            return frame
        # Buckets differ in size by chance.
        merge = MergeTask(outputs, 2 * self.limit // mergers)
        return frame.repartition(mergers, "bucket").mapInArrow(runnable(session, merge), SCHEMA)

    def _merge_tasks(self, session: SparkSession) -> int:
        return min(MAX_MERGE_TASKS, 2 * self._parallelism(session))

    def _parallelism(self, session: SparkSession) -> int:
        """How many tasks run at a time, as far as Spark knows yet; two threads may both ask."""
        if self._slots is None:
            from pyspark.sql.functions import spark_partition_id

            if is_remote(session):
                numbers = session.range(1 << 12).select(spark_partition_id()).distinct()
                (self._slots,) = self.jobs.run(session, [numbers.count])
            else:
                self._slots = session.sparkContext.defaultParallelism
        return self._slots
