"""What calitree needs to know of a column's type: its kind, and which kinds can be compared.

The engines have types of their own (Arrow's, Spark's); the core only asks whether two columns can
be joined or compared, and whether a column can be summed.
"""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """The family a column's type belongs to."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    STRING = "string"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_TZ = "timestamp with time zone"
    TIME = "time"
    DURATION = "duration"
    BINARY = "binary"
    NULL = "null"
    OTHER = "other"

    @property
    def phrase(self) -> str:
        """The kind in a sentence: "is an integer"."""
        return _PHRASES.get(self, f"a {self.value}")

    @property
    def is_number(self) -> bool:
        """Whether it can be summed."""
        return self in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)

    @property
    def is_temporal(self) -> bool:
        """Whether it is a date or a timestamp."""
        return self in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ)

    def meets(self, other: Kind) -> bool:
        """Whether values of the two kinds can be compared for equality."""
        if Kind.NULL in (self, other):
            return True
        return self is other or (self.is_number and other.is_number)


_PHRASES = {
    Kind.INTEGER: "an integer",
    Kind.BINARY: "binary",
    Kind.NULL: "NULL",
    Kind.OTHER: "a value of an unsupported type",
}


def common_kind(*kinds: Kind) -> Kind | None:
    """The kind that can hold values of all these kinds; None if there is none.

    NULL fits every kind. Integers and decimals make decimals, and with floats they make floats;
    dates and timestamps make timestamps.

    >>> common_kind(Kind.INTEGER, Kind.FLOAT, Kind.NULL)
    <Kind.FLOAT: 'float'>
    """
    known = set(kinds) - {Kind.NULL}
    if len(known) <= 1:
        return known.pop() if known else Kind.NULL
    if all(kind.is_number for kind in known):
        return Kind.FLOAT if Kind.FLOAT in known else Kind.DECIMAL
    if all(kind.is_temporal for kind in known):
        return Kind.TIMESTAMP_TZ if Kind.TIMESTAMP_TZ in known else Kind.TIMESTAMP
    return None


_BY_PREFIX = {
    "bool": Kind.BOOLEAN,
    "int": Kind.INTEGER,
    "uint": Kind.INTEGER,
    "decimal": Kind.DECIMAL,
    "halffloat": Kind.FLOAT,
    "float": Kind.FLOAT,
    "double": Kind.FLOAT,
    "string": Kind.STRING,
    "large_string": Kind.STRING,
    "string_view": Kind.STRING,
    "date": Kind.DATE,
    "time32": Kind.TIME,
    "time64": Kind.TIME,
    "duration": Kind.DURATION,
    "binary": Kind.BINARY,
    "large_binary": Kind.BINARY,
    "binary_view": Kind.BINARY,
    "fixed_size_binary": Kind.BINARY,
    "null": Kind.NULL,
}


def kind_of_arrow(dtype: object) -> Kind:
    """The kind of an Arrow type, by its name, so that the core need not import pyarrow.

    >>> kind_of_arrow("int32"), kind_of_arrow("timestamp[us, tz=UTC]")
    (<Kind.INTEGER: 'integer'>, <Kind.TIMESTAMP_TZ: 'timestamp with time zone'>)
    """
    text = str(dtype)
    if text.startswith("dictionary<"):
        text = text.removeprefix("dictionary<values=")
    if text.startswith("timestamp"):
        return Kind.TIMESTAMP_TZ if "tz=" in text else Kind.TIMESTAMP
    name = text.split("[")[0].split("(")[0].split(",")[0]
    return _BY_PREFIX.get(name, _BY_PREFIX.get(name.rstrip("0123456789"), Kind.OTHER))
