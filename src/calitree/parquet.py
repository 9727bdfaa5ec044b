"""Parquet files as one relation whose columns are read when they are needed, and only those."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from pyarrow import parquet

from calitree.errors import EngineError
from calitree.files import Partition, partitions, schema_of_files


class _Part(NamedTuple):
    """Some row groups of one file, of about the same size as the others."""

    file: str
    groups: list[int]
    partition: Partition


class ParquetColumns:
    """What the footers say, and the columns one by one.

    A file that is changed after it was added would give columns that do not belong together, so
    that is an error.
    """

    def __init__(self, name: str, files: list[str], threads: int) -> None:
        self.name, self.threads = name, threads
        self.schema = schema_of_files(name, files)
        self.rows = 0
        self._parts: list[_Part] = []
        self._stamps = {file: _stamp(file) for file in files}
        nullable: set[str] = set()
        for file, partition in zip(files, partitions(files), strict=True):
            footer = parquet.read_metadata(file)
            self.rows += footer.num_rows
            nullable |= set(_perhaps_null(footer, self.schema.names))
            nullable |= {label for label, value in partition.items() if not value.is_valid}
            groups = list(range(footer.num_row_groups))
            cuts = max(1, min(threads, len(groups)))
            bounds = [len(groups) * i // cuts for i in range(cuts + 1)]
            for start, stop in pairwise(bounds):
                self._parts.append(_Part(file, groups[start:stop], partition))
        self.null_free = frozenset(self.schema.names) - nullable

    @property
    def nbytes(self) -> int:
        """Nothing is held."""
        return 0

    def column(self, label: str) -> pa.ChunkedArray:
        """One column of all files; several threads read row groups of it."""
        for file, stamp in self._stamps.items():
            if _stamp(file) != stamp:
                raise EngineError(
                    f"{self.name}: {file} has changed since it was added. Add it to a new graph."
                )
        dtype = self.schema.field(label).type

        def read(part: _Part) -> pa.ChunkedArray:
            with parquet.ParquetFile(part.file) as file:
                if label not in file.schema_arrow.names:
                    rows = file.metadata.num_rows if part.groups and part.groups[0] == 0 else 0
                    return pa.chunked_array([pa.repeat(part.partition[label], rows)], dtype)
                if not part.groups:
                    return pa.chunked_array([], dtype)
                found = file.read_row_groups(part.groups, columns=[label], use_threads=False)
                return found.column(label).cast(dtype)

        with ThreadPoolExecutor(self.threads) as pool:
            found = list(pool.map(read, self._parts))
        return pa.chunked_array([chunk for each in found for chunk in each.chunks], dtype)

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
