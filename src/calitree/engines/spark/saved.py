"""Saved tables of the Spark engine: large messages are written and read by Spark, in parallel.

Small ones go through this process, which takes less time than a job, and works where the directory is
not visible to Spark's machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from calitree.engines.spark.fields import (
    BIGINT,
    DECIMAL,
    Field,
    arrow_for_spark,
    fields_of,
    in_process_type,
)
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.read import CHECKED_PAGES, is_table, read
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.table import SparkTable, arrow_schema, quoted
from calitree.errors import DamagedError, DamagedRelationError, EngineError, MissingRelationError
from calitree.storage.arrow_types import portable, schema_of_text, text_of_schema
from calitree.storage.digest import FileDigest, parquet_file, verify
from calitree.storage.filesystem import is_url, shown, url_of
from calitree.storage.table_format import (
    FileDigests,
    Origin,
    SavedColumn,
    SavedFile,
    SavedMessage,
    SavedRelation,
    Source,
    file_at,
    part_path,
    parts_of,
    read_parquet,
    write_parquet,
)
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MAX_COLLECTED_BYTES = 16 << 20
"""Of a message that goes through this process."""

FILE_BYTES = 64 << 20
"""About how many bytes a file has that Spark writes."""


# -- relations ------------------------------------------------------------------------------------


def origin(runtime: Runtime, table: SparkTable) -> Origin:
    """Where the rows of a relation are stored."""
    if table.saved is not None:
        return Origin(schema_of_text(table.saved.schema), table.saved.nbytes, table.saved.source)
    schema = arrow_schema(table)
    if table.held is not None:
        return Origin(schema, table.nbytes)
    return Origin(schema, table.nbytes, _source(runtime, table))


def _source(runtime: Runtime, table: SparkTable) -> Source:
    given = table.given
    if given is None:
        reason = "they were a Spark DataFrame, of which only Spark knows what it was made of"
        return Source("nowhere", reason=f"{reason}: save it as Parquet or as a table first")
    with explained(f"find the files of {table.label}"):
        if isinstance(given, str) and not is_url(given) and is_table(runtime.session, given):
            return Source("table", table=given)
        paths = [_path(url) for url in table.frame.inputFiles()]
    return Source("files", tuple(_file(path, table) for path in sorted(paths)))


def _path(url: str) -> str:
    """A file as pyarrow finds it; Spark has URLs also of files on this machine."""
    return unquote(url_of(url).path) if url.startswith("file:") else url


def _file(path: str, table: SparkTable) -> SavedFile:
    try:
        return file_at(path)
    except EngineError:  # Spark can read it, and this process cannot
        return SavedFile(path, table.nbytes, ())


def restored_relation(runtime: Runtime, saved: SavedRelation) -> SparkTable:
    """A saved relation; its source is opened when it is first needed."""
    schema = schema_of_text(saved.schema)
    fields = _fields(saved.name, schema.names, schema)
    for name, kind in saved.kinds.items():
        fields[name] = replace(fields[name], kind=kind)
    frame = partial(_rows_of, runtime, saved, fields)
    table = SparkTable(runtime, saved.name, fields, lazy_frame=frame, null_free=saved.null_free)
    table.known_rows, table.saved, table.unsupported = saved.rows, saved, saved.unsupported
    return table


def _rows_of(runtime: Runtime, saved: SavedRelation, fields: dict[str, Field]) -> DataFrame:
    source, name = saved.source, saved.name
    if source.place == "nowhere":
        raise MissingRelationError(name, source.reason)
    if source.place == "copied" or all(file.stamp for file in source.files):
        source.check(name)
    files = [file.path for file in source.files]
    if source.place == "copied":
        return runtime.local_frame(arrow_for_spark(name, _copied_rows(name, source.files[0])))
    given = source.table if source.place == "table" else files[0] if len(files) == 1 else files
    try:
        with explained(f"read {name}"):
            if source.place == "table" and not is_table(runtime.session, source.table):
                raise EngineError(f"there is no Spark table {source.table!r}")  # nor is it a path
            frame = read(runtime.session, name, given)
            assert frame is not None
            columns = fields_of(name, frame.columns, frame.schema)
            if {n: field.kind for n, field in columns.items()} != saved.kinds:
                raise EngineError(f"the columns of {given} are not what they were")
            casts = (
                f"CAST({quoted(n)} AS {field.type}) AS {field.name}" for n, field in fields.items()
            )
            return frame.selectExpr(*casts)
    except EngineError as error:
        raise MissingRelationError(name, str(error).rstrip(".")) from error


def _copied_rows(name: str, file: SavedFile) -> pa.Table:
    """The rows of a relation that are in the directory of the tree."""
    try:
        return read_parquet(file.path, {} if file.digest is None else {"": file.digest})
    except DamagedError as error:
        raise DamagedRelationError(name, error) from error


# -- messages -------------------------------------------------------------------------------------


def write(runtime: Runtime, table: SparkTable, path: str) -> SavedMessage:
    """Write a message: by Spark if it is large, else by this process."""
    assert table.key is not None
    columns = tuple(
        _described(name, field, annotation=name not in table.key)
        for name, field in table.fields.items()
    )
    names = [field.name for field in table.fields.values()]
    digests: FileDigests = {}
    if not columns:
        schema = pa.schema([])
    elif table.held is not None or table.nbytes <= MAX_COLLECTED_BYTES:
        held = table.collected().select(names)
        schema = held.schema
        digests = {"": write_parquet(pa.table(list(map(portable, held.columns)), names), path)}
    else:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(table.frame.select(*names).schema, timezone="UTC")
        digests = _write_by_spark(runtime, table, path)
    types = pa.schema(pa.field(column.name, in_process_type(column.type)) for column in schema)
    return SavedMessage(
        path, table.rows, table.nbytes, text_of_schema(types), columns=columns, digests=digests
    )


def _described(name: str, field: Field, annotation: bool) -> SavedColumn:
    kind = field.kind
    if kind is Kind.INTEGER and not field.coded and field.type.startswith("DECIMAL"):
        kind = Kind.DECIMAL  # which Spark has instead of unsigned integers of 64 bits
    return SavedColumn(
        name,
        kind,
        annotation,
        coded=field.coded,
        scale=field.scale,
        bound=field.bound,
        exact=field.exact,
    )


def _write_by_spark(runtime: Runtime, table: SparkTable, path: str) -> FileDigests:
    columns = _converted(table.fields.values(), _STORED, "{name}")
    frame = table.frame.selectExpr(*columns).coalesce(max(4, table.nbytes // FILE_BYTES))
    writer = frame.write.option("parquet.page.write-checksum.enabled", "true")
    with explained(f"write {table.label}"):
        runtime.run([partial(writer.parquet, _spark_path(path))])
    digests = _digests(runtime, path)
    parts = parts_of(path)
    footers = (parquet_file(part_path(path, name), digests.get(name)).metadata for name in parts)
    rows = sum(footer.num_rows for footer in footers)
    if rows != table.rows:
        raise EngineError(
            f"Spark wrote {rows:,} rows of {table.rows:,} to {shown(path)}. Save to a place that "
            "all of its machines share."
        )
    return digests


def _digests(runtime: Runtime, path: str) -> FileDigests:
    """Those of the files in a directory as they are, each of one block: Spark's machines compute them."""
    reader = runtime.session.read.format("binaryFile").option("pathGlobFilter", "*.parquet")
    with explained(f"read {shown(path)}"):
        files = reader.load(_spark_path(path)).selectExpr("path", "length", "sha2(content, 256)")
        (rows,) = runtime.run([files.collect])
    return {
        unquote(file.rpartition("/")[2]): FileDigest.of_block(size, bytes.fromhex(digest))
        for file, size, digest in rows
    }


