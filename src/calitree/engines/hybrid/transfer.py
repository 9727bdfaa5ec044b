"""Tables of the hybrid engine: where they are, and moving them between this process and Spark.

Sums of integers and decimals are whole numbers with a scale on both sides, so nothing is rounded
on the way: what Spark had to compute in 128 bits and does not fit 64 has 128 here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from calitree.engines.api.contraction import Table
from calitree.engines.hybrid.driver import SPLIT_ROWS
from calitree.engines.hybrid.packaging import runnable, ship
from calitree.engines.hybrid.routing import InputStats, Limits, Location
from calitree.engines.hybrid.worker import FileSplits, ReadTask
from calitree.engines.local import LocalEngine
from calitree.engines.local.annotation.labels import from_column
from calitree.engines.local.annotation.values import Value
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.tables.lazy import LazyColumns, files_of
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.engines.local.tables.wire import to_wire
from calitree.engines.spark import SparkEngine
from calitree.engines.spark.fields import (
    BIGINT,
    DECIMAL,
    DOUBLE,
    Field,
    arrow_for_spark,
    decoded,
    fields_of,
    in_process_type,
    is_read_by_spark,
    null_free,
)
from calitree.engines.spark.jobs import calls_spark
from calitree.engines.spark.table import SparkTable
from calitree.memory.budgeted_cache import BudgetedCache
from calitree.storage.parquet import ParquetColumns
from calitree.types import Kind

LABEL = "a message of this process"

LocalTable = EncodedRelation | EncodedMessage


class Transfers:
    """Moves tables between a local engine and Spark, as far as the limits allow.

    A table that was moved is kept as long as the one it was moved from, while there is room. Two
    threads that need the same one may both move it.
    """

    def __init__(self, local: LocalEngine, spark: SparkEngine, limits: Limits) -> None:
        self.local, self.spark, self.limits = local, spark, limits
        self._fetched = BudgetedCache[SparkTable, LocalTable](
            local.budget, "transfers", lambda table: int(table.nbytes), weak=True
        )
        self._sent = BudgetedCache[LocalTable, SparkTable](
            local.budget, "transfers", _held_bytes, weak=True
        )

    def stats(self, table: Table) -> InputStats:
        """Where a table is, and its size."""
        if isinstance(table, SparkTable):
            is_relation = table.key is None
            return InputStats(Location.SPARK, is_relation, table.label, table.rows, table.nbytes)
        if not isinstance(table, EncodedRelation):
            return InputStats(Location.LOCAL, False, "a message here", table.rows, table.nbytes)
        columns = table.columns
        if not isinstance(columns, ParquetColumns | LazyColumns):
            return InputStats(Location.LOCAL, True, "a relation here", table.rows, table.nbytes)
        size = columns.decoded_bytes
        copied = isinstance(columns, LazyColumns) and columns.is_copied
        large = size > self.limits.in_process and not copied
        location = Location.FILES if large else Location.LOCAL
        return InputStats(location, True, columns.name, columns.rows, size)

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Whether any of these tables is not in this process."""
        return any(self.stats(table).location is not Location.LOCAL for table in tables)

    def fetch_small(self, table: Table) -> Table:
        """The table in this process, if it is here or small enough; else as it is."""
        if not isinstance(table, SparkTable):
            return table
        limit = self.limits.in_process if table.key is None else self.limits.collect
        if table.nbytes > limit:
            return table
        return self._fetched.of(table, lambda: from_spark(self.local.book, table))

    def fetch_result(self, table: Table) -> Table:
        """A new result, in this process if it is here or small enough."""
        if not isinstance(table, SparkTable) or table.nbytes > self.limits.collect:
            return table
        return from_spark(self.local.book, table)

    def send(self, table: Table) -> SparkTable:
        """The table on Spark."""
        if isinstance(table, SparkTable):
            return table
        assert isinstance(table, LocalTable)
        return self._sent.of(table, lambda: to_spark(self.spark, table))

    def colocated(
        self, *groups: Sequence[Table]
    ) -> tuple[LocalEngine | SparkEngine, list[list[Table]]]:
        """All tables in this process if they fit, else all on Spark; and the engine there."""
        near = [list(map(self.fetch_small, tables)) for tables in groups]
        if not self.is_on_spark(table for tables in near for table in tables):
            return self.local, near
        return self.spark, [list(map(self.send, tables)) for tables in near]


