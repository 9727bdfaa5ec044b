"""A table of the Spark engine, and how its columns are told apart from what Spark holds.

In Spark every column is called c0, c1, …, as a name of ours may hold dots and backticks. Integers and
decimals that we computed are held as whole numbers (see `calitree.engines.spark.numbers`) and become
decimals again on the way out.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from calitree.engines.spark.jobs import explained
from calitree.engines.spark.numbers import DECIMAL, Field, as_decimal
from calitree.engines.spark.runtime import Runtime
from calitree.errors import SchemaError
from calitree.storage.table_format import SavedRelation
from calitree.types import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_KINDS = {
    "tinyint": (Kind.INTEGER, 2**7),
    "smallint": (Kind.INTEGER, 2**15),
    "int": (Kind.INTEGER, 2**31),
    "bigint": (Kind.INTEGER, 2**63),
    "float": (Kind.FLOAT, 0),
    "double": (Kind.FLOAT, 0),
    "string": (Kind.STRING, 0),
    "char": (Kind.STRING, 0),
    "varchar": (Kind.STRING, 0),
    "boolean": (Kind.BOOLEAN, 0),
    "date": (Kind.DATE, 0),
    "timestamp_ntz": (Kind.TIMESTAMP, 0),
    "timestamp": (Kind.TIMESTAMP_TZ, 0),
    "time": (Kind.TIME, 0),
    "binary": (Kind.BINARY, 0),
    "void": (Kind.NULL, 0),
}
"""By Spark's name of a type: its kind, and a bound on its integers."""

_BYTES = {Kind.BOOLEAN: 1, Kind.STRING: 24, Kind.BINARY: 24, Kind.DECIMAL: 16, Kind.OTHER: 64}


class SparkTable:
    """A relation (its `key` is None), or a message, with at most one row for each value of its key.

    It is in Spark (`frame`), in this process (`held`), or both; either has columns c0, c1, …. One
    that was saved is in Spark once it is needed (`later` makes its frame).
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
        later: Callable[[], DataFrame] | None = None,
    ) -> None:
        self.runtime = runtime
        self.label = label
        self.fields = fields
        self.held = held
        self.key = key
        self.null_free = null_free
        self.known_rows = None if held is None else held.num_rows
        self.measured: set[str] = set()
        """The columns whose bounds come from the data, not from their types."""
        self.given: Any = None
        """The path or the name that a relation was loaded by, if Spark itself reads it."""
        self.saved: SavedRelation | None = None
        """What a relation was restored from."""
        self._later = later
        self._view: str | None = None
        self._frames = [] if frame is None else [frame]
        # A frame of Connect tells the server that it is gone, and hangs if it is so only when the
        # interpreter is. A finaliser runs before that.
        weakref.finalize(self, self._frames.clear)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return {name: field.kind for name, field in self.fields.items()}

    @property
    def rows(self) -> int:
        """How many rows there are; of a relation they are counted when first asked for."""
        if self.known_rows is None:
            measure(self.runtime, {self: set()})
            assert self.known_rows is not None
        rows: int = self.known_rows
        return rows

    @property
    def nbytes(self) -> int:
        width = sum(_BYTES.get(field.kind, 8) for field in self.fields.values())
        return self.rows * max(1, width)

    @property
    def exact(self) -> bool:
        return all(field.exact for field in self.fields.values())

    @property
    def frame(self) -> DataFrame:
        if not self._frames:
            if self._later is not None:
                self._frames.append(self._later())
            else:
                assert self.held is not None
                self._frames.append(self.runtime.local_frame(self.held))
        return self._frames[0]

    @property
    def view(self) -> str:
        """The name under which SQL finds this table. It is forgotten together with the table."""
        with self.runtime.lock:
            if self._view is None:
                frame, name = self.frame, self.runtime.next_view()
                frame.createOrReplaceTempView(name)
                weakref.finalize(self, self.runtime.abandon, name)
                self._view = name  # only now: the rows of a saved relation may be missing
            return self._view

    def collected(self) -> pa.Table:
        """The rows in this process, as Spark has them."""
        if self.held is not None:
            return self.held
        with explained(f"read {self.label}"):
            (held,) = self.runtime.run([self.frame.toArrow])
        return held

    def learn(self, rows: int, sizes: Mapping[str, Any]) -> None:
        """Take note of the number of rows, and of the largest absolute values of some columns."""
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


def fields_of(label: str, names: Sequence[str], schema: StructType) -> dict[str, Field]:
    """The columns of a relation, in order. Spark must be able to tell them apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other is not None:
            how = "twice" if other == name else f"also as {other!r}"
            raise SchemaError(
                f"{label} has the column {name!r} {how}, and Spark does not tell upper from lower "
                "case. Rename one of them."
            )
        seen[name.lower()] = name
    fields = {}
    for index, (name, each) in enumerate(zip(names, schema, strict=True)):
        fields[name] = field_of(f"c{index}", each.dataType)
    return fields


