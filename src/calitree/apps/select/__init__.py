"""SQL statements, answered by the tree."""

from calitree.apps.select.sql import SqlResult

__all__ = ["SqlResult"]
