"""What is in the directory of a saved tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from calitree.saved.directory import Directory
from calitree.saved.manifest import numbers, read
from calitree.storage.table_format import SavedRelation


@dataclass(frozen=True)
class RelationStatus:
    """A relation of a saved tree: where its rows are, and why they cannot be read if they cannot."""

    name: str
    rows: int
    where: str
    problem: str | None
    changes: int = 0
    """How many rows have come and gone since it was written as one."""


@dataclass(frozen=True)
class Status:
    """What is in the directory of a saved tree; `print` tells."""

    path: str
    version: int
    versions: tuple[int, ...]
    created: str
    calitree: str
    engine: str
    measures: Mapping[str, str]
    relations: tuple[RelationStatus, ...]
    messages: int
    nbytes: int

    def __str__(self) -> str:
        older = f", one of {len(self.versions)}" if len(self.versions) > 1 else ""
        lines = [
            f"{self.path}: version {self.version}{older}, saved {self.created} from the "
            f"{self.engine} engine by calitree {self.calitree}",
            f"{self.messages} messages, {self.nbytes:,} bytes in memory",
            *(f"measure  {name} = {text}" for name, text in self.measures.items()),
        ]
        for each in self.relations:
            problem = f"; missing: {each.problem}" if each.problem else ""
            updates = f", {each.changes:,} rows of changes beside" if each.changes else ""
            lines.append(
                f"relation {each.name}, {each.rows:,} rows, {each.where}{updates}{problem}"
            )
        return "\n".join(lines)


def status(path: str | PathLike[str], version: int | None = None) -> Status:
    """What a directory holds, and whether the relations are where they were."""
    directory = Directory(path)
    manifest = read(directory, version)
    measures = {
        name: given if isinstance(given, str) else f"{given['semiring']['name']} of its own"
        for name, given in manifest.tree["measures"].items()
    }
    return Status(
        str(directory),
        manifest.number,
        tuple(numbers(directory)),
        manifest.created,
        manifest.calitree,
        manifest.tree["engine"],
        measures,
        tuple(map(_relation_status, manifest.relations)),
        len(manifest.messages),
        sum(each.table.nbytes for each in manifest.messages),
    )


def _relation_status(relation: SavedRelation) -> RelationStatus:
    source, problem = relation.source, None
    if source.place == "copied":
        where = "copied"
    elif source.place == "files":
        count = len(source.files)
        where = f"in {source.files[0].path}" if count == 1 else f"in {count} files"
    elif source.place == "table":
        where = f"in Spark's table {source.table}"
    else:
        where, problem = "not saved", source.reason
    if problem is None:
        parts = [relation.part(rows) for each in relation.changes for rows in each.parts]
        files = [file for each in (relation, *parts) for file in each.source.files]
        problem = next((each.problem for each in files if each.problem), None)
    changes = sum(each.touched for each in relation.changes)
    return RelationStatus(relation.name, relation.current_rows, where, problem, changes)
