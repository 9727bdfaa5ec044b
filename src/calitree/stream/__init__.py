"""Streams into a relation: Spark Structured Streaming, or files that arrive in a directory.

Each batch is one update, and one version. That a batch was read is part of the tree's state and is saved
in the same manifest as its rows. A batch that is delivered again, after a crash for instance, is
recognised and skipped, so every row is in the tree exactly once.

What is remembered of Spark is the number of the last batch of each query. Of files it is the names of
those that are in the directory: what was removed from there is forgotten when the next file is read.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from calitree.errors import UpdateError
from calitree.stream.files import FileStream
from calitree.stream.intake import Intake, Stream
from calitree.stream.spark import SparkStream

__all__ = ["Intake", "Stream", "stream"]


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
