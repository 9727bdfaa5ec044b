"""Updates of relations on Spark: selections, semi-joins, anti-joins, unions and bag differences.

They compare rows by `c0 <=> d0`, where NULL equals NULL and NaN equals NaN, unlike in a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from calitree.engines.api.contraction import Input
from calitree.engines.spark.checkpoints import checkpoint
from calitree.engines.spark.fields import Field
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.read import relation_of, relation_of_arrow
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.sql.from_clause import BROADCAST_ROWS
from calitree.engines.spark.sql.statement import write_selection
from calitree.engines.spark.sums import typed
from calitree.engines.spark.table import SparkTable, arrow_schema, measure
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.storage.arrow_types import schema_of_text
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema(table: SparkTable) -> pa.Schema:
    """The Arrow types of a relation's columns, which rows to insert must have."""
    if table.saved is not None:
        return schema_of_text(table.saved.schema)
    with explained(f"read {table.label}"):
        columns = arrow_schema(table)
    for at, field in enumerate(table.fields.values()):
        if field.kind is Kind.INTEGER and pa.types.is_decimal(columns.field(at).type):
            columns = columns.set(at, columns.field(at).with_type(pa.uint64()))
    return columns


def apart(runtime: Runtime, table: SparkTable, keys: SparkTable) -> SparkTable:
    """The anti-join of a result with `keys`."""
    result = partial(
        SparkTable,
        runtime,
        table.label,
        dict(table.fields),
        key=table.key,
        null_free=table.null_free,
    )

    def computed() -> SparkTable:
        frame = runtime.session.sql(_semi_join("ANTI", table, keys))
        if not table.key:
            return result(held=frame.toArrow())
        rows = checkpoint(runtime, frame, {})
        return rows.recorded_in(result(frame=rows.frame))

    with explained(f"take rows from {table.label}"):
        (rest,) = runtime.run([computed])
    rest.measured = set(table.measured)
    return rest


def _semi_join(how: str, table: SparkTable, keys: SparkTable) -> str:
    """A query for the semi- or anti-join (`how` is SEMI or ANTI) on all columns of `keys`."""
    hint = "/*+ BROADCAST(i1) */ " if _is_small([keys]) else ""
    listed = ", ".join(f"i0.{field.name}" for field in table.fields.values()) or "i0.c0"
    same = _equal("i0", [table.fields[name] for name in keys.fields], "i1", keys.fields.values())
    joined = f"{table.view} AS i0 LEFT {how} JOIN {keys.view} AS i1 ON {same}"
    return f"SELECT {hint}{listed} FROM {joined}"


def _equal(left: str, columns: Iterable[Field], right: str, others: Iterable[Field]) -> str:
    """Whether two rows are equal; Spark cannot compare columns without a type, which are all NULL."""
    pairs = zip(columns, others, strict=True)
    typed_pairs = [(a, b) for a, b in pairs if not a.kind is b.kind is Kind.NULL]
    return " AND ".join(f"{left}.{a.name} <=> {right}.{b.name}" for a, b in typed_pairs) or "TRUE"


def settle(runtime: Runtime, plus: Sequence[SparkTable], minus: Sequence[SparkTable]) -> SparkTable:
    """The bag difference: computed now if there are few rows, else when it is used."""
    plus = [table for table in plus if table.known_rows != 0] or plus[:1]
    minus = [table for table in minus if table.known_rows != 0]
    first, tables = plus[0], [*plus, *minus]
    if len(tables) == 1:
        return first
    with explained(f"put together {first.label}"):
        union = _union(plus, first)
        fields = typed(first.fields, plus, union)
        frame = _difference(union, minus, first) if minus else union
    null_free = reduce(frozenset.intersection, (table.null_free for table in plus))
    if any(table.known_rows is None for table in tables):
        return SparkTable(runtime, first.label, fields, frame=frame, null_free=null_free)
    rows = _rows(plus) - _rows(minus)
    if _is_small(tables):
        with explained(f"put together {first.label}"):
            settled = _computed(runtime, first.label, fields, null_free, frame)
        if settled.rows != rows:
            raise EngineError(
                f"{first.label}: {settled.rows - rows:,} of the rows to be deleted are not there."
            )
        return settled
    table = SparkTable(runtime, first.label, fields, frame=frame, null_free=null_free)
    table.known_rows = rows
    table.measured = set.intersection(*(summand.measured for summand in plus))
    return table


