"""Python's database interface (PEP 249) to calibrated trees, for tools that speak it.

>>> version = wide.save("tree")
>>> from calitree import dbapi
>>> with dbapi.connect("tree", engine="local") as connection:
...     cursor = connection.cursor()
...     cursor.execute("SELECT city, MEASURE(revenue) FROM wide WHERE price > :p GROUP BY ALL", {"p": 5})
...     cursor.fetchall()
[('Quito', 30)]
"""

from calitree.dbapi.connection import Connection, connect
from calitree.dbapi.cursor import Cursor
from calitree.dbapi.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from calitree.dbapi.values import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections; each has cursors of its own."""
paramstyle = "named"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
