"""The rows of a result for which a condition is true: SQL's HAVING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.errors import ExpressionError, QueryError, did_you_mean
from calitree.jointree.schema import find_name
from calitree.results.tabular import Tabular
from calitree.sql.analysis import Resolved
from calitree.sql.parser import parse
from calitree.sql.spark import to_spark
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.result import Result


class Selected(Tabular):
    """The rows of a result for which a condition is true.

    Made by `Result.having`. Of a result that is on Spark, only these rows are brought to this process.

    >>> wide.query(["city"]).having("revenue > 10").rows()
    [{'city': 'Quito', 'revenue': 30}]
    """

    def __init__(self, result: Result, condition: str) -> None:
        self.result = result
        self.condition = parse(condition, self._column)
        if self.condition.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"A condition is true or false, but {condition!r} is {self.condition.kind.phrase}."
            )

    def _column(self, table: str | None, name: str) -> Resolved:
        """A column of the result: by its whole name, or by the last part of it."""
        columns = self.result.columns
        written = name if table is None else f"{table}.{name}"
        column = find_name(written, columns)
        if column is None and table is None:
            matches = [full for full in columns if full.rpartition(".")[2] == name]
            if len(matches) > 1:
                raise QueryError(f"{name!r} is ambiguous: it may be {' or '.join(matches)}.")
            column = matches[0] if matches else None
        if column is None:
            raise QueryError(
                f"The result has no column {written!r}.{did_you_mean(written, columns)}"
            )
        return Resolved(column, (), self.result.kinds[column])

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self.result.columns

    @property
    def plan(self) -> Plan:
        """How the result was computed."""
        return self.result.plan

    @property
    def exact(self) -> bool:
        """Whether every sum of the result is exact; see `Result.exact`."""
        return self.result.exact

    @cached_property
    def _arrow(self) -> pa.Table:
        frame = self._frame()
        if frame is not None:
            return frame.toArrow()
        from calitree.sql.evaluator import evaluate

        table = self.result.arrow()
        columns = dict(zip(table.column_names, table.columns, strict=True))
        # Where it is NULL, it is not true.
        return table.filter(evaluate(self.condition.node, columns, table.num_rows).cast("bool"))

    def _frame(self) -> DataFrame | None:
        frame = self.result.frame()
        return None if frame is None else frame.where(to_spark(self.condition.node))

    def spark(self) -> Any:
        """As a Spark DataFrame. A result that is on Spark is not brought to this process.

        Returns:
            A `pyspark.sql.DataFrame`.

        >>> wide.query(["city"]).having("revenue > 10").spark().count()   # doctest: +SKIP
        1
        """
        frame = self._frame()
        return self.result.given_to_spark(self._arrow) if frame is None else frame
