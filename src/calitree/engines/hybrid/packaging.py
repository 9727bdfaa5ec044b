"""Sending calitree itself to Spark's executors, so that tasks run the version of the driver.

    ship(session)                  # before the first task; once a session, and nothing for a local Spark
    frame.mapInArrow(runnable(session, task), schema)

One archive of calitree's Python files is sent; an executor runs `bootstrap` to unpack it. A task says which
content the archive must have, so that none is imported that was changed on the way.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from calitree.engines.hybrid.bootstrap import INSIDE, digest, sources
from calitree.engines.spark.jobs import explained
from calitree.engines.spark.session.launch import local_cores
from calitree.engines.spark.watch import is_remote
from calitree.process.locks import Rank, SharedLock
from calitree.user_cache import temporary_directory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_shipped: WeakSet[Any] = WeakSet()
_lock = SharedLock(Rank.SHIPPING)
"""Held while the archive is made and sent."""


def ship(session: SparkSession) -> None:
    """Send the calitree of this process to the executors of this session.

    Those of a local Spark have it: they run the same Python. Where a Connect server has its
    executors is not known, and sending is cheap.
    """
    if not _is_elsewhere(session):
        return
    remote = is_remote(session)
    target: Any = session if remote else session.sparkContext
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


def _is_elsewhere(session: SparkSession) -> bool:
    return is_remote(session) or local_cores(session.sparkContext.master or "") is None


class ShippedTask(Protocol):
    """What tasks run."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """From batches to batches."""


def runnable(session: SparkSession, task: ShippedTask) -> Run:
    """What `mapInArrow` calls in the tasks of this session.

    It is sent as code, not as the name of a function of calitree, as it runs before that is imported.
    """
    if not _is_elsewhere(session):
        return task.run
    from pyspark.serializers import CloudPickleSerializer

    name, expected = archive().name, _digest_of_archive()
    content: bytes = CloudPickleSerializer().dumps(task)  # type: ignore[no-untyped-call]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: Any = sys.modules.get("calitree")
        if getattr(known, "ARCHIVE", None) != expected:
            archives = [Path(entry) for entry in sys.path if entry.endswith(name)]
            if not archives:
                raise ImportError(f"{name} did not come to this executor")
            if hashlib.sha256(archives[0].read_bytes()).hexdigest() != expected:
                raise ImportError(f"{archives[0]} is not what was sent; it was changed")
        decoded: ShippedTask = pickle.loads(content)
        sys.modules["calitree"].ARCHIVE = expected  # type: ignore[attr-defined]
        return decoded.run(batches)

    return run


@cache
def _digest_of_archive() -> str:
    return hashlib.sha256(archive().read_bytes()).hexdigest()


@cache
def archive() -> Path:
    """The archive, written once a process; the same files give the same bytes and the same name."""
    contents = dict(sources(files("calitree")))  # which may be in an archive itself
    path = temporary_directory("shipping") / f"calitree-{digest(contents)}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as file:
        file.writestr(ZipInfo("calitree/__init__.py"), contents["engines/hybrid/bootstrap.py"])
        file.writestr(ZipInfo("calitree/user_cache.py"), contents["user_cache.py"])
        for name, content in sorted(contents.items()):
            file.writestr(ZipInfo(f"{INSIDE}calitree/{name}"), content, ZIP_DEFLATED)
    return path
