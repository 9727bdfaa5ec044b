"""Streams into a relation: Spark Structured Streaming, or files that arrive in a directory.

Each batch is one update, and one version. That a batch was read is part of the tree's state and is saved
in the same manifest as its rows. A batch that is delivered again, after a crash for instance, is
recognised and skipped, so every row is in the tree exactly once.

What is remembered of Spark is the number of the last batch of each query. Of files it is the names of
those that are in the directory: what was removed from there is forgotten when the next file is read.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Protocol, Self

from calitree.calibration.branch import Branch
from calitree.calibration.state import TreeState
from calitree.dml import update
from calitree.errors import UpdateError
from calitree.saved.location import Saves
from calitree.saved.writer import save

INSERT = (1, True, "+", "i", "insert", "c", "create", "r", "read")
DELETE = (-1, 0, False, "-", "d", "delete")


class Stream(ABC):
    """A running stream into a relation, as `WideTable.stream` starts it.

    As a context manager it is stopped at the end of the block.

    Example:
        >>> from pathlib import Path
        >>> Path("incoming").mkdir()
        >>> with wide.stream("sales", "incoming") as stream:
        ...     _ = Path("incoming/monday.csv").write_text("store,price\\n2,7\\n")
        ...     stream.drain()
        >>> wide.query().rows()
        [{'revenue': 42}]
    """

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether it still takes rows."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends.

        Args:
            timeout: The seconds to wait at most; without it there is no limit.

        Returns:
            Whether it has ended.

        Raises:
            Exception: The error that ended the stream, if one did.

        Example:
            >>> with wide.stream("sales", ".") as stream:
            ...     stream.wait(timeout=0.1)
            False
        """

    @abstractmethod
    def drain(self) -> None:
        """Wait until all rows that have arrived by now are in the tree.

        Raises:
            Exception: The error that ended the stream, if one did.

        Example:
            >>> with wide.stream("sales", ".") as stream:
            ...     stream.drain()
            >>> wide.version
            0
        """

    @abstractmethod
    def stop(self) -> None:
        """End the stream; a batch that is being read is finished first.

        Example:
            >>> stream = wide.stream("sales", ".")
            >>> stream.stop()
            >>> stream.is_active
            False
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Batch(Protocol):
    """The identity of a batch, by which it is recognised when it is delivered again."""

    def is_read(self, state: TreeState) -> bool:
        """Whether the tree has the rows of this batch already."""

    def record(self, state: TreeState) -> None:
        """Remember that the tree has them."""


class Intake:
    """Puts the batches of one stream into a relation. `change` names the column that says insert or delete."""

    def __init__(self, branch: Branch, saves: Saves, relation: str, change: str | None) -> None:
        branch.check_present()
        self.branch, self.saves, self.change = branch, saves, change
        self.relation = branch.head.schema.relation(relation).name

    def take(self, batch: Batch, rows: Any) -> None:
        """Update the relation and save the tree, unless the batch was read before."""
        with self.branch.lock:
            if batch.is_read(self.branch.state):
                return
            inserted, deleted = self._by_change(rows)
            update(self.branch, self.relation, insert=inserted, delete=deleted)
            batch.record(self.branch.state)
        if self.saves.last is not None:
            save(self.branch, self.saves, None)

    def _by_change(self, rows: Any) -> tuple[Any, Any]:
        """The rows to insert and those to delete."""
        if self.change is None:
            return rows, None
        import pyarrow as pa

        from calitree.storage.frames import arrow_table

        table = arrow_table(self.relation, rows)
        if self.change not in table.column_names:
            raise UpdateError(
                f"The stream into {self.relation} has no column {self.change!r} that tells which "
                f"rows come and which go; it has {', '.join(table.column_names)}."
            )
        values = table.column(self.change).to_pylist()
        changes = [value.lower() if isinstance(value, str) else value for value in values]
        for change in changes:
            if change not in INSERT and change not in DELETE:
                raise UpdateError(
                    f"{self.change} = {change!r} does not tell whether a row of {self.relation} comes "
                    "or goes; write 1 and -1, or 'insert' and 'delete'."
                )
        table = table.drop_columns([self.change])
        inserted = table.filter(pa.array([change in INSERT for change in changes]))
        deleted = table.filter(pa.array([change in DELETE for change in changes]))
        return inserted, deleted if deleted.num_rows else None


def stream(
    intake: Intake, source: Any, checkpoint: str | PathLike[str] | None, every: float | None
) -> Stream:
    """Start a stream; see `WideTable.stream`."""
    if every is not None and every < 0:
        raise UpdateError(f"every is a number of seconds; got {every!r}.")
    if isinstance(source, str | PathLike):
        return FileStream(intake, Path(source), 1.0 if every is None else every)
    if getattr(source, "isStreaming", False):
        return SparkStream(intake, source, checkpoint, every)
    raise UpdateError(
        "A stream is a streaming Spark frame (spark.readStream…) or a directory that files are put "
        f"into; got {type(source).__name__}. Rows that are there already are for update()."
    )


# -- Spark ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SparkBatch:
    """A batch of a query of Structured Streaming; Spark numbers them, and repeats none but the last."""

    query: str
    number: int

    def is_read(self, state: TreeState) -> bool:
        """Whether this batch, or one after it, is in the tree."""
        return self.number <= state.streams.get(self.query, -1)

    def record(self, state: TreeState) -> None:
        """Remember the number."""
        state.streams[self.query] = self.number


class SparkStream(Stream):
    """A query of Structured Streaming; `query` is Spark's."""

    def __init__(
        self,
        intake: Intake,
        source: Any,
        checkpoint: str | PathLike[str] | None,
        every: float | None,
    ) -> None:
        if type(source).__module__.startswith("pyspark.sql.connect"):
            raise UpdateError(
                "Over Spark Connect batches are handled at the server, where this tree is not. "
                "Stream from a classic Spark session."
            )
        self._temporary: TemporaryDirectory[str] | None = None
        if checkpoint is None:
            checkpoint = self._checkpoint(intake)
        self._started = Event()  # until then nobody knows the id of the query
        self._error: BaseException | None = None

        def take(frame: Any, number: int) -> None:
            self._started.wait()
            try:
                # The frame lives in a session of its own, and only for as long as this takes.
                intake.take(SparkBatch(f"spark:{self.query.id}", number), frame.toArrow())
            except BaseException as error:
                self._error = error
                raise

        writer = source.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
        if every is not None:
            writer = writer.trigger(processingTime=f"{every} seconds")
        self.query = writer.start()
        self._started.set()

    def _checkpoint(self, intake: Intake) -> str:
        """Beside the saved tree, so that both are there after a restart; else a temporary one."""
        last = intake.saves.last
        if last is not None:
            return f"{last.directory}/streams/{intake.relation}"
        self._temporary = TemporaryDirectory(prefix="calitree-stream-")
        return self._temporary.name

    @property
    def is_active(self) -> bool:
        """Whether Spark still runs the query."""
        return bool(self.query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until Spark ends the query."""
        with self._own_errors():
            ended = self.query.awaitTermination(timeout)
        return ended is None or bool(ended)

    def drain(self) -> None:
        """Wait until Spark has processed all that is available."""
        with self._own_errors():
            self.query.processAllAvailable()

    @contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Raise the error of a batch itself, not Spark's wrapping of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def stop(self) -> None:
        """Stop the query, and delete a temporary checkpoint."""
        self.query.stop()
        if self._temporary is not None:
            self._temporary.cleanup()


# -- files ----------------------------------------------------------------------------------------


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
