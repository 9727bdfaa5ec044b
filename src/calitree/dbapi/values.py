"""The types of columns and the constructors of values that PEP 249 asks for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from calitree.types import Kind

Date, Time, Timestamp, Binary = date, time, datetime, bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 - PEP 249's name
    """The date so many seconds after 1970."""
    return datetime.fromtimestamp(ticks, UTC).date()


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    """The time of day so many seconds after 1970."""
    return datetime.fromtimestamp(ticks, UTC).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    """The moment so many seconds after 1970, in UTC and without a zone."""
    return datetime.fromtimestamp(ticks, UTC).replace(tzinfo=None)


class ColumnType:
    """A type of columns; it equals each of the kinds that it stands for."""

    def __init__(self, name: str, *kinds: Kind) -> None:
        self.name, self.kinds = name, frozenset(kinds)

    def __eq__(self, other: object) -> bool:
        return other in self.kinds if isinstance(other, Kind) else self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING = ColumnType("STRING", Kind.STRING)
BINARY = ColumnType("BINARY", Kind.BINARY)
NUMBER = ColumnType("NUMBER", Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, Kind.BOOLEAN)
DATETIME = ColumnType("DATETIME", Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.TIME)
ROWID = ColumnType("ROWID")
