"""Columns of the Spark engine: their types on Spark and in Arrow.

On Spark every column is called c0, c1, …, as a name of ours may hold dots and backticks. Integers and
decimals that were computed are stored as whole numbers (see `calitree.engines.spark.sql.whole_numbers`)
and become decimals again when they are collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from calitree.errors import SchemaError
from calitree.storage.column_types import MAX_DIGITS, plain_type
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BIGINT, DECIMAL, DOUBLE = "BIGINT", "DECIMAL(38,0)", "DOUBLE"

_KINDS = {
    "tinyint": (Kind.INTEGER, 2**7),
    "smallint": (Kind.INTEGER, 2**15),
    "int": (Kind.INTEGER, 2**31),
    "bigint": (Kind.INTEGER, 2**63),
    "float": (Kind.FLOAT, 0),
    "double": (Kind.FLOAT, 0),
    "string": (Kind.STRING, 0),
    "char": (Kind.STRING, 0),
    "varchar": (Kind.STRING, 0),
    "boolean": (Kind.BOOLEAN, 0),
    "date": (Kind.DATE, 0),
    "timestamp_ntz": (Kind.TIMESTAMP, 0),
    "timestamp": (Kind.TIMESTAMP_TZ, 0),
    "time": (Kind.TIME, 0),
    "binary": (Kind.BINARY, 0),
    "void": (Kind.NULL, 0),
}
"""By Spark's name of a type: its kind, and a bound on its integers."""

_SPARK_TYPES = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}
"""What Spark has instead of types that it lacks."""


@dataclass(frozen=True)
class Field:
    """A column on Spark: its name there, its type, and how large its numbers can be."""

    name: str
    type: str
    kind: Kind
    scale: int = 0
    bound: int = 0
    """An upper bound of |value| × 10^scale; of integers and decimals only."""
    coded: bool = False
    """Whether it stores value × 10^scale, not the value."""
    exact: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether it can be computed with as a whole number."""
        return self.kind in (Kind.INTEGER, Kind.DECIMAL)


def fields_of(label: str, names: Sequence[str], schema: StructType) -> dict[str, Field]:
    """The columns of a relation, in order. Spark must be able to distinguish their names."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other is not None:
            how = "twice" if other == name else f"also as {other!r}"
            raise SchemaError(
                f"{label} has the column {name!r} {how}, and Spark does not tell upper from lower "
                "case. Rename one of them."
            )
        seen[name.lower()] = name
    columns = enumerate(zip(names, schema, strict=True))
    return {name: field_of(f"c{index}", column.dataType) for index, (name, column) in columns}


def field_of(name: str, dtype: Any) -> Field:
    """A column of a relation that has one of Spark's types."""
    text = dtype.simpleString()
    if text.startswith("decimal"):
        bound = 10**dtype.precision - 1
        return Field(name, text.upper(), Kind.DECIMAL, dtype.scale, bound)
    if text.startswith("interval ") and "month" not in text and "year" not in text:
        return Field(name, text.upper(), Kind.DURATION)
    kind, bound = _KINDS.get(text.split("(")[0].split(" ")[0], (Kind.OTHER, 0))
    return Field(name, text.upper(), kind, bound=bound)


def null_free(fields: Iterable[str], held: pa.Table) -> frozenset[str]:
    """The fields, in the order of the columns of `held`, that hold no NULL."""
    columns = zip(fields, held.columns, strict=True)
    return frozenset(name for name, column in columns if column.null_count == 0)


def in_process_type(dtype: pa.DataType) -> pa.DataType:
    """The type of a column that comes from Spark: instants in UTC, whatever the session's zone is."""
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        return pa.timestamp("us", "UTC")
    return pa.time64("us") if pa.types.is_time(dtype) else dtype


def decoded(held: pa.Table, fields: Mapping[str, Field]) -> pa.Table:
    """The columns under their own names, whole numbers as integers or decimals."""
    if not fields:
        return held.select([])  # no columns, but as many rows
    arrays = [_decoded(held.column(field.name), field) for field in fields.values()]
    return pa.table(arrays, names=list(fields))


def _decoded(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if not field.coded:
        return column.cast(in_process_type(column.type))
    if field.scale:
        target = pa.decimal128(38, field.scale)
        chunks = column.cast(pa.decimal128(38, 0)).chunks
        moved = [  # the same digits, with the point elsewhere
            pa.Array.from_buffers(target, len(c), c.buffers(), c.null_count, c.offset)
            for c in chunks
        ]
        return pa.chunked_array(moved, target)
    if field.type == DECIMAL:
        largest = pc.max(pc.abs(column)).as_py()
        if largest is None or largest < 2**63:
            return column.cast(pa.int64())
    return column


def arrow_for_spark(label: str, table: pa.Table) -> pa.Table:
    """The table in types that Spark knows, its columns called c0, c1, …."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        target = _spark_type(column.type)
        try:
            columns.append(column.cast(target) if target != column.type else column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"{label}.{name}: Spark has no {column.type}, and its values do not fit a {target} "
                f"({str(error).splitlines()[0]})."
            ) from error
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns that Spark reads, by their own names, in the types that it has for theirs."""
    from pyspark.sql.pandas.types import from_arrow_schema

    types = (plain_type(field.type) or field.type for field in schema)
    fields = zip(schema.names, map(_spark_type, types), strict=True)
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def is_read_by_spark(dtype: pa.DataType) -> bool:
    """Whether Spark reads a column that Parquet files have in this type, as what it is."""
    t = pa.types
    if t.is_dictionary(dtype):
        return is_read_by_spark(dtype.value_type)
    if isinstance(dtype, pa.BaseExtensionType):
        return bool(dtype.extension_name == "arrow.json")
    in_nanoseconds = t.is_timestamp(dtype) and dtype.unit == "ns"
    too_long = t.is_decimal(dtype) and dtype.precision > MAX_DIGITS
    lacking = t.is_time(dtype) or t.is_duration(dtype) or t.is_float16(dtype)
    return not (in_nanoseconds or too_long or lacking)


def _spark_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(dtype):
        return _spark_type(dtype.value_type)
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", dtype.tz)
    if pa.types.is_duration(dtype):
        return pa.duration("us")
    if pa.types.is_decimal256(dtype):
        return pa.decimal128(min(38, dtype.precision), min(38, dtype.scale))
    if pa.types.is_time(dtype):
        return pa.time64("us")
    return _SPARK_TYPES.get(dtype, dtype)
