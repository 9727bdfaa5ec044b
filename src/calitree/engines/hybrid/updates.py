"""Updates by the hybrid engine: in this process if all tables are here or fit here, else on Spark.

Few rows are inserted and deleted, so most of it happens here. A relation in large files is never read
whole by this process: if the footers leave few row groups that matter, these are read, else Spark is
asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from calitree.engines.api.contraction import Input, Output, Table
from calitree.engines.hybrid.transfer import Transfers
from calitree.engines.local.tables.later import files_of
from calitree.engines.local.tables.tables import ArrowColumns, Relation
from calitree.engines.spark.table import SparkTable
from calitree.sql.parser import Expression
from calitree.storage.parquet import Filter


def add(
    transfers: Transfers,
    output: Output,
    plus: Sequence[Table],
    minus: Sequence[Table],
    rows: str | None,
) -> Table | None:
    """The sum here if all results are here; else the small ones are sent to Spark."""
    near, remote = _near(transfers, plus, minus)
    if not remote:
        return transfers.local.add(output, *near, rows)
    total = transfers.spark.add(output, *_sent(transfers, near), rows)
    return None if total is None else transfers.fetch_result(total)


def apart(transfers: Transfers, table: Table, keys: Table) -> Table:
    """The anti-join of a result with `keys`."""
    near, remote = _near(transfers, [table], [keys])
    if not remote:
        return transfers.local.apart(*near[0], *near[1])
    (table,), (keys,) = _sent(transfers, near)
    return transfers.fetch_result(transfers.spark.apart(table, keys))


def settle(transfers: Transfers, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
    """The bag difference; on Spark it is computed when it is used."""
    near, remote = _near(transfers, plus, minus)
    if not remote:
        return transfers.local.settle(*near)
    return transfers.spark.settle(*_sent(transfers, near))


def select(transfers: Transfers, relation: Input, where: Expression) -> Table:
    """The rows for which a condition is true."""
    table = transfers.fetch_small(relation.table)
    few = _few_rows(transfers, table, Filter((where,)), relation.attributes)
    if few is not None:
        return transfers.local.select(replace(relation, table=few), where)
    sent = replace(relation, table=transfers.send(table))
    return _fetched(transfers, table, transfers.spark.select(sent, where))


def matching(transfers: Transfers, table: Table, rows: pa.Table) -> Table:
    """The semi-join of a relation with `rows`."""
    table = transfers.fetch_small(table)
    # NULL equals NULL here, and the bounds in footers say nothing of NULLs.
    keys = [(name, rows.column(name)) for name in rows.column_names if not rows[name].null_count]
    few = _few_rows(transfers, table, Filter((), keys), {name: name for name in table.kinds})
    if few is not None:
        return transfers.local.matching(few, rows)
    return _fetched(transfers, table, transfers.spark.matching(transfers.send(table), rows))


def _near(
    transfers: Transfers, plus: Sequence[Table], minus: Sequence[Table]
) -> tuple[tuple[list[Table], list[Table]], bool]:
    """The tables in this process where they fit, and whether some do not."""
    near = [list(map(transfers.fetch_small, tables)) for tables in (plus, minus)]
    return (near[0], near[1]), transfers.is_on_spark(near[0] + near[1])


def _sent(
    transfers: Transfers, near: tuple[list[Table], list[Table]]
) -> tuple[list[SparkTable], list[SparkTable]]:
    plus, minus = near
    return list(map(transfers.send, plus)), list(map(transfers.send, minus))


def _few_rows(
    transfers: Transfers, table: Table, wanted: Filter, attributes: Mapping[str, str]
) -> Table | None:
    """The table in this process, without row groups that hold no wanted row; None if too large."""
    if not transfers.is_on_spark([table]):
        return table
    files = files_of(table) if isinstance(table, Relation) else None
    if files is None:
        return None
    row_groups = files.select([wanted], attributes)
    nbytes = row_groups.rows / max(1, files.rows) * files.decoded_bytes
    if nbytes > transfers.limits.in_process:
        return None
    rows = files.read(row_groups, files.schema.names)
    return Relation(transfers.local.book, ArrowColumns(rows))


def _fetched(transfers: Transfers, table: Table, rows: SparkTable) -> Table:
    """Rows of a table that Spark has selected; those of files in the types of these files."""
    fetched = transfers.fetch_result(rows)
    if not isinstance(table, Relation) or not isinstance(fetched, Relation):
        return fetched
    cast = fetched.columns.table().cast(table.columns.schema)
    return Relation(transfers.local.book, ArrowColumns(cast))
