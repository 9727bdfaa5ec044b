"""Tables carried between the local engine and Spark: codes and values here, named columns there.

Sums of integers and decimals are whole numbers with a scale on both sides, so nothing is rounded
on the way. What Spark had to compute in 128 bits and does not fit 64 becomes a double here, and is
marked as not exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.local.encoding import values as v
from calitree.engines.local.encoding.codebook import Codebook
from calitree.engines.local.encoding.values import LIMIT, Value
from calitree.engines.local.encoding.wire import to_wire
from calitree.engines.local.tables.lazy import files_of
from calitree.engines.local.tables.tables import ArrowColumns, EncodedMessage, EncodedRelation
from calitree.engines.spark.numbers import BIGINT, DECIMAL, DOUBLE, Field
from calitree.engines.spark.table import SparkTable, arrow_for_spark, decoded, fields_of
from calitree.types import Kind

if TYPE_CHECKING:
    from calitree.engines.spark import SparkEngine


def to_spark(spark: SparkEngine, table: EncodedRelation | EncodedMessage) -> SparkTable:
    """A table of the local engine in Spark. Files are read by Spark itself."""
    if isinstance(table, EncodedMessage):
        return _message_to_spark(spark, table)
    columns = files_of(table)
    if columns is not None:
        return spark.load(columns.name, columns.files)
    return spark.load("a relation of this process", table.columns.table())


def from_spark(
    book: Codebook, table: SparkTable, held: pa.Table
) -> EncodedRelation | EncodedMessage:
    """A table of Spark's, whose rows are `held`, in the local engine."""
    if table.key is None:
        return EncodedRelation(book, ArrowColumns(decoded(held, table.fields)))
    attributes = {name: each for name, each in table.fields.items() if name in table.key}
    rows = decoded(held, attributes)
    codes = {name: book.dictionary(name).encode(rows.column(name)) for name in attributes}
    values = {
        name: _value(held.column(each.name), each)
        for name, each in table.fields.items()
        if name not in attributes
    }
    kinds = {name: each.kind for name, each in attributes.items()}
    return EncodedMessage(book, codes, values, held.num_rows, kinds)


def _value(column: pa.ChunkedArray, field: Field) -> Value:
    if not field.coded:
        return v.from_arrow(column).with_exact(field.exact)
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy()
        column = column.fill_null(0)
    if field.type == DECIMAL:
        largest = pc.max(pc.abs(column)).as_py() or 0
        if largest >= LIMIT:
            data = column.cast(pa.float64()).to_numpy() / 10.0**field.scale
            return Value(data, valid, exact=False)
        column = column.cast(pa.int64())
    return Value(column.to_numpy(), valid, scale=field.scale, exact=field.exact)


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
    present = (n for n, c in zip(fields, held.columns, strict=True) if c.null_count == 0)
    key = frozenset(message.attributes)
    return SparkTable(
        spark.runtime, LABEL, fields, frame=frame, held=held, key=key, null_free=frozenset(present)
    )


def _annotation(field: Field, value: Value) -> Field:
    if value.data.dtype == np.int64:
        kind = Kind.DECIMAL if value.scale else Kind.INTEGER
        return Field(
            field.name, BIGINT, kind, value.scale, value.bound, coded=True, exact=value.exact
        )
    if value.data.dtype == np.float64:
        return Field(field.name, DOUBLE, Kind.FLOAT, exact=value.exact)
    return replace(field, exact=value.exact)


LABEL = "a message of this process"
