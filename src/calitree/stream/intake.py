"""What all streams have in common: how they are controlled, and how a batch gets into the tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn, Protocol, Self

from calitree.calibration.branch import Branch
from calitree.calibration.state import TreeState
from calitree.dml import update
from calitree.errors import UpdateError, unpicklable
from calitree.saved.location import Saves
from calitree.saved.writer import save

INSERT = (1, True, "+", "i", "insert", "c", "create", "r", "read")
DELETE = (-1, 0, False, "-", "d", "delete")


class Stream(ABC):
    r"""A running stream into a relation, as `WideTable.stream` starts it.

    As a context manager it is stopped at the end of the block.

    Example:
        >>> from pathlib import Path
        >>> Path("incoming").mkdir()
        >>> with wide.stream("sales", "incoming") as stream:
        ...     _ = Path("incoming/monday.csv").write_text("store,price\n2,7\n")
        ...     stream.drain()
        >>> wide.query().rows()
        [{'revenue': 42}]
    """

    def __reduce__(self) -> NoReturn:
        raise unpicklable("A stream")

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether it still takes rows."""

    @abstractmethod
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the stream ends.

        Args:
            timeout: The seconds to wait at most; without it there is no limit.

        Returns:
            Whether it has ended.

        Raises:
            Exception: The error that ended the stream, if one did.

        Example:
            >>> with wide.stream("sales", ".") as stream:
            ...     stream.wait(timeout=0.1)
            False
        """

    @abstractmethod
    def drain(self) -> None:
        """Wait until all rows that have arrived by now are in the tree.

        Raises:
            Exception: The error that ended the stream, if one did.

        Example:
            >>> with wide.stream("sales", ".") as stream:
            ...     stream.drain()
            >>> wide.version
            0
        """

    @abstractmethod
    def stop(self) -> None:
        """End the stream; a batch that is being read is finished first.

        Example:
            >>> stream = wide.stream("sales", ".")
            >>> stream.stop()
            >>> stream.is_active
            False
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Batch(Protocol):
    """The identity of a batch, by which it is recognised when it is delivered again."""

    def is_read(self, state: TreeState) -> bool:
        """Whether the tree has the rows of this batch already."""

    def record(self, state: TreeState) -> None:
        """Remember that the tree has them."""


class Intake:
    """Puts the batches of one stream into a relation. `change` names the column that says insert or delete."""

    def __init__(self, branch: Branch, saves: Saves, relation: str, change: str | None) -> None:
        branch.check_present()
        if not branch.is_main:
            raise UpdateError(
                "A stream goes into the tree itself, not into a what-if: the tree remembers what was "
                "read, and would not read it again. Stream into the tree, or update the what-if."
            )
        self.branch, self.saves, self.change = branch, saves, change
        self.relation = branch.head.schema.relation(relation).name

    def take(self, batch: Batch, rows: Any) -> None:
        """Update the relation and save the tree, unless the batch was read before."""
        with self.branch.lock:
            if batch.is_read(self.branch.state):
                return
            inserted, deleted = self._by_change(rows)
            update(self.branch, self.relation, insert=inserted, delete=deleted)
            batch.record(self.branch.state)
        if self.saves.last is not None:
            save(self.branch, self.saves, None)

    def _by_change(self, rows: Any) -> tuple[Any, Any]:
        """The rows to insert and those to delete."""
        if self.change is None:
            return rows, None
        import pyarrow as pa

        from calitree.storage.frames import arrow_table

        table = arrow_table(self.relation, rows)
        if self.change not in table.column_names:
            raise UpdateError(
                f"The stream into {self.relation} has no column {self.change!r} that tells which "
                f"rows come and which go; it has {', '.join(table.column_names)}."
            )
        values = table.column(self.change).to_pylist()
        changes = [value.lower() if isinstance(value, str) else value for value in values]
        for change in changes:
            if change not in INSERT and change not in DELETE:
                raise UpdateError(
                    f"{self.change} = {change!r} does not tell whether a row of {self.relation} comes "
                    "or goes; write 1 and -1, or 'insert' and 'delete'."
                )
        table = table.drop_columns([self.change])
        inserted = table.filter(pa.array([change in INSERT for change in changes]))
        deleted = table.filter(pa.array([change in DELETE for change in changes]))
        return inserted, deleted if deleted.num_rows else None
