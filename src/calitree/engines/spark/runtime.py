"""What tables and queries of the Spark engine run on: a session, its jobs, and views that stand for tables."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from calitree.engines.api.protocol import Watch
from calitree.engines.spark.jobs import Jobs, Value
from calitree.engines.spark.session import spark_session
from calitree.engines.spark.zone import UTC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Runtime:
    """A session, started when it is first needed if there is none, and what is run there."""

    def __init__(self, session: SparkSession | None = None) -> None:
        self.started = session
        """The session, if there is one already."""
        self.jobs = Jobs()
        self.lock = threading.RLock()
        """Held by who gives a table its view."""
        prefix = f"calitree_{uuid4().hex[:12]}"
        self._names = (f"{prefix}_{i}" for i in count())
        self._abandoned: deque[str] = deque()

    @property
    def session(self) -> SparkSession:
        if self.started is None:
            self.started = spark_session()
        return self.started

    def adopt(self, session: SparkSession) -> None:
        """Take the session that a frame came with, if there is none yet."""
        if self.started is None:
            self.started = session

    @property
    def is_in_utc(self) -> bool:
        return self.session.conf.get("spark.sql.session.timeZone") in UTC

    def run(self, tasks: Iterable[Callable[[], Value]], watch: Watch | None = None) -> list[Value]:
        """What these calls return. They run side by side, and Ctrl-C stops them all."""
        return self.jobs.run(self.session, tasks, watch)

    def local_frame(self, held: pa.Table) -> DataFrame:
        """A table of this process in Spark; a timestamp without a time zone stays without."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(held.schema, prefer_timestamp_ntz=True)
        return self.session.createDataFrame(held, schema)

    def next_view(self) -> str:
        """A name for a view that nobody has."""
        return next(self._names)

    def abandon(self, view: str) -> None:
        """Drop a view later: a finaliser, which tells that its table is gone, must not call Spark."""
        self._abandoned.append(view)

    def drop_abandoned(self) -> None:
        while self._abandoned:
            with suppress(IndexError):
                self.session.catalog.dropTempView(self._abandoned.popleft())
