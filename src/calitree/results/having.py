"""The rows of a result for which a condition is true: SQL's HAVING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calitree.cache import cached_property
from calitree.calibration.planning.plan import Plan
from calitree.errors import ExpressionError, QueryError, did_you_mean
from calitree.jointree.schema import find_name
from calitree.results.tabular import Tabular, html_of, text_of
from calitree.sql.analysis import Resolved
from calitree.sql.parser import parse
from calitree.sql.spark import to_spark
from calitree.types import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.result import Result


class Selected(Tabular):
    """The rows of a result for which a condition is true. Of what is on Spark, no others are brought to
    this process.
    """

    def __init__(self, result: Result, condition: str) -> None:
        self.result = result
        self.condition = parse(condition, self._column)
        if self.condition.kind not in (Kind.BOOLEAN, Kind.NULL):
            raise ExpressionError(
                f"A condition is true or false, but {condition!r} is {self.condition.kind.phrase}."
            )

    def _column(self, table: str | None, name: str) -> Resolved:
        """A column of the result: as it is called, or by the last part of its name."""
        columns = self.result.columns
        found = find_name(name if table is None else f"{table}.{name}", columns)
        if found is None and table is None:
            near = [each for each in columns if each.rpartition(".")[2] == name]
            if len(near) > 1:
                raise QueryError(f"{name!r} is ambiguous: it may be {' or '.join(near)}.")
            found = near[0] if near else None
        if found is None:
            written = name if table is None else f"{table}.{name}"
            raise QueryError(
                f"The result has no column {written!r}.{did_you_mean(written, columns)}"
            )
        return Resolved(found, (), self.result.kinds[found])

    @property
    def columns(self) -> list[str]:
        return self.result.columns

    @property
    def plan(self) -> Plan:
        """How the result was made."""
        return self.result.plan

    @property
    def exact(self) -> bool:
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
        if frame is None:
            return None
        return frame.where(to_spark(self.condition.node))

    def spark(self) -> Any:
        """As a Spark DataFrame; on Spark it is not brought to this process."""
        frame = self._frame()
        return self.result.given_to_spark(self._arrow) if frame is None else frame

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        return text_of(self._arrow.slice(0, 10).to_pylist(), self.columns, len(self))

    def _repr_html_(self) -> str:
        return html_of(self._arrow.slice(0, 100).to_pylist(), self.columns, len(self))
