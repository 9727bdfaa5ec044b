"""A cursor: statements in, rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from calitree.apps.select.sql import SqlResult, sql
from calitree.dbapi.exceptions import InterfaceError, NotSupportedError, translated
from calitree.results.tabular import ROWS_AT_ONCE
from calitree.types import Kind, kind_of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

    from calitree.dbapi.connection import Connection

Row = tuple[Any, ...]
Description = tuple[str, Kind, None, None, int | None, int | None, bool]


class Cursor:
    """Made by `Connection.cursor`; it reads one answer at a time.

    Attributes:
        connection: Where it is from.
        arraysize: How many rows `fetchmany` gives by default.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: SqlResult | None = None
        self._rows: Iterator[Row] = iter(())
        self._is_closed = False

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        self._answered()
        return next(self._rows)

    def close(self) -> None:
        """Let the answer go; the cursor cannot be used any more."""
        self._is_closed, self._result, self._rows = True, None, iter(())

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("The cursor is closed.")
        self.connection.check_open()

    def _answered(self) -> SqlResult:
        self._check_open()
        if self._result is None:
            raise InterfaceError("There is no answer to read: call execute first.")
        return self._result

    def execute(
        self, operation: str, parameters: Mapping[str, Any] | Sequence[Any] | None = None
    ) -> Cursor:
        """Answer a statement, with values for `:name` or `?`."""
        self._check_open()
        self._result = None
        with translated():
            result = sql(self.connection.wide, operation, parameters)
            table = result.arrow()
        self._result, self._rows = result, _rows(table)
        return self

    def executemany(self, operation: str, parameters: Sequence[Any]) -> None:
        """What writes many rows in other databases; a tree is only read here."""
        raise NotSupportedError("executemany is for writing, and trees are only read here.")

    @property
    def description(self) -> list[Description] | None:
        """For each column its name, its kind, and its precision and scale if it is a decimal."""
        if self._result is None:
            return None
        return [_described(field) for field in self._result.arrow().schema]

    @property
    def rowcount(self) -> int:
        """How many rows the answer has; -1 if there is none."""
        return -1 if self._result is None else len(self._result)

    @property
    def rownumber(self) -> None:
        """It is not counted which row comes next."""

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        self._answered()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, fewer at the end."""
        self._answered()
        return list(islice(self._rows, self.arraysize if size is None else size))

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        self._answered()
        return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """The whole answer as an Arrow table, however many rows were read."""
        return self._answered().arrow()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Of no effect."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Of no effect."""


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _described(field: pa.Field) -> Description:
    kind = kind_of_arrow(field.type)
    digits, scale = None, None
    if kind is Kind.DECIMAL:
        digits, scale = field.type.precision, field.type.scale
    return field.name, kind, None, None, digits, scale, True
