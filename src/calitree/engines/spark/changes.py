"""What updates need of relations on Spark: rows chosen, found, put together and taken away.

In `c0 <=> d0` NULL equals NULL and NaN equals NaN, as a change of rows wants it and a join does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from calitree.engines.api.contraction import Input
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.keeping import kept
from calitree.engines.spark.numbers import Field
from calitree.engines.spark.query import BROADCAST_ROWS, write_selection
from calitree.engines.spark.read import relation_of, relation_of_arrow
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.sums import typed
from calitree.engines.spark.table import SparkTable, arrow_schema, measure
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.storage.table_format import schema_of_text
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema(table: SparkTable) -> pa.Schema:
    """The types that rows must have to be loaded like this relation."""
    if table.saved is not None:
        return schema_of_text(table.saved.schema)
    with explained(f"read {table.label}"):
        found = arrow_schema(table)
    for at, field in enumerate(table.fields.values()):
        if field.kind is Kind.INTEGER and pa.types.is_decimal(found.field(at).type):
            found = found.set(at, found.field(at).with_type(pa.uint64()))
    return found


def apart(runtime: Runtime, table: SparkTable, keys: SparkTable) -> SparkTable:
    """The rows of a result that agree with no row of another."""
    made = partial(SparkTable, runtime, table.label, dict(table.fields))
    made = partial(made, key=table.key, null_free=table.null_free)

    def computed() -> SparkTable:
        frame = runtime.session.sql(_meeting("ANTI", table, keys))
        if not table.key:
            return made(held=frame.toArrow())
        found = kept(runtime, frame, {})
        return found.noted(made(frame=found.frame))

    with explained(f"take rows from {table.label}"):
        (found,) = runtime.run([computed])
    found.measured = set(table.measured)
    return found


def _meeting(how: str, table: SparkTable, keys: SparkTable) -> str:
    """The rows of a table that equal some row of `keys`, or none, on all columns of that."""
    few = keys.known_rows is not None and keys.known_rows <= BROADCAST_ROWS
    hint = "/*+ BROADCAST(i1) */ " if few else ""
    listed = ", ".join(f"i0.{each.name}" for each in table.fields.values()) or "i0.c0"
    same = _equal("i0", [table.fields[name] for name in keys.fields], "i1", keys.fields.values())
    joined = f"{table.view} AS i0 LEFT {how} JOIN {keys.view} AS i1 ON {same}"
    return f"SELECT {hint}{listed} FROM {joined}"


def _equal(left: str, ours: Iterable[Field], right: str, theirs: Iterable[Field]) -> str:
    """Whether two rows are the same; of columns without a type Spark would not know it."""
    pairs = zip(ours, theirs, strict=True)
    told = [(a, b) for a, b in pairs if not a.kind is b.kind is Kind.NULL]
    return " AND ".join(f"{left}.{a.name} <=> {right}.{b.name}" for a, b in told) or "TRUE"


def settle(runtime: Runtime, plus: Sequence[SparkTable], minus: Sequence[SparkTable]) -> SparkTable:
    """All rows of `plus` less those in `minus`: as a frame that is computed when it is used, unless
    all are so few that they had better be at hand.
    """
    plus = [each for each in plus if each.known_rows != 0] or plus[:1]
    minus = [each for each in minus if each.known_rows != 0]
    first = plus[0]
    if len(plus) == 1 and not minus:
        return first
    with explained(f"put together {first.label}"):
        whole = _stacked(plus, first)
        fields = typed(first.fields, plus, whole)
        frame = _less(whole, minus, first) if minus else whole
    present = reduce(frozenset.intersection, (each.null_free for each in plus))
    many = _known_rows([*plus, *minus])
    if many is not None and many <= BROADCAST_ROWS:
        with explained(f"put together {first.label}"):
            found = _at_hand(runtime, first.label, fields, present, frame)
        return _complete(found, _rows(plus) - _rows(minus))
    table = SparkTable(runtime, first.label, fields, frame=frame, null_free=present)
    if many is not None:
        table.known_rows = _rows(plus) - _rows(minus)
        table.measured = set.intersection(*(each.measured for each in plus))
    return table


def _rows(tables: Iterable[SparkTable]) -> int:
    return sum(each.rows for each in tables)


def _known_rows(tables: Sequence[SparkTable]) -> int | None:
    """How many rows these have, if nothing has to be counted for it."""
    return None if any(each.known_rows is None for each in tables) else _rows(tables)


def _complete(table: SparkTable, rows: int) -> SparkTable:
    if table.rows != rows:
        raise EngineError(
            f"{table.label}: {table.rows - rows:,} of the rows to be deleted are not there."
        )
    return table


def _stacked(tables: Sequence[SparkTable], first: SparkTable) -> DataFrame:
    """All rows one below the other, in columns named as in the first table.

    Of frames, not of views by their names, which behind Connect would have to outlive the frame.
    """
    names = first.fields
    frames = (
        each.frame.selectExpr(*(f"{each.fields[n].name} AS {f.name}" for n, f in names.items()))
        for each in tables
    )
    return reduce(lambda above, below: above.unionAll(below), frames)


def _less(whole: DataFrame, minus: Sequence[SparkTable], first: SparkTable) -> DataFrame:
    """The bag difference. Few rows go from many, so only those that are like them are counted."""
    from pyspark.sql.functions import expr

    gone = _stacked(minus, first)
    columns = first.fields.values()
    same = expr(_equal("here", columns, "gone", columns))
    here, away, known = whole.alias("here"), gone.alias("gone"), _known_rows(minus)
    if known is not None and known <= BROADCAST_ROWS:
        away = away.hint("broadcast")
    rest = here.join(away, same, "left_semi").exceptAll(gone)
    return here.join(away, same, "left_anti").unionAll(rest)


def select(runtime: Runtime, table: SparkTable, relation: Input, where: Expression) -> SparkTable:
    """The rows for which a condition is true."""
    utc = runtime.is_in_utc
    query = write_selection(relation, where, utc)
    if query.wanted and measure(runtime, {table: query.wanted[0]}):
        query = write_selection(relation, where, utc)
    with explained(f"find the rows of {table.label} where {where}"):
        return _rows_of(runtime, table, query.text, query.fields)


def matching(runtime: Runtime, table: SparkTable, rows: pa.Table) -> SparkTable:
    """The rows that equal some row of `rows` on the columns of that."""
    with explained(f"find rows of {table.label}"):
        keys = relation_of_arrow(runtime, "the rows to find", rows)
        return _rows_of(runtime, table, _meeting("SEMI", table, keys), table.fields)


def fix(runtime: Runtime, source: DataFrame) -> SparkTable:
    """The rows that a frame has now."""
    runtime.adopt(source.sparkSession)
    with explained("read a frame"):
        table = relation_of(runtime, "a frame", source)
        return _at_hand(runtime, table.label, table.fields, table.null_free, table.frame)


def _rows_of(
    runtime: Runtime, table: SparkTable, text: str, fields: Mapping[str, Field]
) -> SparkTable:
    """Some rows of a relation, which stay what they are whatever becomes of it."""
    label, frame = f"rows of {table.label}", runtime.session.sql(text)
    return _at_hand(runtime, label, fields, table.null_free, frame)


def _at_hand(
    runtime: Runtime,
    label: str,
    fields: Mapping[str, Field],
    null_free: frozenset[str],
    frame: DataFrame,
) -> SparkTable:
    """A relation that is computed now; if it has few rows, in one part, to be read by one task."""
    numbers = {name: each.name for name, each in fields.items() if each.is_whole}
    (found,) = runtime.run([partial(kept, runtime, frame, numbers)])
    rows = found.frame.coalesce(1) if found.rows <= BROADCAST_ROWS else found.frame
    return found.noted(SparkTable(runtime, label, dict(fields), frame=rows, null_free=null_free))