def field_of(name: str, dtype: Any) -> Field:
    """A column of a relation that has one of Spark's types."""
    text = dtype.simpleString()
    if text.startswith("decimal"):
        bound = 10**dtype.precision - 1
        return Field(name, text.upper(), Kind.DECIMAL, dtype.scale, bound)
    kind, bound = _KINDS.get(text.split("(")[0].split(" ")[0], (Kind.OTHER, 0))
    return Field(name, text.upper(), kind, bound=bound)


def arrow_schema(table: SparkTable) -> pa.Schema:
    """The columns as Arrow has them; the session's time zone is nobody's business."""
    if table.held is not None:
        schema = table.held.schema
    else:
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(table.frame.schema, timezone="UTC")
    return pa.schema(
        pa.field(name, in_utc(each.type)) for name, each in zip(table.fields, schema, strict=True)
    )


def in_utc(dtype: pa.DataType) -> pa.DataType:
    zoned = pa.types.is_timestamp(dtype) and dtype.tz is not None
    return pa.timestamp("us", "UTC") if zoned else dtype


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def as_original(table: SparkTable) -> str:
    """SQL for the table with its own names, and decimals for the whole numbers we keep."""
    columns = [
        f"{as_decimal(field.name, field.scale) if field.coded and field.scale else field.name}"
        f" AS {quoted(name)}"
        for name, field in table.fields.items()
    ]
    return f"SELECT {', '.join(columns) or 'TRUE'} FROM {table.view}"


def decoded(held: pa.Table, fields: Mapping[str, Field]) -> pa.Table:
    """The columns under their own names, whole numbers as integers or decimals."""
    if not fields:
        return held.select([])  # no columns, but as many rows
    arrays = [_decoded(held.column(field.name), field) for field in fields.values()]
    return pa.table(arrays, names=list(fields))


def _decoded(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if field.kind is Kind.TIMESTAMP_TZ:
        return column.cast(pa.timestamp("us", "UTC"))  # the session's zone is nobody's business
    if not field.coded:
        return column
    if field.scale:
        target = pa.decimal128(38, field.scale)
        chunks = column.cast(pa.decimal128(38, 0)).chunks
        moved = [  # the same digits, with the point elsewhere
            pa.Array.from_buffers(target, len(c), c.buffers(), c.null_count, c.offset)
            for c in chunks
        ]
        return pa.chunked_array(moved, target)
    if field.type == DECIMAL:
        largest = pc.max(pc.abs(column)).as_py()
        if largest is None or largest < 2**63:
            return column.cast(pa.int64())
    return column


def arrow_for_spark(label: str, table: pa.Table) -> pa.Table:
    """The table in types that Spark knows, its columns called c0, c1, …."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        target = _spark_type(column.type)
        try:
            columns.append(column.cast(target) if target != column.type else column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"{label}.{name}: Spark has no {column.type}, and its values do not fit a {target} "
                f"({str(error).splitlines()[0]})."
            ) from error
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])


def _spark_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(dtype):
        return _spark_type(dtype.value_type)
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", dtype.tz)
    if pa.types.is_decimal256(dtype):
        return pa.decimal128(min(38, dtype.precision), min(38, dtype.scale))
    tests: list[tuple[Callable[[pa.DataType], bool], pa.DataType]] = [
        (pa.types.is_uint8, pa.int16()),
        (pa.types.is_uint16, pa.int32()),
        (pa.types.is_uint32, pa.int64()),
        (pa.types.is_uint64, pa.decimal128(20, 0)),
        (pa.types.is_float16, pa.float32()),
        (pa.types.is_date64, pa.date32()),
        (pa.types.is_time, pa.time64("us")),
        (pa.types.is_string_view, pa.string()),
        (pa.types.is_binary_view, pa.binary()),
    ]
    return next((target for test, target in tests if test(dtype)), dtype)


# -- what is in it --------------------------------------------------------------------------------


def measure(runtime: Runtime, wanted: Mapping[SparkTable, set[str]]) -> bool:
    """Count rows and find the largest numbers, once a table and column; whether it was news."""
    unknown = {table: columns - table.measured for table, columns in wanted.items()}
    tables = [t for t, columns in unknown.items() if columns or t.known_rows is None]

    def look(table: SparkTable) -> None:
        names = sorted(unknown[table])
        table.learn(*_sizes(table, names))

    with explained("measure " + ", ".join(table.label for table in tables)):
        runtime.run(partial(look, table) for table in tables)
    return bool(tables)


def _sizes(table: SparkTable, names: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The number of rows, and the largest absolute value of each of these columns."""
    columns = [table.fields[name].name for name in names]
    if table.held is not None:
        return table.held.num_rows, {
            name: furthest(pc.min_max(table.held.column(column)).as_py().values())
            for name, column in zip(names, columns, strict=True)
        }
    asked = ["COUNT(*)", *(f"{f}({c})" for c in columns for f in ("MIN", "MAX"))]
    (row,) = table.frame.selectExpr(*asked).collect()
    ends = zip(row[1::2], row[2::2], strict=True)
    return row[0], {name: furthest(pair) for name, pair in zip(names, ends, strict=True)}


def furthest(values: Iterable[Any]) -> Any:
    """The largest absolute value."""
    return max((abs(value) for value in values if value is not None), default=None)
