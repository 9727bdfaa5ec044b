"""The directory in which calitree keeps what can be made again: compiled code, Java, Spark's start-up cache.

The archive that goes to Spark's executors has this file beside `bootstrap`, so it imports nothing of calitree.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_directory() -> Path:
    """A directory of this user that can be written to.

    It is `$XDG_CACHE_HOME/calitree`, by default `~/.cache/calitree`. Where that cannot be written to, it
    is a directory of this user among the temporary ones.
    """
    with suppress(OSError, RuntimeError):  # a user without a home
        root = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not root.is_absolute():  # then the XDG specification has it ignored
            root = Path("~/.cache").expanduser()
        directory = root / "calitree"
        directory.mkdir(parents=True, exist_ok=True)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    return _temporary_directory()


def _temporary_directory() -> Path:
    """One that lasts, unless somebody else could put programs into it."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    directory = Path(tempfile.gettempdir()) / f"calitree-{user}"
    with suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        status = directory.lstat()
        is_private = os.name == "nt" or (status.st_uid == user and not status.st_mode & 0o022)
        if is_private and stat.S_ISDIR(status.st_mode):
            return directory
    return Path(tempfile.mkdtemp(prefix="calitree-"))
