"""Deleting what no version needs any more."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike

from calitree.errors import SavedError
from calitree.saved.directory import Directory
from calitree.saved.manifest import MANIFESTS, MESSAGES, RELATIONS, file_of, numbers, read

GRACE = 60.0
"""Minutes for which a file is left alone that no version names yet."""


def vacuum(path: str | PathLike[str], keep: int = 1, grace: float = GRACE) -> list[str]:
    """Delete all versions but the newest `keep`, and the files that only they name.

    Files that no version names, as writers leave which were killed, are deleted once they are `grace`
    minutes old: until then a writer at work may be about to name them. So with `grace=0` nobody
    should be saving meanwhile. Whoever has an older version open loses what is not read yet. Returns
    what was deleted.
    """
    if keep < 1:
        raise SavedError(f"keep is at least 1, the newest version; got {keep}.")
    if grace < 0:
        raise SavedError(f"grace is a number of minutes; got {grace}.")
    directory = Directory(path)
    there = {f"{d}/{name}" for d in (MESSAGES, RELATIONS) for name in directory.names(d)}
    begun = {f"{MANIFESTS}/{name}" for name in directory.names(MANIFESTS) if name[0] == "."}
    every = numbers(directory)
    if not every:
        read(directory)  # which says why not
    named = set().union(*(read(directory, number).files for number in every[-keep:]))
    dropped: set[str] = set()
    for number in every[:-keep]:
        with suppress(SavedError):  # damaged, or vacuumed away by somebody else
            dropped |= read(directory, number).files
    # Manifests first: there must never be one that names a file which is gone.
    old = [file_of(number) for number in every[:-keep]]
    unnamed = sorted((there | begun) - named)
    gone = [
        name for name in unnamed if name in dropped or not grace or directory.age(name) > grace * 60
    ]
    for name in (*old, *gone):
        directory.remove(name)
    return [*old, *gone]
