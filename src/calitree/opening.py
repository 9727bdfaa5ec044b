"""Where a wide table comes from that was saved."""

from __future__ import annotations

from os import PathLike
from typing import Any

from calitree.engines.registry import engine_of
from calitree.saved.guard.trust import Allow
from calitree.saved.reader import read_tree
from calitree.wide_table import WideTable


def open_tree(
    path: str | PathLike[str],
    engine: Any = None,
    version: int | None = None,
    *,
    allow: Allow | None = None,
    memory_limit: int | None = None,
) -> WideTable:
    """Open a tree that `WideTable.save` has saved; in `calitree` it is called `open`.

    What a query needs beyond the saved messages is read from the relations, if they are still where they
    were. Nothing in a saved tree is run as a program. Files and tables outside of it are read only if this
    user has saved the tree on this machine, or allows them here: see docs/security.md.

    Args:
        path: The directory.
        engine: What `JoinGraph` takes, whatever engine the tree was saved from.
        version: The number of an older version; the newest by default.
        allow: Directories, files or URLs outside of the tree, with all that is below them, and names of
            Spark's tables, that may be read although somebody else has saved the tree.
        memory_limit: As for `JoinGraph.calibrate`; by default that of the tree when it was saved, but not
            more than the default of this machine.

    Returns:
        The wide table, as it was saved.

    Raises:
        SavedError: There is no saved tree, or it cannot be read.

    Example:
        >>> from calitree import JoinGraph
        >>> g = JoinGraph(engine="local")
        >>> g.add_relation("sales", {"price": [10, 20]})
        >>> version = g.calibrate().save("tree")
        >>> open_tree("tree", engine="local").query().rows()
        [{'n': 2}]
    """
    return WideTable(*read_tree(path, engine_of(engine), version, allow, memory_limit))
