"""An answer whose table is in this process, whatever the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calitree.engines.api.contraction import Table
from calitree.engines.api.protocol import Engine

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class HeldTable:
    """What was absorbed for an answer, as an Arrow table."""

    held: pa.Table
    exact: bool

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.held.num_rows)


def arrow_of(engine: Engine, table: Table) -> pa.Table:
    """What was absorbed as an Arrow table."""
    return table.held if isinstance(table, HeldTable) else engine.arrow(table)


class HeldTables:
    """In place of the engine that computed an answer."""

    name = "held"

    def arrow(self, table: HeldTable) -> pa.Table:
        """The rows."""
        return table.held
