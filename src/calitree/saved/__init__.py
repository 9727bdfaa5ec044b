"""Saved trees: the directories that `WideTable.save` writes and `calitree.open` opens.

Example:
    >>> wide.save("tree")
    1
    >>> import calitree
    >>> print(calitree.saved.status("tree"))  # doctest: +ELLIPSIS
    /...tree: version 1, saved ... from the local engine by calitree ...
    >>> calitree.saved.vacuum("tree")  # older versions, and files of writers that were killed
    []
    >>> calitree.saved.fsck("tree").ok  # all files are what was written
    True
"""

from calitree.saved.fsck import FileCheck, Fsck, fsck
from calitree.saved.status import RelationStatus, Status, status
from calitree.saved.vacuum import vacuum

__all__ = ["FileCheck", "Fsck", "RelationStatus", "Status", "fsck", "status", "vacuum"]
