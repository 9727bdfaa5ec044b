"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from calitree.engines import Engine, Table
from calitree.message import MessageKey
from calitree.plan import Measured, Plan
from calitree.query import Query
from calitree.question import Question

if TYPE_CHECKING:
    import pyarrow as pa


class Result:
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
    def _arrow(self) -> pa.Table:
        return self._question.answer(self._engine.arrow(self._table))

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

    def spark(self) -> Any:
        """As a Spark DataFrame; on Spark it is not brought to this process."""
        frame = getattr(self._engine, "result_frame", None)
        if frame is not None and self.query.group_by:
            return frame(self._table, self._question.formulas)
        from calitree.spark_session import spark_session

        session = getattr(self._engine, "session", None) or spark_session()
        return session.createDataFrame(self._arrow)

    def rows(self) -> list[dict[str, Any]]:
        """As a list of dictionaries."""
        rows: list[dict[str, Any]] = self._arrow.to_pylist()
        return rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return 1 if not self.query.group_by else self._table.rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._text(10)

    def _text(self, limit: int) -> str:
        head = self._arrow.slice(0, limit).to_pylist()
        cells = [self.columns, *([_shown(row[c]) for c in self.columns] for row in head)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]
        if len(self) > limit:
            lines.append(f"… {len(self):,} rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        head = self._arrow.slice(0, 100).to_pylist()
        titles = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(row[c]))}</td>' for c in self.columns)}</tr>"
            for row in head
        )
        more = (
            f"<p>{len(self):,} rows, the first {len(head)} shown</p>"
            if len(self) > len(head)
            else ""
        )
        return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
