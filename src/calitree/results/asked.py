"""Where a result comes from: its question, and the version that has answered it, to be asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from calitree.calibration.planning.plan import Plan
from calitree.calibration.snapshot import Snapshot
from calitree.query.binder import Query, Question

if TYPE_CHECKING:
    import pyarrow as pa


class ResultLike(Protocol):
    """A result, for those from whom results are made."""

    @property
    def query(self) -> Query:
        """The question as it was understood."""

    @property
    def plan(self) -> Plan:
        """How it was answered."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""

    def arrow(self) -> pa.Table:
        """As an Arrow table."""

    def rows(self) -> list[dict[str, Any]]:
        """As a list of dictionaries."""

    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Asked:
    """A question at one version, at which `ask` answers others."""

    snapshot: Snapshot
    question: Question
    ask: Callable[[Question], ResultLike]
