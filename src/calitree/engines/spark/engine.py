"""Spark as an engine: each output of a contraction is one SQL query, its result a frame that is kept.

    engine = SparkEngine()                      # the active session, or a local Spark of its own
    sales = engine.load("sales", "data/sales/*.parquet")

Only what Spark Connect has too is used. The caller's session is left as it is: no setting is changed
(what would depend on one is written so that it does not), and the temporary views that stand for
tables are dropped once the tables are gone.

A result is kept by `localCheckpoint`. Frames that are merely cached carry the plan of everything
before them, and under adaptive execution that plan grows without end. A result without attributes has
one row at most: it comes to this process at once, which saves a job.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.spark import changes
from calitree.engines.spark.jobs import Jobs, Value, explained
from calitree.engines.spark.numbers import Field
from calitree.engines.spark.query import Query, write_query
from calitree.engines.spark.read import read, relation_of, relation_of_arrow
from calitree.engines.spark.sums import add
from calitree.engines.spark.table import SparkTable, as_original, decoded, quoted
from calitree.engines.spark.watch import is_remote
from calitree.engines.spark.zone import UTC
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.sql.spark import to_spark
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkEngine:
    """The `Engine` protocol on PySpark."""

    name = "spark"

    def __init__(self, session: SparkSession | None = None) -> None:
        self._session = session
        self.jobs = Jobs()
        prefix = f"calitree_{uuid4().hex[:12]}"
        self._view_names = (f"{prefix}_{i}" for i in count())
        self.lock = threading.RLock()
        self.abandoned: deque[str] = deque()
        """Views of tables that are gone, to be dropped later: a finaliser must not call Spark."""

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        if self._session is None:
            from calitree.engines.spark.session import spark_session

            self._session = spark_session()
        return self._session

    @property
    def is_in_utc(self) -> bool:
        return self.session.conf.get("spark.sql.session.timeZone") in UTC

    # -- the protocol ----------------------------------------------------------------------------

    def load(self, name: str, source: Any) -> SparkTable:
        """A Spark frame or table, files, or whatever else Arrow can be made of."""
        with explained(f"load {name}"):
            frame = self._frame(name, source)
            if frame is not None:
                table = relation_of(self, name, frame)
                table.given = None if hasattr(source, "sparkSession") else source
                return table
            return relation_of_arrow(self, name, source)

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[SparkTable]:
        """One query an output. They are independent, so they run side by side."""
        self._drop_abandoned()
        tables = {
            at: self._own(contraction.inputs[at].table)
            for output in contraction.outputs
            for at in output.inputs
        }
        utc = self.is_in_utc

        def queries() -> list[Query]:
            return [write_query(contraction.inputs, each, utc) for each in contraction.outputs]

        with explained("prepare a contraction"):
            written = queries()
            wanted: dict[SparkTable, set[str]] = {}
            for query in written:
                for index, columns in query.wanted.items():
                    wanted.setdefault(tables[index], set()).update(columns)
            if self.measure(wanted):
                written = queries()
        computing = (
            partial(self._computed, contraction.inputs, output, query)
            for output, query in zip(contraction.outputs, written, strict=True)
        )
        return self._run(computing, watch)

    def how(self, contraction: Contraction) -> str:
        """It has but one way."""
        return ""

    def arrow(self, table: Table) -> pa.Table:
        """The table in this process; whole numbers that stand for decimals are decimals again."""
        own = self._own(table)
        return decoded(self.collected(own), own.fields)

    def collected(self, table: SparkTable) -> pa.Table:
        """The rows of a table as Spark has them."""
        if table.held is not None:
            return table.held
        with explained(f"read {table.label}"):
            (held,) = self._run([table.frame.toArrow])
        return held

    def origin(self, table: Table) -> Origin:
        from calitree.engines.spark.saved import origin

        return origin(self, self._own(table))

    def write(self, table: Table, path: str) -> SavedMessage:
        from calitree.engines.spark.saved import write

        return write(self, self._own(table), path)

    def restore(self, saved: SavedMessage | SavedRelation) -> SparkTable:
        from calitree.engines.spark.saved import restored_message, restored_relation

        if isinstance(saved, SavedRelation):
            return restored_relation(self, saved)
        return restored_message(self, saved)

    # -- updates ---------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        return changes.schema(self._own(table))

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> SparkTable | None:
        return add(self, output, self._owned(plus), self._owned(minus), rows)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> SparkTable:
        return changes.settle(self, self._owned(plus), self._owned(minus))

    def select(self, relation: Input, where: Expression) -> SparkTable:
        return changes.select(self, self._own(relation.table), relation, where)

    def matching(self, table: Table, rows: pa.Table) -> SparkTable:
        return changes.matching(self, self._own(table), rows)

    def apart(self, table: Table, keys: Table) -> SparkTable:
        return changes.apart(self, self._own(table), self._own(keys))

    def fix(self, source: DataFrame) -> SparkTable:
        """The rows that a frame has now, as a relation."""
        return changes.fix(self, source)

    # -- for those who speak Spark ---------------------------------------------------------------

    def spark_frame(self, table: Table) -> DataFrame:
        """The table as a frame, under the names of its columns."""
        own = self._own(table)
        with explained(f"read {own.label}"):
            return self.session.sql(as_original(own)) if own.fields else own.frame.select()

    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame:
        """A frame with one column for each formula over the table's columns, computed by Spark."""
        own = self._own(table)
        columns = ", ".join(
            f"{to_spark(each)} AS {quoted(name)}" for name, each in formulas.items()
        )
        with explained(f"read {own.label}"):
            return self.session.sql(f"SELECT {columns} FROM ({as_original(own)})")

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """All are."""
        return True

    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer to plain SQL over `tables` by these names, with their own column names.

        This is how an answer is checked against the join really built.
        """
        with explained(f"run {sql!r}"):
            (result,) = self._run([self._sql(sql, tables).toArrow])
        return result

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> SparkTable:
        """The result of plain SQL as a table: the wide table, built once."""
        with explained(f"run {sql!r}"):
            (frame,) = self._run([self._sql(sql, tables).localCheckpoint])
            return relation_of(self, "a materialised query", frame)

    def _sql(self, sql: str, tables: Mapping[str, Table]) -> DataFrame:
        """Named subqueries, because a temporary view could hide one of the caller's own."""
        named = ", ".join(
            f"{quoted(name)} AS ({as_original(self._own(table))})" for name, table in tables.items()
        )
        if named:
            sql = re.sub(r"^\s*(with(\s+recursive)?\s)?", _before(named), sql, count=1, flags=re.I)
        return self.session.sql(sql)

    # -- relations -------------------------------------------------------------------------------

    def _frame(self, name: str, source: Any) -> DataFrame | None:
        """The frame that Spark itself makes of a source, if it can."""
        session = getattr(source, "sparkSession", None)
        if session is None:
            return read(self.session, name, source)
        if self._session is None:
            self._session = session
        frame: DataFrame = source
        return frame

    def local_frame(self, held: pa.Table) -> DataFrame:
        """A table of this process in Spark; a timestamp without a time zone stays without."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(held.schema, prefer_timestamp_ntz=True)
        return self.session.createDataFrame(held, schema)

    def measure(self, wanted: Mapping[SparkTable, set[str]]) -> bool:
        """Count rows and find the largest numbers, once a table and column; whether it was news."""
        unknown = {table: columns - table.measured for table, columns in wanted.items()}
        tables = [t for t, columns in unknown.items() if columns or t.known_rows is None]

        def look(table: SparkTable) -> None:
            names = sorted(unknown[table])
            table.learn(*_sizes(table, names))

        with explained("measure " + ", ".join(table.label for table in tables)):
            self._run(partial(look, table) for table in tables)
        return bool(tables)

    def _own(self, table: Table) -> SparkTable:
        if isinstance(table, SparkTable) and table.engine is self:
            return table
        raise EngineError(f"This {type(table).__name__} is no table of this Spark engine.")

    def _owned(self, tables: Sequence[Table]) -> list[SparkTable]:
        return [self._own(table) for table in tables]

    # -- results ---------------------------------------------------------------------------------

    def _computed(self, inputs: Sequence[Input], output: Output, query: Query) -> SparkTable:
        with explained(_described(inputs, output)):
            found = self.result(output, self.session.sql(query.text), query.fields)
        assert found is not None
        return found

    def result(
        self, output: Output, frame: DataFrame, fields: dict[str, Field], checked: bool = False
    ) -> SparkTable | None:
        """What a frame computes for an output, as a table.

        One that is `checked` has a column `lost` besides; if that is true in any row, it is None.
        """
        sums = frozenset(
            part
            for column in output.columns
            for part, zero in zip(column.parts, column.semiring.zero, strict=True)
            if zero is not None
        )
        label, key = f"the message by {', '.join(output.keep) or 'nothing'}", frozenset(output.keep)
        made = partial(SparkTable, self, label, fields, key=key, null_free=sums)
        if output.keep:
            numbers = {name: each.name for name, each in fields.items() if each.coded}
            kept = self.kept(frame, numbers, checked)
            return None if kept.lost else kept.noted(made(frame=kept.frame))
        held = frame.toArrow()
        if not checked:
            return made(held=held)
        lost = pc.any(held.column(LOST)).as_py()
        return None if lost else made(held=held.drop([LOST]))

    def kept(self, frame: DataFrame, numbers: Mapping[str, str], checked: bool = False) -> Kept:
        """A frame that is computed once. How many rows and how large, Spark observes on the way.

        `numbers` are the columns to look at, by their names to us.
        """
        from pyspark.sql import Observation
        from pyspark.sql.functions import expr

        asked = ["COUNT(1) AS n"]
        asked += [f"{f}({c}) AS {f}_{c}" for c in numbers.values() for f in ("MIN", "MAX")]
        asked += [f"BOOL_OR({LOST}) AS {LOST}"] if checked else []
        if is_remote(self.session):  # where what is observed during a checkpoint is lost
            whole = frame.localCheckpoint()
            seen, rest = whole.selectExpr(*asked).collect()[0].asDict(), whole.drop(LOST)
        else:
            observation = Observation()
            observed = frame.observe(observation, *map(expr, asked))
            rest = observed.drop(LOST).localCheckpoint()
            seen = observation.get
        sizes = {n: _furthest((seen[f"MIN_{c}"], seen[f"MAX_{c}"])) for n, c in numbers.items()}
        return Kept(rest, seen["n"], sizes, bool(checked and seen[LOST]))

    # -- running ---------------------------------------------------------------------------------

    def _run(self, tasks: Iterable[Callable[[], Value]], watch: Watch | None = None) -> list[Value]:
        return self.jobs.run(self.session, tasks, watch)

    def next_view(self) -> str:
        return next(self._view_names)

    def _drop_abandoned(self) -> None:
        while self.abandoned:
            with suppress(IndexError):
                self.session.catalog.dropTempView(self.abandoned.popleft())


LOST = "lost"
"""The column of a frame that says whether digits are lost in a row."""


class Kept(NamedTuple):
    """A frame that is computed, and what was seen on the way."""

    frame: DataFrame
    rows: int
    sizes: Mapping[str, Any]
    lost: bool

    def noted(self, table: SparkTable) -> SparkTable:
        """A table of this frame, which then knows it too."""
        table.learn(self.rows, self.sizes)
        return table


def _sizes(table: SparkTable, names: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """The number of rows, and the largest absolute value of each of these columns."""
    columns = [table.fields[name].name for name in names]
    if table.held is not None:
        return table.held.num_rows, {
            name: _furthest(pc.min_max(table.held.column(column)).as_py().values())
            for name, column in zip(names, columns, strict=True)
        }
    asked = ["COUNT(*)", *(f"{f}({c})" for c in columns for f in ("MIN", "MAX"))]
    (row,) = table.frame.selectExpr(*asked).collect()
    ends = zip(row[1::2], row[2::2], strict=True)
    return row[0], {name: _furthest(pair) for name, pair in zip(names, ends, strict=True)}


def _furthest(values: Iterable[Any]) -> Any:
    return max((abs(value) for value in values if value is not None), default=None)


def _before(named: str) -> Callable[[re.Match[str]], str]:
    """What a query begins with once the named subqueries come first."""

    def start(found: re.Match[str]) -> str:
        if found[1]:
            return f"WITH{found[2] or ''} {named}, "
        return f"WITH {named} "

    return start


def _described(inputs: Sequence[Input], output: Output) -> str:
    """What is being computed, for an error message."""
    tables = (inputs[i].table for i in output.inputs)
    joined = " ⋈ ".join(t.label for t in tables if isinstance(t, SparkTable))
    by = f" by {', '.join(output.keep)}" if output.keep else ""
    where = f" where {' and '.join(map(str, output.where))}" if output.where else ""
    return f"compute {', '.join(c.name for c in output.columns) or 'rows'}{by} of {joined}{where}"
