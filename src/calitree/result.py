"""The answer to a query, in whatever form it is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from calitree.annotation import Aggregate
from calitree.engines import Engine, Table, stored_parts
from calitree.nodes import column
from calitree.plan import Plan
from calitree.query import Query

if TYPE_CHECKING:
    import pyarrow as pa


class Result:
    """Group-by columns as written, then the measures. Computed already; converted when asked."""

    def __init__(
        self, query: Query, plan: Plan, engine: Engine, table: Table, names: dict[Aggregate, str]
    ) -> None:
        self.query = query
        self.plan = plan
        self._engine = engine
        self._table = table
        self._names = names

    @property
    def exact(self) -> bool:
        """False if some integer or decimal sum did not fit and was continued in floating point."""
        return self._table.exact

    @property
    def columns(self) -> list[str]:
        return [text for text, _ in self.query.group_by] + [name for name, _ in self.query.measures]

    def formulas(self) -> dict[str, exp.Expr]:
        """Each result column as an expression over the absorbed table's columns."""
        found: dict[str, exp.Expr] = {
            text: column(attribute) for text, attribute in self.query.group_by
        }
        for name, measure in self.query.measures:
            swap: dict[str, str] = {}
            for i, aggregate in enumerate(measure.aggregates):
                ours = stored_parts(f"a{i}", aggregate.semiring)
                theirs = stored_parts(self._names[aggregate], aggregate.semiring)
                swap |= dict(zip(ours, theirs, strict=True))
            found[name] = measure.final.copy().transform(_renamed, swap)
        return found

    @cached_property
    def _arrow(self) -> pa.Table:
        import pyarrow as pa

        from calitree.evaluate import evaluate

        table = self._engine.arrow(self._table)
        if table.num_rows == 0 and not self.query.group_by:
            table = self._nothing(table)
        columns = {name: table.column(name) for name in table.column_names}
        arrays = {n: evaluate(f, columns, table.num_rows) for n, f in self.formulas().items()}
        return pa.table(list(arrays.values()), names=list(arrays))

    def _nothing(self, table: pa.Table) -> pa.Table:
        """A total over no rows is still one row: zero of each semiring, from which COUNT makes 0,
        SUM NULL.
        """
        import pyarrow as pa

        zeros: dict[str, Any] = {}
        for aggregate, name in self._names.items():
            parts = stored_parts(name, aggregate.semiring)
            for part, zero in zip(parts, aggregate.semiring.zero, strict=True):
                dtype = table.schema.field(part).type
                zeros[part] = pa.array([zero], None if pa.types.is_null(dtype) else dtype)
        return pa.table(zeros)

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
            return frame(self._table, self.formulas())
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


def _renamed(node: exp.Expr, swap: dict[str, str]) -> exp.Expr:
    if isinstance(node, exp.Column) and node.name in swap:
        return column(swap[node.name])
    return node


def _shown(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
