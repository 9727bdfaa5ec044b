"""The Spark engine: every output of a contraction is one SQL query, its result a checkpointed frame.

    engine = SparkEngine()                      # the active session, or a local Spark of its own
    sales = engine.load("sales", "data/sales/*.parquet")

Only what Spark Connect has too is used. The caller's session is left as it is: no setting is changed
(queries are written so that they do not depend on any), and the temporary views of tables are dropped
once the tables are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from calitree.engines.api.contraction import Contraction, Input, Output, Table
from calitree.engines.api.protocol import Watch
from calitree.engines.spark import changes
from calitree.engines.spark.checkpoints import result
from calitree.engines.spark.fields import decoded
from calitree.engines.spark.jobs import calls_spark, explained
from calitree.engines.spark.read import relation_of, relation_of_arrow, relation_of_source
from calitree.engines.spark.runtime import Runtime
from calitree.engines.spark.saved import origin, restored_message, restored_relation, write
from calitree.engines.spark.sql.statement import SelectStatement, write_output
from calitree.engines.spark.sums import add
from calitree.engines.spark.table import SparkTable, as_original, measure, quoted
from calitree.errors import EngineError
from calitree.sql.parser import Expression
from calitree.sql.spark import to_spark
from calitree.storage.table_format import Origin, SavedMessage, SavedRelation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkEngine:
    """The `Engine` protocol on PySpark, with every capability.

    Args:
        session: the Spark session; without one, the active one is used, or one is started.

    >>> SparkEngine().name
    'spark'
    """

    name = "spark"

    def __init__(self, session: SparkSession | None = None) -> None:
        self.runtime = Runtime(session)

    @property
    def session(self) -> SparkSession:
        """The Spark session; one is started if there is none."""
        return self.runtime.session

    # -- Engine ----------------------------------------------------------------------------------

    @calls_spark
    def load(self, name: str, source: Any) -> SparkTable:
        """A Spark frame or table, files, or whatever can be converted to Arrow."""
        with explained(f"load {name}"):
            if hasattr(source, "sparkSession"):
                self.runtime.adopt(source.sparkSession)
                return relation_of(self.runtime, name, source)
            table = relation_of_source(self.runtime, name, source)
            if table is None:
                return relation_of_arrow(self.runtime, name, source)
            table.given = source
            return table

    @calls_spark
    def contract(self, contraction: Contraction, watch: Watch | None = None) -> list[SparkTable]:
        """One query an output. They are independent, so they run concurrently."""
        self.runtime.drop_abandoned()
        inputs, outputs = contraction.inputs, contraction.outputs
        used = {at for output in outputs for at in output.inputs}
        tables = {at: self._own(inputs[at].table) for at in used}
        utc = self.runtime.is_in_utc
        with explained("prepare a contraction"):
            statements = [write_output(inputs, output, utc) for output in outputs]
            to_measure: dict[SparkTable, set[str]] = {}
            for statement in statements:
                for index, columns in statement.to_measure.items():
                    to_measure.setdefault(tables[index], set()).update(columns)
            if measure(self.runtime, to_measure):
                statements = [write_output(inputs, output, utc) for output in outputs]
        computing = (
            partial(self._computed, inputs, output, statement)
            for output, statement in zip(outputs, statements, strict=True)
        )
        return self.runtime.run(computing, watch)

    def how(self, contraction: Contraction) -> str:
        """Empty: it has only one strategy."""
        return ""

    @calls_spark
    def arrow(self, table: Table) -> pa.Table:
        """The table in this process; whole numbers that stand for decimals are decimals again."""
        own = self._own(table)
        return decoded(own.collected(), own.fields)

    # -- Updatable -------------------------------------------------------------------------------

    @calls_spark
    def schema(self, table: Table) -> pa.Schema:
        """The columns of a relation with their Arrow types."""
        return changes.schema(self._own(table))

    @calls_spark
    def add(
        self, output: Output, plus: Sequence[Table], minus: Sequence[Table], rows: str | None
    ) -> SparkTable | None:
        """The ⊕-sum of results less those in `minus`; None if digits would be lost."""
        return add(self.runtime, output, self._owned(plus), self._owned(minus), rows)

    @calls_spark
    def settle(self, plus: Sequence[Table], minus: Sequence[Table]) -> SparkTable:
        """The bag difference of relations."""
        return changes.settle(self.runtime, self._owned(plus), self._owned(minus))

    @calls_spark
    def select(self, relation: Input, where: Expression) -> SparkTable:
        """The rows for which a condition is true."""
        return changes.select(self.runtime, self._own(relation.table), relation, where)

    @calls_spark
    def matching(self, table: Table, rows: pa.Table) -> SparkTable:
        """The semi-join of a relation with `rows`."""
        return changes.matching(self.runtime, self._own(table), rows)

    @calls_spark
    def apart(self, table: Table, keys: Table) -> SparkTable:
        """The anti-join of a result with `keys`."""
        return changes.apart(self.runtime, self._own(table), self._own(keys))

    # -- Persistent ------------------------------------------------------------------------------

    @calls_spark
    def origin(self, table: Table) -> Origin:
        """Where the rows of a relation are stored."""
        return origin(self.runtime, self._own(table))

    @calls_spark
    def write(self, table: Table, path: str) -> SavedMessage:
        """Write a message to new files."""
        return write(self.runtime, self._own(table), path)

    def restore(self, saved: SavedMessage | SavedRelation) -> SparkTable:
        """A saved table; nothing of it is read until it is needed."""
        if isinstance(saved, SavedRelation):
            return restored_relation(self.runtime, saved)
        return restored_message(self.runtime, saved)

    # -- SparkBacked -----------------------------------------------------------------------------

    @calls_spark
    def result_frame(self, table: Table, formulas: Mapping[str, exp.Expr]) -> DataFrame:
        """A frame with one column for each formula over the table's columns, computed by Spark."""
        own = self._own(table)
        columns = ", ".join(
            f"{to_spark(formula)} AS {quoted(name)}" for name, formula in formulas.items()
        )
        with explained(f"read {own.label}"):
            return self.session.sql(f"SELECT {columns} FROM ({as_original(own)})")

    def is_on_spark(self, tables: Iterable[Table]) -> bool:
        """Always true."""
        return True

    @calls_spark
    def query(self, sql: str, tables: Mapping[str, Table]) -> pa.Table:
        """The answer to plain SQL over `tables` by these names, with their own column names."""
        with explained(f"run {sql!r}"):
            (result,) = self.runtime.run([self._sql(sql, tables).toArrow])
        return result

    @calls_spark
    def materialise(self, sql: str, tables: Mapping[str, Table]) -> SparkTable:
        """The result of plain SQL as a table."""
        with explained(f"run {sql!r}"):
            (frame,) = self.runtime.run([self._sql(sql, tables).localCheckpoint])
            return relation_of(self.runtime, "a materialised query", frame)

    @calls_spark
    def fix(self, source: DataFrame) -> SparkTable:
        """A snapshot of the rows of a frame, as a relation."""
        return changes.fix(self.runtime, source)

    def _sql(self, sql: str, tables: Mapping[str, Table]) -> DataFrame:
        """The query, its tables as named subqueries: a view could hide one of the caller's own."""
        named = ", ".join(
            f"{quoted(name)} AS ({as_original(self._own(table))})" for name, table in tables.items()
        )
        given = re.match(r"\s*(with(\s+recursive)?\s)?", sql, re.I)
        if named and given:
            rest = sql[given.end() :]
            sql = f"WITH{given[2] or ''} {named}{', ' if given[1] else ' '}{rest}"
        return self.session.sql(sql)

    def _own(self, table: Table) -> SparkTable:
        if isinstance(table, SparkTable) and table.runtime is self.runtime:
            return table
        raise EngineError(f"This {type(table).__name__} is no table of this Spark engine.")

    def _owned(self, tables: Sequence[Table]) -> list[SparkTable]:
        return [self._own(table) for table in tables]

    def _computed(
        self, inputs: Sequence[Input], output: Output, statement: SelectStatement
    ) -> SparkTable:
        with explained(_described(inputs, output)):
            frame = self.session.sql(statement.text)
            table = result(self.runtime, output, frame, statement.fields)
        assert table is not None
        return table


def _described(inputs: Sequence[Input], output: Output) -> str:
    """What is being computed, for an error message."""
    tables = (inputs[i].table for i in output.inputs)
    joined = " ⋈ ".join(t.label for t in tables if isinstance(t, SparkTable))
    by = f" by {', '.join(output.keep)}" if output.keep else ""
    where = f" where {' and '.join(map(str, output.where))}" if output.where else ""
    return f"compute {', '.join(c.name for c in output.columns) or 'rows'}{by} of {joined}{where}"
