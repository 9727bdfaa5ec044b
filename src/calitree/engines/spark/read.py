"""Relations of the Spark engine.

Spark reads its own tables, Parquet and CSV files, and anything at a URL; other sources are sent to it as
Arrow data.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from calitree.engines.spark.fields import (
    arrow_for_spark,
    fields_of,
    is_read_by_spark,
    null_free,
    spark_schema,
)
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.table import SparkTable
from calitree.errors import SchemaError
from calitree.storage.files import is_parquet, schema_of_files
from calitree.storage.frames import files_of, relation_rows
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


CHECKED_PAGES = {"parquet.page.verify-checksum.enabled": "true"}
"""Where a page of Parquet has a checksum, it is compared with that."""

_CSV_OPTIONS = {"header": "true", "inferSchema": "true", "escape": '"'}
"""A quote within quotes is doubled, as everywhere but in Spark."""


def relation_of(runtime: Runtime, label: str, frame: DataFrame) -> SparkTable:
    """The rows of a frame."""
    schema = frame.schema
    fields = fields_of(label, schema.names, schema)
    present = frozenset(column.name for column in schema if not column.nullable)
    renamed = frame.toDF(*(field.name for field in fields.values()))
    usable = {name: field for name, field in fields.items() if field.kind is not Kind.OTHER}
    if not usable:
        raise SchemaError(f"{label} has no column that can be used.")
    if len(usable) < len(fields):
        renamed = renamed.select(*(field.name for field in usable.values()))
    table = SparkTable(
        runtime, label, usable, frame=renamed, null_free=present.intersection(usable)
    )
    table.unsupported = {
        name: f"{field.type.lower()}, which cannot be used here: cast it, or add what it holds as columns "
        "or as a relation of its own"
        for name, field in fields.items()
        if name not in usable
    }
    return table


def relation_of_arrow(runtime: Runtime, label: str, source: Any) -> SparkTable:
    """The rows of whatever Arrow data can be made of."""
    given, unsupported = relation_rows(label, source)
    held = arrow_for_spark(label, given)
    frame = runtime.local_frame(held)
    fields = fields_of(label, given.column_names, frame.schema)
    for name, dtype in zip(given.schema.names, given.schema.types, strict=True):
        if pa.types.is_uint64(dtype):  # a decimal only to Spark, which has no such integer
            fields[name] = replace(fields[name], kind=Kind.INTEGER)
    present = null_free(fields, held)
    table = SparkTable(runtime, label, fields, frame=frame, held=held, null_free=present)
    table.unsupported = unsupported
    return table


def relation_of_source(runtime: Runtime, label: str, source: Any) -> SparkTable | None:
    """The rows of files or of a table of Spark's; None for what has to be sent as Arrow data.

    Columns of Parquet files that Spark cannot read are left out.
    """
    from pyspark.errors import PySparkException

    try:
        frame = read(runtime.session, label, source)
        return None if frame is None else relation_of(runtime, label, frame)
    except PySparkException:
        files = files_of(source)
        if files is None or not is_parquet(files):
            raise
        schema = schema_of_files(label, files)
        left_out = [field for field in schema if not is_read_by_spark(field.type)]
        if not left_out or len(left_out) == len(schema):
            raise
        rest = pa.schema([field for field in schema if field not in left_out])
        table = relation_of(runtime, label, _read_files(runtime.session, files, rest))
        why = "which Spark cannot read: cast it in the files, or use the engine 'hybrid' or 'local'"
        reasons = {field.name: f"{field.type}, {why}" for field in left_out}
        table.unsupported = {**table.unsupported, **reasons}
        return table


def read(session: SparkSession, name: str, source: Any) -> DataFrame | None:
    """A lazy frame that reads the source; None for what has to be sent as Arrow data."""
    if isinstance(source, str):
        if re.match(r"[a-z][a-z0-9+.-]+:/", source):
            return _read_files(session, [source])
        if is_table(session, source):
            return session.table(source)
    files = files_of(source)
    if files is not None:
        return _read_files(session, files)
    if isinstance(source, str):
        raise SchemaError(f"{name}: there is neither a file nor a Spark table called {source!r}.")
    return None


def is_table(session: SparkSession, name: str) -> bool:
    """Whether Spark has a table or view of this name."""
    from pyspark.errors import PySparkException

    try:
        return bool(session.catalog.tableExists(name))
    except PySparkException:  # a path is not even a name
        return False


def _read_files(
    session: SparkSession, files: list[str], schema: pa.Schema | None = None
) -> DataFrame:
    """The rows of files, of Parquet only the columns of a schema if there is one."""
    reader, paths = session.read, [_url(file) for file in files]
    base = _above_partitions(paths)
    if base is not None:
        reader = reader.option("basePath", base)
    text = re.search(r"\.([ct])sv(\.gz)?$", files[0], re.I)
    if text is None:
        if schema is not None:
            reader = reader.schema(spark_schema(schema))
        return reader.options(**CHECKED_PAGES).parquet(*paths)
    tab = text[1].lower() == "t"
    reader = reader.options(**_CSV_OPTIONS, sep="\t" if tab else ",")
    frame = reader.csv(paths)
    return frame if "://" in files[0] else _without_zones(reader, frame, paths, files[0], tab)


def _without_zones(
    reader: Any, frame: DataFrame, paths: list[str], file: str, tab: bool
) -> DataFrame:
    """Timestamps without a time zone; Spark would take them to be in that of the session."""
    from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

    if not any(isinstance(column.dataType, TimestampType) for column in frame.schema):
        return frame
    options = pa.csv.ParseOptions(delimiter="\t" if tab else ",")
    with pa.csv.open_csv(file, parse_options=options) as beginning:
        zoned = {f.name for f in beginning.schema if pa.types.is_timestamp(f.type) and f.type.tz}
    columns = [
        StructField(column.name, TimestampNTZType())
        if isinstance(column.dataType, TimestampType) and column.name not in zoned
        else column
        for column in frame.schema
    ]
    typed: DataFrame = reader.option("inferSchema", "false").schema(StructType(columns)).csv(paths)
    return typed


def _url(file: str) -> str:
    """The URL of a file, whatever Spark's default file system and working directory are."""
    if "://" in file:
        return file
    # The listing has names, not patterns.
    escaped = re.sub(r"([\[\]{}*?\\])", r"\\\1", str(Path(file).absolute()))
    return f"file://{escaped}"


def _above_partitions(paths: list[str]) -> str | None:
    """The directory above `year=2024/…`, so that Spark adds columns for such partitions."""
    base = re.match(r"(.*?)/[^/=]+=[^/]*/", paths[0])
    return base[1] if base else None
