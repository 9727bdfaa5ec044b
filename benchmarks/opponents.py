"""Who is raced against: engines that join the tables for every question, as well as they can."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from benchmarks.compare import Answer, Answers
from benchmarks.questions import message_queries
from calitree import Hypertree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

THREADS = 2


class Opponent(Protocol):
    """Someone who has the tables and answers SQL."""

    name: str

    def ask(self, sql: str) -> pa.Table: ...

    def keep(self, name: str, sql: str) -> None:
        """Compute a table now and remember it by this name."""


class DuckDB:
    """DuckDB with the tables in its own memory and format."""

    name = "DuckDB"

    def __init__(self, files: Mapping[str, Path], threads: int = THREADS) -> None:
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET threads = {threads}")
        for name, path in files.items():
            self.connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [str(path)]
            )

    def ask(self, sql: str) -> pa.Table:
        return self.connection.sql(sql).to_arrow_table()

    def keep(self, name: str, sql: str) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {sql}")


class SparkSql:
    """Spark with its own joins, over frames that it may have cached."""

    name = "Spark SQL"

    def __init__(self, session: SparkSession, frames: Mapping[str, DataFrame]) -> None:
        self.session = session
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)

    def ask(self, sql: str) -> pa.Table:
        return self.session.sql(sql).toArrow()

    def keep(self, name: str, sql: str) -> None:
        from pyspark.sql.functions import broadcast

        # Not persisted: plans over persisted frames grow with every one of them. Of a checkpoint
        # Spark does not know the size, and would sort the sales to join it, so it is told.
        kept = broadcast(self.session.sql(sql).localCheckpoint())
        kept.createOrReplaceTempView(name)


def spark_frames(
    session: SparkSession, files: Mapping[str, Path], cached: bool
) -> dict[str, DataFrame]:
    """The files as Spark frames; cached, each is read completely now."""
    frames: dict[str, Any] = {}
    for name, path in files.items():
        frames[name] = session.read.parquet(str(path))
        if cached:
            frames[name] = frames[name].cache()
            frames[name].count()
    return frames


def pass_messages(opponent: Opponent, tree: Hypertree) -> list[str]:
    """Have all messages of the pivot computed, in both directions; their names."""
    names = []
    for name, sql in message_queries(tree):
        opponent.keep(name, sql)
        names.append(name)
    return names


def messages_from(opponent: Opponent, names: list[str]) -> Answers:
    """These messages as answers; their last columns are the measures, of which some lack units."""
    answers: dict[str, Answer] = {}
    for name in names:
        table = opponent.ask(f"SELECT * FROM {name}")
        measures = sum(measure in table.column_names for measure in ("n", "units"))
        answers[name] = Answer(table, table.num_columns - measures)
    return answers
