"""Tables at rest: how a relation or a message is described once it is in files.

One form for all engines, so that what one wrote another can read. A message's columns are called c0,
c1, …; integers and decimals that were computed are whole numbers, and the description says where
their decimal point is. Types that not everybody can read from Parquet are written as others, and are
what they were again when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from calitree.errors import DamagedError, EngineError, MissingRelationError, SavedError
from calitree.interrupts import LONG_ROWS, run
from calitree.storage.arrow_types import original, schema_of_text
from calitree.storage.digest import DigestingOutput, FileDigest, read_verified
from calitree.storage.filesystem import (
    filesystem_of,
    is_url,
    own_problem,
    reason,
    shown,
    stamp,
    url_of,
)
from calitree.storage.json_codec import Count
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 18
"""Rows that are written at a time."""

FileDigests: TypeAlias = Mapping[str, FileDigest]
"""Those of the files in a directory by their names; that of a file by "". None in trees of older formats."""

MAX_SCALE = 1_000
"""Digits after the decimal point of a saved number."""

RELOAD = "if it was vacuumed away, take over the newest version with reload()"

_AS_VERSION = {"json": "version"}
"""What files have called a revision from the beginning."""


def _with_way_out(problem: str | None) -> str | None:
    """What is wrong with a file of a tree, and what can be done about it if it is gone."""
    return f"{problem}; {RELOAD}" if problem and problem.endswith("is not there") else problem


def _scale(value: int) -> int:
    if not -MAX_SCALE <= value <= MAX_SCALE:
        raise ValueError("is no scale")
    return value


@dataclass(frozen=True)
class SavedColumn:
    """A column of a saved message: an attribute, or one component of an annotation."""

    name: str
    kind: Kind
    annotation: bool = False
    coded: bool = False
    """Holds value × 10^scale, not the value."""
    scale: Annotated[int, _scale] = 0
    bound: int = 0
    """No whole number here is further from zero."""
    exact: bool = True


@dataclass(frozen=True)
class SavedMessage:
    """A message in a file, or in a directory of them. `schema` has the types of its columns.

    A message without columns has no file: its number of rows says all.
    """

    path: str
    rows: Count
    nbytes: Count
    schema: str
    columns: tuple[SavedColumn, ...]
    digests: FileDigests = field(default_factory=dict)

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

        self.check()
        rows = LONG_ROWS if is_url(self.path) else self.rows
        table, schema = run(lambda: read_parquet(self.path, self.digests), rows), self.types
        if table.num_rows != self.rows:
            raise DamagedError(
                shown(self.path), f"it has {table.num_rows:,} rows, and should have {self.rows:,}"
            )
        try:
            columns = [original(table.column(field.name), field.type) for field in schema]
            return pa.table(columns, schema)
        except (pa.ArrowException, KeyError) as error:
            raise DamagedError(shown(self.path), reason(error)) from error

    def check(self) -> None:
        """An error if its file is not there, or is a link or a device."""
        problem = _with_way_out(own_problem(self.path))
        if problem is not None:
            raise DamagedError(shown(self.path), problem.replace(f"{self.path} ", "it ", 1))

    @property
    def types(self) -> pa.Schema:
        """The names that its columns have in the file, and the types they had."""
        schema = schema_of_text(self.schema)
        if len(schema) != len(self.columns):
            raise SavedError(
                f"The saved message {shown(self.path)} has {len(self.columns)} columns and the types "
                f"of {len(schema)}. Save the tree again."
            )
        return schema


@dataclass(frozen=True)
class SavedFile:
    """A file that was there, as it was."""

    path: str
    size: Count
    stamp: tuple[int | float | str | None, ...]
    """What changes with the file; nothing for our own, which do not change."""
    digest: FileDigest | None = None
    """Of our own."""

    @property
    def problem(self) -> str | None:
        """Why it cannot be used, if it cannot."""
        try:
            now = stamp(self.path)
        except EngineError as error:
            return str(error).rstrip(".")
        if now is None:
            return f"{shown(self.path)} is not there"
        if self.digest is not None and not is_url(self.path) and now[1] != self.digest.size:
            return f"{shown(self.path)} is damaged: {self.digest.wrong_size(now[1])}"
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
    seal: str = ""
    """By which a user knows that they have named these files or this table themselves."""

    @property
    def problem(self) -> str | None:
        """Why the files cannot be used, if one of them cannot."""
        if self.place == "copied":
            problems = (own_problem(file.path) or file.problem for file in self.files)
            return _with_way_out(next(filter(None, problems), None))
        return next((file.problem for file in self.files if file.problem is not None), None)

    def check(self, relation: str) -> None:
        """An error if the files are not as they were."""
        problem = self.problem
        if problem is not None:
            raise MissingRelationError(relation, problem)


@dataclass(frozen=True)
class SavedRows:
    """Some rows of a relation, in a file beside the messages."""

    path: str
    rows: Count
    nbytes: Count
    null_free: frozenset[str]
    digest: FileDigest | None = None


@dataclass(frozen=True)
class SavedChange:
    """The rows that came to a relation and those that went, between two of its revisions."""

    old: Count
    revision: Count = field(metadata=_AS_VERSION)
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
    revision: Count = field(metadata=_AS_VERSION)
    schema: str
    kinds: dict[str, Kind]
    rows: Count
    null_free: frozenset[str]
    nbytes: Count
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
        source = Source("copied", (SavedFile(rows.path, 0, (), rows.digest),))
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


def read_parquet(path: str, digests: FileDigests) -> pa.Table:
    """All rows of a file of ours, or of a directory of files, compared with their digests."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        names = parts_of(path)
        if digests and names != sorted(digests):
            raise DamagedError(shown(path), "its files are not those that were written")
        tables = []
        for name in names:
            source = pa.BufferReader(read_verified(part_path(path, name), digests.get(name)))
            checked = parquet.ParquetFile(source, page_checksum_verification=name not in digests)
            tables.append(checked.read())
        return pa.concat_tables(tables)
    except DamagedError as error:
        inside = "" if error.path == shown(path) else f"{error.path.rpartition('/')[2]}: "
        raise DamagedError(shown(path), f"{inside}{error.reason}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(shown(path), reason(error)) from error


def parts_of(path: str) -> list[str]:
    """The names of the data files in a directory; "" for a file itself."""
    from pyarrow import fs

    system, there = filesystem_of(path)
    if system.get_file_info(there).type is not fs.FileType.Directory:
        return [""]
    infos = system.get_file_info(fs.FileSelector(there))
    return sorted(info.base_name for info in infos if info.base_name.endswith(".parquet"))


def part_path(path: str, name: str) -> str:
    """The path or URL of a part."""
    if not name:
        return path
    return url_of(path).below(name) if is_url(path) else f"{path}/{name}"


def write_parquet(table: pa.Table, path: str) -> FileDigest:
    """Write a table to a new file, a row group at a time so that Ctrl-C is answered; its digest."""
    import pyarrow as pa
    from pyarrow import parquet

    system, there = filesystem_of(path)
    with system.open_output_stream(there) as stream:
        output = DigestingOutput(stream, table.nbytes)
        with (
            pa.PythonFile(output, mode="w") as sink,
            parquet.ParquetWriter(sink, table.schema, write_page_checksum=True) as writer,
        ):
            for start in range(0, max(1, table.num_rows), ROW_GROUP):
                writer.write_table(table.slice(start, ROW_GROUP), ROW_GROUP)
        return output.digest
