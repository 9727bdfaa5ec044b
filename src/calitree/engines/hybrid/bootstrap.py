"""The `calitree/__init__.py` of the archive sent to Spark's executors: it unpacks the real package.

Machine code is cached next to the files it was compiled from, and only for files that stay where they
are, so the package is not imported from the archive. The directory into which it is unpacked is named
by a digest of its content, so that a machine unpacks and compiles once for every version. Where the same
files are installed already, those are imported. A directory of this name is not trusted: it is private to
the user, and its files are compared with the digest, or it is replaced.

This file imports nothing of calitree but `user_cache`, which the archive has beside it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from calitree.user_cache import cache_directory, check_private, private_directory

NEEDED = ("numba", "numpy", "pyarrow", "sqlglot")
"""What the tasks import besides calitree."""

INSIDE = "shipped/"
"""The directory of the archive with the package: not where Python would import it from."""


def digest(files: Mapping[str, bytes]) -> str:
    """A digest of these contents under these paths."""
    state = hashlib.sha256()
    for path, content in sorted(files.items()):
        state.update(f"{path}\n{len(content)}\n".encode() + content)
    return state.hexdigest()


def home_of_the_package(archive: Path) -> Path:
    """The directory with the package of the archive; it is unpacked if there is none."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"the Python of Spark's executors ({sys.executable}) has no {', '.join(missing)}. "
            f"Install there: pip install {' '.join(missing)}"
        )
    name = archive.stem.rpartition("-")[2]
    installed = _installed(archive)
    if installed is not None and digest(dict(sources(installed))) == name:
        return installed.parent
    with suppress(OSError):
        return _unpacked(archive, private_directory(cache_directory() / "shipped") / name)
    return _unpacked(archive, archive.parent / f".{name}")  # as long as the executor lives


def _installed(archive: Path) -> Path | None:
    """The calitree that would be imported were it not for the archive."""
    others = [entry for entry in sys.path if not entry.endswith(archive.name)]
    spec = PathFinder.find_spec("calitree", others)
    return Path(spec.origin).parent if spec and spec.origin else None


def sources(directory: Path | Traversable, below: str = "") -> Iterator[tuple[str, bytes]]:
    """All Python files of a directory, which may be in an archive: their paths and contents."""
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from sources(entry, f"{below}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield below + entry.name, entry.read_bytes()


def _unpacked(archive: Path, directory: Path) -> Path:
    """The directory with the package in it, never seen half full by another process."""
    if not _is_intact(directory, directory.name.lstrip(".")):
        scratch = Path(tempfile.mkdtemp(dir=directory.parent))
        try:
            with ZipFile(archive) as file:
                file.extractall(scratch, [n for n in file.namelist() if n.startswith(INSIDE)])
            with suppress(OSError):  # there is none
                directory.rename(scratch / "replaced")
            with suppress(OSError):  # another was quicker
                (scratch / INSIDE).rename(directory)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if not _is_intact(directory, directory.name.lstrip(".")):
            raise ImportError(f"{archive} does not contain what its name says; it was changed")
    if not os.access(directory / "calitree", os.W_OK):  # where machine code could not be kept
        raise PermissionError(f"{directory} cannot be written to")
    return directory


def _is_intact(directory: Path, name: str) -> bool:
    """Whether a directory is this user's own, and has the files of this digest and nothing else to import."""
    try:
        check_private(directory)
        others = [
            entry
            for entry in directory.rglob("*")
            if entry.suffix != ".py" and entry.is_file() and entry.parent.name != "__pycache__"
        ]
        return not others and digest(dict(sources(directory / "calitree"))) == name
    except OSError:
        return False


if __name__ == "calitree":
    # The module that replaces this one in sys.modules is what the import in progress returns.
    sys.path.insert(1, str(home_of_the_package(Path(__file__).parent.parent)))
    del sys.modules["calitree"], sys.modules["calitree.user_cache"]
    importlib.import_module("calitree")
