"""Streams of Spark Structured Streaming."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from threading import Event
from typing import Any

from calitree.calibration.state import TreeState
from calitree.errors import UpdateError
from calitree.stream.intake import Intake, Stream
from calitree.user_cache import temporary_directory


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
        self._temporary: Path | None = None
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
        self._temporary = temporary_directory("stream")
        return str(self._temporary)

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
            shutil.rmtree(self._temporary, ignore_errors=True)