def _spark_path(path: str) -> str:
    return path if is_url(path) else f"file://{path}"


def restored_message(runtime: Runtime, saved: SavedMessage) -> SparkTable:
    """A saved message; it is read when it is first needed."""
    label = f"the saved message by {', '.join(saved.attributes) or 'nothing'}"
    if not saved.columns:
        held = pa.table({"c0": [True] * saved.rows})
        return SparkTable(runtime, label, {}, held=held, key=frozenset())
    schema = saved.types
    fields = _fields(label, [column.name for column in saved.columns], schema)
    for column, dtype in zip(saved.columns, schema.types, strict=True):
        field = replace(fields[column.name], exact=column.exact)
        if column.coded:
            field = replace(
                field,
                type=BIGINT if pa.types.is_int64(dtype) else DECIMAL,
                kind=column.kind,
                scale=column.scale,
                bound=column.bound,
                coded=True,
            )
        fields[column.name] = field
    frame = partial(_message_frame, runtime, saved, list(fields.values()))
    key = frozenset(saved.attributes)
    table = SparkTable(runtime, label, fields, lazy_frame=frame, key=key)
    table.known_rows = saved.rows
    table.measured = {column.name for column in saved.columns if column.coded}
    return table


def _message_frame(runtime: Runtime, saved: SavedMessage, fields: list[Field]) -> DataFrame:
    if saved.nbytes <= MAX_COLLECTED_BYTES:
        return runtime.local_frame(arrow_for_spark("a saved message", saved.read()))
    saved.check()
    _check_by_spark(runtime, saved)
    columns = _converted(fields, _RESTORED, "CAST({name} AS {type})")
    with explained(f"read {shown(saved.path)}"):
        reader = runtime.session.read.options(**CHECKED_PAGES)
        return reader.parquet(_spark_path(saved.path)).selectExpr(*columns)


def _check_by_spark(runtime: Runtime, saved: SavedMessage) -> None:
    """An error if the files of a message are not those that were written."""
    path, digests = shown(saved.path), saved.digests
    if "" in digests:  # written by one process, so that it can be read by one
        verify(saved.path, digests[""])
    elif digests:
        try:
            now = _digests(runtime, saved.path)
        except EngineError as error:
            raise DamagedError(path, str(error).rstrip(".")) from error
        wrong = sorted(n for n in {*now, *digests} if now.get(n) != digests.get(n))
        if wrong:
            raise DamagedError(path, f"{', '.join(wrong)}: not what was written")


_STORED = {Kind.TIMESTAMP_TZ: "unix_micros({name})", Kind.NULL: "CAST({name} AS INT)"}
_RESTORED = {Kind.TIMESTAMP_TZ: "timestamp_micros({name})", Kind.NULL: "{name}"}


def _converted(fields: Iterable[Field], by_kind: Mapping[Kind, str], other: str) -> list[str]:
    """Columns as SQL, written as these formats have it by kind."""
    return [
        f"{by_kind.get(field.kind, other).format(**vars(field))} AS {field.name}"
        for field in fields
    ]


def _fields(label: str, names: list[str], schema: pa.Schema) -> dict[str, Field]:
    """The columns as Spark will have them; nothing is read for it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    on_spark = arrow_for_spark(label, schema.empty_table()).schema
    return fields_of(label, names, from_arrow_schema(on_spark, prefer_timestamp_ntz=True))
