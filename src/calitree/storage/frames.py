"""Sources of relations as Arrow tables: frames of several libraries, columns, rows and files.

A library is recognised by the module of a source's type, so none is imported that the caller does not
use already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from calitree.errors import SchemaError
from calitree.interrupts import run
from calitree.storage.column_types import plain_table, supported_columns
from calitree.storage.files import read_files, refuse_duplicates, schema_of_files
from calitree.storage.listing import files_of

__all__ = ["ACCEPTED", "RelationRows", "arrow_table", "files_of", "relation_rows", "schema_of"]

ACCEPTED = (
    "an Arrow table or dataset, a pandas or polars frame, a Spark DataFrame, anything with "
    "__arrow_c_stream__, a dictionary of lists, a list of dictionaries, or the path, URL, glob "
    "or directory of Parquet or CSV files"
)


class RelationRows(NamedTuple):
    """The rows of a relation, and why the other columns of its source cannot be used."""

    table: pa.Table
    unsupported: dict[str, str]


def relation_rows(name: str, source: Any) -> RelationRows:
    """The whole source as a relation: the columns that can be used; `name` is for errors."""
    table = arrow_table(name, source)
    columns = supported_columns(name, table.schema, is_read=True)
    return RelationRows(table.select(columns.schema.names), columns.unsupported)


def arrow_table(name: str, source: Any, types: pa.Schema | None = None) -> pa.Table:
    """The whole source as one Arrow table, in the types that relations have; `name` is for errors.

    CSV has no types, and what looks like a number may be text: where `types` says so, it is.
    """
    return plain_table(_checked(name, _read(name, source, types)))


def schema_of(name: str, source: Any) -> pa.Schema:
    """The columns of a source; files, datasets, and lazy frames are not read for it."""
    files = files_of(source)
    if files is not None:
        schema = schema_of_files(name, files)
    elif isinstance(source, pa.RecordBatchReader) or _library(source) == "pyarrow":
        schema = source.schema if hasattr(source, "schema") else arrow_table(name, source).schema
    elif _library(source) in ("polars", "pyspark") and hasattr(source, "limit"):
        schema = arrow_table(name, source.limit(0)).schema
    else:
        schema = arrow_table(name, source).schema
    return supported_columns(name, _checked(name, schema.empty_table()).schema).schema


def _checked(name: str, table: pa.Table) -> pa.Table:
    if not table.column_names:
        raise SchemaError(f"{name} has no columns.")
    refuse_duplicates(name, table.column_names)
    return table


def _read(name: str, source: Any, types: pa.Schema | None) -> pa.Table:
    files = files_of(source)
    if files is not None:
        return run(lambda: read_files(name, files, types))
    if isinstance(source, str):
        raise SchemaError(
            f"{name}: there is no file {source!r}, and names of tables are for Spark. A relation "
            f"is {ACCEPTED}."
        )
    try:
        table = _reader(source)(name, source)
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise SchemaError(
            f"{name}: a name or a text has {half!r} in it, which is half of a character."
        ) from None
    if table is not None:
        return table
    kind = type(source)
    shown = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise SchemaError(f"{name}: a relation cannot be made of {shown}; it is {ACCEPTED}.")


Reader: TypeAlias = Callable[[str, Any], pa.Table | None]
"""Makes a table of a source; None if this is not the kind of source that can be one."""


def _reader(source: Any) -> Reader:
    if _library(source):
        return _READERS[_library(source)]
    if isinstance(source, Mapping):
        return _from_columns
    if isinstance(source, Sequence):
        return _from_rows
    return _from_stream


def _library(source: Any) -> str:
    """The library a source comes from; also if its class is derived from one of that library."""
    packages = [base.__module__.partition(".")[0] for base in type(source).__mro__]
    return next((package for package in packages if package in _READERS), "")


def _from_pyarrow(name: str, source: Any) -> pa.Table | None:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return run(source.read_all)
    return run(source.to_table) if hasattr(source, "to_table") else None


def _from_pandas(name: str, source: Any) -> pa.Table | None:
    """Columns one by one, so that an error can name one; the index is left out.

    NaN is how pandas writes a missing number, so it becomes NULL.
    """
    if not hasattr(source, "columns"):
        return None
    if getattr(source.columns, "nlevels", 1) > 1:
        raise SchemaError(f"{name}: the columns of the frame have several levels; flatten them.")
    labels = [str(label) for label in source.columns]
    refuse_duplicates(name, labels)
    columns = [
        _array(name, label, source.iloc[:, position]) for position, label in enumerate(labels)
    ]
    return pa.table(columns, names=labels)


def _from_polars(name: str, source: Any) -> pa.Table | None:
    frame = run(source.collect) if hasattr(source, "collect") else source
    if not hasattr(frame, "columns"):
        return None
    return pa.table({label: _array(name, label, frame[label]) for label in frame.columns})


def _from_spark(name: str, source: Any) -> pa.Table | None:
    return run(source.toArrow) if hasattr(source, "toArrow") else None


def _from_stream(name: str, source: Any) -> pa.Table | None:
    if not hasattr(source, "__arrow_c_stream__"):
        return None
    try:
        return run(lambda: pa.RecordBatchReader.from_stream(source).read_all())
    except pa.ArrowException as error:
        raise SchemaError(f"{name}: the source streams no table: {error}.") from error


def _from_columns(name: str, columns: Mapping[Any, Any]) -> pa.Table:
    arrays = {str(label): _array(name, str(label), values) for label, values in columns.items()}
    lengths = {label: len(values) for label, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{label} has {length}" for label, length in lengths.items())
        raise SchemaError(f"{name}: the columns differ in length: {listed}.")
    return pa.table(arrays)


def _from_rows(name: str, rows: Sequence[Any]) -> pa.Table | None:
    """A key that a row does not have is NULL there."""
    if not all(isinstance(row, Mapping) for row in rows):
        return None
    labels = list(dict.fromkeys(label for row in rows for label in row))
    return _from_columns(name, {label: [row.get(label) for row in rows] for label in labels})


def _array(name: str, label: str, values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes):
        raise SchemaError(f"{name}: {label!r} is one text, not a list of values.")
    rows = len(values) if hasattr(values, "__len__") else 0
    return run(lambda: _converted(name, label, values), rows)


def _converted(name: str, label: str, values: Any) -> pa.Array | pa.ChunkedArray:
    library = "" if isinstance(values, list) else _library(values)
    pandas = library == "pandas"
    try:
        if library == "polars":
            if str(values.dtype) == "Object":  # of which Arrow would get the addresses
                raise TypeError("it holds Python objects")
            return values.to_arrow()
        if pandas and hasattr(values, "sparse"):
            values = values.sparse.to_dense()
        if hasattr(values, "dtype"):
            return pa.array(values, from_pandas=pandas)
        return _inferred(list(values))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = _kinds(values)
        if len(kinds) > 1:
            reason = f"mixes values of several types ({', '.join(kinds)}); give it one"
        else:
            reason = f"cannot be a column: {str(error).rstrip('.')}"
        raise SchemaError(f"{name}: {label!r} {reason}.") from None


def _inferred(values: list[Any]) -> pa.Array:
    """Python values as Arrow types them; integers that do not fit 64 bits with a sign as others."""
    for dtype in (None, pa.uint64()):
        with suppress(OverflowError):
            return pa.array(values, dtype)
    return pa.array(values, pa.decimal128(38, 0))


def _kinds(values: Any) -> list[str]:
    """The names of the Python types in a column, those of missing values aside."""
    try:
        return sorted({type(v).__name__ for v in values if v is not None and v == v})
    except (TypeError, ValueError):
        return []


_READERS: dict[str, Reader] = {
    "pyarrow": _from_pyarrow,
    "pandas": _from_pandas,
    "polars": _from_polars,
    "pyspark": _from_spark,
}
