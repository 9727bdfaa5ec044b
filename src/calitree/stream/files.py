"""Streams of files that arrive in a directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from calitree.calibration.state import TreeState
from calitree.errors import UpdateError
from calitree.stream.intake import Intake, Stream


@dataclass(frozen=True)
class FileBatch:
    """One file of a listing of a directory.

    Within its directory a file is known by its name, for as long as it is there. In another directory it
    is the same file if its modification time and size are the same too: then the directory was moved.
    """

    relation: str
    directory: Path
    name: str
    listing: dict[str, tuple[int, int]]
    """All data files of the directory, each with its modification time and size."""

    def is_read(self, state: TreeState) -> bool:
        """Whether the tree has the rows of this file."""
        return self._is_read(state, self.name)

    def _is_read(self, state: TreeState, name: str) -> bool:
        if self._old_key(name) in state.streams:
            return True
        return any(
            name in files and (path == str(self.directory) or files[name] == self.listing[name])
            for path, files in state.read_files.get(self.relation, {}).items()
        )

    def _old_key(self, name: str) -> str:
        """What trees of formats up to 3 remember of a file, whatever directory it was in."""
        return f"file:{self.relation}:{name}"

    def record(self, state: TreeState) -> None:
        """Remember this file, and forget those that are gone from the directory.

        Nothing is forgotten without a new file: a directory that is empty because its disk is not
        mounted looks like one from which all files were removed.
        """
        known, here = state.read_files.get(self.relation, {}), str(self.directory)
        files = {
            name: stamp
            for name, stamp in self.listing.items()
            if name == self.name or self._is_read(state, name)
        }
        for name, stamp in known.get(here, {}).items():
            # One that arrived after the listing may have been read by another stream.
            if name not in files and os.path.lexists(self.directory / name):
                files[name] = stamp
        others = {
            path: files
            for path, files in known.items()
            if path != here and not self._is_gone(Path(path))
        }
        state.read_files[self.relation] = {**others, here: files}
        for name in self.listing:
            state.streams.pop(self._old_key(name), None)

    def _is_gone(self, directory: Path) -> bool:
        """Whether another directory was removed, or renamed to this one: it was beside it."""
        return directory.parent == self.directory.parent and not directory.is_dir()


class FileStream(Stream):
    """A directory that is listed every few seconds. Each new file in it is one batch.

    Files must arrive whole: written elsewhere and moved there. Names that begin with a dot or an
    underscore are ignored.
    """

    def __init__(self, intake: Intake, directory: Path, every: float) -> None:
        if not directory.is_dir():
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
        listing = self._listing()
        for name in sorted(listing, key=lambda name: (listing[name][0], name)):
            if is_stopped():
                return
            batch = FileBatch(relation, self.directory, name, listing)
            if not batch.is_read(state):
                self.intake.take(batch, arrow_table(relation, str(self.directory / name)))

    def _listing(self) -> dict[str, tuple[int, int]]:
        """The data files, each with its modification time and size."""
        from calitree.storage.listing import ending

        listing = {}
        for path in self.directory.iterdir():
            if ending(path.name) and not path.name.startswith((".", "_")):
                with suppress(FileNotFoundError):  # removed just now
                    status = path.stat()
                    listing[path.name] = status.st_mtime_ns, status.st_size
        return listing

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
