"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.calibration.executor import Answer
from calitree.calibration.folding.held import HeldTable, HeldTables
from calitree.calibration.planning.plan import Plan
from calitree.engines.api.protocol import Engine, on_spark
from calitree.engines.spark.session import spark_session
from calitree.errors import QueryError
from calitree.interrupts import run
from calitree.query.binder import Query
from calitree.results.having import Selected
from calitree.results.tabular import Tabular, text_of
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.rollup import Groups


class Result(Tabular):
    """The answer to a query: the group-by columns as they were written, then the measures.

    Made by `WideTable.query`. It is computed already, and converted when `arrow`, `pandas`, `polars`,
    `rows` or `spark` is called. It never changes, and threads may share it.

    >>> wide.query(["city"])
    city    revenue
    Quito   30
    Cuenca  5
    """

    def __init__(
        self,
        engine: Engine,
        answer: Answer,
        inflation: Callable[[], dict[str, float | None]] | None = None,
    ) -> None:
        self._engine: Any = HeldTables() if isinstance(answer.table, HeldTable) else engine
        self._answer, self._inflation = answer, inflation

    def __reduce__(self) -> tuple[Any, ...]:
        """Its rows are pickled, not the tables that they were computed from."""
        absorbed = self._engine.arrow(self._answer.table)
        held: Any = HeldTable(absorbed, self._answer.table.exact)
        return Result, (HeldTables(), self._answer._replace(table=held))

    @property
    def query(self) -> Query:
        """The question as it was understood: attributes, filters and aggregates."""
        return self._answer.projection.query

    @cached_property
    def plan(self) -> Plan:
        """How it was answered: what was reused and what was computed, with rows and times."""
        return self._answer.plan.after(self._answer.measured)

    @property
    def exact(self) -> bool:
        """Whether no integer or decimal had to continue in floating point.

        They do beyond 38 digits. Averages, and what else is a double by its nature, do not count.
        """
        if not self._answer.table.exact:
            return False
        return all(self.kinds[name] is not Kind.FLOAT for name in self._answer.projection.whole)

    @cached_property
    def inflation(self) -> dict[str, float | None]:
        """How many times more each measure is if each joined row counts than at its grain, in total.

        A measure without a grain is compared with that of the relations that own its columns. None where
        there is no such ratio. It is computed when it is first read, from the rows as they were.

        >>> wide.query(["city"], measures={"codes": "sum(stores.id)"}).inflation
        {'codes': 1.3333333333333333}
        """
        if self._inflation is None:
            raise QueryError("This result was pickled, without the tree: ask for inflation there.")
        return self._inflation()

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._answer.projection.columns)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each column."""
        return {field.name: kind_of_arrow(field.type) for field in self._head(0).schema}

    @cached_property
    def _arrow(self) -> pa.Table:
        engine, (projection, _, _, table) = self._engine, self._answer
        return run(lambda: projection.answer(engine.arrow(table)), table.rows)

    @cached_property
    def groups(self) -> Groups:
        """The groups with their aggregates, which can be rolled up without another query.

        >>> wide.query(["city"]).groups.by([]).rows()
        [{'revenue': 35}]
        """
        from calitree.results.rollup import Groups

        for fold in self.query.folds:
            raise QueryError(
                f"{fold.function} of groups is not that of all their rows, so these groups cannot be "
                "rolled up. Ask for the groups that are wanted."
            )
        for aggregate in self.query.aggregates:
            if aggregate.grain:
                raise QueryError(
                    f"A row of {' and '.join(sorted(aggregate.grain))} may count in several of these "
                    "groups, so they cannot be added up. Ask for the groups that are wanted."
                )
        engine, (projection, _, _, table) = self._engine, self._answer
        return run(lambda: Groups.absorbed(projection, engine.arrow(table)), table.rows)

    def having(self, condition: str) -> Selected:
        """Only the rows for which a condition is true, as SQL's HAVING.

        Args:
            condition: SQL over the columns of this result, which may be named by the last part of
                their name (`city` for `stores.city`).

        Returns:
            The rows for which it is true, neither false nor NULL.

        Raises:
            QueryError: There is no such column, or its name is ambiguous.
            ExpressionError: The text is not SQL, or is no condition.

        >>> wide.query(["city"]).having("revenue >= 10 and city <> 'Loja'").rows()
        [{'city': 'Quito', 'revenue': 30}]
        """
        return Selected(self, condition)

    def spark(self) -> Any:
        """As a Spark DataFrame. An answer that is on Spark is not brought to this process.

        Returns:
            A `pyspark.sql.DataFrame`.

        >>> wide.query(["city"]).spark().count()   # doctest: +SKIP
        2
        """
        frame = self.frame()
        return self.given_to_spark(self._arrow) if frame is None else frame

    def given_to_spark(self, table: pa.Table) -> DataFrame:
        """A table of this process as a Spark DataFrame.

        Args:
            table: An Arrow table.

        Returns:
            A `pyspark.sql.DataFrame`, of the engine's session if it has one.

        >>> result = wide.query(["city"])
        >>> result.given_to_spark(result.arrow()).count()   # doctest: +SKIP
        2
        """
        engine = on_spark(self._engine)
        session = spark_session() if engine is None else engine.session
        return run(lambda: session.createDataFrame(table))

    def frame(self) -> DataFrame | None:
        """The answer as a Spark DataFrame, if it is on Spark.

        Returns:
            A `pyspark.sql.DataFrame`; None if the answer is in this process.

        >>> wide.query(["city"]).frame() is None
        True
        """
        engine = on_spark(self._engine)
        if engine is None or not self.query.group_by:  # a total is one row, even of nothing
            return None
        return engine.result_frame(self._answer.table, self._answer.projection.formulas)

    def _head(self, limit: int) -> pa.Table:
        """The first rows; of what is on Spark no others are brought here."""
        frame = None if "_arrow" in self.__dict__ else self.frame()
        if frame is None:
            return self._arrow.slice(0, limit)
        return run(lambda: frame.limit(limit).toArrow())

    def __len__(self) -> int:
        return 1 if not self.query.group_by else self._answer.table.rows

    def text(self, limit: int | None = None) -> str:
        """As aligned columns of text.

        Args:
            limit: How many rows to show; all if it is None.

        Returns:
            The names of the columns, the rows, and how many there are if these are not all.

        >>> print(wide.query(["city"]).text(1))
        city   revenue
        Quito  30
        … 2 rows
        """
        head = self._arrow if limit is None else self._head(limit)
        return text_of(head.to_pylist(), self.columns, len(self))
