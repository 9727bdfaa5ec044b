"""What tables and queries of the Spark engine share: a session, its jobs, and temporary views."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, NoReturn
from uuid import uuid4

import pyarrow as pa

from calitree.engines.api.protocol import Watch
from calitree.engines.spark.jobs import Jobs, Value
from calitree.engines.spark.session import spark_session
from calitree.engines.spark.session.inherited import inherited_error
from calitree.engines.spark.sql.zone import UTC
from calitree.errors import unpicklable
from calitree.process.locks import Rank, SharedLock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Runtime:
    """A session, started when it is first needed if there is none, and what is run there."""

    def __init__(self, session: SparkSession | None = None) -> None:
        self.started = session
        """The session, if there is one already."""
        self._process = os.getpid()
        """The process whose session it is."""
        self.jobs = Jobs()
        self.lock = SharedLock(Rank.RUNTIME)
        """Held while the session is started, and while a table gets its frame or its view.

        Who holds it never waits for `jobs`, whose threads take it too.
        """
        self._prefix, self._numbers = f"calitree_{uuid4().hex[:12]}", count()
        self._abandoned: deque[str] = deque()

    @property
    def session(self) -> SparkSession:
        """The session; it is started if there is none."""
        if self.started is None:
            with self.lock:
                if self.started is None:
                    self.started, self._process = spark_session(), os.getpid()
        self.check_process()
        return self.started

    def __reduce__(self) -> NoReturn:
        raise unpicklable("What is on Spark")

    def check_process(self) -> None:
        """Raise an error if the session is that of the process that this one was forked from."""
        if self.started is not None and self._process != os.getpid():
            raise inherited_error()

    def adopt(self, session: SparkSession) -> None:
        """Use the session that a frame came with, if there is none yet."""
        with self.lock:
            if self.started is None:
                self.started, self._process = session, os.getpid()

    @property
    def is_in_utc(self) -> bool:
        """Whether the session's time zone is UTC."""
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
        """A new name for a view."""
        return f"{self._prefix}_{next(self._numbers)}"

    def abandon(self, view: str) -> None:
        """Have a view dropped by the next contraction: finalisers, which call this, must not call Spark."""
        self._abandoned.append(view)

    def drop_abandoned(self) -> None:
        """Drop the views of tables that are gone."""
        while self._abandoned:
            with suppress(IndexError):
                self.session.catalog.dropTempView(self._abandoned.popleft())
