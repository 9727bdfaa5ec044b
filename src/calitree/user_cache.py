"""Directories that only this user can write to: for what is kept between processes, and for a process's own.

Compiled code, Java and calitree itself on executors are programs, so nobody else may put anything there.

The archive that goes to Spark's executors has this file beside `bootstrap`, so it imports nothing of calitree.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path


def cache_directory() -> Path:
    """A private directory of this user for what can be made again.

    It is `$XDG_CACHE_HOME/calitree`, by default `~/.cache/calitree`. Where that is not possible, it is
    one among the temporary directories, and if somebody else has that, one of this process only.

    Raises:
        OSError: If no temporary directory can be written to either.
    """
    for directory in _candidates():
        with suppress(OSError):
            return private_directory(directory)
    return _directory_of_this_process()


def _candidates() -> Iterator[Path]:
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if root.is_absolute():  # else the XDG specification has it ignored
        yield root / "calitree"
    else:
        with suppress(RuntimeError):  # a user without a home
            home = Path("~").expanduser()
            if home.is_dir():  # who is root could make one
                yield home / ".cache" / "calitree"
    user = os.getuid() if hasattr(os, "getuid") else 0
    yield Path(tempfile.gettempdir()) / f"calitree-{user}"


def private_directory(path: Path) -> Path:
    """This directory, made if it is not there, with access for its owner only.

    Raises:
        PermissionError: If it is a link, belongs to somebody else, or cannot be written to.
        OSError: If it cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    check_private(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(f"{path} cannot be written to")
    return path


def check_private(path: Path) -> None:
    """Raise a `PermissionError` unless a directory is this user's and nobody else could write to it.

    Others cannot read it afterwards. What is checked was opened, so nobody can replace it meanwhile.
    """
    if os.name == "nt":
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o022:  # whoever has written to it may have left something
            raise PermissionError(f"{path} could be written to by other users")
        if mode != 0o700:
            os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def temporary_directory(purpose: str) -> Path:
    """A new private directory, which is removed when this process ends.

    A copy of this process that was made by a fork leaves it.
    """
    directory, owner = Path(tempfile.mkdtemp(prefix=f"calitree-{purpose}-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


@cache
def _directory_of_this_process() -> Path:
    return temporary_directory("cache")
