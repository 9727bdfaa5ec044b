"""Checking all files of a saved tree against what its manifests say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from calitree.calibration.message import Shelved
from calitree.errors import CalitreeError, DamagedError, SavedError
from calitree.saved.directory import Directory, data_files, name_below
from calitree.saved.guard.checks import check
from calitree.saved.guard.trust import Allow, AllowedPlaces
from calitree.saved.location import SavedLocation
from calitree.saved.manifest import MANIFESTS, Manifest, file_of, numbers, read
from calitree.saved.read_files import decoded_logs
from calitree.storage.arrow_types import original, schema_of_text
from calitree.storage.digest import FileDigest, verify
from calitree.storage.filesystem import opened, own_problem, reason, shown
from calitree.storage.table_format import (
    FileDigests,
    SavedFile,
    SavedMessage,
    SavedRelation,
    part_path,
    parts_of,
)
from calitree.types import kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class FileCheck:
    """A file of a saved tree, or one that it refers to, and what is wrong with it.

    Attributes:
        name: Its name below the directory, or where it is.
        holds: What it has of the tree.
        problem: What is wrong with it; None if nothing is.
        compared: Whether its bytes were compared with a digest. Older versions of calitree wrote none.

    Example:
        >>> wide.save("checked")
        1
        >>> from calitree.saved import fsck
        >>> [(file.holds, file.problem) for file in fsck("checked").files][:2]
        [('version 1', None), ('relation sales', None)]
    """

    name: str
    holds: str
    problem: str | None = None
    compared: bool = True


@dataclass(frozen=True)
class Fsck:
    """What `calitree.saved.fsck` has seen.

    Attributes:
        path: The directory.
        versions: The numbers of the versions whose files were checked.
        files: The files.
        leftovers: Names of files that no version needs, such as writers leave that were killed.

    Example:
        >>> wide.save("whole")
        1
        >>> from calitree.saved import fsck
        >>> fsck("whole").ok
        True
    """

    path: str
    versions: tuple[int, ...]
    files: tuple[FileCheck, ...]
    leftovers: tuple[str, ...]

    @property
    def damaged(self) -> tuple[FileCheck, ...]:
        """The files with which something is wrong."""
        return tuple(file for file in self.files if file.problem is not None)

    @property
    def ok(self) -> bool:
        """Whether no file is damaged or missing."""
        return not self.damaged

    def __str__(self) -> str:
        checked = ", ".join(map(str, self.versions)) or "none"
        lines = [("damaged", f.name, f"{f.holds}: {f.problem}") for f in self.damaged]
        lines += [
            ("ok" if file.compared else "read", file.name, file.holds)
            for file in self.files
            if file.problem is None
        ]
        lines += [("unused", name, "no version needs it") for name in self.leftovers]
        widths = [max((len(line[i]) for line in lines), default=0) for i in range(2)]
        table = [f"{verb:<{widths[0]}}  {name:<{widths[1]}}  {note}" for verb, name, note in lines]
        head = f"{self.path}: {len(self.files)} files of version {checked}, {len(self.damaged)} damaged"
        return "\n".join([head, *table])


def fsck(
    path: str | PathLike[str], all_versions: bool = False, *, allow: Allow | None = None
) -> Fsck:
    """Read all files of a saved tree, and compare them with what was written. Nothing is changed.

    Manifests are compared with their checksums. Of each file of data the size, the digest, the checksums of
    pages, the columns and the number of rows are compared. Of files that are not in the directory it is
    checked whether they are there, with their size and time.

    Args:
        path: The directory of a saved tree, or its URL.
        all_versions: Whether to check the files of all versions; by default those of the newest.
        allow: What `calitree.open` takes: places outside of the tree that may be looked at.

    Returns:
        The files and what is wrong with them; `print` shows it.

    Raises:
        SavedError: If there is no saved tree.

    Example:
        >>> from calitree.saved import fsck
        >>> wide.save("tree")
        1
        >>> print(fsck("tree"))  # doctest: +ELLIPSIS
        /...tree: 5 files of version 1, 0 damaged
        ok  manifests/000000000001.json...
    """
    directory = Directory(path)
    versions, allowed = numbers(directory), AllowedPlaces(allow)
    if not versions:
        read(directory)  # which says why not
    manifests: dict[int, Manifest] = {}
    files: dict[str, FileCheck] = {}
    for number in versions:
        name, problem = file_of(number), None
        try:
            manifests[number] = read(directory, number)
            check(manifests[number], str(directory))
        except SavedError as error:
            problem = str(error)
        if problem is not None or all_versions or number == versions[-1]:
            files[name] = FileCheck(name, f"version {number}", problem)
    checked = versions if all_versions else versions[-1:]
    for number in checked:
        if number in manifests:
            for name, seen in _checks(directory, manifests[number], files, allowed):
                files[name] = seen
    leftovers: set[str] = set()
    if len(manifests) == len(versions):  # else a file may be that of a version which cannot be read
        incomplete = {f"{MANIFESTS}/{n}" for n in directory.names(MANIFESTS) if n[0] == "."}
        named = set().union(*(manifest.files for manifest in manifests.values()))
        leftovers = (data_files(directory) | incomplete) - named
    return Fsck(str(directory), tuple(checked), tuple(files.values()), tuple(sorted(leftovers)))


def _checks(
    directory: Directory,
    manifest: Manifest,
    known: Mapping[str, FileCheck],
    allowed: AllowedPlaces,
) -> Iterator[tuple[str, FileCheck]]:
    """The files of a version, but those that are known already."""
    for relation in manifest.relations:
        for part, what in _parts(relation):
            for file in part.source.files:
                name = name_below(file.path) if part.source.place == "copied" else shown(file.path)
                if name not in known:
                    refused = allowed.readable(part).source.reason
                    yield name, _relation_check(name, what, part, file, refused)
    for message in manifest.messages:
        name = name_below(message.table.path)
        if message.table.columns and name not in known:
            yield name, _message_check(name, message)
    for into, log in decoded_logs(manifest.tree, directory, SavedLocation(allowed)).items():
        names = manifest.tree.read_segments.get(into, ())
        for name, segment in zip(names, log.segments, strict=True):
            if name not in known:
                what, problem = f"files read into {into}", None
                try:
                    segment.entries  # noqa: B018 - which are read and compared
                except SavedError as error:
                    problem = str(error)
                yield name, FileCheck(name, what, problem)


def _parts(relation: SavedRelation) -> Iterator[tuple[SavedRelation, str]]:
    """A relation as it was written as a whole, and the rows of its changes."""
    yield relation, f"relation {relation.name}"
    for change in relation.changes:
        for rows, verb in ((change.came, "inserted into"), (change.went, "deleted from")):
            if rows is not None:
                yield relation.part(rows), f"rows {verb} {relation.name}"


def _relation_check(
    name: str, what: str, part: SavedRelation, file: SavedFile, refused: str
) -> FileCheck:
    copied = part.source.place == "copied"
    problem = (own_problem(file.path) if copied else refused) or file.problem
    digest = file.digest
    if problem is None and part.source.place == "copied":
        problem = _problem(file.path, {} if digest is None else {"": digest}, part)
    return FileCheck(name, what, problem, digest is not None)


def _message_check(name: str, message: Shelved) -> FileCheck:
    source, target = message.edge
    table = message.table
    problem = own_problem(table.path) or _problem(table.path, table.digests, table)
    return FileCheck(name, f"message {source}→{target}", problem, bool(table.digests))


def _problem(path: str, digests: FileDigests, saved: SavedRelation | SavedMessage) -> str | None:
    """What is wrong with the files of a table, if anything is."""
    import pyarrow as pa

    try:
        names = parts_of(path)
        if digests and names != sorted(digests):
            return "its files are not those that were written"
        rows = sum(_checked_rows(part_path(path, n), digests.get(n), saved) for n in names)
    except DamagedError as error:
        return error.reason
    except CalitreeError as error:
        return str(error)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        return reason(error)
    return None if rows == saved.rows else f"it has {rows:,} rows, and should have {saved.rows:,}"


def _checked_rows(path: str, digest: FileDigest | None, saved: SavedRelation | SavedMessage) -> int:
    """How many rows a file has; an error if it is not what was written, or has other columns."""
    from pyarrow import parquet

    if digest is not None:
        verify(path, digest)
    with parquet.ParquetFile(opened(path), page_checksum_verification=True) as file:
        _check_columns(file.schema_arrow, saved)
        return sum(batch.num_rows for batch in file.iter_batches())


def _check_columns(columns: pa.Schema, saved: SavedRelation | SavedMessage) -> None:
    schema = schema_of_text(saved.schema)
    for field in schema:
        original(columns.empty_table().column(field.name), field.type)
    if isinstance(saved, SavedRelation):
        kinds = {field.name: kind_of_arrow(field.type) for field in columns}
        if kinds != saved.kinds:
            raise ValueError("its columns are not those of the relation")
    elif columns.names != schema.names:
        raise ValueError("its columns are not those of the message")
