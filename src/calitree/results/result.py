"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from calitree.calibration.message import MessageKey
from calitree.calibration.planning.plan import Measured, Plan
from calitree.calibration.projection import Question
from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine, on_spark
from calitree.query.binder import Query
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from calitree.results.having import Selected
    from calitree.results.rollup import Groups


class Tabular:
    """What ends as an Arrow table, in whatever form it is wanted."""

    @cached_property
    def _arrow(self) -> pa.Table:
        raise NotImplementedError

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self._arrow

    def pandas(self) -> Any:
        """As a pandas DataFrame."""
        return self._arrow.to_pandas()

    def polars(self) -> Any:
        """As a polars DataFrame."""
        import polars

        return polars.from_arrow(self._arrow)

    def rows(self) -> list[dict[str, Any]]:
        """As a list of dictionaries."""
        rows: list[dict[str, Any]] = self._arrow.to_pylist()
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._arrow.__arrow_c_stream__(requested_schema)


class Result(Tabular):
    """Group-by columns as written, then the measures. Computed already; converted when asked."""

    def __init__(
        self,
        question: Question,
        plan: Plan,
        measured: Mapping[MessageKey | None, Measured],
        engine: Engine,
        table: Table,
    ) -> None:
        self._question = question
        self._plan = plan
        self._measured = measured
        self._engine = engine
        self._table = table

    @property
    def query(self) -> Query:
        return self._question.query

    @cached_property
    def plan(self) -> Plan:
        """How it was answered: what was reused and what was computed, with rows and times."""
        return self._plan.after(self._measured)

    @property
    def exact(self) -> bool:
        """False if some integer or decimal sum did not fit and was continued in floating point."""
        return self._table.exact

    @property
    def columns(self) -> list[str]:
        return list(self._question.columns)

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each column."""
        return {each.name: kind_of_arrow(each.type) for each in self._head(0).schema}

    @cached_property
    def _arrow(self) -> pa.Table:
        return self._question.answer(self._engine.arrow(self._table))

    @cached_property
    def groups(self) -> Groups:
        """The groups with what their measures are made of: to be summed up to fewer of them, or over
        all but one, without asking again.
        """
        from calitree.results.rollup import Groups

        return Groups.absorbed(self._question, self._engine.arrow(self._table))

    def having(self, condition: str) -> Selected:
        """Only the rows for which a condition on these columns is true, as SQL's HAVING.

        wide.query(["stores.city"]).having("n >= 10 and city <> 'Quito'")
        """
        from calitree.results.having import Selected

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
        from calitree.engines.spark.session import spark_session

        return spark_session().createDataFrame(table)

    def frame(self) -> DataFrame | None:
        """The answer on Spark, if it is there."""
        engine = on_spark(self._engine)
        if engine is None or not self.query.group_by:  # a total is one row, even of nothing
            return None
        return engine.result_frame(self._table, self._question.formulas)

    def _head(self, limit: int) -> pa.Table:
        """The first rows; of what is on Spark no others are brought here."""
        frame = None if "_arrow" in self.__dict__ else self.frame()
        return self._arrow.slice(0, limit) if frame is None else frame.limit(limit).toArrow()

    def __len__(self) -> int:
        return 1 if not self.query.group_by else self._table.rows

    def __repr__(self) -> str:
        return self.text(10)

    def text(self, limit: int | None = None) -> str:
        """As aligned columns of text: all rows, or the first so many."""
        head = (self._arrow if limit is None else self._head(limit)).to_pylist()
        return text_of(head, self.columns, len(self))

    def _repr_html_(self) -> str:
        return html_of(self._head(100).to_pylist(), self.columns, len(self))


def text_of(head: Sequence[dict[str, Any]], columns: Sequence[str], total: int) -> str:
    """Rows as aligned columns of text, and how many there are if these are not all."""
    cells = [list(columns), *([_shown(row[c]) for c in columns] for row in head)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    if total > len(head):
        lines.append(f"… {total:,} rows")
    return "\n".join(lines)


def html_of(head: Sequence[dict[str, Any]], columns: Sequence[str], total: int) -> str:
    """Rows as a table for a notebook, and how many there are if these are not all."""
    titles = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown(row[c]))}</td>' for c in columns)}</tr>" for row in head
    )
    more = f"<p>{total:,} rows, the first {len(head)} shown</p>" if total > len(head) else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