def _rows(tables: Iterable[SparkTable]) -> int:
    return sum(table.rows for table in tables)


def _is_small(tables: Sequence[SparkTable]) -> bool:
    """Whether these are known to have few rows together; nothing is counted for it."""
    known = all(table.known_rows is not None for table in tables)
    return known and _rows(tables) <= BROADCAST_ROWS


def _union(tables: Sequence[SparkTable], first: SparkTable) -> DataFrame:
    """All rows, in columns named as in the first table.

    It is built of frames; with Connect, views would have to outlive it.
    """
    frames = (
        table.frame.selectExpr(
            *(f"{table.fields[name].name} AS {field.name}" for name, field in first.fields.items())
        )
        for table in tables
    )
    return reduce(lambda above, below: above.unionAll(below), frames)


def _difference(union: DataFrame, minus: Sequence[SparkTable], first: SparkTable) -> DataFrame:
    """The bag difference. Few rows are deleted, so only rows equal to one of them are counted."""
    from pyspark.sql.functions import expr

    deleted = _union(minus, first)
    columns = first.fields.values()
    same = expr(_equal("i0", columns, "i1", columns))
    rows, keys = union.alias("i0"), deleted.alias("i1")
    if _is_small(minus):
        keys = keys.hint("broadcast")
    rest = rows.join(keys, same, "left_semi").exceptAll(deleted)
    return rows.join(keys, same, "left_anti").unionAll(rest)


def select(runtime: Runtime, table: SparkTable, relation: Input, where: Expression) -> SparkTable:
    """The rows for which a condition is true."""
    utc = runtime.is_in_utc
    statement = write_selection(relation, where, utc)
    if statement.to_measure and measure(runtime, {table: statement.to_measure[0]}):
        statement = write_selection(relation, where, utc)
    with explained(f"find the rows of {table.label} where {where}"):
        return _rows_of(runtime, table, statement.text, statement.fields)


def matching(runtime: Runtime, table: SparkTable, rows: pa.Table) -> SparkTable:
    """The semi-join of a relation with `rows`."""
    with explained(f"find rows of {table.label}"):
        keys = relation_of_arrow(runtime, "the rows to find", rows)
        return _rows_of(runtime, table, _semi_join("SEMI", table, keys), table.fields)


def fix(runtime: Runtime, source: DataFrame) -> SparkTable:
    """A snapshot of the rows of a frame."""
    runtime.adopt(source.sparkSession)
    with explained("read a frame"):
        table = relation_of(runtime, "a frame", source)
        return _computed(runtime, table.label, table.fields, table.null_free, table.frame)


def _rows_of(
    runtime: Runtime, table: SparkTable, text: str, fields: Mapping[str, Field]
) -> SparkTable:
    """Some rows of a relation, which do not change if that does."""
    label, frame = f"rows of {table.label}", runtime.session.sql(text)
    return _computed(runtime, label, fields, table.null_free, frame)


def _computed(
    runtime: Runtime,
    label: str,
    fields: Mapping[str, Field],
    null_free: frozenset[str],
    frame: DataFrame,
) -> SparkTable:
    """A relation that is computed now; if it has few rows, in one partition."""
    numbers = {name: field.name for name, field in fields.items() if field.is_whole}
    (rows,) = runtime.run([partial(checkpoint, runtime, frame, numbers)])
    frame = rows.frame.coalesce(1) if rows.rows <= BROADCAST_ROWS else rows.frame
    return rows.recorded_in(
        SparkTable(runtime, label, dict(fields), frame=frame, null_free=null_free)
    )
