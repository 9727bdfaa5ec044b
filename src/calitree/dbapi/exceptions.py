"""The errors of PEP 249, which are calitree's too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from calitree.errors import (
    CalitreeError,
    EngineError,
    ExpressionError,
    QueryError,
    SavedError,
    SchemaError,
)


class Warning(UserWarning):
    """Something worth knowing; there is none yet."""


class Error(CalitreeError):
    """Whatever goes wrong."""


class InterfaceError(Error):
    """A wrong use of this interface, such as of a cursor that is closed."""


class DatabaseError(Error):
    """What the tree cannot do."""


class DataError(DatabaseError):
    """A value that cannot be computed with."""


class OperationalError(DatabaseError):
    """A tree that cannot be opened or read, or an engine that fails."""


class IntegrityError(DatabaseError):
    """Of databases that are written to; a tree is only read here."""


class InternalError(DatabaseError):
    """A fault of the database itself."""


class ProgrammingError(DatabaseError):
    """A statement that does not parse, or that the tree does not answer."""


class NotSupportedError(DatabaseError):
    """What this interface does not have, such as writing."""


_KINDS: tuple[tuple[type[CalitreeError], type[Error]], ...] = (
    (QueryError, ProgrammingError),
    (ExpressionError, ProgrammingError),
    (SchemaError, ProgrammingError),
    (SavedError, OperationalError),
    (EngineError, OperationalError),
    (CalitreeError, DatabaseError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise calitree's errors as those of PEP 249."""
    try:
        yield
    except Error:
        raise
    except CalitreeError as error:
        kind = next(theirs for ours, theirs in _KINDS if isinstance(error, ours))
        raise kind(str(error)) from error
