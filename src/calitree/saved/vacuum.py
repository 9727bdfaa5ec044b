"""Deleting what no version needs any more.

A version that is dropped cannot be opened from then on, but whoever has it open may still read from it. So its
manifest is not deleted but renamed, to `manifests/000000000001.dropped`, and its files stay as long as that is
younger than the grace period. Its age is that of the renaming: nobody has to keep a clock.
"""

from __future__ import annotations

from os import PathLike

from calitree.errors import SavedError
from calitree.saved.directory import Directory, data_files
from calitree.saved.manifest import (
    MANIFESTS,
    drop,
    dropped_files,
    dropped_name,
    dropped_numbers,
    file_of,
    numbers,
    read,
)

GRACE_MINUTES = 60.0
"""For how long the files of a dropped version stay, and files that no version names yet."""


def vacuum(path: str | PathLike[str], keep: int = 1, grace: float = GRACE_MINUTES) -> list[str]:
    """Drop old versions, and delete the files that no version has needed for some time.

    A version that is dropped cannot be opened any more. Its files stay for the grace period, so that who
    has it open is not disturbed; a later vacuum deletes them. Who still has it open then, and needs a file
    that was not read yet, is told to `reload`. Files that no version names are what writers leave that
    were killed. A writer at work may be about to name one, so they stay as long.

    Args:
        path: The directory of a saved tree, or its URL.
        keep: How many of the newest versions stay.
        grace: Minutes for which files stay after their version was dropped, or after they were written if
            no version names them. With 0, nobody should be reading an older version or saving meanwhile.

    Returns:
        The names of the manifests and files that are gone, below the directory.

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
    if not grace >= 0:
        raise SavedError(f"grace is a number of minutes; got {grace}.")
    directory = Directory(path)
    present = data_files(
        directory
    )  # before the manifests: what is written from now on is not in it
    incomplete = {f"{MANIFESTS}/{name}" for name in directory.names(MANIFESTS) if name[0] == "."}
    versions = numbers(directory)
    if not versions:
        read(directory)  # which says why not
    named = set().union(*(_files(directory, number) for number in versions[-keep:]))
    # Manifests first: there must never be one that names a file which is gone.
    for number in versions[:-keep]:
        drop(directory, number)
    expired = []
    for number in dropped_numbers(directory):
        if _is_older(directory, dropped_name(number), grace):
            expired.append(dropped_name(number))
        else:
            named |= dropped_files(directory, number)
    candidates = sorted((present | incomplete) - named)
    files = [name for name in candidates if _is_older(directory, name, grace)]
    for name in (*files, *expired):
        directory.remove(name)
    return [*map(file_of, versions[:-keep]), *files]


def _files(directory: Directory, number: int) -> set[str]:
    """The names of the files of a version; none if another vacuum has just dropped it."""
    try:
        return read(directory, number).files
    except SavedError:
        if number in numbers(directory):
            raise
        return set()


def _is_older(directory: Directory, name: str, grace: float) -> bool:
    return not grace or directory.age(name) > grace * 60
