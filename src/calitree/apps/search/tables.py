"""Tables that may improve a model: where they are, what they join on, and what they would add."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from calitree.errors import CalitreeError, QueryError
from calitree.jointree.augment import Joinable, joinable
from calitree.jointree.joins import On
from calitree.types import Kind
from calitree.wide_table import WideTable


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
        return frozenset(self.table.keys)

    @property
    def on(self) -> str:
        """What it joins on, in its own words."""
        return ", ".join(self.table.keys.values())


def keys_of(candidates: Iterable[Candidate]) -> list[frozenset[str]]:
    """The sets of attributes that they join on, each once."""
    return list(dict.fromkeys(each.keys for each in candidates))


# -- what is given ---------------------------------------------------------------------------------


def named(candidates: Any) -> dict[str, Any]:
    """The tables by name: given so, or a folder or pattern of files, or a list of paths or tables. Each
    may be a pair: of it, and what it joins on.
    """
    if isinstance(candidates, Mapping):
        found = {str(name): table for name, table in candidates.items()}
    elif isinstance(candidates, str | PathLike):
        found = _by_name(_tables_at(fspath(candidates)))
    elif isinstance(candidates, Sequence):
        found = _by_name(candidates)
    else:
        raise QueryError(
            "candidates are tables by name, a list of tables or paths, or a folder; got "
            f"{type(candidates).__name__}."
        )
    if not found:
        raise QueryError("There is no candidate table to look at.")
    return found


def _tables_at(place: str) -> list[str]:
    """A folder has a table in each of its files, and in each folder in it."""
    from calitree.storage.listing import ending, files_of, looks_like_a_path

    path = Path(place).expanduser()
    if not path.is_dir():
        files = files_of(place) if looks_like_a_path(place) or path.is_file() else None
        if not files:
            raise QueryError(f"There is no file or folder {place}.")
        return files
    inside = sorted(each for each in path.iterdir() if not each.name.startswith((".", "_")))
    found = [str(each) for each in inside if ending(each.name) or each.is_dir()]
    if not found:
        raise QueryError(f"{place} has no Parquet or CSV file.")
    return found


def _by_name(given: Iterable[Any]) -> dict[str, Any]:
    """Files are called as they are, and others by their number."""
    from calitree.storage.listing import ending

    found: dict[str, Any] = {}
    for number, each in enumerate(given, 1):
        table = each[0] if _is_pair(each) else each
        name = f"table{number}"
        if isinstance(table, str | PathLike):
            name = _word(Path(fspath(table)).name.removesuffix(ending(fspath(table)))) or name
        taken = {other.lower() for other in found}
        others = (f"{name}_{i}" for i in range(2, len(taken) + 3))
        found[next(free for free in (name, *others) if free.lower() not in taken)] = each
    return found


def _word(text: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in text)


def _is_pair(given: Any) -> bool:
    """A table and what it joins on."""
    return isinstance(given, tuple) and len(given) == 2


# -- what it is ------------------------------------------------------------------------------------


def candidate(
    wide: WideTable,
    name: str,
    given: Any,
    on: On | None,
    categorical: Collection[str],
    max_levels: int,
) -> Candidate | str:
    """A table that is loaded and joins; or why it cannot be a candidate."""
    table, own = given if _is_pair(given) else (given, on)
    try:
        found = joinable(wide.schema, wide.engine, table, own, name)
    except CalitreeError as error:
        return str(error)
    alone, features, unfit = wide.augment(found), [], []
    for column in found.columns:
        kind = found.relation.columns[column.partition(".")[2]]
        if kind.is_number or kind is Kind.BOOLEAN or column in categorical:
            features.append(column)
        elif kind is not Kind.STRING:
            unfit.append(f"{column} is {kind.phrase}, and no feature")
        elif (levels := len(alone.query([column], relations=[name]))) <= max_levels:
            features.append(column)
        else:
            unfit.append(f"{column} is text of {levels:,} values, and no feature")
    if not features:
        why = "; ".join(unfit) or "it has no column beside its keys"
        return f"it has no feature: {why}"
    return Candidate(name, found, tuple(features), tuple(unfit))
