"""What updates need, where the tables are: in this process if all are or fit here, else on Spark.

Few rows come and go, so most of it happens here. A relation in large files is never read whole by
this process: if the footers leave few row groups to look at, these are read, else Spark is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from calitree.engines.api.contraction import Input, Output, Table
from calitree.engines.local.tables.lazy import files_of
from calitree.engines.local.tables.tables import ArrowColumns, EncodedRelation
from calitree.engines.spark.table import SparkTable
from calitree.sql.parser import Expression
from calitree.storage.parquet import Filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from calitree.engines.hybrid.engine import HybridEngine


def add(
    engine: HybridEngine,
    output: Output,
    plus: Sequence[Table],
    minus: Sequence[Table],
    rows: str | None,
) -> Table | None:
    """Here if all results are; else the small ones go to where the large one is."""
    near, away = _near(engine, plus, minus)
    if not away:
        return engine.local.add(output, *near, rows)
    found = engine.spark.add(output, *_there(engine, near), rows)
    return None if found is None else engine.home(found)


def apart(engine: HybridEngine, table: Table, keys: Table) -> Table:
    (near, by), away = _near(engine, [table], [keys])
    if not away:
        return engine.local.apart(*near, *by)
    return engine.home(engine.spark.apart(*map(engine.there, (*near, *by))))


def settle(engine: HybridEngine, plus: Sequence[Table], minus: Sequence[Table]) -> Table:
    """What is large stays where it is, and is put together there when it is used."""
    near, away = _near(engine, plus, minus)
    return engine.spark.settle(*_there(engine, near)) if away else engine.local.settle(*near)


def select(engine: HybridEngine, relation: Input, where: Expression) -> Table:
    table = engine.nearest(relation.table)
    few = _few_rows(engine, table, Filter((where,)), relation.attributes)
    if few is not None:
        return engine.local.select(replace(relation, table=few), where)
    there = replace(relation, table=engine.there(table))
    return _home(engine, table, engine.spark.select(there, where))


def matching(engine: HybridEngine, table: Table, rows: pa.Table) -> Table:
    table = engine.nearest(table)
    # A NULL is found too here, and no bounds tell of it.
    met = [(name, rows.column(name)) for name in rows.column_names if not rows[name].null_count]
    few = _few_rows(engine, table, Filter((), met), {name: name for name in table.kinds})
    if few is not None:
        return engine.local.matching(few, rows)
    return _home(engine, table, engine.spark.matching(engine.there(table), rows))


def fix(engine: HybridEngine, source: DataFrame) -> pa.Table | SparkTable:
    table = engine.spark.fix(source)
    return engine.arrow(table) if table.nbytes <= engine.limits.collect else table


def _near(
    engine: HybridEngine, plus: Sequence[Table], minus: Sequence[Table]
) -> tuple[tuple[list[Table], list[Table]], bool]:
    """The tables in this process where they can be, and whether some cannot."""
    near = [engine.nearest(each) for each in plus], [engine.nearest(each) for each in minus]
    return near, engine.is_on_spark(near[0] + near[1])


def _there(
    engine: HybridEngine, near: tuple[list[Table], list[Table]]
) -> tuple[list[SparkTable], list[SparkTable]]:
    plus, minus = near
    return [engine.there(each) for each in plus], [engine.there(each) for each in minus]


def _few_rows(
    engine: HybridEngine, table: Table, wanted: Filter, names: Mapping[str, str]
) -> Table | None:
    """The table in this process; of files only the row groups in which a row may be wanted. None if
    that would be too much.
    """
    if not engine.is_on_spark([table]):
        return table
    columns = files_of(table) if isinstance(table, EncodedRelation) else None
    if columns is None:
        return None
    chosen = columns.select([wanted], names)
    if chosen.rows / max(1, columns.rows) * columns.decoded_bytes > engine.limits.in_process:
        return None
    rows = columns.read(chosen, columns.schema.names)
    return EncodedRelation(engine.local.book, ArrowColumns(rows))


def _home(engine: HybridEngine, table: Table, found: SparkTable) -> Table:
    """Rows of a table that Spark has found; those of files in the types that we read them in."""
    home = engine.home(found)
    if not isinstance(table, EncodedRelation) or not isinstance(home, EncodedRelation):
        return home
    rows = home.columns.table().cast(table.columns.schema)
    return EncodedRelation(engine.local.book, ArrowColumns(rows))
