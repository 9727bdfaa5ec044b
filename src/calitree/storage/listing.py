"""The files that a path, glob, directory or list of them stands for, on this machine or at a URL.

In a glob `*` and `?` stand for any part of one name and `**` for any directories. A `?` that is
followed by a word and `=` begins the query of a URL instead.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from calitree.errors import SchemaError
from calitree.storage.filesystem import (
    Url,
    check_path,
    expanded,
    filesystem_of,
    is_url,
    path_of,
    reason,
    shown,
    url_of,
)

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")


def files_of(source: Any) -> list[str] | None:
    """The files that a path, glob, directory or list of them stands for; None for anything else.

    A single word may be the name of a Spark table, so it is a path only if there is such a file.
    """
    if isinstance(source, list | tuple):
        if source and all(isinstance(path, str | os.PathLike) for path in source):
            return [file for path in source for file in _matching(os.fspath(path))]
        return None
    if isinstance(source, os.PathLike):
        return _matching(os.fspath(source))
    if isinstance(source, str) and (looks_like_a_path(source) or _is_there(source)):
        return _matching(source)
    return None


def looks_like_a_path(text: str) -> bool:
    """Whether a text is a path or a glob, not the name of a table."""
    return bool(ending(text)) or any(mark in text for mark in "*?[/\\")


def ending(file: str) -> str:
    """The suffix that says what is in a file; "" if it is none that we know."""
    lowered = path_of(file).lower()
    return next((end for end in (*CSV, *PARQUET) if lowered.endswith(end)), "")


def _is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - False too if it is too long to be a path


def _matching(pattern: str) -> list[str]:
    return _at_url(pattern) if is_url(pattern) else _here(pattern)


def _here(pattern: str) -> list[str]:
    check_path(pattern)
    path = expanded(pattern)
    try:
        if path.is_dir():
            names = [str(e.relative_to(path)) for e in path.rglob("*") if e.is_file()]
            return _checked(str(path / name) for name in _data(names, str(path.absolute())))
        # Path.glob takes no absolute pattern.
        matches = glob.glob(str(path), recursive=True)  # noqa: PTH207
        files = [str(path)] if path.is_file() else sorted(matches)
    except OSError as error:  # a name is too long, or a directory is not ours to read
        raise SchemaError(f"Cannot look for {pattern!r}: {error.strerror}.") from None
    if not files:
        raise SchemaError(f"No file matches {pattern!r} (looked for {path.absolute()}).")
    return _checked(files)


def _checked(files: Iterable[str]) -> list[str]:
    files = list(files)
    for file in files:
        check_path(file)
    return files


def _at_url(pattern: str) -> list[str]:
    from pyarrow import fs

    directory, names = _fixed(url_of(pattern))
    system, there = filesystem_of(directory.text)
    try:
        if not names:
            info = system.get_file_info(there)
            if info.type is fs.FileType.File:
                return [pattern]
            if info.type is fs.FileType.NotFound:
                raise SchemaError(f"There is no file {shown(pattern)}.")
        recursive = len(names) != 1 or "**" in names
        infos = system.get_file_info(fs.FileSelector(there, recursive=recursive))
    except FileNotFoundError:
        infos = []
    except (OSError, pa.ArrowException, NotImplementedError) as error:
        raise SchemaError(f"Cannot list {shown(pattern)}: {reason(error)}.") from error
    start = there.rstrip("/") + "/"
    below = [info.path.removeprefix(start) for info in infos if info.type is fs.FileType.File]
    if names:
        matches = sorted(path for path in below if _fits(path.split("/"), names))
        if not matches:
            raise SchemaError(f"No file matches {shown(pattern)}.")
    else:
        matches = _data(below, shown(pattern))
    return [directory.below(path) for path in matches]


def _fixed(url: Url) -> tuple[Url, list[str]]:
    """The directory that a pattern is in, and the pattern of each name below it, decoded."""
    path = f"{url.host}{url.path}"
    mark = re.search(r"[*?[]", path)
    if mark is None:
        return url, []
    directory, _, pattern = path[: mark.start()].rpartition("/")
    names = (pattern + path[mark.start() :]).split("/")
    host = url.host if url.host and directory else ""
    fixed = url._replace(host=host, path=directory.removeprefix(host))
    return fixed, [unquote(name) if url.is_arrow else name for name in names]


def _fits(parts: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a path is one that a glob stands for; only a dot matches a dot that hides a file."""
    if not names:
        return not parts
    if names[0] == "**" and _fits(parts, names[1:]):
        return True
    if not parts or (parts[0].startswith(".") and not names[0].startswith(".")):
        return False
    if names[0] == "**":
        return _fits(parts[1:], names)
    return fnmatchcase(parts[0], names[0]) and _fits(parts[1:], names[1:])


def _data(names: Sequence[str], directory: str) -> list[str]:
    """Without the markers and logs that other programs leave beside the data."""
    visible = [
        name for name in names if not any(part.startswith(("_", ".")) for part in Path(name).parts)
    ]
    ordered = sorted(visible, key=lambda name: Path(name).parts)
    if not ordered:
        raise SchemaError(f"There is no Parquet or CSV file in {directory}.")
    return [name for name in ordered if ending(name)] or ordered[:1]
