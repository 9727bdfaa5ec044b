"""Parquet files as one relation whose columns are read when they are needed, and only those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from calitree.cache import LRUCache
from calitree.errors import EngineError
from calitree.interrupts import run
from calitree.sql.parser import Expression
from calitree.storage.column_types import plain_column, supported_columns
from calitree.storage.digest import FileDigest, parquet_file
from calitree.storage.files import Partition, footers_of, partitions
from calitree.storage.filesystem import (
    MAX_REQUESTS,
    is_url,
    map_paths,
    reason,
    shown,
    stamp,
)
from calitree.storage.pruning import may_contain, may_pass
from calitree.storage.statistics import Bounds, bounds_of, flat_columns


class Split(NamedTuple):
    """Some row groups of one file: what one thread, or one task, reads at a time."""

    file: str
    """A path of this machine, or a URL."""

    groups: tuple[int, ...]
    rows: int
    partition: Partition
    digest: FileDigest | None = None
    """Of a file of a saved tree."""


def read_split(split: Split, types: Mapping[str, pa.DataType]) -> pa.Table:
    """Some columns of a split, as these types."""
    try:
        with parquet_file(split.file, split.digest) as file:
            stored = [label for label in types if label in file.schema_arrow.names]
            table = file.read_row_groups(list(split.groups), columns=stored, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise EngineError(f"Cannot read {shown(split.file)}: {reason(error)}.") from error
    columns = {
        label: plain_column(f"{label} of {shown(split.file)}", table.column(label)).cast(dtype)
        if label in stored
        else pa.chunked_array([pa.repeat(split.partition[label], split.rows)], dtype)
        for label, dtype in types.items()
    }
    if not columns:
        return pa.table({"": pa.nulls(split.rows)}).select([])
    return pa.table(columns)


@dataclass(frozen=True)
class Selection:
    """The row groups that are to be read, of all there are: "3 of 20 row groups"."""

    chosen: tuple[Split, ...]
    among: tuple[Split, ...]
    nothing: Split = field(repr=False)
    """Of the same columns, without rows."""

    @property
    def rows(self) -> int:
        """Rows to read."""
        return sum(split.rows for split in self.chosen)

    @property
    def skipped_rows(self) -> int:
        """Rows that are not read."""
        return sum(split.rows for split in self.among) - self.rows

    def splits(self, rows: int) -> list[Split]:
        """The row groups in order; neighbours together as long as they have so many rows or less.

        There is always one, so that the columns and their types are known to readers.
        """
        splits: list[Split] = []
        for group in self.chosen:
            last = splits[-1] if splits else None
            if last is not None and last.file == group.file and last.rows + group.rows <= rows:
                groups = (*last.groups, *group.groups)
                splits[-1] = last._replace(groups=groups, rows=last.rows + group.rows)
            else:
                splits.append(group)
        return splits or [self.nothing]

    def __str__(self) -> str:
        return f"{len(self.chosen)} of {len(self.among)} row groups"


class Filter(NamedTuple):
    """What a row must pass: conditions, and a semi-join with the values of attributes."""

    where: Sequence[Expression]
    keys: Sequence[tuple[str, pa.Array]] = ()


class ParquetColumns:
    """The footers of Parquet files, and their columns, read one by one.

    A file that is changed after it was added would give columns that do not belong together, so
    that is an error. Those of a saved tree are compared with their digests.
    """

    def __init__(
        self,
        name: str,
        files: list[str],
        threads: int,
        digests: Mapping[str, FileDigest] | None = None,
    ) -> None:
        self.name, self.files, self.threads, digests = name, files, threads, digests or {}
        self._stamped = [file for file in files if file not in digests]
        self._stamps = map_paths(stamp, self._stamped)
        footers, schema = footers_of(name, files, digests)
        self.schema, self.unsupported = supported_columns(name, schema)
        self.file_types = {label: schema.field(label).type for label in self.schema.names}
        """The types of columns as the files have them."""
        self._footers = list(zip(files, footers, partitions(files), strict=True))
        self._bounds = LRUCache[tuple[Bounds, ...]](len(self.schema))
        self.rows = self.decoded_bytes = 0
        groups: list[Split] = []
        nullable: set[str] = set()
        for file, footer, partition in self._footers:
            nullable |= _perhaps_null(footer, self.schema.names)
            nullable |= {label for label, value in partition.items() if not value.is_valid}
            for number in range(footer.num_row_groups):
                group = footer.row_group(number)
                self.rows += group.num_rows
                self.decoded_bytes += group.total_byte_size
                groups.append(Split(file, (number,), group.num_rows, partition, digests.get(file)))
        self.null_free = frozenset(self.schema.names) - nullable
        nothing = Split(files[0], (), 0, self._footers[0][2], digests.get(files[0]))
        self.everything = Selection(tuple(groups), tuple(groups), nothing)

    @property
    def nbytes(self) -> int:
        """Nothing is held but the footers."""
        return 0

    def splits(self, rows: int) -> list[Split]:
        """All row groups, in splits of so many rows or less where one group has not more."""
        return self.everything.splits(rows)

    def select(self, filters: Sequence[Filter], names: Mapping[str, str]) -> Selection:
        """The row groups in which some row may pass at least one filter.

        `names` tells which column carries which attribute; conditions on other attributes do not
        count. Rows that pass none are still among what is read.
        """
        among = self.everything.among

        def bounds(attribute: str) -> Sequence[Bounds]:
            return self._bounds_of(names[attribute]) if attribute in names else ()

        needed = np.zeros(len(among), bool)
        for row_filter in filters:
            passing = may_pass(row_filter.where, bounds, len(among))
            for attribute, values in row_filter.keys:
                passing &= may_contain(values, bounds(attribute), len(among))
            needed |= passing
        chosen = [split for split, need in zip(among, needed, strict=True) if need and split.rows]
        return Selection(tuple(chosen), among, self.everything.nothing)

    def _bounds_of(self, label: str) -> tuple[Bounds, ...]:
        """Looked up in the footers when a filter first needs them."""
        files = ((footer, partition) for _, footer, partition in self._footers)
        return self._bounds.of(
            label, lambda: bounds_of(label, self.schema.field(label).type, files)
        )

    def check(self) -> None:
        """An error if a file is not as it was."""
        now = map_paths(stamp, self._stamped)
        for file, before, after in zip(self._stamped, self._stamps, now, strict=True):
            if after != before:
                raise EngineError(
                    f"{self.name}: {shown(file)} has changed since it was added. Add it to a new "
                    "graph."
                )

    def column(self, label: str) -> pa.ChunkedArray:
        """One column of all files."""
        return self.read(self.everything, [label]).column(label)

    def read(self, chosen: Selection, labels: Iterable[str]) -> pa.Table:
        """Some columns of some row groups; several threads read them."""
        self.check()
        types = {label: self.schema.field(label).type for label in labels}
        threads = max(self.threads, MAX_REQUESTS if any(map(is_url, self.files)) else 1)
        splits = chosen.splits(-(-chosen.rows // threads))

        def read_all() -> pa.Table:
            with ThreadPoolExecutor(threads) as pool:
                return pa.concat_tables(pool.map(lambda split: read_split(split, types), splits))

        return run(read_all)

    def table(self) -> pa.Table:
        """Everything."""
        return pa.table({label: self.column(label) for label in self.schema.names})


def _perhaps_null(footer: parquet.FileMetaData, names: Iterable[str]) -> set[str]:
    """The columns of which the footer does not say that they have no NULL."""
    stored = set(names) & set(footer.schema.to_arrow_schema().names)
    free = {name: at for name, at in flat_columns(footer).items() if name in stored}
    for group in map(footer.row_group, range(footer.num_row_groups)):
        if group.num_rows:
            free = {name: at for name, at in free.items() if _has_no_null(group.column(at))}
    return stored - free.keys()


def _has_no_null(column: parquet.ColumnChunkMetaData) -> bool:
    known = column.statistics
    return known is not None and known.has_null_count and not known.null_count
