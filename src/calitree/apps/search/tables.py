"""Tables that may improve a model: where they are, what they join on, and what they would add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from calitree.apps.search.task import Task
from calitree.errors import CalitreeError, QueryError, did_you_mean
from calitree.jointree.augment import Joinable, joinable
from calitree.jointree.joins.checks import On
from calitree.storage.filesystem import expanded
from calitree.storage.listing import ending, files_of, looks_like_a_path
from calitree.types import Kind


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table that joins, and the columns of it that can be features."""

    name: str
    table: Joinable
    features: tuple[str, ...]
    unfit: tuple[str, ...] = ()
    """Why each of its other columns is none."""

    @property
    def keys(self) -> frozenset[str]:
        """The attributes that it joins on."""
        return frozenset(self.table.keys)

    @property
    def on(self) -> str:
        """Its own columns that it joins on."""
        return ", ".join(self.table.keys.values())


def keys_of(candidates: Iterable[Candidate]) -> list[frozenset[str]]:
    """The sets of attributes that they join on, each once."""
    return list(dict.fromkeys(candidate.keys for candidate in candidates))


# -- what is given ---------------------------------------------------------------------------------


def named(candidates: Any) -> dict[str, Any]:
    """The tables by name: given so, or a folder or pattern of files, or a list of paths or tables.

    Each may be a pair of a table and what it joins on.
    """
    if isinstance(candidates, Mapping):
        tables = {str(name): table for name, table in candidates.items()}
    elif isinstance(candidates, str | PathLike):
        tables = _by_name(_tables_at(fspath(candidates)))
    elif isinstance(candidates, Sequence):
        tables = _by_name(candidates)
    else:
        raise QueryError(
            "candidates are tables by name, a list of tables or paths, or a folder; got "
            f"{type(candidates).__name__}."
        )
    if not tables:
        raise QueryError("There is no candidate table to look at.")
    return tables


def _tables_at(place: str) -> list[str]:
    """A folder has a table in each of its files, and in each folder in it."""
    path = expanded(place)
    try:
        if not path.is_dir():
            files = files_of(place) if looks_like_a_path(place) or path.is_file() else None
            if not files:
                raise QueryError(f"There is no file or folder {place}.")
            return files
        entries = sorted(entry for entry in path.iterdir() if entry.name[0] not in "._")
        tables = [str(entry) for entry in entries if ending(entry.name) or entry.is_dir()]
    except OSError as error:
        raise QueryError(f"Cannot look for {place!r}: {error.strerror}.") from None
    if not tables:
        raise QueryError(f"{place} has no Parquet or CSV file.")
    return tables


def _by_name(given: Iterable[Any]) -> dict[str, Any]:
    """Files are named as they are, and other tables by their number."""
    tables: dict[str, Any] = {}
    for number, candidate in enumerate(given, 1):
        table = candidate[0] if _is_pair(candidate) else candidate
        name = f"table{number}"
        if isinstance(table, str | PathLike):
            file = Path(fspath(table)).name.removesuffix(ending(fspath(table)))
            name = "".join(c if c.isalnum() or c == "_" else "_" for c in file) or name
        taken = {other.lower() for other in tables}
        others = (f"{name}_{i}" for i in range(2, len(taken) + 3))
        tables[next(free for free in (name, *others) if free.lower() not in taken)] = candidate
    return tables


def _is_pair(given: Any) -> bool:
    """A table and what it joins on."""
    return isinstance(given, tuple) and len(given) == 2


# -- what it is ------------------------------------------------------------------------------------


def load_candidates(
    task: Task, given: Mapping[str, Any], *, on: On | None, max_levels: int
) -> tuple[list[Candidate], dict[str, str]]:
    """The tables that can be candidates, and why the others cannot, by name."""
    able, unable = [], {}
    for name, table in given.items():
        candidate = _candidate(task, name, table, on, max_levels)
        if isinstance(candidate, Candidate):
            able.append(candidate)
        else:
            unable[name] = candidate
    features = [*task.features, *(name for candidate in able for name in candidate.features)]
    for name in task.model.categorical or ():
        if name not in features:
            hint = did_you_mean(name, features)
            raise QueryError(f"{name!r} is categorical, but no feature of any table.{hint}")
    return able, unable


def _candidate(
    task: Task, name: str, given: Any, on: On | None, max_levels: int
) -> Candidate | str:
    """A table that is loaded and joins; or why it cannot be a candidate."""
    wide, categorical = task.wide, task.model.categorical or ()
    table, on = given if _is_pair(given) else (given, on)
    try:
        loaded = joinable(wide.schema, wide.engine, table, on, name)
    except CalitreeError as error:
        return str(error)
    augmented, features, unfit = wide.augment(loaded), [], []
    for column in loaded.columns:
        kind = loaded.relation.columns[column.partition(".")[2]]
        if kind.is_number or kind is Kind.BOOLEAN or column in categorical:
            features.append(column)
        elif kind is not Kind.STRING:
            unfit.append(f"{column} is {kind.phrase}, and no feature")
        elif (levels := len(augmented.query([column], relations=[name]))) <= max_levels:
            features.append(column)
        else:
            unfit.append(f"{column} is text of {levels:,} values, and no feature")
    if not features:
        why = "; ".join(unfit) or "it has no column beside its keys"
        return f"it has no feature: {why}"
    return Candidate(name, loaded, tuple(features), tuple(unfit))
