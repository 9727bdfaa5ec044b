"""Rows of relations that the hybrid engine looks for: in this process, or else on Spark.

A relation in large files is never read whole by this process: if the footers leave few row groups that
matter, these are read, else Spark is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from calitree.engines.api.contraction import Input, Table
from calitree.engines.hybrid.transfer import Transfers
from calitree.engines.local.tables.lazy import files_of
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.sql.parser import Expression
from calitree.storage.parquet import Filter


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


def _few_rows(
    transfers: Transfers, table: Table, wanted: Filter, attributes: Mapping[str, str]
) -> Table | None:
    """The table in this process, without row groups that hold no wanted row; None if too large."""
    if not transfers.is_on_spark([table]):
        return table
    files = files_of(table) if isinstance(table, EncodedRelation) else None
    if files is None:
        return None
    row_groups = files.select([wanted], attributes)
    nbytes = row_groups.rows / max(1, files.rows) * files.decoded_bytes
    if nbytes > transfers.limits.in_process:
        return None
    rows = files.read(row_groups, files.schema.names)
    return EncodedRelation(transfers.local.book, ArrowColumns(rows))


def _fetched(transfers: Transfers, table: Table, rows: Table) -> Table:
    """Rows of a table that Spark has selected; those of files in the types of these files."""
    fetched = transfers.fetch_result(rows)
    if not isinstance(table, EncodedRelation) or not isinstance(fetched, EncodedRelation):
        return fetched
    cast = fetched.columns.table().cast(table.columns.schema)
    return EncodedRelation(transfers.local.book, ArrowColumns(cast))
