"""Where files are: on this machine, or behind a URL that pyarrow or fsspec can open.

    filesystem_of("data/sales")            this machine
    filesystem_of("s3://bucket/sales")     pyarrow's own: s3, gs, hdfs, abfs, file
    filesystem_of("memory://sales")        any other that fsspec knows, if fsspec is installed
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from calitree.errors import EngineError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


def is_url(path: str) -> bool:
    """Whether a path says by which protocol it is reached. A drive's letter is no protocol."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://?", path) is not None


def filesystem_of(path: str) -> tuple[FileSystem, str]:
    """The file system of a path, and what the path is called there."""
    import pyarrow as pa
    from pyarrow import fs

    if not is_url(path):
        return fs.LocalFileSystem(), str(Path(path).expanduser().absolute())
    try:
        system, there = fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return _by_fsspec(path, error)
    except OSError as error:
        raise EngineError(f"Cannot reach {path!r}: {error}.") from error
    return system, there


def _by_fsspec(path: str, refusal: Exception) -> tuple[FileSystem, str]:
    from pyarrow import fs

    scheme = path.partition(":")[0]
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise EngineError(
            f"Cannot reach {path!r}: pyarrow does not know {scheme}://; if fsspec does, run pip "
            "install fsspec."
        ) from refusal
    try:
        system, there = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise EngineError(f"Cannot reach {path!r}: {str(error).rstrip('.')}.") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), there
