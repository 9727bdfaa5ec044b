"""A connection: a tree that statements are put to."""

from __future__ import annotations

from os import PathLike
from typing import Any

from calitree.dbapi.cursor import Cursor
from calitree.dbapi.exceptions import InterfaceError, translated
from calitree.join_graph import open_tree
from calitree.wide_table import WideTable


class Connection:
    """Made by `connect`. A tree is only read, so there are no transactions: `commit` and `rollback` do nothing.

    Attributes:
        wide: The tree.
    """

    def __init__(self, wide: WideTable) -> None:
        self.wide = wide
        self._is_closed = False

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_open(self) -> None:
        """An error if it is closed."""
        if self._is_closed:
            raise InterfaceError("The connection is closed.")

    def cursor(self) -> Cursor:
        """A cursor of this connection."""
        self.check_open()
        return Cursor(self)

    def close(self) -> None:
        """End it; its cursors cannot be used any more."""
        self._is_closed = True

    def commit(self) -> None:
        """Of no effect."""
        self.check_open()

    def rollback(self) -> None:
        """Of no effect."""
        self.check_open()

    def reload(self) -> None:
        """Take over what others have saved since the tree was opened."""
        self.check_open()
        with translated():
            self.wide.reload()


def connect(
    tree: str | PathLike[str] | WideTable, engine: Any = None, **options: Any
) -> Connection:
    """Connect to a saved tree, or to one of this process.

    Args:
        tree: The directory of a saved tree, or a wide table.
        engine: As for `calitree.open`, for a saved tree.
        options: The other arguments of `calitree.open`.

    Returns:
        The connection.

    Raises:
        OperationalError: The tree cannot be opened.

    Example:
        >>> from calitree import dbapi
        >>> cursor = dbapi.connect(wide).cursor()
        >>> cursor.execute("SELECT count(*) AS n FROM wide").fetchone()
        (3,)
    """
    if isinstance(tree, WideTable):
        return Connection(tree)
    with translated():
        return Connection(open_tree(tree, engine, **options))
