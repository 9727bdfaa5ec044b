"""What a relation can be made of, brought to Arrow: tables and frames of all makes, files, Spark
frames.

Libraries are told by the module of a source's type, so none is imported that the caller does not
use already.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from calitree.errors import SchemaError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
ACCEPTED = (
    "an Arrow table, a pandas or polars frame, a Spark DataFrame, a dictionary of lists, a list of dictionaries, "
    "or the path or glob of Parquet or CSV files"
)


def arrow_table(name: str, source: Any) -> pa.Table:
    """The whole source as one Arrow table."""
    table = _read(name, source)
    _check_columns(name, table.schema)
    return table


def schema_of(name: str, source: Any) -> pa.Schema:
    """The columns of a source; of Parquet files only the footer is read."""
    files = files_of(source)
    if files and _suffix(files[0]) in PARQUET:
        schema = _agreeing(name, files)
        _check_columns(name, schema)
        return schema
    return arrow_table(name, source).schema


def files_of(source: Any) -> list[str] | None:
    """The plain files that a path, glob, directory or list of paths stands for; None for anything
    else.
    """
    if isinstance(source, Path):
        return _matching(str(source))
    if isinstance(source, str):
        looks = any(source.lower().endswith(end) for end in PARQUET + CSV)
        if looks or any(mark in source for mark in "*?[/\\") or Path(source).exists():
            return _matching(source)
        return None
    if (
        isinstance(source, list | tuple)
        and source
        and all(isinstance(s, str | Path) for s in source)
    ):
        return [file for each in source for file in _matching(str(each))]
    return None


def _matching(pattern: str) -> list[str]:
    """Files that a path, glob or directory names, in order."""
    path = Path(pattern)
    if path.is_dir():
        found = [
            p for p in sorted(path.rglob("*")) if p.is_file() and not p.name.startswith(("_", "."))
        ]
        files = [str(p) for p in found if _suffix(str(p)) in PARQUET + CSV]
        if not files:
            raise SchemaError(f"The directory {path} has no Parquet or CSV file in it.")
        return files
    files = [pattern] if path.is_file() else sorted(glob.glob(pattern, recursive=True))
    if not files:
        raise SchemaError(f"No file matches {pattern!r} (looked for {Path(pattern).absolute()}).")
    for file in files:
        if not _suffix(file):
            raise SchemaError(
                f"Cannot tell what {file!r} is: files end in {', '.join(PARQUET + CSV)}."
            )
    return files


def _suffix(file: str) -> str:
    lowered = file.lower()
    return next((end for end in (*CSV, *PARQUET) if lowered.endswith(end)), "")


def _read(name: str, source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    files = files_of(source)
    if files is not None:
        return _read_files(name, files)
    if isinstance(source, str):
        raise SchemaError(
            f"{name}: {source!r} is not a file, and table names are for Spark. A relation is made of {ACCEPTED}."
        )
    library = type(source).__module__.split(".")[0]
    if library == "pyspark":
        return source.toArrow()
    if library == "pandas":
        return _from_pandas(name, source)
    if library == "polars":
        frame = source.collect() if type(source).__name__ == "LazyFrame" else source
        return (
            frame.to_arrow()
            if hasattr(frame, "to_arrow") and hasattr(frame, "columns")
            else _refuse(name, source)
        )
    if library == "pyarrow" and hasattr(source, "to_table"):
        return source.to_table()
    if isinstance(source, Mapping):
        return _from_columns(name, source)
    if isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source):
        return _from_rows(name, source)
    if hasattr(source, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(source).read_all()
    return _refuse(name, source)


def _refuse(name: str, source: Any) -> pa.Table:
    raise SchemaError(
        f"{name}: a relation cannot be made of a {type(source).__name__}; it takes {ACCEPTED}."
    )


def _from_pandas(name: str, frame: Any) -> pa.Table:
    if type(frame).__name__ != "DataFrame":
        return _refuse(name, frame)
    labels = [str(label) for label in frame.columns]
    _refuse_duplicates(name, labels)
    arrays = []
    for position, label in enumerate(labels):
        try:
            arrays.append(pa.Array.from_pandas(frame.iloc[:, position]))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(f"{name}: column {label!r} mixes types: {error}") from None
    return pa.table([_whole(array) for array in arrays], names=labels)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _from_columns(name: str, columns: Mapping[Any, Any]) -> pa.Table:
    arrays = {}
    for label, values in columns.items():
        try:
            arrays[str(label)] = (
                values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise SchemaError(f"{name}: column {str(label)!r} cannot be made: {error}") from None
    lengths = {label: len(values) for label, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{label} {length}" for label, length in lengths.items())
        raise SchemaError(f"{name}: the columns differ in length: {listed}.")
    return pa.table(arrays)


def _from_rows(name: str, rows: Sequence[Mapping[Any, Any]]) -> pa.Table:
    labels = list(dict.fromkeys(label for row in rows for label in row))
    return _from_columns(name, {label: [row.get(label) for row in rows] for label in labels})


def _read_files(name: str, files: list[str]) -> pa.Table:
    tables = []
    if _suffix(files[0]) in PARQUET:
        _agreeing(name, files)
    for file in files:
        try:
            tables.append(_read_file(file))
        except (pa.ArrowInvalid, OSError) as error:
            raise SchemaError(f"{name}: cannot read {file}: {str(error).splitlines()[0]}") from None
        if tables[-1].schema.names != tables[0].schema.names:
            raise SchemaError(_disagreement(name, file, tables[0].schema, tables[-1].schema))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def _read_file(file: str) -> pa.Table:
    ending = _suffix(file)
    if ending in PARQUET:
        return pq.ParquetFile(file).read()
    tab = ending.startswith(".tsv")
    options = pyarrow.csv.ParseOptions(delimiter="\t" if tab else ",")
    convert = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False
    )
    return pyarrow.csv.read_csv(file, parse_options=options, convert_options=convert)


def _agreeing(name: str, files: list[str]) -> pa.Schema:
    """The schema that all Parquet files share."""
    first: pa.Schema | None = None
    for file in files:
        try:
            schema = pq.read_schema(file)
        except (pa.ArrowInvalid, OSError) as error:
            raise SchemaError(f"{name}: cannot read {file}: {str(error).splitlines()[0]}") from None
        if first is None:
            first = schema
        elif schema.names != first.names or schema.types != first.types:
            raise SchemaError(_disagreement(name, file, first, schema))
    assert first is not None
    return first


def _disagreement(name: str, file: str, first: pa.Schema, other: pa.Schema) -> str:
    for label in [*first.names, *other.names]:
        if label not in other.names or label not in first.names:
            return f"{name}: the files differ: {file} {'lacks' if label not in other.names else 'adds'} column {label!r}."
        if first.field(label).type != other.field(label).type:
            return (
                f"{name}: the files differ: column {label!r} is {other.field(label).type} in {file}, "
                f"{first.field(label).type} before."
            )
    return f"{name}: the files differ: {file} has its columns in another order."


def _check_columns(name: str, schema: pa.Schema) -> None:
    if not schema.names:
        raise SchemaError(f"{name} has no columns.")
    _refuse_duplicates(name, schema.names)


def _refuse_duplicates(name: str, labels: Sequence[str]) -> None:
    for label in labels:
        if labels.count(label) > 1:
            raise SchemaError(f"{name} has two columns called {label!r}; rename one.")
