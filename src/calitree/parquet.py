"""Parquet files as one relation whose columns are read when they are needed, and only those."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
from pyarrow import parquet

from calitree.errors import EngineError
from calitree.files import Partition, partitions, schema_of_files


class Split(NamedTuple):
    """Some row groups of one file: what one thread, or one task, reads at a time."""

    file: str
    groups: tuple[int, ...]
    rows: int
    partition: Partition


def read_split(split: Split, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Some columns of a split, as these types."""
    with parquet.ParquetFile(split.file) as file:
        there = [label for label in types if label in file.schema_arrow.names]
        found = file.read_row_groups(list(split.groups), columns=there, use_threads=False)
    columns = {
        label: found.column(label).cast(dtype)
        if label in there
        else pa.chunked_array([pa.repeat(split.partition[label], split.rows)], dtype)
        for label, dtype in types.items()
    }
    if not columns:
        return pa.table({"": pa.nulls(split.rows)}).select([])
    return pa.table(columns)


class ParquetColumns:
    """What the footers say, and the columns one by one.

    A file that is changed after it was added would give columns that do not belong together, so
    that is an error.
    """

    def __init__(self, name: str, files: list[str], threads: int) -> None:
        self.name, self.threads = name, threads
        self.schema = schema_of_files(name, files)
        self.rows = self.decoded_bytes = 0
        self._groups: list[Split] = []
        self._stamps = {file: _stamp(file) for file in files}
        nullable: set[str] = set()
        for file, partition in zip(files, partitions(files), strict=True):
            footer = parquet.read_metadata(file)
            nullable |= set(_perhaps_null(footer, self.schema.names))
            nullable |= {label for label, value in partition.items() if not value.is_valid}
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                self.rows += group.num_rows
                self.decoded_bytes += group.total_byte_size
                self._groups.append(Split(file, (number,), group.num_rows, partition))
        self.null_free = frozenset(self.schema.names) - nullable

    @property
    def nbytes(self) -> int:
        """Nothing is held."""
        return 0

    def splits(self, rows: int) -> list[Split]:
        """All row groups, in order; neighbours together as long as they have so many rows or less."""
        found: list[Split] = []
        for each in self._groups:
            last = found[-1] if found else None
            if last is not None and last.file == each.file and last.rows + each.rows <= rows:
                groups = (*last.groups, *each.groups)
                found[-1] = last._replace(groups=groups, rows=last.rows + each.rows)
            else:
                found.append(each)
        return found

    def check(self) -> None:
        """An error if a file is not as it was."""
        for file, stamp in self._stamps.items():
            if _stamp(file) != stamp:
                raise EngineError(
                    f"{self.name}: {file} has changed since it was added. Add it to a new graph."
                )

    def column(self, label: str) -> pa.ChunkedArray:
        """One column of all files; several threads read row groups of it."""
        self.check()
        dtype = self.schema.field(label).type
        with ThreadPoolExecutor(self.threads) as pool:
            splits = self.splits(-(-self.rows // self.threads))
            found = list(pool.map(lambda split: read_split(split, {label: dtype}), splits))
        chunks = [chunk for each in found for chunk in each.column(label).chunks]
        return pa.chunked_array(chunks, dtype)

    def table(self) -> pa.Table:
        """Everything."""
        return pa.table({label: self.column(label) for label in self.schema.names})


def _perhaps_null(footer: parquet.FileMetaData, names: Iterable[str]) -> Iterable[str]:
    """The columns of which the footer does not say that they have no NULL."""
    known = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    for name in names:
        at = known.get(name)
        if at is None:
            if name in footer.schema.to_arrow_schema().names:
                yield name
            continue
        for group in map(footer.row_group, range(footer.num_row_groups)):
            if not group.num_rows:
                continue
            statistics = group.column(at).statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                yield name
                break


def _stamp(file: str) -> tuple[int, int] | None:
    """What changes with a file; None if it is gone."""
    try:
        status = os.stat(file)  # noqa: PTH116 (a Path would only be unwrapped again)
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size
