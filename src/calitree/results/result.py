"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
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
from calitree.query.shift.period import Period
from calitree.results.asked import Asked
from calitree.results.having import Selected
from calitree.results.inflation import inflation
from calitree.results.tabular import Tabular
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.compare import PeriodComparison
    from calitree.results.rollup import Groups
    from calitree.results.running import Cumulative
    from calitree.results.share import Shares


class Result(Tabular):
    """The answer to a query: the group-by columns as they were written, then the measures.

    Made by `WideTable.query`. It is computed already, and converted when `arrow`, `pandas`, `polars`,
    `rows` or `spark` is called. It never changes, and threads may share it.

    >>> wide.query(["city"])
    city    revenue
    Quito   30
    Cuenca  5
    """

    def __init__(self, engine: Engine, answer: Answer, asked: Asked | None = None) -> None:
        self._engine: Any = HeldTables() if isinstance(answer.table, HeldTable) else engine
        self._answer, self._asked = answer, asked

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
        """Whether no measure is approximate, and no integer or decimal had to continue in floating point.

        They do beyond 38 digits. Averages, and what else is a double by its nature, do not count.
        """
        if not self._answer.table.exact or self.approximate:
            return False
        return all(self.kinds[name] is not Kind.FLOAT for name in self._answer.projection.whole)

    @property
    def approximate(self) -> dict[str, str]:
        """How far the measures that are approximate may be from their exact values.

        >>> wide.query(measures={"n": "count(*)", "prices": "approx_count_distinct(price)"}).approximate
        {'prices': 'standard error 1.4 %'}
        """
        return {name: measure.error for name, measure in self.query.measures if measure.error}

    @cached_property
    def inflation(self) -> dict[str, float | None]:
        """How many times more each measure is if each joined row counts than at its grain, in total.

        A measure without a grain is compared with that of the relations that own its columns. None where
        there is no such ratio. It is computed when it is first read, from the rows as they were.

        >>> wide.query(["city"], measures={"codes": "sum(stores.id)"}).inflation
        {'codes': 1.3333333333333333}
        """
        return inflation(self._origin)

    @property
    def _origin(self) -> Asked:
        if self._asked is None:
            raise QueryError(
                "This result was pickled, without the tree: ask for inflation and comparisons where the "
                "tree is."
            )
        return self._asked

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
        for name in self.query.values:
            raise QueryError(
                f"{name!r} is in a Python semiring, whose elements the result does not have, so these groups "
                "cannot be rolled up. Ask for the groups that are wanted."
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

    def compare(
        self, period: str | int, by: str | None = None, on: str | None = None
    ) -> PeriodComparison:
        """Put each group beside the same group a period earlier.

        A group by a date or timestamp, as it is or truncated (`date_trunc('month', day)`), is compared with
        the group of its value less the period. Conditions on that column, and other groups that are
        computed from it, are asked of the earlier time.

        Args:
            period: An interval (`"1 year"`, `"3 months"`, `"52 weeks"`); one that is negative is later. A
                whole number for a column of integers.
            by: The group that is the time, if several may be, or that is a column of integers.
            on: The column that has the time, if the question is not grouped by it, or has filters on
                several. Filters on other columns then stay as they are.

        Returns:
            The groups that are there now or were before, with columns `n`, `n_before`, and for numbers
            `n_change` and `n_ratio`, for each measure `n`.

        Raises:
            QueryError: Which time is compared, or what it was then, cannot be told; or the result was
                pickled.

        >>> wide.query(["price"], where="price > 9").compare(10, by="price").rows()[0]
        {'price': 10, 'revenue': 10, 'revenue_before': None, 'revenue_change': 10, 'revenue_ratio': None}
        """
        from calitree.results.compare import PeriodComparison

        return PeriodComparison(self, self._origin, Period.read(period), by, on)

    def cumulative(
        self,
        by: str | Sequence[str] | None = None,
        measures: Sequence[str] | None = None,
        descending: bool = False,
    ) -> Cumulative:
        """Run each measure along a group: over all rows up to there, within the other groups.

        Averages, extremes and deviations are those of all these rows, too.

        Args:
            by: The group, or groups, in whose order; by default the only one, or the only date.
            measures: Names of measures; by default all.
            descending: Whether to begin with the greatest. NULL comes last in both orders.

        Returns:
            The groups in this order, with the columns `n` and `n_cumulative` for each measure `n`.

        Raises:
            QueryError: There is no such group, or the measures of these groups cannot be put together.

        >>> wide.query(["price"]).cumulative().rows()[1]
        {'price': 10, 'revenue': 10, 'revenue_cumulative': 15}
        """
        from calitree.results.running import Cumulative

        return Cumulative(self.groups, by, measures, descending)

    def share(
        self, within: str | Sequence[str] = (), measures: Sequence[str] | None = None
    ) -> Shares:
        """Divide each measure by its total.

        Args:
            within: Groups that have a total each; by default there is one of all.
            measures: Names of measures, which must be counts or sums; by default all.

        Returns:
            The groups, with the columns `n` and `n_share` for each measure `n`; NULL where the total is
            zero.

        Raises:
            QueryError: There is no such group, or a measure does not add up.

        >>> wide.query(["price"], where="price > 5").share().rows()[0]["revenue_share"]
        0.3333333333333333
        """
        from calitree.results.share import Shares

        return Shares(self.groups, within, measures)

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
