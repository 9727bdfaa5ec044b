"""Rows that keep coming: from Spark Structured Streaming, or from files put into a directory.

Each batch is one update, and one version. If the tree is saved, the batch's number is committed together
with its rows, so that a batch that comes again after a crash is known and left out: every row is in the
tree exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, Protocol, Self

from calitree.calibration.branch import Branch
from calitree.dml import update
from calitree.errors import UpdateError
from calitree.saved.manifest import Saves
from calitree.saved.writer import save

COMES = (1, True, "+", "i", "insert", "c", "create", "r", "read")
GOES = (-1, 0, False, "-", "d", "delete")


class Stream(Protocol):
    """A stream on its way into a tree."""

    @property
    def is_active(self) -> bool:
        """Whether it still takes rows."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, and raise what ended it; False if it has not in so many seconds."""

    def drain(self) -> None:
        """Wait until all rows that are there by now are in the tree."""

    def stop(self) -> None:
        """End it. The batch that is on its way is finished."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None:
        """End it."""


class Intake:
    """What is done with each batch of one stream."""

    def __init__(self, branch: Branch, saves: Saves, relation: str, change: str | None) -> None:
        branch.check_present()
        self.branch, self.saves, self.change = branch, saves, change
        self.relation = branch.head.schema.relation(relation).name

    def has(self, stream: str, batch: int) -> bool:
        """Whether a batch is in the tree already."""
        return batch <= self.branch.state.streams.get(stream, -1)

    def take(self, stream: str, batch: int, rows: Any) -> None:
        """Put a batch into the tree, unless it is there already."""
        with self.branch.lock:
            if self.has(stream, batch):
                return
            come, go = self._parted(rows)
            update(self.branch, self.relation, insert=come, delete=go)
            self.branch.state.streams[stream] = batch
        if self.saves.last is not None:
            save(self.branch, self.saves, None)

    def _parted(self, rows: Any) -> tuple[Any, Any]:
        """The rows that come and those that go."""
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
        words = [_word(each) for each in table.column(self.change).to_pylist()]
        for word in words:
            if word not in COMES and word not in GOES:
                raise UpdateError(
                    f"{self.change} = {word!r} does not tell whether a row of {self.relation} comes "
                    "or goes; write 1 and -1, or 'insert' and 'delete'."
                )
        table = table.drop_columns([self.change])
        come = table.filter(pa.array([word in COMES for word in words]))
        go = table.filter(pa.array([word in GOES for word in words]))
        return come, go if go.num_rows else None


def _word(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


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


class SparkStream:
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
        self._named = Event()
        self._error: BaseException | None = None

        def batch(frame: Any, number: int) -> None:
            self._named.wait()
            try:
                # The frame lives in a session of its own, and only for as long as this takes.
                intake.take(f"spark:{self.query.id}", number, frame.toArrow())
            except BaseException as error:
                self._error = error
                raise

        writer = source.writeStream.foreachBatch(batch).option(
            "checkpointLocation", str(checkpoint)
        )
        if every is not None:
            writer = writer.trigger(processingTime=f"{every} seconds")
        self.query = writer.start()
        self._named.set()

    def _checkpoint(self, intake: Intake) -> str:
        """Beside the saved tree, so that both are found again; else for as long as this lasts."""
        last = intake.saves.last
        if last is not None:
            return f"{last.directory}/streams/{intake.relation}"
        self._temporary = TemporaryDirectory(prefix="calitree-stream-")
        return self._temporary.name

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    def wait(self, timeout: float | None = None) -> bool:
        with self._telling():
            ended = self.query.awaitTermination(timeout)
        return ended is None or bool(ended)

    def drain(self) -> None:
        with self._telling():
            self.query.processAllAvailable()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Raise what went wrong with a batch, instead of what Spark says of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def stop(self) -> None:
        self.query.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class FileStream:
    """A directory that is looked at every few seconds. Each file in it is one batch.

    Files must come whole: written elsewhere and moved there. Names that begin with a dot or an
    underscore are left alone.
    """

    def __init__(self, intake: Intake, directory: Path, every: float) -> None:
        if not directory.is_dir():
            raise UpdateError(f"There is no directory {directory} to take files from.")
        self.intake, self.directory, self.every = intake, directory, every
        self._error: BaseException | None = None
        self._stop, self._look, self._ended = Event(), Event(), Event()
        self._thread = Thread(target=self._run, name="calitree-stream", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._take_all(self._stop.is_set)
                self._look.wait(self.every)
                self._look.clear()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def _take_all(self, enough: Callable[[], bool]) -> None:
        from calitree.storage.frames import arrow_table
        from calitree.storage.listing import ending

        for path in sorted(self.directory.iterdir(), key=_age):
            if enough():
                return
            if path.name.startswith((".", "_")) or not ending(path.name):
                continue
            name = f"file:{self.intake.relation}:{path.name}"
            if not self.intake.has(name, 0):
                self.intake.take(name, 0, arrow_table(self.intake.relation, str(path)))

    @property
    def is_active(self) -> bool:
        return not self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        ended = self._ended.wait(timeout)
        if self._error is not None:
            raise self._error
        return ended

    def drain(self) -> None:
        if self._error is not None:
            raise self._error
        self._take_all(lambda: False)

    def stop(self) -> None:
        self._stop.set()
        self._look.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name
