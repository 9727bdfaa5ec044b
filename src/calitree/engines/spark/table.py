"""A table of the Spark engine: a frame of Spark's, rows of this process, or both."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.spark.fields import Field, in_process_type
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.sql.whole_numbers import as_decimal
from calitree.storage.table_format import SavedRelation
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BYTES = {Kind.BOOLEAN: 1, Kind.STRING: 24, Kind.BINARY: 24, Kind.DECIMAL: 16, Kind.OTHER: 64}
"""About how many bytes a value has; 8 if its kind is not listed."""


class SparkTable:
    """A relation (its `key` is None), or a message, with at most one row for each value of its key.

    It is on Spark (`frame`), in this process (`held`), or both; either has columns c0, c1, …. The
    frame of a saved table is created when it is first needed, by `lazy_frame`. A `subquery` in
    parentheses can stand for both where only SQL refers to a table.
    """

    def __init__(
        self,
        runtime: Runtime,
        label: str,
        fields: dict[str, Field],
        *,
        frame: DataFrame | None = None,
        held: pa.Table | None = None,
        key: frozenset[str] | None = None,
        null_free: frozenset[str] = frozenset(),
        lazy_frame: Callable[[], DataFrame] | None = None,
        subquery: str | None = None,
    ) -> None:
        self.runtime = runtime
        self.label = label
        self.fields = fields
        self.held = held
        self.key = key
        self.null_free = null_free
        self.known_rows: int | None = None if held is None else held.num_rows
        self.measured: set[str] = set()
        """The columns whose bounds come from the data, not from their types."""
        self.unsupported: Mapping[str, str] = {}
        """Columns of a relation's source that Spark has in a type that cannot be used."""
        self.given: Any = None
        """The path or the name that a relation was loaded by, if Spark itself reads it."""
        self.saved: SavedRelation | None = None
        """What a relation was restored from."""
        self._lazy_frame = lazy_frame or (lambda: runtime.local_frame(held))
        self._view = subquery
        self._frames = [] if frame is None else [frame]
        # A frame of Connect notifies the server when it is deleted, and hangs if the interpreter is
        # already shutting down. A finaliser runs before that.
        weakref.finalize(self, self._frames.clear)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Column names, in order, and their kinds."""
        return {name: field.kind for name, field in self.fields.items()}

    @property
    def rows(self) -> int:
        """How many rows there are; of a relation they are counted when first asked for."""
        if self.known_rows is None:
            measure(self.runtime, {self: set()})
            assert self.known_rows is not None
        return self.known_rows

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, from the kinds of its columns."""
        width = sum(_BYTES.get(field.kind, 8) for field in self.fields.values())
        return self.rows * max(1, width)

    @property
    def exact(self) -> bool:
        """Whether no sum had to continue as floating point."""
        return all(field.exact for field in self.fields.values())

    @property
    def frame(self) -> DataFrame:
        """The rows on Spark, with columns c0, c1, …."""
        self.runtime.check_process()
        if not self._frames:
            with self.runtime.lock:
                if not self._frames:
                    self._frames.append(self._lazy_frame())
        return self._frames[0]

    @property
    def view(self) -> str:
        """The temporary view of this table, which is dropped after the table is gone."""
        with self.runtime.lock:
            if self._view is None:
                frame, name = self.frame, self.runtime.next_view()
                frame.createOrReplaceTempView(name)
                weakref.finalize(self, self.runtime.abandon, name)
                self._view = name  # only now: the rows of a saved relation may be missing
            return self._view

    def collected(self) -> pa.Table:
        """The rows in this process, with columns c0, c1, …."""
        if self.held is not None:
            return self.held
        with explained(f"read {self.label}"):
            (held,) = self.runtime.run([self.frame.toArrow])
        return held

    def learn(self, rows: int, sizes: Mapping[str, Any]) -> None:
        """Record the number of rows, and the largest absolute values of some columns."""
        self.known_rows = rows
        for name, size in sizes.items():
            field = self.fields[name]
            self.fields[name] = replace(field, bound=_scaled(size, field))
            self.measured.add(name)


def _scaled(value: Any, field: Field) -> int:
    """A value of this column × 10^scale."""
    if value is None:
        return 0
    return abs(int(Decimal(value).scaleb(0 if field.coded else field.scale)))


def arrow_schema(table: SparkTable) -> pa.Schema:
    """The columns under their own names with their Arrow types."""
    if table.held is not None:
        schema = table.held.schema
    else:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(table.frame.schema, timezone="UTC")
    return pa.schema(
        pa.field(name, in_process_type(dtype))
        for name, dtype in zip(table.fields, schema.types, strict=True)
    )


def quoted(name: str) -> str:
    """A name in Spark's quotes."""
    return "`" + name.replace("`", "``") + "`"


def as_original(table: SparkTable) -> str:
    """A query for the table with its own column names, and decimals for whole numbers."""
    columns = [
        f"{as_decimal(field.name, field.scale) if field.coded and field.scale else field.name}"
        f" AS {quoted(name)}"
        for name, field in table.fields.items()
    ]
    return f"SELECT {', '.join(columns) or 'TRUE'} FROM {table.view}"


def measure(runtime: Runtime, columns: Mapping[SparkTable, set[str]]) -> bool:
    """Count rows and find the largest numbers, once a table and column; False if all were known.

    Two threads may both measure the same, with the same outcome.
    """
    unknown = {table: sorted(names - table.measured) for table, names in columns.items()}
    tables = [table for table, names in unknown.items() if names or table.known_rows is None]

    def look(table: SparkTable) -> None:
        table.learn(*_sizes(table, unknown[table]))

    with explained("measure " + ", ".join(table.label for table in tables)):
        runtime.run(partial(look, table) for table in tables)
    return bool(tables)


def _sizes(table: SparkTable, names: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The number of rows, and the largest absolute value of each of these columns."""
    columns = [table.fields[name].name for name in names]
    if table.held is not None:
        return table.held.num_rows, {
            name: largest(pc.min_max(table.held.column(column)).as_py().values())
            for name, column in zip(names, columns, strict=True)
        }
    asked = ["COUNT(*)", *(f"{f}({c})" for c in columns for f in ("MIN", "MAX"))]
    (row,) = table.frame.selectExpr(*asked).collect()
    ends = zip(row[1::2], row[2::2], strict=True)
    return row[0], {name: largest(pair) for name, pair in zip(names, ends, strict=True)}


def largest(values: Iterable[Any]) -> Any:
    """The largest absolute value."""
    return max((abs(value) for value in values if value is not None), default=None)
