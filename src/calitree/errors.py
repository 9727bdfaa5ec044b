"""The errors that calitree raises: each names the thing, the reason and the way out.

All are exported by `calitree`, and `CalitreeError` is the base of all. An error of Python itself, such as a
`TypeError` for a missing argument, is not one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

WAYS_OUT = (
    "Put it back from a copy of the tree, open another version, or calibrate the tree anew; "
    "`calitree fsck` tells which files are damaged."
)
"""What can be done about a damaged file."""

MAX_QUOTED = 160
"""Characters of a text that an error quotes."""
MAX_MESSAGE = 1_200
"""Characters of a whole message."""
MAX_LISTED = 12
"""Names that an error lists."""


STACK_USED_UP = (
    "The stack is used up by the calls around this one; ask in fewer calls inside each other, or on "
    "another thread."
)


def shortened(value: object, limit: int = MAX_QUOTED) -> str:
    """A value as an error quotes it: what is long has an ellipsis in its middle.

    >>> shortened("price > 5"), shortened("a" * 99, 9)
    ("'price > 5'", "'aaaa…aaaa'")
    """
    if isinstance(value, str):
        return repr(cut(value, limit))
    return cut(repr(value), limit)


def cut(text: str, limit: int = MAX_QUOTED) -> str:
    """A text of which the middle is left out where it is too long."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def _brief(message: str) -> str:
    """A message without the middle of a long word, such as a name, or of the whole if it is long."""
    brief = re.sub(rf"\S{{{2 * MAX_QUOTED},}}", lambda word: cut(word[0]), message)
    return cut(brief, MAX_MESSAGE)


