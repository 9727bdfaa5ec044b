"""Sending calitree itself to Spark's executors, so that tasks run the version of the driver.

    ship(session)    # before the first task; once a session, nothing where Spark is in this process

What goes is one archive of calitree's Python files. `bootstrap` is what an executor does with it.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from calitree.engines.hybrid.bootstrap import INSIDE, digest
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.session.launch import local_cores
from calitree.engines.spark.watch import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shipped: WeakSet[Any] = WeakSet()
_lock = threading.Lock()


def ship(session: SparkSession) -> None:
    """Let the executors of this session have the calitree of this process.

    Those of a local Spark have it: they are the same Python. Where a Connect server has its
    executors is not known, and sending is cheap.
    """
    remote = is_remote(session)
    whole: Any = session if remote else session.sparkContext
    if not remote and local_cores(whole.master) is not None:
        return
    with _lock, explained("send calitree to the executors"):
        if whole in _shipped:
            return
        path = archive()
        if remote:
            session.addArtifacts(str(path), pyfile=True)
        else:
            whole.addPyFile(str(path))
        _shipped.add(whole)
        # PySpark puts it on this process's own path too, where it would come before what is installed.
        sys.path[:] = [each for each in sys.path if not each.endswith(path.name)]


@cache
def archive() -> Path:
    """The archive, made once a process: of the same files the same bytes, and named by them."""
    package = files("calitree")  # which may be in an archive itself
    sources = dict(_sources(package))
    directory = Path(tempfile.mkdtemp(prefix="calitree-shipping-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / f"calitree-{digest(sources)}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        file.writestr(ZipInfo("calitree/__init__.py"), sources["engines/hybrid/bootstrap.py"])
        file.writestr(ZipInfo("calitree/user_cache.py"), sources["user_cache.py"])
        for name, content in sorted(sources.items()):
            file.writestr(ZipInfo(f"{INSIDE}calitree/{name}"), content, ZIP_DEFLATED)
    return path


def _sources(directory: Traversable, below: str = "") -> Iterator[tuple[str, bytes]]:
    """All Python files, by their paths."""
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _sources(entry, f"{below}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield below + entry.name, entry.read_bytes()
