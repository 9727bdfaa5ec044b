"""Parquet and CSV files as Arrow tables: one file, a list, a glob or a directory.

Several files are one relation only if they have the same columns. Their order may differ, and a
column of CSV may look like whole numbers in one file and like doubles in another; nothing else is
guessed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from calitree.errors import SchemaError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

Partition: TypeAlias = dict[str, pa.Scalar]

_NULL = "__HIVE_DEFAULT_PARTITION__"


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
        try:
            found = sorted(e for e in path.rglob("*") if e.is_file() and _is_data(e, path))
        except OSError as error:
            raise SchemaError(f"Cannot list {path.absolute()}: {error}.") from None
        if not found:
            raise SchemaError(f"There is no Parquet or CSV file in {path.absolute()}.")
        return [str(each) for each in found if _ending(each.name)] or [str(found[0])]
    # Path.glob takes no absolute pattern.
    matches = glob.glob(str(path), recursive=True)  # noqa: PTH207
    files = [str(path)] if path.is_file() else sorted(matches)
    if not files:
        raise SchemaError(f"No file matches {pattern!r} (looked for {path.absolute()}).")
    return files


def _is_data(file: Path, directory: Path) -> bool:
    """Not one of the markers and logs that other programs leave beside the data."""
    return not any(part.startswith(("_", ".")) for part in file.relative_to(directory).parts)


def _ending(file: str) -> str:
    lowered = file.lower()
    return next((end for end in (*CSV, *PARQUET) if lowered.endswith(end)), "")


def is_parquet(files: list[str]) -> bool:
    """Whether all of these are Parquet files."""
    return all(_ending(file) in PARQUET for file in files)


def read_files(name: str, files: list[str]) -> pa.Table:
    """All rows of all files."""
    if is_parquet(files):
        schema_of_files(name, files)  # what does not fit together is found before anything is read
    tables = _each(name, files, _read)
    schema = _common(name, files, [table.schema for table in tables])
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


def schema_of_files(name: str, files: list[str]) -> pa.Schema:
    """The columns that all files have: from the footers of Parquet, from the head of CSV."""
    return _common(name, files, _each(name, files, _schema))


def _each(name: str, files: list[str], read: Callable[[str, Partition], Any]) -> list[Any]:
    """Every file, read with the columns that its path tells."""
    results = []
    for file, partition in zip(files, partitions(files), strict=True):
        if not _ending(file):
            endings = ", ".join(PARQUET + CSV)
            raise SchemaError(f"{name}: cannot tell what {file!r} is; files end in {endings}.")
        try:
            results.append(read(file, partition))
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise SchemaError(f"{name}: cannot read {file}: {reason}.") from error
    return results


def _common(name: str, files: list[str], schemas: list[pa.Schema]) -> pa.Schema:
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


def partitions(files: list[str]) -> list[Partition]:
    """The columns that directories like year=2024 stand for; numbers where all of them are."""
    found = [
        dict(part.split("=", 1) for part in Path(file).parent.parts if "=" in part)
        for file in files
    ]
    texts: dict[str, set[str]] = {}
    for each in found:
        for label, text in each.items():
            texts.setdefault(label, set()).add(text)
    whole = {
        label for label, values in texts.items() if all(v == _NULL or _is_whole(v) for v in values)
    }
    return [
        {label: _scalar(text, label in whole) for label, text in each.items()} for each in found
    ]


def _is_whole(text: str) -> bool:
    return text.lstrip("-").isdecimal() and len(text) < 19


def _scalar(text: str, whole: bool) -> pa.Scalar:
    dtype = pa.int64() if whole else pa.string()
    if text == _NULL:
        return pa.scalar(None, dtype)
    return pa.scalar(int(text) if whole else unquote(text), dtype)


def _schema(file: str, partition: Partition) -> pa.Schema:
    if _ending(file) in PARQUET:
        from pyarrow import parquet

        schema = parquet.read_schema(file).remove_metadata()
    else:
        from pyarrow import csv

        schema = csv.open_csv(file, **_csv_options(file)).schema
    for label in partition.keys() - set(schema.names):
        schema = schema.append(pa.field(label, partition[label].type))
    return schema


def _read(file: str, partition: Partition) -> pa.Table:
    if _ending(file) in PARQUET:
        from pyarrow import parquet

        table = parquet.ParquetFile(file).read().replace_schema_metadata(None)
    else:
        from pyarrow import csv

        table = csv.read_csv(file, **_csv_options(file))
    for label in partition.keys() - set(table.column_names):
        table = table.append_column(label, pa.repeat(partition[label], table.num_rows))
    return table


def _csv_options(file: str) -> dict[str, Any]:
    """As DuckDB and Spark read it: nothing between two commas is NULL, "" is an empty text."""
    from pyarrow import csv

    delimiter = "\t" if ".tsv" in _ending(file) else ","
    return {
        "parse_options": csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": csv.ConvertOptions(
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    }


def refuse_duplicates(where: str, labels: Iterable[str]) -> None:
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise SchemaError(f"{where} has two columns called {label!r}; rename one.")
        seen.add(label)
