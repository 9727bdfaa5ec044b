"""Parquet and CSV files as Arrow tables.

Several files are one relation only if they have the same columns. Their order may differ, and a
column of CSV may look like whole numbers in one file and like doubles in another; nothing else is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from calitree.errors import SchemaError
from calitree.storage.column_types import plain_table, plain_type
from calitree.storage.digest import FileDigest, parquet_file
from calitree.storage.filesystem import (
    filesystem_of,
    is_url,
    map_paths,
    path_of,
    reason,
    shown,
)
from calitree.storage.listing import CSV, PARQUET, ending

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

T = TypeVar("T")

Partition: TypeAlias = dict[str, pa.Scalar]

_NULL = "__HIVE_DEFAULT_PARTITION__"


def is_parquet(files: list[str]) -> bool:
    """Whether all of these are Parquet files."""
    return all(ending(file) in PARQUET for file in files)


def read_files(name: str, files: list[str], types: pa.Schema | None = None) -> pa.Table:
    """All rows of all files; columns of CSV that are text or booleans in `types` are read as such."""
    if is_parquet(files):
        schema_of_files(name, files)  # what does not fit together is found before anything is read
    typed = {f.name: f.type for f in types or () if f.type in (pa.string(), pa.bool_())}
    read = partial(_read, types=typed)
    tables = [
        _with_columns(plain_table(table), partition)
        for table, partition in zip(_of_files(name, files, read), partitions(files), strict=True)
    ]
    schema = _common(name, files, [table.schema for table in tables])
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


def schema_of_files(name: str, files: list[str]) -> pa.Schema:
    """The columns that all files have: from the footers of Parquet, from the head of CSV."""
    return _with_partitions(name, files, _of_files(name, files, _schema))


def footers_of(
    name: str, files: list[str], digests: Mapping[str, FileDigest] | None = None
) -> tuple[list[FileMetaData], pa.Schema]:
    """The footers of Parquet files, and the columns that all of them have."""
    footers = _of_files(name, files, partial(_footer, digests=digests or {}))
    schemas = [footer.schema.to_arrow_schema().remove_metadata() for footer in footers]
    return footers, _with_partitions(name, files, schemas)


def _of_files(name: str, files: list[str], read: Callable[[str], T]) -> list[T]:
    """What is read from every file."""

    def safely(file: str) -> T:
        if not ending(file):
            endings = ", ".join(PARQUET + CSV)
            raise SchemaError(
                f"{name}: cannot tell what {shown(file)!r} is; files end in {endings}."
            )
        try:
            return read(file)
        except (pa.ArrowException, OSError) as error:
            raise SchemaError(f"{name}: cannot read {shown(file)}: {reason(error)}.") from error

    return map_paths(safely, files)


def _with_partitions(name: str, files: list[str], schemas: list[pa.Schema]) -> pa.Schema:
    """The columns that all files have, those of partitioning included."""
    return _common(name, files, list(map(_with_fields, schemas, partitions(files))))


def _common(name: str, files: list[str], schemas: list[pa.Schema]) -> pa.Schema:
    files = [shown(file) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        refuse_duplicates(f"{name}: {file}", schema.names)
    pairs = zip(files[1:], schemas[1:], strict=True)
    return reduce(lambda known, pair: _agreed(name, files[0], known, *pair), pairs, schemas[0])


def _agreed(name: str, first: str, known: pa.Schema, file: str, other: pa.Schema) -> pa.Schema:
    """The columns of `known` with types that suit `other` too."""
    for column in [*known.names, *other.names]:
        for lacking, schema in ((first, known), (file, other)):
            if column not in schema.names:
                has = file if lacking == first else first
                raise SchemaError(
                    f"{name}: the files differ: {lacking} has no column {column!r}, {has} has."
                )
    fields = []
    for field in known:
        here = other.field(field.name).type
        joint = _joint(field.type, here, guessed=ending(file) in CSV)
        if joint is None:
            raise SchemaError(
                f"{name}: the files differ: column {field.name!r} is {here} in {file}, "
                f"{field.type} in {first}."
            )
        fields.append(pa.field(field.name, joint))
    return pa.schema(fields)


def _joint(a: pa.DataType, b: pa.DataType, guessed: bool) -> pa.DataType | None:
    """The type of a column that two files give a type each, if there is one."""
    a, b = plain_type(a) or a, plain_type(b) or b
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    return pa.float64() if guessed and {a, b} == {pa.int64(), pa.float64()} else None


def partitions(files: list[str]) -> list[Partition]:
    """The values of Hive partitioning, as in the directory year=2024; numbers where all of a column are."""
    labelled = [
        dict(part.split("=", 1) for part in PurePath(path_of(file)).parent.parts if "=" in part)
        for file in files
    ]
    texts: dict[str, set[str]] = {}
    for partition in labelled:
        for label, text in partition.items():
            texts.setdefault(label, set()).add(text)
    whole = {
        label for label, values in texts.items() if all(v == _NULL or _is_whole(v) for v in values)
    }
    return [
        {label: _scalar(text, label in whole) for label, text in partition.items()}
        for partition in labelled
    ]


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal() and len(text) < 19


def _scalar(text: str, whole: bool) -> pa.Scalar:
    dtype = pa.int64() if whole else pa.string()
    if text == _NULL:
        return pa.scalar(None, dtype)
    return pa.scalar(int(text) if whole else unquote(text), dtype)


def _with_fields(schema: pa.Schema, partition: Partition) -> pa.Schema:
    for label, value in partition.items():
        if label not in schema.names:
            schema = schema.append(pa.field(label, value.type))
    return schema


def _with_columns(table: pa.Table, partition: Partition) -> pa.Table:
    for label, value in partition.items():
        if label not in table.column_names:
            table = table.append_column(label, pa.repeat(value, table.num_rows))
    return table


def _footer(file: str, digests: Mapping[str, FileDigest]) -> FileMetaData:
    with parquet_file(file, digests.get(file)) as opened:
        return opened.metadata


def _schema(file: str) -> pa.Schema:
    if ending(file) in PARQUET:
        return _footer(file, {}).schema.to_arrow_schema().remove_metadata()
    from pyarrow import csv

    with csv.open_csv(_text(file), **_csv_options(file)) as reader:
        return reader.schema


def _read(file: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    if ending(file) in PARQUET:
        with parquet_file(file) as whole:
            return whole.read().replace_schema_metadata(None)
    from pyarrow import csv

    return csv.read_csv(_text(file), **_csv_options(file, types))


def _text(file: str) -> pa.NativeFile | str:
    """What text is read from; a compressed file is decompressed on the way."""
    if not is_url(file):
        return file
    system, there = filesystem_of(file)
    return system.open_input_stream(there)


def _csv_options(file: str, types: Mapping[str, pa.DataType] | None = None) -> dict[str, Any]:
    """As DuckDB and Spark read it: nothing between two commas is NULL, "" is an empty text."""
    from pyarrow import csv

    delimiter = "\t" if ".tsv" in ending(file) else ","
    return {
        "parse_options": csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types=types,
        ),
    }


def refuse_duplicates(where: str, labels: Iterable[str]) -> None:
    """An error if two columns have the same name."""
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise SchemaError(f"{where} has two columns called {label!r}; rename one.")
        seen.add(label)
