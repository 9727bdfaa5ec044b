"""Sending calitree itself to Spark's executors, so that tasks run the version of the driver.

    ship(session)    # before the first task; once a session, and nothing for a local Spark

One archive of calitree's Python files is sent; an executor runs `bootstrap` to unpack it.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import threading
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from calitree.engines.hybrid.bootstrap import INSIDE, digest, sources
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.session.launch import local_cores
from calitree.engines.spark.watch import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_shipped: WeakSet[Any] = WeakSet()
_lock = threading.Lock()
"""Held while the archive is made and sent."""


def ship(session: SparkSession) -> None:
    """Send the calitree of this process to the executors of this session.

    Those of a local Spark have it: they run the same Python. Where a Connect server has its
    executors is not known, and sending is cheap.
    """
    remote = is_remote(session)
    target: Any = session if remote else session.sparkContext
    if not remote and local_cores(target.master) is not None:
        return
    with _lock, explained("send calitree to the executors"):
        if target in _shipped:
            return
        path = archive()
        if remote:
            session.addArtifacts(str(path), pyfile=True)
        else:
            target.addPyFile(str(path))
        _shipped.add(target)
        # PySpark puts it on this process's own path too, where it would come before what is installed.
        sys.path[:] = [entry for entry in sys.path if not entry.endswith(path.name)]


@cache
def archive() -> Path:
    """The archive, written once a process; the same files give the same bytes and the same name."""
    contents = dict(sources(files("calitree")))  # which may be in an archive itself
    directory = Path(tempfile.mkdtemp(prefix="calitree-shipping-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = directory / f"calitree-{digest(contents)}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        file.writestr(ZipInfo("calitree/__init__.py"), contents["engines/hybrid/bootstrap.py"])
        file.writestr(ZipInfo("calitree/user_cache.py"), contents["user_cache.py"])
        for name, content in sorted(contents.items()):
            file.writestr(ZipInfo(f"{INSIDE}calitree/{name}"), content, ZIP_DEFLATED)
    return path
