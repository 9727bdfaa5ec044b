"""How the hybrid engine computes a contraction, and why: a choice by sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

SQL_SECONDS = 0.20
"""For Spark SQL to compute one message from a million rows."""

ARROW_SECONDS = 0.10
"""To hand one column of a million rows from Spark to Python."""

SCAN_SECONDS = 0.05
"""For a task to compute all messages from a million rows that it has."""


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes from which tables are on Spark."""

    in_process: int = 256 << 20
    """Of a relation that is held in this process."""
    broadcast: int = 64 << 20
    """Of all messages that are sent along with tasks."""
    collect: int = 128 << 20
    """Of a message or result that is collected from Spark."""


class Strategy(Enum):
    """How a contraction is computed; the value is what a plan says of it."""

    LOCAL = "here"
    LOCAL_PRUNED = "here, from the row groups that a filter leaves"
    TASKS_ON_FILES = "in Spark's tasks, which read the files"
    TASKS_ON_ROWS = "in Spark's tasks, on rows that Spark reads"
    SQL = "by Spark SQL"


class Location(Enum):
    """Where a table is: in this process, in files for Spark's tasks to read, or on Spark."""

    LOCAL = 0
    FILES = 1
    SPARK = 2


@dataclass(frozen=True)
class InputStats:
    """What the choice depends on, of one input."""

    location: Location
    is_relation: bool
    label: str
    rows: int
    nbytes: int


@dataclass(frozen=True)
class Route:
    """How a contraction is computed, and why."""

    strategy: Strategy
    why: str = ""
    scanned: int | None = None
    """The position of the input that tasks scan."""

    def __str__(self) -> str:
        return f"{self.strategy.value}: {self.why}" if self.why else self.strategy.value


def route_of(inputs: Sequence[InputStats], outputs: int, columns: int, limits: Limits) -> Route:
    """The route for a contraction with these inputs and so many outputs.

    `columns` is how many columns of its relation are needed.
    """
    remote = [at for at, given in enumerate(inputs) if given.location is not Location.LOCAL]
    if not remote:
        return Route(Strategy.LOCAL)
    for at in remote:
        if not inputs[at].is_relation:
            why = f"a message of {inputs[at].rows:,} rows has stayed on Spark"
            return Route(Strategy.SQL, why)
    relations = [given.label for given in inputs if given.is_relation]
    if len(relations) > 1:
        why = f"{', '.join(relations)} share a bag, and not all of them fit here"
        return Route(Strategy.SQL, why)
    sent = sum(given.nbytes for given in inputs if not given.is_relation)
    if sent > limits.broadcast:
        limit = _size(limits.broadcast)
        why = f"messages of {_size(sent)} are more than the {limit} that go with tasks"
        return Route(Strategy.SQL, why)
    (scanned,) = remote
    relation = inputs[scanned]
    if relation.location is Location.FILES:
        why = f"{relation.label} has {relation.rows:,} rows"
        return Route(Strategy.TASKS_ON_FILES, why, scanned)
    what = f"{_count(outputs, 'message')} of {_count(columns, 'column')} of {relation.label}"
    if ARROW_SECONDS * max(1, columns) + SCAN_SECONDS < SQL_SECONDS * outputs:
        why = f"{what} in one pass cost less than {outputs} queries"
        return Route(Strategy.TASKS_ON_ROWS, why, scanned)
    return Route(Strategy.SQL, f"{what}: a query costs less than handing over the rows")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.0f} MB" if nbytes >= 1 << 20 else f"{nbytes:,} bytes"
