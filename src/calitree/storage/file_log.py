"""Which files of some directories were read: a log-structured merge tree of their names.

Entries are added to a few `recent` ones. When these are too many they become a segment, which never
changes, so it is written to disk once. A segment is merged with the one before unless that is twice as
large: n files are in O(log n) segments, and each was written O(log n) times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from calitree.cache import cached_property

Stamp: TypeAlias = tuple[int, int]
"""The modification time and the size of a file."""
Entries: TypeAlias = Mapping[str, Mapping[str, Stamp | None]]
"""For each directory, names of files. None stands for a file that is in an older segment, and forgotten."""

MAX_RECENT = 64
"""The entries of a log that are in no segment."""


class Segment:
    """Entries that never change. Those of a saved tree are loaded when they are first needed."""

    def __init__(self, load: Callable[[], Entries]) -> None:
        self._load = load

    @cached_property
    def entries(self) -> Entries:
        """The entries, by directory."""
        return self._load()


@dataclass(frozen=True)
class FileLog:
    """The files that were read. It is replaced, not changed."""

    segments: tuple[Segment, ...] = ()
    """Oldest first: what a newer one says of a file holds."""
    recent: Entries = field(default_factory=dict)

    def get(self, directory: str, name: str) -> Stamp | None:
        """The stamp of a file as it was when it was read; None if it was not."""
        for entries in self._newest_first:
            files = entries.get(directory, {})
            if name in files:
                return files[name]
        return None

    @cached_property
    def _newest_first(self) -> tuple[Entries, ...]:
        return self.recent, *(segment.entries for segment in reversed(self.segments))

    @cached_property
    def directories(self) -> frozenset[str]:
        """The directories of all entries."""
        return frozenset().union(*self._newest_first)

    def files(self, directory: str) -> dict[str, Stamp]:
        """The files of a directory that were read."""
        merged: dict[str, Stamp | None] = {}
        for entries in reversed(self._newest_first):
            merged |= entries.get(directory, {})
        return {name: stamp for name, stamp in merged.items() if stamp is not None}

    def with_entries(self, entries: Entries) -> FileLog:
        """Remember these files, and forget those that have None."""
        segments = list(self.segments)
        entries = _merged(segments, self.recent, entries)
        if _size(entries) > MAX_RECENT:
            while segments and _size(segments[-1].entries) < 2 * _size(entries):
                older = segments.pop()
                entries = _merged(segments, older.entries, entries)
        if _size(entries) <= MAX_RECENT:
            return FileLog(tuple(segments), entries)
        return FileLog((*segments, Segment(lambda: entries)))


def _merged(segments: Sequence[Segment], older: Entries, newer: Entries) -> Entries:
    """Both, on top of these segments: a file that is in none of these can be forgotten without a trace."""
    merged = {}
    for directory in {**older, **newer}:
        files = {**older.get(directory, {}), **newer.get(directory, {})}
        merged[directory] = {
            name: stamp
            for name, stamp in files.items()
            if stamp is not None
            or any(name in segment.entries.get(directory, {}) for segment in segments)
        }
    return {directory: files for directory, files in merged.items() if files}


def _size(entries: Entries) -> int:
    return sum(map(len, entries.values()))
