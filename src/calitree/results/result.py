"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.calibration.executor import Answer
from calitree.calibration.planning.plan import Plan
from calitree.engines.api.protocol import Engine, on_spark
from calitree.engines.spark.session import spark_session
from calitree.query.binder import Query
from calitree.results.having import Selected
from calitree.results.tabular import Tabular, html_of, text_of
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.rollup import Groups


class Result(Tabular):
    """Group-by columns as written, then the measures. Computed already; converted when asked."""

    def __init__(self, engine: Engine, answer: Answer) -> None:
        self._engine, self._answer = engine, answer

    @property
    def query(self) -> Query:
        return self._answer.projection.query

    @cached_property
    def plan(self) -> Plan:
        """How it was answered: what was reused and what was computed, with rows and times."""
        return self._answer.plan.after(self._answer.measured)

    @property
    def exact(self) -> bool:
        """False if some integer or decimal sum did not fit and was continued in floating point."""
        return self._answer.table.exact

    @property
    def columns(self) -> list[str]:
        return list(self._answer.projection.columns)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each column."""
        return {each.name: kind_of_arrow(each.type) for each in self._head(0).schema}

    @cached_property
    def _arrow(self) -> pa.Table:
        return self._answer.projection.answer(self._engine.arrow(self._answer.table))

    @cached_property
    def groups(self) -> Groups:
        """The groups with what their measures are made of: to be summed up to fewer of them, or over
        all but one, without asking again.
        """
        from calitree.results.rollup import Groups

        return Groups.absorbed(self._answer.projection, self._engine.arrow(self._answer.table))

    def having(self, condition: str) -> Selected:
        """Only the rows for which a condition on these columns is true, as SQL's HAVING.

        wide.query(["stores.city"]).having("n >= 10 and city <> 'Quito'")
        """
        return Selected(self, condition)

    def spark(self) -> Any:
        """As a Spark DataFrame; on Spark it is not brought to this process."""
        frame = self.frame()
        if frame is not None:
            return frame
        return self.given_to_spark(self._arrow)

    def given_to_spark(self, table: pa.Table) -> DataFrame:
        """A table of this process as a Spark DataFrame."""
        engine = on_spark(self._engine)
        if engine is not None:
            return engine.session.createDataFrame(table)
        return spark_session().createDataFrame(table)

    def frame(self) -> DataFrame | None:
        """The answer on Spark, if it is there."""
        engine = on_spark(self._engine)
        if engine is None or not self.query.group_by:  # a total is one row, even of nothing
            return None
        return engine.result_frame(self._answer.table, self._answer.projection.formulas)

    def _head(self, limit: int) -> pa.Table:
        """The first rows; of what is on Spark no others are brought here."""
        frame = None if "_arrow" in self.__dict__ else self.frame()
        return self._arrow.slice(0, limit) if frame is None else frame.limit(limit).toArrow()

    def __len__(self) -> int:
        return 1 if not self.query.group_by else self._answer.table.rows

    def __repr__(self) -> str:
        return self.text(10)

    def text(self, limit: int | None = None) -> str:
        """As aligned columns of text: all rows, or the first so many."""
        head = (self._arrow if limit is None else self._head(limit)).to_pylist()
        return text_of(head, self.columns, len(self))

    def _repr_html_(self) -> str:
        return html_of(self._head(100).to_pylist(), self.columns, len(self))
