"""Tables at rest: how a relation or a message is described once it is in files.

One form for all engines, so that what one wrote another can read. A message's columns are called c0,
c1, …; integers and decimals that were computed are whole numbers, and the description says where
their decimal point is. Types that not everybody can read from Parquet are written as others, and are
what they were again when they are read.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from calitree.errors import EngineError, MissingRelationError
from calitree.interrupts import LONG_ROWS, run
from calitree.storage.filesystem import filesystem_of, is_url, reason, shown, stamp
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 18
"""Rows that are written at a time."""


@dataclass(frozen=True)
class SavedColumn:
    """A column of a saved message: an attribute, or one component of an annotation."""

    name: str
    kind: Kind
    annotation: bool = False
    coded: bool = False
    """Holds value × 10^scale, not the value."""
    scale: int = 0
    bound: int = 0
    """No whole number here is further from zero."""
    exact: bool = True


@dataclass(frozen=True)
class SavedMessage:
    """A message in a file, or in a directory of them. `schema` has the types of its columns.

    A message without columns has no file: its number of rows says all.
    """

    path: str
    rows: int
    nbytes: int
    schema: str
    columns: tuple[SavedColumn, ...]

    @property
    def exact(self) -> bool:
        """Whether no column has lost digits."""
        return all(column.exact for column in self.columns)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of its attributes."""
        return tuple(column.name for column in self.columns if not column.annotation)

    def read(self) -> pa.Table:
        """Its columns c0, c1, …, attributes as the types they had."""
        import pyarrow as pa

        path, rows = self.path, LONG_ROWS if is_url(self.path) else self.rows
        table = run(lambda: read_parquet(path), rows)
        if table.num_rows != self.rows:
            raise EngineError(
                f"The saved message {self.path} has {table.num_rows:,} rows, and should have "
                f"{self.rows:,}. Save the tree again."
            )
        schema = schema_of_text(self.schema)
        columns = [original(table.column(field.name), field.type) for field in schema]
        return pa.table(columns, schema)


@dataclass(frozen=True)
class SavedFile:
    """A file that was there, as it was."""

    path: str
    size: int
    stamp: tuple[Any, ...]
    """What changes with the file; nothing for our own, which do not change."""

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, if it cannot."""
        try:
            now = stamp(self.path)
        except EngineError as error:
            return str(error).rstrip(".")
        if now is None:
            return f"{shown(self.path)} is not there"
        if self.stamp and now != self.stamp:
            return f"{shown(self.path)} has changed since the tree was saved"
        return None


@dataclass(frozen=True)
class Source:
    """Where the rows of a relation are: beside the messages, in files, in a table of Spark's."""

    place: Literal["copied", "files", "table", "nowhere"]
    files: tuple[SavedFile, ...] = ()
    table: str = ""
    reason: str = ""
    """Why they are nowhere."""

    def check(self, relation: str) -> None:
        """An error if the files are not as they were."""
        for file in self.files:
            if file.problem is not None:
                raise MissingRelationError(relation, file.problem)


@dataclass(frozen=True)
class SavedRows:
    """Some rows of a relation, in a file beside the messages."""

    path: str
    rows: int
    nbytes: int
    null_free: frozenset[str]


@dataclass(frozen=True)
class SavedChange:
    """The rows that came to a relation and those that went, between two of its revisions."""

    old: int
    revision: int
    came: SavedRows | None
    went: SavedRows | None

    @property
    def parts(self) -> tuple[SavedRows, ...]:
        """The files of both."""
        return tuple(rows for rows in (self.came, self.went) if rows is not None)

    @property
    def touched(self) -> int:
        """How many rows came or went."""
        return sum(part.rows for part in self.parts)


@dataclass(frozen=True)
class SavedRelation:
    """A relation as a saved tree knows it: everything but its rows.

    It is what it was at a `revision`, and what has changed since.
    """

    name: str
    revision: int
    schema: str
    kinds: dict[str, Kind]
    rows: int
    null_free: frozenset[str]
    nbytes: int
    """About what its columns take in memory."""
    source: Source
    changes: tuple[SavedChange, ...] = ()
    unsupported: dict[str, str] = field(default_factory=dict)
    """Columns that it does not have, and why they cannot be used."""

    @property
    def revisions(self) -> tuple[int, ...]:
        """All that are saved, the current one last."""
        return (self.revision, *(change.revision for change in self.changes))

    @property
    def current_rows(self) -> int:
        """How many there are after all changes."""
        came = sum(change.came.rows for change in self.changes if change.came is not None)
        went = sum(change.went.rows for change in self.changes if change.went is not None)
        return self.rows + came - went

    @property
    def own_files(self) -> list[str]:
        """The files that are in the directory of the tree."""
        copied = self.source.files if self.source.place == "copied" else ()
        changed = [rows.path for change in self.changes for rows in change.parts]
        return [*(file.path for file in copied), *changed]

    def part(self, rows: SavedRows) -> SavedRelation:
        """Some rows that came or went, as a relation of their own."""
        source = Source("copied", (SavedFile(rows.path, 0, ()),))
        return replace(
            self,
            rows=rows.rows,
            null_free=rows.null_free,
            nbytes=rows.nbytes,
            source=source,
            changes=(),
        )


