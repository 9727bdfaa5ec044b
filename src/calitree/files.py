"""Parquet and CSV files as Arrow tables: one file, a list, a glob or a directory.

Several files are one relation only if they have the same columns. Their order may differ, and a CSV
column may look like whole numbers in one file and like decimals in another; nothing else is guessed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from calitree.errors import SchemaError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

_SAMPLE = 1 << 20
"""How much of a CSV file is looked at to tell the types of its columns."""


def files_of(source: Any) -> list[str] | None:
    """The files that a path, glob, directory or list of them stands for; None for anything else.

    A single word may be the name of a Spark table, so it is a path only if there is such a file.
    """
    if isinstance(source, list | tuple):
        if source and all(isinstance(each, str | os.PathLike) for each in source):
            return [file for each in source for file in _matching(os.fspath(each))]
        return None
    if isinstance(source, os.PathLike):
        return _matching(os.fspath(source))
    if isinstance(source, str) and (_looks_like_a_path(source) or Path(source).exists()):
        return _matching(source)
    return None


def _looks_like_a_path(text: str) -> bool:
    return bool(_ending(text)) or any(mark in text for mark in "*?[/\\")


def _matching(pattern: str) -> list[str]:
    path = Path(pattern).expanduser()
    if "://" in pattern:
        raise SchemaError(
            f"{pattern!r} is not a file on this machine. Read it with Spark, or pass "
            f"pyarrow.dataset.dataset({pattern!r})."
        )
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and _is_data(each, path))
        if not found:
            raise SchemaError(f"There is no Parquet or CSV file in the directory {path.absolute()}.")
        return [str(each) for each in found if _ending(each.name)] or [str(found[0])]
    files = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    if not files:
        raise SchemaError(f"No file matches {pattern!r} (looked for {path.absolute()}).")
    return files


def _is_data(file: Path, directory: Path) -> bool:
    """Not one of the markers and logs that other programs leave beside the data."""
    return not any(part.startswith(("_", ".")) for part in file.relative_to(directory).parts)


def _ending(file: str) -> str:
    lowered = file.lower()
    return next((end for end in (*CSV, *PARQUET) if lowered.endswith(end)), "")


def read_files(name: str, files: list[str]) -> pa.Table:
    """All rows of all files."""
    schema = schema_of_files(name, files)
    tables = [_with_reason(name, file, lambda file: _read(file, schema)) for file in files]
    return pa.concat_tables([table.select(schema.names) for table in tables]).cast(schema)


def schema_of_files(name: str, files: list[str]) -> pa.Schema:
    """The columns that all files have: from the footers of Parquet, from the head of CSV."""
    for file in files:
        if not _ending(file):
            endings = ", ".join(PARQUET + CSV)
            raise SchemaError(f"{name}: cannot tell what {file!r} is; files end in {endings}.")
    schemas = [_with_reason(name, file, _schema) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        refuse_duplicates(f"{name}: {file}", schema.names)
    pairs = zip(files[1:], schemas[1:], strict=True)
    return reduce(lambda first, pair: _agreed(name, files[0], first, *pair), pairs, schemas[0])


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
        joint = _joint(field.type, here, guessed=_ending(file) in CSV)
        if joint is None:
            raise SchemaError(
                f"{name}: the files differ: column {field.name!r} is {here} in {file}, "
                f"{field.type} in {first}."
            )
        fields.append(pa.field(field.name, joint))
    return pa.schema(fields)


def _joint(a: pa.DataType, b: pa.DataType, guessed: bool) -> pa.DataType | None:
    """The type of a column that two files give a type each, if there is one."""
    if a == b or pa.types.is_null(b):
        return a
    if pa.types.is_null(a):
        return b
    return pa.float64() if guessed and {a, b} == {pa.int64(), pa.float64()} else None


def _with_reason(name: str, file: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(file)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SchemaError(f"{name}: cannot read {file}: {reason.rstrip('.')}.") from error


def _schema(file: str) -> pa.Schema:
    if _ending(file) in PARQUET:
        from pyarrow import parquet

        return parquet.read_schema(file).remove_metadata()
    from pyarrow import csv

    return csv.open_csv(file, **_csv_options(file, _SAMPLE, None)).schema


def _read(file: str, schema: pa.Schema) -> pa.Table:
    if _ending(file) in PARQUET:
        from pyarrow import parquet

        return parquet.ParquetFile(file).read()
    from pyarrow import csv

    return csv.read_csv(file, **_csv_options(file, _SAMPLE, schema))


def _csv_options(file: str, block: int, schema: pa.Schema | None) -> dict[str, Any]:
    """As DuckDB and Spark read it: nothing between two commas is NULL, '' in quotes is a text."""
    from pyarrow import csv

    types = None if schema is None else {field.name: field.type for field in schema}
    tab = ".tsv" in _ending(file)
    return {
        "read_options": csv.ReadOptions(block_size=block),
        "parse_options": csv.ParseOptions(delimiter="\t" if tab else ",", newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }


def refuse_duplicates(where: str, labels: Iterable[str]) -> None:
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise SchemaError(f"{where} has two columns called {label!r}; rename one.")
        seen.add(label)
