"""Deleting what no version needs any more."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike

from calitree.errors import SavedError
from calitree.saved.directory import Directory, data_files
from calitree.saved.manifest import MANIFESTS, file_of, numbers, read

GRACE_MINUTES = 60.0
"""For how long a file is left alone that no version names yet."""


def vacuum(path: str | PathLike[str], keep: int = 1, grace: float = GRACE_MINUTES) -> list[str]:
    """Delete old versions, and the files that no version needs any more.

    Files that no version names are what writers leave that were killed. A writer at work may be about
    to name one, so they are deleted only when they are old enough.

    Args:
        path: The directory of a saved tree, or its URL.
        keep: How many of the newest versions stay. Whoever has an older one open loses what was not
            read yet.
        grace: The age in minutes at which a file that no version names is deleted. With 0, nobody
            should be saving meanwhile.

    Returns:
        The names of what was deleted, below the directory.

    Raises:
        SavedError: If there is no saved tree, or `keep` or `grace` is out of range.

    Example:
        >>> from calitree.saved import vacuum
        >>> [wide.save("tree"), wide.save("tree")]
        [1, 2]
        >>> vacuum("tree")
        ['manifests/000000000001.json']
    """
    if keep < 1:
        raise SavedError(f"keep is at least 1, the newest version; got {keep}.")
    if grace < 0:
        raise SavedError(f"grace is a number of minutes; got {grace}.")
    directory = Directory(path)
    present = data_files(directory)
    incomplete = {f"{MANIFESTS}/{name}" for name in directory.names(MANIFESTS) if name[0] == "."}
    versions = numbers(directory)
    if not versions:
        read(directory)  # which says why not
    named = set().union(*(read(directory, number).files for number in versions[-keep:]))
    dropped: set[str] = set()
    for number in versions[:-keep]:
        with suppress(SavedError):  # damaged, or vacuumed away by somebody else
            dropped |= read(directory, number).files
    # Manifests first: there must never be one that names a file which is gone.
    manifests = [file_of(number) for number in versions[:-keep]]
    files = [
        name
        for name in sorted((present | incomplete) - named)
        if name in dropped or not grace or directory.age(name) > grace * 60
    ]
    for name in (*manifests, *files):
        directory.remove(name)
    return [*manifests, *files]
