"""Where files are: on this machine, or behind a URL that pyarrow or fsspec can open.

    filesystem_of("data/sales")            this machine
    filesystem_of("s3://bucket/sales")     pyarrow's own: s3 (also written s3a), gs, hdfs, abfs, file
    filesystem_of("memory://sales")        any other that fsspec knows, if fsspec is installed

What follows a `?` is for the file system, as in `s3://bucket/sales?endpoint_override=localhost:9000`.
In the URLs that pyarrow opens %20 stands for a space; fsspec takes its URLs as they are written.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from calitree.cache import LRUCache
from calitree.errors import EngineError
from calitree.interrupts import run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem

T = TypeVar("T")

MAX_REQUESTS = 16
"""Requests at the same time: most of their time is waiting."""

_ARROW = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "s3", "viewfs")
_OTHER_NAMES = {"s3a": "s3"}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/?]*)|(?=/))(.*?)(\?[A-Za-z_]\w*=.*)?", re.S)

_BUCKETS = LRUCache["tuple[FileSystem, str]"](64)
"""File systems of buckets and hosts: a bucket's region is asked for over the network."""


class Url(NamedTuple):
    """The parts of `scheme://host/path?query`, as they are written."""

    scheme: str
    host: str
    path: str
    query: str

    @property
    def is_arrow(self) -> bool:
        """Whether pyarrow opens it, and so reads %20 as a space."""
        return self.scheme in _ARROW

    @property
    def text(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.host}{self.path}{self.query}"

    def below(self, name: str) -> str:
        """The URL of a file, by its name below this directory."""
        written = quote(name, safe="/=") if self.is_arrow else name
        directory = self.path.rstrip("/") + "/" if self.host or self.path else ""
        return self._replace(path=directory + written).text


def is_url(path: str) -> bool:
    """Whether a path says by which protocol it is reached. A drive's letter is no protocol."""
    return _URL.fullmatch(path) is not None


def url_of(text: str) -> Url:
    """The parts of a URL."""
    match = _URL.fullmatch(text)
    assert match is not None
    scheme = match[1].lower()
    return Url(_OTHER_NAMES.get(scheme, scheme), match[2] or "", match[3], match[4] or "")


def check_path(path: str) -> None:
    """Raise an error for a path of this machine that Python and pyarrow would take for different ones.

    To pyarrow all names of files are UTF-8. To Python they are in the encoding of the locale.
    """
    try:
        if "\0" not in path and (path.isascii() or os.fsencode(path) == path.encode()):
            return
    except UnicodeEncodeError:
        pass
    raise EngineError(
        f"Cannot use the path {path!r}: it is not text in UTF-8, or this Python takes names of files for "
        f"{sys.getfilesystemencoding()}. Set PYTHONUTF8=1, or give it another name."
    )


def expanded(path: str) -> Path:
    """A path of this machine, in which `~` and `~name` are homes."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # nobody has this name, or a home
        raise unreachable(path, error) from None


def filesystem_of(path: str) -> tuple[FileSystem, str]:
    """The file system of a path, and what the path is called there."""
    import pyarrow as pa
    from pyarrow import fs

    if not is_url(path):
        there = str(expanded(path).absolute())
        check_path(there)
        return fs.LocalFileSystem(), there
    url = url_of(path)
    if not url.is_arrow:
        return _by_fsspec(path, url.scheme)
    bucket = url._replace(path="/").text
    try:
        system, root = _BUCKETS.of(bucket, lambda: fs.FileSystem.from_uri(bucket))
    except pa.ArrowNotImplementedError:  # pyarrow was built without it
        return _by_fsspec(path, url.scheme)
    except (pa.ArrowException, OSError) as error:
        raise unreachable(path, error) from error
    below = unquote(url.path).strip("/")
    return system, f"{root.rstrip('/')}/{below}" if below else root


def _by_fsspec(path: str, scheme: str) -> tuple[FileSystem, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise EngineError(
            f"Cannot reach {shown(path)}: pyarrow does not know {scheme}://; if fsspec does, run "
            "pip install fsspec."
        ) from None
    try:
        system, there = url_to_fs(path)
    except (ImportError, ValueError, OSError) as error:
        raise unreachable(path, error) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), there


def unreachable(path: str, error: Exception) -> EngineError:
    """The error for a path that a file system does not give us."""
    return EngineError(f"Cannot reach {shown(path)}: {reason(error)}.")


def reason(error: Exception) -> str:
    """The message of an exception, in one line."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shown(lines[0].rstrip("."))


