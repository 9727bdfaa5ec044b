"""Files of a saved tree on this machine: none is opened, written or deleted through a link.

All paths are full. What a function finds to be a link, a pipe or a device it refuses with an `OSError`.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def check_parent(path: str, levels: int) -> None:
    """Refuse a path if one of so many directories above its last name is a link."""
    for directory in list(Path(path).parents)[:levels]:
        with suppress(FileNotFoundError):
            _check_no_link(directory)


def _check_no_link(path: Path) -> None:
    if stat.S_ISLNK(path.lstat().st_mode):
        raise OSError(errno.ELOOP, f"{path} is a link, and what is in a saved tree is in it itself")


def names(path: str) -> list[str]:
    """The names in a directory; none if it is not there."""
    directory = Path(path)
    with suppress(FileNotFoundError):
        _check_no_link(directory)
        return os.listdir(directory)  # noqa: PTH208 (names, not paths)
    return []


def make(path: str) -> None:
    """Make a directory and those above it. What is new is on the disk, also in the directory it is in."""
    directory = Path(path)
    new = []
    while not directory.exists():
        new.append(directory)
        directory = directory.parent
    for missing in reversed(new):
        missing.mkdir(exist_ok=True)
        sync(missing)
        sync(missing.parent)
    if not new:
        _check_no_link(directory)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{path} is no directory")


def written(path: str) -> float:
    """When a file, or one in a directory, was last written to; now if it is not there."""
    from time import time

    times = []
    with suppress(FileNotFoundError):
        status = Path(path).lstat()
        times.append(status.st_mtime)
        if stat.S_ISDIR(status.st_mode):
            times += [file.lstat().st_mtime for file in Path(path).iterdir()]
    return max(times, default=time())


def read(path: str, limit: int) -> bytes:
    """The content of a file, of so many bytes at most. A pipe or a device is not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if error.errno == errno.ELOOP:
            _check_no_link(Path(path))
        raise
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, f"{path} is no file")
        return file.read(limit)


def create(path: str, content: bytes) -> bool:
    """Make a file with this content, all at once; False if there is one of this name already."""
    target = Path(path)
    complete = target.with_name(f".{uuid4().hex}")
    try:
        with complete.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(complete, target)
        except FileExistsError:
            return False
        except OSError:  # a disk that has no links; there two writers must not meet
            if os.path.lexists(target):
                return False
            complete.rename(target)
        sync(target.parent)
        return True
    finally:
        complete.unlink(missing_ok=True)


def move(path: str, to: str) -> None:
    """Give a file another name; it is as if it had been written now."""
    _check_no_link(Path(path))
    os.utime(path, follow_symlinks=False)
    Path(path).rename(to)
    sync(Path(to).parent)


def remove(path: str) -> None:
    """Delete a file, a directory with all that is in it, or a link."""
    file = Path(path)
    if stat.S_ISDIR(file.lstat().st_mode):
        shutil.rmtree(file)  # which deletes links, not what they lead to
    else:
        file.unlink()


def sync(path: Path) -> None:
    """Wait until a file or a directory is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