class CalitreeError(Exception):
    """The base of all errors below, so that one `except` catches them.

    What a message quotes may be any text that was given, so the middle of a long message is left out.

    >>> from calitree import CalitreeError
    >>> try:
    ...     wide.query(["town"])
    ... except CalitreeError as error:
    ...     print(error)
    No relation has a column 'town'. There are: city, id, price, store.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(
            *(_brief(a) if isinstance(a, str) and len(a) > MAX_QUOTED else a for a in args)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # As it is by now: an error whose constructor takes something else than the text pickles too.
        return _restored_error, (type(self), self.args, self.__dict__)


class SchemaError(CalitreeError):
    """A relation, column or join that cannot be declared, or that a query names and is not there.

    >>> graph.add_join("sales", "stores", on={"store": "city"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    calitree.errors.SchemaError: Cannot join sales.store (an integer) with stores.city (a string). Cast...
    """


class ExpressionError(CalitreeError):
    """SQL text that does not parse, does not type, or is a measure that cannot be factorised.

    >>> wide.query(where="price + city > 1")
    Traceback (most recent call last):
        ...
    calitree.errors.ExpressionError: In 'price + city > 1': + needs a number, but city is a string.
    """


class MixedRelationsError(ExpressionError):
    """An expression over columns of several relations that cannot be split by relation.

    >>> try:
    ...     wide.query(measures={"m": "stddev(length(city) % price)"})
    ... except MixedRelationsError as error:
    ...     print(str(error)[-36:])
    , so it cannot be split by relation.
    """


class TreeError(CalitreeError):
    """A join graph without a tree, or bags that break a property of a junction hypertree.

    >>> graph.hypertree({"one": ["sales"], "other": ["stores"]})
    Traceback (most recent call last):
        ...
    calitree.errors.TreeError: The edges must connect the bags into a tree, but other cannot be reached.
    """


class QueryError(CalitreeError):
    """A question that this tree cannot answer as asked.

    >>> wide.query(["city"], relations=["sales"])
    Traceback (most recent call last):
        ...
    calitree.errors.QueryError: city is not available: stores is left out of this query.
    """


class StatementError(QueryError):
    """An SQL statement that does not parse, or that the tree does not answer.

    Attributes:
        reason: What kind of thing it is, in one word, as in `syntax`, `columns`, `joins`.
        line: The line of the text in which it stands, from 1 on; None if that is not known.
        column: The position in that line, from 1 on.

    >>> try:
    ...     wide.sql("SELECT city FROM wide")
    ... except StatementError as error:
    ...     print(error.reason, error.line, error.column)
    rows 1 8
    """

    def __init__(
        self, text: str, reason: str = "", line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(text)
        self.reason, self.line, self.column = reason, line, column


class ModelError(CalitreeError):
    """A model file of the command line that cannot be read, or an entry of it that means nothing.

    >>> from calitree.cli.model import ModelFile
    >>> ModelFile.read("absent.toml")
    Traceback (most recent call last):
        ...
    calitree.errors.ModelError: Cannot read absent.toml: No such file or directory.
    """


class UpdateError(CalitreeError):
    """Rows that cannot come to a relation or go from it, or a version that is not there.

    >>> wide.update("sales", delete=[{"store": 9, "price": 9}])
    Traceback (most recent call last):
        ...
    calitree.errors.UpdateError: sales: 1 of the 1 rows to delete is not there: store=9, price=9.
    """


class ConflictError(UpdateError):
    """The same relation was changed elsewhere meanwhile: on the tree, or in the saved directory.

    >>> supposed = wide.what_if(delete={"sales": "price = 5"})
    >>> version = wide.update("sales", delete="price = 10")
    >>> supposed.commit()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    calitree.errors.ConflictError: sales changed since this was supposed (at version 0; now it is 1). ...
    """


class EngineError(CalitreeError):
    """An engine that is not there, or that could not run what it was given.

    >>> from calitree import JoinGraph
    >>> JoinGraph(engine="lokal")
    Traceback (most recent call last):
        ...
    calitree.errors.EngineError: There is no engine 'lokal'. Did you mean local?
    """


class SavedError(CalitreeError):
    """A saved tree that cannot be written, or that cannot be opened or read.

    >>> import calitree as ct
    >>> ct.open("absent", engine="local")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    calitree.errors.SavedError: There is no directory ...absent.
    """


class DamagedError(SavedError):
    """A file of a saved tree is not there, or is not what was written to it.

    Attributes:
        path: The file.
        reason: What is wrong with it.

    Example:
        >>> raise DamagedError("messages/c0.parquet", "it has 3 bytes, and should have 9")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        calitree.errors.DamagedError: messages/c0.parquet is damaged: it has 3 bytes, and should have 9. ...
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}. {WAYS_OUT}")
        self.path, self.reason = path, reason


class MissingRelationError(EngineError, SavedError):
    """The rows of a relation are needed, and they are not where they were when the tree was saved.

    Attributes:
        relation: Its name.

    Example:
        >>> raise MissingRelationError("sales", "sales.parquet is not there")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        calitree.errors.MissingRelationError: This needs the rows of sales, and sales.parquet is not there. ...
    """

    def __init__(self, relation: str, reason: str) -> None:
        super().__init__(
            f"This needs the rows of {relation}, and {reason}. What does not need them is still "
            "answered, by the messages that were saved."
        )
        self.relation = relation


class DamagedRelationError(MissingRelationError):
    """The rows of a relation are needed, and a file of theirs in the saved tree is damaged.

    Attributes:
        relation: Its name.
        path: The file.

    Example:
        >>> damage = DamagedError("relations/sales.parquet", "it has 3 bytes, and should have 9")
        >>> raise DamagedRelationError("sales", damage)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        calitree.errors.DamagedRelationError: This needs the rows of sales, and relations/sales.parquet is ...
    """

    def __init__(self, relation: str, damage: DamagedError) -> None:
        super().__init__(relation, f"{damage.path} is damaged: {damage.reason}. {WAYS_OUT[:-1]}")
        self.path = damage.path


class DamagedWarning(UserWarning):
    """A message of a saved tree is damaged, and is computed anew from the relations.

    >>> import warnings
    >>> warnings.simplefilter("error", DamagedWarning)  # rather stop than compute anew
    >>> warnings.resetwarnings()
    """


def _restored_error(
    kind: type[CalitreeError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> CalitreeError:
    """An error that was pickled."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def unpicklable(what: str = "This") -> CalitreeError:
    """The error for what cannot leave its process, such as tables, threads and connections."""
    return CalitreeError(
        f"{what} belongs to this process and cannot be pickled or copied. Answers can, and trees that were "
        "saved and have not changed since: wide.save(directory), or calitree.open it in the other process."
    )


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """A sentence offering the nearest of `options`, or listing them where they are few."""
    known = sorted({option for option in options if len(option) <= MAX_QUOTED})
    if len(name) > MAX_QUOTED:
        return ""
    by_folded = {option.lower(): option for option in known}
    close = [by_folded[match] for match in get_close_matches(name.lower(), by_folded, n=3)]
    if not close:
        tail = name.lower().rsplit(".", 1)[-1]
        close = [option for option in known if option.lower().rsplit(".", 1)[-1] == tail][:3]
    if close:
        return f" Did you mean {' or '.join(close)}?"
    if 0 < len(known) <= MAX_LISTED:
        return f" There are: {', '.join(known)}."
    return ""
