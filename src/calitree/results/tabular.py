"""Rows and columns of an Arrow table, in whatever form they are wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Self

from calitree.cache import cached_property
from calitree.errors import QueryError
from calitree.interrupts import run

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1 << 16
"""Rows that become dictionaries in one call: Ctrl-C is answered between calls."""


class Tabular:
    """Rows and named columns. A subclass computes the Arrow table, when it is first wanted."""

    @cached_property
    def _arrow(self) -> pa.Table:
        raise NotImplementedError

    def _head(self, limit: int) -> pa.Table:
        """The first rows."""
        return self._arrow.slice(0, limit)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._arrow.column_names)

    def arrow(self) -> pa.Table:
        """As an Arrow table.

        Returns:
            A `pyarrow.Table`, which is computed once and shared: do not change its buffers.

        >>> wide.query(["city"]).arrow().num_rows
        2
        """
        return self._arrow

    def pandas(self) -> Any:
        """As a pandas DataFrame.

        Returns:
            A new `pandas.DataFrame`.

        >>> wide.query(["city"]).pandas().shape
        (2, 2)
        """
        table = self._arrow
        return run(table.to_pandas, table.num_rows)

    def polars(self) -> Any:
        """As a polars DataFrame.

        Returns:
            A new `polars.DataFrame`.

        >>> wide.query(["city"]).polars().shape
        (2, 2)
        """
        import polars

        table = self._arrow
        return run(lambda: polars.from_arrow(table), table.num_rows)

    def rows(self) -> list[dict[str, Any]]:
        """As a list of dictionaries.

        Returns:
            For each row its values by column name; NULL is None.

        Raises:
            QueryError: A date is before the year 1 or after 9999, which Python does not have.

        >>> wide.query().rows()
        [{'revenue': 35}]
        """
        rows: list[dict[str, Any]] = []
        try:
            for batch in self._arrow.to_batches(max_chunksize=ROWS_AT_ONCE):
                rows += batch.to_pylist()
        except (OverflowError, ValueError) as error:
            raise QueryError(
                f"The answer has a value that Python has none for ({error}): take it by arrow(), or ask for "
                "cast(... as varchar)."
            ) from None
        return rows

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
        return text_of(shown_rows(head), self.columns, len(self))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._arrow.__arrow_c_stream__(requested_schema)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __len__(self) -> int:
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        return text_of(shown_rows(self._head(10)), self.columns, len(self))

    def _repr_html_(self) -> str:
        return html_of(shown_rows(self._head(100)), self.columns, len(self))


def shown_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows to be shown; dates in years that Python does not have as text."""
    import pyarrow as pa

    try:
        return list(table.to_pylist())
    except (OverflowError, ValueError):
        columns = {
            field.name: column.cast(pa.string()) if pa.types.is_temporal(field.type) else column
            for field, column in zip(table.schema, table.columns, strict=True)
        }
        return list(pa.table(columns).to_pylist())


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