@dataclass(frozen=True)
class Origin:
    """What an engine knows of where a relation came from; no source if it is in this process."""

    schema: pa.Schema
    nbytes: int
    source: Source | None = None


# -- files ----------------------------------------------------------------------------------------


def file_at(path: str) -> SavedFile:
    """A file as it is now, by a path that means the same everywhere on this machine."""
    system, there = filesystem_of(path)
    now = stamp(path)
    if now is None:
        raise EngineError(f"There is no file {shown(path)} any more.")
    size = system.get_file_info(there).size or 0
    return SavedFile(path if is_url(path) else there, size, now)


def read_parquet(path: str) -> pa.Table:
    """All rows of a file, or of a directory of files."""
    import pyarrow as pa
    from pyarrow import parquet

    system, _ = filesystem_of(path)
    try:
        parts = [parquet.ParquetFile(part, filesystem=system) for part in parts_of(path)]
        return pa.concat_tables([part.read() for part in parts])
    except FileNotFoundError:
        raise EngineError(
            f"The saved tree lacks {path}. Was it vacuumed away? Open the tree again."
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise EngineError(
            f"Cannot read {shown(path)}: {reason(error)}. Save the tree again."
        ) from error


def parts_of(path: str) -> list[str]:
    """The file itself, or the data files in a directory, as their file system calls them."""
    from pyarrow import fs

    system, there = filesystem_of(path)
    if system.get_file_info(there).type is not fs.FileType.Directory:
        return [there]
    infos = system.get_file_info(fs.FileSelector(there))
    return sorted(info.path for info in infos if info.base_name.endswith(".parquet"))


def write_parquet(table: pa.Table, path: str) -> None:
    """Write a table to a new file, a row group at a time: Ctrl-C is answered in between."""
    from pyarrow import parquet

    system, there = filesystem_of(path)
    with parquet.ParquetWriter(there, table.schema, filesystem=system) as writer:
        for start in range(0, max(1, table.num_rows), ROW_GROUP):
            writer.write_table(table.slice(start, ROW_GROUP), ROW_GROUP)


# -- types ----------------------------------------------------------------------------------------


def text_of_schema(schema: pa.Schema) -> str:
    """A schema as text for JSON."""
    return base64.b64encode(schema.remove_metadata().serialize()).decode()


def schema_of_text(text: str) -> pa.Schema:
    """The schema that `text_of_schema` has written."""
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def portable(column: Any) -> Any:
    """The column in a type that every engine can read; as it is if its values do not fit that.

    An instant is a number of microseconds: Spark would write it in a type that only Spark can read.
    """
    import pyarrow as pa

    target = _portable_type(column.type)
    try:
        if pa.types.is_timestamp(target) and target.tz is not None:
            return column.cast(target).cast(pa.int64())
        return column if target == column.type else column.cast(target)
    except pa.ArrowInvalid:
        return column


def original(column: Any, dtype: pa.DataType) -> Any:
    """What `portable` made, as the type that it was."""
    import pyarrow as pa

    if column.type == dtype:
        return column
    if pa.types.is_null(dtype):
        return pa.chunked_array([pa.nulls(len(column))])
    if pa.types.is_timestamp(dtype) and pa.types.is_int64(column.type):
        column = column.cast(pa.timestamp("us", dtype.tz))
    return column.cast(dtype)


def _portable_type(dtype: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(dtype):
        return _portable_type(dtype.value_type)
    if kinds.is_timestamp(dtype):
        return pa.timestamp("us", dtype.tz)
    if kinds.is_time(dtype):
        return pa.time64("us")
    if kinds.is_decimal256(dtype):
        return pa.decimal128(38, min(38, dtype.scale))
    if kinds.is_null(dtype):
        return pa.int32()
    if kinds.is_large_string(dtype) or kinds.is_string_view(dtype):
        return pa.string()
    if kinds.is_large_binary(dtype) or kinds.is_fixed_size_binary(dtype):
        return pa.binary()
    return pa.date32() if kinds.is_date64(dtype) else dtype
