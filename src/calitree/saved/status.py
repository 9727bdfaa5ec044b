"""What is in the directory of a saved tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from calitree.calibration.message import Shelved
from calitree.query.custom.aggregate import CustomMeasure
from calitree.saved.directory import Directory
from calitree.saved.guard.checks import check
from calitree.saved.guard.trust import Allow, AllowedPlaces
from calitree.saved.manifest import numbers, read
from calitree.storage.filesystem import own_problem
from calitree.storage.table_format import SavedFile, SavedRelation, part_path


@dataclass(frozen=True)
class RelationStatus:
    """A relation of a saved tree, and whether its rows can be read.

    Attributes:
        name: Its name in the join graph.
        rows: How many rows it has.
        where: Where they are, in words.
        problem: Why they cannot be read; None if they can.
        changes: How many rows were inserted and deleted since it was written as a whole.

    Example:
        >>> wide.save("of_relations")
        1
        >>> from calitree import saved
        >>> [(r.name, r.rows, r.problem) for r in saved.status("of_relations").relations]
        [('sales', 3, None), ('stores', 2, None)]
    """

    name: str
    rows: int
    where: str
    problem: str | None
    changes: int = 0


@dataclass(frozen=True)
class Status:
    """What is in the directory of a saved tree, as `calitree.saved.status` reports it.

    Attributes:
        path: The directory.
        version: The number of this version.
        versions: The numbers of all versions in the directory.
        created: When this one was saved, in UTC.
        calitree: The version of calitree that saved it.
        engine: The name of the engine that saved it.
        measures: The measures by name, as SQL.
        relations: The relations.
        messages: How many messages are saved.
        nbytes: What they take in memory, in bytes.
        damaged: Files of messages that are not there, or have another size than was written. These
            messages are computed anew when they are needed. `fsck` compares also what is in files.

    Example:
        >>> wide.save("described")
        1
        >>> from calitree import saved
        >>> saved.status("described").measures
        {'revenue': 'sum(price)'}
    """

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
    damaged: tuple[str, ...] = ()

    def __str__(self) -> str:
        older = f", one of {len(self.versions)}" if len(self.versions) > 1 else ""
        lines = [
            f"{self.path}: version {self.version}{older}, saved {self.created} from the "
            f"{self.engine} engine by calitree {self.calitree}",
            f"{self.messages} messages, {self.nbytes:,} bytes in memory",
            *(f"damaged  {problem}; to be computed anew" for problem in self.damaged),
            *(f"measure  {name} = {text}" for name, text in self.measures.items()),
        ]
        for relation in self.relations:
            problem = f"; missing: {relation.problem}" if relation.problem else ""
            changes = f", {relation.changes:,} rows of changes beside" if relation.changes else ""
            lines.append(
                f"relation {relation.name}, {relation.rows:,} rows, {relation.where}{changes}{problem}"
            )
        return "\n".join(lines)


def status(
    path: str | PathLike[str], version: int | None = None, *, allow: Allow | None = None
) -> Status:
    """Report what a directory holds, and whether the rows of the relations can be read.

    Args:
        path: The directory of a saved tree, or its URL.
        version: The number of a saved version; the newest without it.
        allow: What `calitree.open` takes: places outside of the tree that may be looked at.

    Returns:
        The report; `print` shows it.

    Raises:
        SavedError: If there is no saved tree, or not this version of it.

    Example:
        >>> from calitree.saved import status
        >>> wide.save("tree")
        1
        >>> status("tree").relations[1]
        RelationStatus(name='stores', rows=2, where='copied', problem=None, changes=0)
    """
    directory = Directory(path)
    manifest = read(directory, version)
    check(manifest, str(directory))
    allowed = AllowedPlaces(allow)
    return Status(
        path=str(directory),
        version=manifest.number,
        versions=tuple(numbers(directory)),
        created=manifest.created,
        calitree=manifest.calitree,
        engine=manifest.tree.engine,
        measures={
            name: f"{given.semiring.name} of its own"
            if isinstance(given, CustomMeasure)
            else str(given)
            for name, given in manifest.tree.measures.items()
        },
        relations=tuple(_relation_status(r, allowed.readable(r)) for r in manifest.relations),
        messages=len(manifest.messages),
        nbytes=sum(message.table.nbytes for message in manifest.messages),
        damaged=tuple(filter(None, map(_message_problem, manifest.messages))),
    )


def _message_problem(message: Shelved) -> str | None:
    path, digests = message.table.path, message.table.digests
    problem = own_problem(path) if message.table.columns else None
    files = (SavedFile(part_path(path, name), 0, (), digests[name]) for name in digests)
    return problem or next((file.problem for file in files if file.problem), None)


def _relation_status(relation: SavedRelation, readable: SavedRelation) -> RelationStatus:
    source, problem = relation.source, None
    if source.place == "copied":
        where = "copied"
    elif source.place == "files":
        count = len(source.files)
        where = f"in {source.files[0].path}" if count == 1 else f"in {count} files"
    elif source.place == "table":
        where = f"in Spark's table {source.table}"
    else:
        where = "not saved"
    if readable.source.place == "nowhere":
        problem = readable.source.reason
    if problem is None:
        parts = [relation.part(rows) for change in relation.changes for rows in change.parts]
        problems = (part.source.problem for part in (relation, *parts))
        problem = next(filter(None, problems), None)
    changes = sum(change.touched for change in relation.changes)
    return RelationStatus(relation.name, relation.current_rows, where, problem, changes)
