"""Contractions in Spark's tasks, seen from the driver: who reads what, and what comes home.

Spark's reader hands rows to Python over a pipe, which costs more than all the rest. So of files
Spark only says who reads what: its rows are the numbers of *splits*. A task sends home the messages
of its splits, and they are summed here, or first by other tasks where there are many. That is
right for files that are read as they are, and for nothing else: a table may have deleted rows,
filters and permissions, of which only Spark knows. Of a table, tasks get the rows from Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from calitree.engines.api.contraction import Contraction, Input, Lifted, Output
from calitree.engines.api.protocol import Watch
from calitree.engines.hybrid.packaging import ship
from calitree.engines.hybrid.worker import (
    SCHEMA,
    Merging,
    SparkRows,
    Splits,
    Work,
    bytes_of,
    merged,
    rows_of,
    table_of,
)
from calitree.engines.local import LocalEngine
from calitree.engines.local.encoding.wire import to_wire
from calitree.engines.local.tables.lazy import files_of
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.engines.spark.jobs import Jobs, explained
from calitree.engines.spark.table import SparkTable, arrow_schema
from calitree.engines.spark.watch import is_remote
from calitree.storage.parquet import Filter, ParquetColumns, Selection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPLIT = 1 << 20
"""Rows that a task reads at a time."""

TASK, WAVES = 4_000_000, 4
"""Rows that are worth a task of their own, and tasks that a slot gets at most."""

DIRECT = 32
"""Tasks whose parts the driver sums by itself; where there are more, other tasks do it."""

SELECTIVE = 100_000
"""Rows of a message that may still rule out row groups of what it meets."""

MERGING = 64
"""How many tasks that are, at most."""


@dataclass(frozen=True)
class Scan:
    """One pass over the rows of one input, all others being messages at home."""

    contraction: Contraction
    relation: int

    @property
    def table(self) -> EncodedRelation | SparkTable:
        table = self.contraction.inputs[self.relation].table
        assert isinstance(table, EncodedRelation | SparkTable)
        return table

    @property
    def attributes(self) -> dict[str, str]:
        """Those of the relation that anyone asks for, and their columns."""
        needed: set[str] = set()
        for at, given in enumerate(self.contraction.inputs):
            if at != self.relation:
                needed |= given.attributes.keys()
        for output in self.contraction.outputs:
            needed |= set(output.keep).union(*(p.attributes for p in output.where))
            for column in output.columns:
                for factor in column.factors:
                    if isinstance(factor, Lifted) and factor.input == self.relation:
                        needed = needed.union(*(each.attributes for each in factor.expressions))
        ours = self.contraction.inputs[self.relation].attributes
        return {attribute: ours[attribute] for attribute in ours if attribute in needed}

    @property
    def chosen(self) -> Selection:
        """The row groups of the files in which some output may find a row."""
        keys = {at: self._keys(message) for at, message in self.messages.items()}
        filters = [
            Filter(output.where, [key for at in output.inputs for key in keys.get(at, ())])
            for output in self.contraction.outputs
        ]
        return self.columns.select(filters, self.attributes)

    def _keys(self, message: EncodedMessage) -> list[tuple[str, pa.Array]]:
        """The values that a row of the relation can meet in a message, of each attribute."""
        if message.rows > SELECTIVE:
            return []
        return [
            (attribute, message.distinct(attribute))
            for attribute in message.attributes
            if attribute in self.attributes
        ]

    @property
    def columns(self) -> ParquetColumns:
        """The files, if they are what is read."""
        assert isinstance(self.table, EncodedRelation)
        found = files_of(self.table)
        assert found is not None
        return found

    def here(self, engine: LocalEngine) -> Contraction:
        """The contraction with the rows that are needed in this process."""
        rows = self.columns.read(self.chosen, self.attributes.values())
        return self._over(engine, rows, self.contraction.outputs)

    def of_nothing(self, engine: LocalEngine, output: Output) -> Contraction:
        """The contraction that computes one output as if the relation had no row."""
        return self._over(engine, _schema(self.table).empty_table(), (output,))

    def _over(self, engine: LocalEngine, rows: pa.Table, outputs: Sequence[Output]) -> Contraction:
        inputs = list(self.contraction.inputs)
        inputs[self.relation] = Input(
            EncodedRelation(engine.book, ArrowColumns(rows)), self.attributes
        )
        return Contraction(tuple(inputs), tuple(outputs))

    @property
    def messages(self) -> dict[int, EncodedMessage]:
        found = {}
        for at, given in enumerate(self.contraction.inputs):
            if at != self.relation:
                assert isinstance(given.table, EncodedMessage)
                found[at] = given.table
        return found


class Tasks:
    """Hands out the rows of one large relation, and sums what comes home.

    `limit` is how many bytes all parts of one message together may have to come home.
    """

    def __init__(self, engine: LocalEngine, jobs: Jobs, limit: int, split: int = SPLIT) -> None:
        self.engine, self.jobs, self.limit, self.split = engine, jobs, limit, split
        self._slots: int | None = None

    def contract(
        self, session: SparkSession, scan: Scan, watch: Watch | None = None
    ) -> list[EncodedMessage | None]:
        """Every output; None where it is too large to come home."""
        ship(session)
        if isinstance(scan.table, SparkTable):
            frame, what = self._of_rows(session, scan, scan.table)
        else:
            frame, what = self._of_splits(session, scan)
        with explained(f"compute messages from {what}"):
            (found,) = self.jobs.run(session, [frame.toArrow], watch)
        parts = [list[bytes | None]() for _ in scan.contraction.outputs]
        for number, _, data in rows_of(found):
            parts[number].append(data)
        return [
            self._message(scan, output, each)
            for output, each in zip(scan.contraction.outputs, parts, strict=True)
        ]

    def _message(
        self, scan: Scan, output: Output, parts: list[bytes | None]
    ) -> EncodedMessage | None:
        if not parts:
            return self.engine.contract(scan.of_nothing(self.engine, output))[0]
        found = [table_of(data) for data in parts if data is not None]
        return merged(self.engine, output, found) if len(found) == len(parts) else None

    def _of_splits(self, session: SparkSession, scan: Scan) -> tuple[DataFrame, str]:
        columns = scan.columns
        columns.check()
        types = {label: columns.schema.field(label).type for label in scan.attributes.values()}
        chosen, slots = scan.chosen, self._parallelism(session)
        # A task costs some tens of milliseconds whatever it does; where rows are many, several for
        # each slot even out what one slot is slower than another.
        tasks = slots * min(WAVES, max(1, ceil(chosen.rows / (slots * TASK))))
        each = max(1, ceil(chosen.rows / tasks))
        splits = tuple(chosen.splits(ceil(each / ceil(each / self.split))))
        tasks = min(tasks, len(splits))
        numbers = session.range(0, len(splits), 1, numPartitions=tasks)
        merging = 0 if tasks <= DIRECT else self._merging(session)
        source = Splits(splits, types)
        frame = self._parts(numbers, scan, source, scan.attributes, merging, tasks)
        return frame, f"{columns.name} ({len(splits)} splits)"

    def _of_rows(
        self, session: SparkSession, scan: Scan, table: SparkTable
    ) -> tuple[DataFrame, str]:
        names = {a: table.fields[label].name for a, label in scan.attributes.items()}
        # Of rows without columns Spark would not hand over how many they are.
        rows = table.frame.select(*names.values()) if names else table.frame.selectExpr("1 AS c0")
        # How many tasks they are, only Spark knows.
        merging = self._merging(session)
        return self._parts(rows, scan, SparkRows(table.label), names, merging), table.label

    def _parts(
        self,
        rows: DataFrame,
        scan: Scan,
        source: Splits | SparkRows,
        names: Mapping[str, str],
        merging: int,
        tasks: int = 1,
    ) -> DataFrame:
        """The frame whose rows are parts of messages, summed by `merging` tasks if there are any."""
        outputs = scan.contraction.outputs
        work = Work(
            name=uuid4().hex,
            source=source,
            names={at: given.attributes for at, given in enumerate(scan.contraction.inputs)}
            | {scan.relation: names},
            relation=scan.relation,
            messages={at: bytes_of(to_wire(each)) for at, each in scan.messages.items()},
            outputs=outputs,
            limit=self.limit // (merging or tasks),
            buckets=merging or 1,
        )
        frame = rows.mapInArrow(work.run, SCHEMA)
        if not merging:
            return frame
        # Buckets differ in size by chance.
        sums = Merging(outputs, 2 * self.limit // merging)
        return frame.repartition(merging, "bucket").mapInArrow(sums.run, SCHEMA)

    def _merging(self, session: SparkSession) -> int:
        """How many tasks sum what others have sent."""
        return min(MERGING, 2 * self._parallelism(session))

    def _parallelism(self, session: SparkSession) -> int:
        """How many tasks run at a time, as far as Spark knows yet."""
        if self._slots is None:
            from pyspark.sql.functions import spark_partition_id

            if is_remote(session):
                numbers = session.range(1 << 12).select(spark_partition_id()).distinct()
                (self._slots,) = self.jobs.run(session, [numbers.count])
            else:
                self._slots = session.sparkContext.defaultParallelism
        return self._slots


def _schema(table: EncodedRelation | SparkTable) -> pa.Schema:
    return table.columns.schema if isinstance(table, EncodedRelation) else arrow_schema(table)
