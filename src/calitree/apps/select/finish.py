"""What is left of a statement, run by DuckDB on the answers of the tree, which are small tables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

from calitree.apps.verify.plain import DEFINITIONS
from calitree.errors import EngineError, StatementError
from calitree.interrupts import current, run

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = (
    *DEFINITIONS,
    "SET GLOBAL TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""It computes as `docs/semantics.md` says, and sees nothing of this machine but the tables that it is given."""


@cache
def _database(process: int) -> Any:
    """A database without tables; one for each process, as a fork cannot go on with its parent's."""
    try:
        import duckdb
    except ImportError:
        raise EngineError(
            "ORDER BY, LIMIT, HAVING, window functions and queries over queries need DuckDB: "
            'pip install "calitree[sql]".'
        ) from None
    database = duckdb.connect()
    for setting in SETTINGS:
        database.execute(setting)
    return database


def finished(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The answer to a query over some tables, and nothing else."""

    def compute() -> pa.Table:
        import duckdb

        stop = current()
        with _database(os.getpid()).cursor() as cursor:
            for name, table in tables.items():
                cursor.register(name, table)
            try:
                with nullcontext() if stop is None else stop.calling(cursor.interrupt):
                    return cursor.sql(sql).to_arrow_table()
            except duckdb.Error as error:
                reason = str(error).splitlines()[0].rstrip(".")
                raise StatementError(f"Over the answers of the tree: {reason}.", "rest") from None

    return run(compute)