def _held_bytes(table: SparkTable) -> int:
    """What a table on Spark takes in this process."""
    return 2_000 + (0 if table.held is None else int(table.held.nbytes))


@calls_spark
def to_spark(spark: SparkEngine, table: LocalTable) -> SparkTable:
    """A copy on Spark of a table of the local engine; files are read by Spark itself."""
    if isinstance(table, EncodedMessage):
        return _message_to_spark(spark, table)
    columns = files_of(table)
    if columns is not None and all(map(is_read_by_spark, columns.file_types.values())):
        return spark.load(columns.name, columns.files)
    if columns is not None:
        return _read_by_tasks(spark, columns)
    return spark.load("a relation of this process", table.columns.table())


def _read_by_tasks(spark: SparkEngine, columns: ParquetColumns) -> SparkTable:
    """Files with a column that Spark cannot read, or reads as something else: tasks read them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    columns.check()
    ship(spark.session)
    splits = tuple(columns.splits(SPLIT_ROWS))
    types = {field.name: field.type for field in columns.schema}
    task = ReadTask(columns.name, FileSplits(splits, types, {}))
    none = arrow_for_spark(columns.name, columns.schema.empty_table())
    schema = from_arrow_schema(none.schema, prefer_timestamp_ntz=True)
    numbers = spark.session.range(0, len(splits), 1, numPartitions=len(splits))
    frame = numbers.mapInArrow(runnable(spark.session, task), schema)
    fields = fields_of(columns.name, columns.schema.names, frame.schema)
    return SparkTable(spark.runtime, columns.name, fields, frame=frame, null_free=columns.null_free)


def from_spark(book: Codebook, table: SparkTable) -> LocalTable:
    """A copy in the local engine of a table of Spark's."""
    held = table.collected()
    if table.key is None:
        return EncodedRelation(book, ArrowColumns(decoded(held, table.fields)))
    attributes = {name: field for name, field in table.fields.items() if name in table.key}
    rows = decoded(held, attributes)
    values = {
        name: _value(held.column(field.name), field)
        for name, field in table.fields.items()
        if name not in attributes
    }
    kinds = {name: field.kind for name, field in attributes.items()}
    with book.eviction.use():
        codes = {name: book.dictionary(name).encode(rows.column(name)) for name in attributes}
        return EncodedMessage(book, codes, values, held.num_rows, kinds)


def _value(column: pa.ChunkedArray, field: Field) -> Value:
    if not field.coded:
        return from_column(column.cast(in_process_type(column.type))).with_exact(field.exact)
    whole = from_column(column)
    return Value(whole.data, whole.valid, scale=field.scale, exact=field.exact)


def _message_to_spark(spark: SparkEngine, message: EncodedMessage) -> SparkTable:
    wire = to_wire(message)
    if not wire.num_columns:
        return SparkTable(
            spark.runtime, LABEL, {}, held=pa.table({"c0": [True] * message.rows}), key=frozenset()
        )
    held = arrow_for_spark(LABEL, wire)
    frame = spark.runtime.local_frame(held)
    fields = fields_of(LABEL, wire.column_names, frame.schema)
    for name, value in message.annotations.items():
        if value.labels is None:
            fields[name] = _annotation(fields[name], value)
    return SparkTable(
        spark.runtime,
        LABEL,
        fields,
        frame=frame,
        held=held,
        key=frozenset(message.attributes),
        null_free=null_free(fields, held),
    )


def _annotation(field: Field, value: Value) -> Field:
    if value.is_integer:
        width = DECIMAL if value.is_wide else BIGINT
        kind = Kind.DECIMAL if value.scale else Kind.INTEGER
        return Field(
            field.name, width, kind, value.scale, value.bound, coded=True, exact=value.exact
        )
    if value.data.dtype == np.float64:
        return Field(field.name, DOUBLE, Kind.FLOAT, exact=value.exact)
    return replace(field, exact=value.exact)
