"""Where a contraction is computed by the hybrid engine, and why: a choice by sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

SQL_MESSAGE = 0.20
"""Seconds for a million rows of a table that Spark SQL joins and sums for one message."""

ARROW_COLUMN, IN_ONE_PASS = 0.10, 0.05
"""Seconds to hand a million values from Spark to Python, and for all messages of a million rows."""


@dataclass(frozen=True)
class Limits:
    """In bytes. `in_process`: of a relation, to be held in this process; `broadcast`: of the
    messages that are sent along with tasks; `collect`: of a message or result, to come home from
    Spark.
    """

    in_process: int = 256 << 20
    broadcast: int = 64 << 20
    collect: int = 128 << 20


class Way(Enum):
    """How a contraction is computed; the value is what a plan says of it."""

    HERE = "here"
    SELECTED = "here, from the row groups that a filter leaves"
    SPLITS = "in Spark's tasks, which read the files"
    ROWS = "in Spark's tasks, on rows that Spark reads"
    SQL = "by Spark SQL"


class Place(Enum):
    """Where an input is: in this process, in files for Spark's tasks to read, or on Spark."""

    HERE = 0
    FILES = 1
    SPARK = 2


@dataclass(frozen=True)
class Part:
    """What has to be known of an input."""

    place: Place
    is_relation: bool
    label: str
    rows: int
    nbytes: int


@dataclass(frozen=True)
class Route:
    way: Way
    why: str = ""
    scanned: int | None = None
    """Which input the tasks go through."""

    def __str__(self) -> str:
        return f"{self.way.value}: {self.why}" if self.why else self.way.value


def route_of(parts: Sequence[Part], outputs: int, columns: int, limits: Limits) -> Route:
    """The way for a contraction with these inputs.

    `columns` is how many of a relation's are needed.
    """
    away = [at for at, part in enumerate(parts) if part.place is not Place.HERE]
    if not away:
        return Route(Way.HERE)
    large = [parts[at] for at in away]
    if any(not part.is_relation for part in large):
        message = next(part for part in large if not part.is_relation)
        return Route(Way.SQL, f"a message of {message.rows:,} rows has stayed on Spark")
    relations = [part.label for part in parts if part.is_relation]
    if len(relations) > 1:
        return Route(Way.SQL, f"{', '.join(relations)} share a bag, and not all of them fit here")
    sent = sum(part.nbytes for part in parts if not part.is_relation)
    if sent > limits.broadcast:
        return Route(
            Way.SQL,
            f"messages of {_size(sent)} are more than the {_size(limits.broadcast)} that go with tasks",
        )
    (scanned,), (part,) = away, large
    if part.place is Place.FILES:
        return Route(Way.SPLITS, f"{part.label} has {part.rows:,} rows", scanned)
    what = f"{_count(outputs, 'message')} of {_count(columns, 'column')} of {part.label}"
    if ARROW_COLUMN * max(1, columns) + IN_ONE_PASS < SQL_MESSAGE * outputs:
        return Route(Way.ROWS, f"{what} in one pass cost less than {outputs} queries", scanned)
    return Route(Way.SQL, f"{what}: a query costs less than handing over the rows")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.0f} MB" if nbytes >= 1 << 20 else f"{nbytes:,} bytes"