def shown(text: str) -> str:
    """A path, or a text that has one, without the password that a URL may have."""
    return re.sub(r"(://[^/@:\s]*):[^/@\s]*@", r"\1:***@", text)


def path_of(path: str) -> str:
    """The path in a URL, without what leads to its file system; a path of this machine is itself."""
    if not is_url(path):
        return path
    url = url_of(path)
    return unquote(url.path) if url.is_arrow else f"{url.host}{url.path}"


def opened(path: str) -> pa.NativeFile | str:
    """What pyarrow can read a file from: a path of this machine as it is, or an open file."""
    if not is_url(path):
        return path
    system, there = filesystem_of(path)
    return system.open_input_file(there)


def stamp(path: str) -> tuple[Any, ...] | None:
    """Its modification time and size, or a checksum: what changes with a file; None if it is gone."""
    if not is_url(path):
        try:
            status = os.stat(path)  # noqa: PTH116 (a Path would only be unwrapped again)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise unreachable(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise unreachable(path, OSError("it is no file"))
        return status.st_mtime_ns, status.st_size
    from pyarrow import fs

    system, there = filesystem_of(path)
    try:
        info = system.get_file_info(there)
        if info.type is fs.FileType.NotFound:
            return None
        if isinstance(system, fs.PyFileSystem):
            return (system.handler.fs.checksum(there),)
    except (OSError, NotImplementedError) as error:
        raise unreachable(path, error) from error
    return info.mtime_ns, info.size


def local_path(path: str) -> str | None:
    """The path of a file of this machine, also if it is a URL; None if it is elsewhere."""
    if not is_url(path):
        return path
    if url_of(path).scheme not in ("file", "local"):
        return None
    return filesystem_of(path)[1]


def own_problem(path: str) -> str | None:
    """Why a data file of a saved tree must not be read: it, or the directory it is in, is not what it seems.

    A link may lead anywhere, and whoever opens a pipe or a device may wait forever. Of files that are elsewhere
    nothing is known.
    """
    local = local_path(path)
    if local is None:
        return None
    parent = os.path.dirname(local)  # noqa: PTH120 (for many files, a Path takes most of the time)
    try:
        if stat.S_ISLNK(os.lstat(parent).st_mode):
            return f"{parent} is a link"
        problem = _irregular(local)
        if problem is None and stat.S_ISDIR(os.lstat(local).st_mode):
            with os.scandir(local) as entries:
                problem = next(filter(None, (_irregular(e.path, "no file") for e in entries)), None)
        return problem
    except FileNotFoundError:
        return f"{path} is not there"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read ({reason(error)})"


def _irregular(path: str, directory: str = "") -> str | None:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return f"{path} is a link"
    if stat.S_ISDIR(mode):
        return f"{path} is a directory" if directory else None
    return None if stat.S_ISREG(mode) else f"{path} is no file"


def map_paths(call: Callable[[str], T], paths: Iterable[str]) -> list[T]:
    """One call for every path; several at a time where they are URLs."""
    paths = list(paths)
    if not any(map(is_url, paths)):
        return [call(path) for path in paths]

    def call_all() -> list[T]:
        with ThreadPoolExecutor(MAX_REQUESTS) as pool:
            return list(pool.map(call, paths))

    return run(call_all)
