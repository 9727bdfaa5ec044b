"""Streams of files that arrive in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from calitree.calibration.state import TreeState
from calitree.dml.target import UpdateTarget
from calitree.errors import UpdateError
from calitree.storage.file_log import Entries, FileLog, Stamp
from calitree.stream.intake import Intake, Stream


class Listing:
    """The data files of a directory, each with its modification time and size.

    Within its directory a file is known by its name, for as long as it is there. In another directory it
    is the same file if its modification time and size are the same too: then the directory was moved.
    """

    def __init__(self, relation: str, directory: Path, files: Mapping[str, Stamp]) -> None:
        self.relation, self.directory, self.files = relation, directory, files
        self._is_compared = False

    def is_read(self, state: TreeState, name: str) -> bool:
        """Whether the tree has the rows of a file."""
        if self._old_key(name) in state.streams:
            return True
        log, here = self._log(state), str(self.directory)
        return log.get(here, name) is not None or any(
            log.get(directory, name) == self.files[name] for directory in log.directories
        )

    def record(self, state: TreeState, name: str) -> None:
        """Remember a file; the first time, forget those that are gone from the directory.

        Nothing is forgotten without a new file: a directory that is empty because its disk is not
        mounted looks like one from which all files were removed.
        """
        log = self._log(state)
        if not self._is_compared:
            log = log.with_entries(self._differences(state, log))
            for listed in self.files:
                state.streams.pop(self._old_key(listed), None)
        entries = {str(self.directory): {name: self.files[name]}}
        state.read_files[self.relation] = log.with_entries(entries)
        self._is_compared = True

    def _differences(self, state: TreeState, log: FileLog) -> Entries:
        """Files that came here when their directory was moved, were touched, or are gone."""
        here = str(self.directory)
        known = log.files(here)
        entries: dict[str, dict[str, Stamp | None]] = {
            directory: dict.fromkeys(log.files(directory))
            for directory in log.directories - {here}
            if self._is_gone(Path(directory))
        }
        entries[here] = {
            name: stamp
            for name, stamp in self.files.items()
            if known.get(name) != stamp and self.is_read(state, name)
        }
        for name in known.keys() - self.files.keys():
            # One that arrived after the listing may have been read by another stream.
            if not os.path.lexists(self.directory / name):
                entries[here][name] = None
        return entries

    def _log(self, state: TreeState) -> FileLog:
        return state.read_files.get(self.relation, FileLog())

    def _old_key(self, name: str) -> str:
        """What trees of formats up to 3 remember of a file, whatever directory it was in."""
        return f"file:{self.relation}:{name}"

    def _is_gone(self, directory: Path) -> bool:
        """Whether another directory was removed, or renamed to this one: it was beside it."""
        return directory.parent == self.directory.parent and not directory.is_dir()


@dataclass(frozen=True)
class FileBatch:
    """One file of a listing."""

    listing: Listing
    name: str

    def is_read(self, state: TreeState) -> bool:
        """Whether the tree has the rows of this file."""
        return self.listing.is_read(state, self.name)

    def record(self, state: TreeState) -> None:
        """Remember that it has them."""
        self.listing.record(state, self.name)


class FileStream(Stream):
    """A directory that is listed every few seconds. Each new file in it is one batch.

    Files must arrive whole: written elsewhere and moved there. Names that begin with a dot or an
    underscore are ignored.
    """

    def __init__(self, intake: Intake, directory: Path, every: float) -> None:
        if not os.path.isdir(directory):  # noqa: PTH112 - False too if it is too long to be one
            raise UpdateError(f"There is no directory {directory} to take files from.")
        self.intake, self.directory, self.every = intake, directory.resolve(), every
        self._error: BaseException | None = None
        self._stop, self._wake_up, self._ended = Event(), Event(), Event()
        self._thread = Thread(target=self._run, name="calitree-stream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._take_all(self._stop.is_set)
                self._wake_up.wait(self.every)
                self._wake_up.clear()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def _take_all(self, is_stopped: Callable[[], bool]) -> None:
        from calitree.storage.frames import arrow_table

        relation, state = self.intake.relation, self.intake.branch.state
        listing = Listing(relation, self.directory, self._files())
        for name in sorted(listing.files, key=lambda name: (listing.files[name][0], name)):
            if is_stopped():
                return
            batch = FileBatch(listing, name)
            if not batch.is_read(state):
                types = UpdateTarget.of(self.intake.branch.head, relation).types
                rows = arrow_table(relation, str(self.directory / name), types)
                self.intake.take(batch, rows)

    def _files(self) -> dict[str, Stamp]:
        """The data files, each with its modification time and size."""
        from calitree.storage.listing import ending

        files = {}
        for path in self.directory.iterdir():
            if ending(path.name) and not path.name.startswith((".", "_")):
                with suppress(FileNotFoundError):  # removed just now
                    status = path.stat()
                    files[path.name] = status.st_mtime_ns, status.st_size
        return files

    @property
    def is_active(self) -> bool:
        """Whether the directory is still listed."""
        return not self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream is stopped, or a file cannot be read."""
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def drain(self) -> None:
        """Read all files that are in the directory."""
        if self._error is not None:
            raise self._error
        self._take_all(lambda: False)

    def stop(self) -> None:
        """Stop listing, and wait for the file that is being read."""
        self._stop.set()
        self._wake_up.set()
        self._thread.join()
