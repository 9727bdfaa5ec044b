"""Spark as an engine: each output of a contraction is one SQL query, its result a frame that is kept.

    engine = SparkEngine()                      # the active session, or a local Spark of its own
    sales = engine.load("sales", "data/sales/*.parquet")

Only what Spark Connect has too is used. The caller's session is left as it is: no setting is changed
(what would depend on one is written so that it does not), and the temporary views that stand for
tables are dropped once the tables are gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.spark import changes
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.keeping import result
from calitree.engines.spark.query import Query, write_query
from calitree.engines.spark.read import read, relation_of, relation_of_arrow
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.saved import origin, restored_message, restored_relation, write
from calitree.engines.spark.sums import add
from calitree.engines.spark.table import SparkTable, as_original, decoded, measure, quoted
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
        self.runtime = Runtime(session)

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        return self.runtime.session

    # -- the protocol ----------------------------------------------------------------------------

    def load(self, name: str, source: Any) -> SparkTable:
        """A Spark frame or table, files, or whatever else Arrow can be made of."""
        with explained(f"load {name}"):
            frame = self._frame(name, source)
            if frame is not None:
                table = relation_of(self.runtime, name, frame)
                table.given = None if hasattr(source, "sparkSession") else source
                return table
            return relation_of_arrow(self.runtime, name, source)

    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[SparkTable]:
        """One query an output. They are independent, so they run side by side."""
        self.runtime.drop_abandoned()
        tables = {
            at: self._own(contraction.inputs[at].table)
            for output in contraction.outputs
            for at in output.inputs
        }
        utc = self.runtime.is_in_utc

        def queries() -> list[Query]:
            return [write_query(contraction.inputs, each, utc) for each in contraction.outputs]

        with explained("prepare a contraction"):
            written = queries()
            wanted: dict[SparkTable, set[str]] = {}
            for query in written:
                for index, columns in query.wanted.items():
                    wanted.setdefault(tables[index], set()).update(columns)
            if measure(self.runtime, wanted):
                written = queries()
        computing = (
            partial(self._computed, contraction.inputs, output, query)
            for output, query in zip(contraction.outputs, written, strict=True)
        )
        return self.runtime.run(computing, watch)

    def how(self, contraction: Contraction) -> str:
        """It has but one way."""
        return ""

    def arrow(self, table: Table) -> pa.Table:
        """The table in this process; whole numbers that stand for decimals are decimals again."""
        own = self._own(table)
        return decoded(own.collected(), own.fields)

    def origin(self, table: Table) -> Origin:
        return origin(self.runtime, self._own(table))

    def write(self, table: Table, path: str) -> SavedMessage:
        return write(self.runtime, self._own(table), path)

    def restore(self, saved: SavedMessage | SavedRelation) -> SparkTable:
        if isinstance(saved, SavedRelation):
            return restored_relation(self.runtime, saved)
        return restored_message(self.runtime, saved)

    # -- updates ---------------------------------------------------------------------------------

    def schema(self, table: Table) -> pa.Schema:
        return changes.schema(self._own(table))

    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> SparkTable | None:
        return add(self.runtime, output, self._owned(plus), self._owned(minus), rows)

    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> SparkTable:
        return changes.settle(self.runtime, self._owned(plus), self._owned(minus))

    def select(self, relation: Input, where: Expression) -> SparkTable:
        return changes.select(self.runtime, self._own(relation.table), relation, where)

    def matching(self, table: Table, rows: pa.Table) -> SparkTable:
        return changes.matching(self.runtime, self._own(table), rows)

    def apart(self, table: Table, keys: Table) -> SparkTable:
        return changes.apart(self.runtime, self._own(table), self._own(keys))

    def fix(self, source: DataFrame) -> SparkTable:
        """The rows that a frame has now, as a relation."""
        return changes.fix(self.runtime, source)

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
            (result,) = self.runtime.run([self._sql(sql, tables).toArrow])
        return result

    def materialise(self, sql: str, tables: Mapping[str, Table]) -> SparkTable:
        """The result of plain SQL as a table: the wide table, built once."""
        with explained(f"run {sql!r}"):
            (frame,) = self.runtime.run([self._sql(sql, tables).localCheckpoint])
            return relation_of(self.runtime, "a materialised query", frame)

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
        self.runtime.adopt(session)
        frame: DataFrame = source
        return frame

    def _own(self, table: Table) -> SparkTable:
        if isinstance(table, SparkTable) and table.runtime is self.runtime:
            return table
        raise EngineError(f"This {type(table).__name__} is no table of this Spark engine.")

    def _owned(self, tables: Sequence[Table]) -> list[SparkTable]:
        return [self._own(table) for table in tables]

    # -- results ---------------------------------------------------------------------------------

    def _computed(self, inputs: Sequence[Input], output: Output, query: Query) -> SparkTable:
        with explained(_described(inputs, output)):
            found = result(self.runtime, output, self.session.sql(query.text), query.fields)
        assert found is not None
        return found


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
