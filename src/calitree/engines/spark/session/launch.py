"""The Spark session that calitree uses: the caller's own, or a local one that starts by itself.

    spark_session()                              the active session; without one, a local Spark
    spark_session("spark://host:7077")           a cluster
    spark_session(remote="sc://host")            Spark Connect
    spark_session(config={"spark.driver.memory": "16g"})

An active session is returned as it is. One that is started here stops when Python ends, also when
Ctrl-C ends it.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calitree.engines.spark.session.inherited import check_gateway
from calitree.engines.spark.session.jvm import ensure_java
from calitree.engines.spark.session.startup import startup_options
from calitree.errors import EngineError
from calitree.interrupts import check
from calitree.process.locks import Rank, SharedLock
from calitree.user_cache import temporary_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"

SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""The settings of every session that is started here: of the session, never of a cluster."""

LOGGING = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""Log4j's settings. Spark's log level can be set only once it runs; by then it has printed five
warnings that no user can do anything about. The gateway is named because Spark, taking it for a
shell, would set the level of one without a setting of its own back to WARN, and say so. The last two
log, with two pages of trace for each try, what fails in a task: that is raised as well."""


_starting = SharedLock(Rank.LAUNCH)
"""Held while a session is started, which changes the environment and PySpark's launcher for a while."""


def spark_session(
    master: str = LOCAL,
    app_name: str = "calitree",
    config: Mapping[str, str] | None = None,
    *,
    remote: str | None = None,
) -> SparkSession:
    """Return the active Spark session, unchanged; without one, start one.

    A session that is started stops when Python ends. `master` is not used in a program that
    `spark-submit` has started (the environment has PYSPARK_GATEWAY_PORT), nor where SPARK_REMOTE is
    set: these say already where Spark is.

    Args:
        master: the cluster, or `local[n]` for a Spark of n threads on this machine.
        app_name: what Spark's user interface calls the application.
        config: settings, which override the defaults of calitree.
        remote: the address of a Spark Connect server, `sc://host`.

    Returns:
        The session.

    Raises:
        EngineError: if PySpark is not installed, there is no Java that can run it, or the session is that
            of the process that this one was forked from.

    >>> spark_session(config={"spark.driver.memory": "4g"})  # doctest: +SKIP
    <pyspark.sql.session.SparkSession object at 0x7f52d5c8a990>
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise EngineError(
            f'PySpark is not complete here: {error}. Run pip install "calitree[spark]".'
        ) from error

    remote = remote or os.environ.get("SPARK_REMOTE")
    with _starting:
        session = _active(SparkSession)
        if session is None:
            builder = SparkSession.builder.appName(app_name)
            session = _start(builder, master, remote, {**SESSION_SETTINGS, **(config or {})})
            _stop_at_exit(session)
    return session


def _start(builder: Any, master: str, remote: str | None, settings: dict[str, str]) -> SparkSession:
    builder = builder.remote(remote) if remote else builder
    session: SparkSession
    if "PYSPARK_GATEWAY_PORT" in os.environ or (remote and remote.startswith("sc://")):
        session = builder.config(map=settings).getOrCreate()
        return session
    # The driver is started here, also for Connect with remote="local[2]".
    location = remote or master
    try:
        java_home = ensure_java()
        # Before the stop is registered, so that it is removed after it.
        directory = temporary_directory("spark")
        settings = driver_settings(location, directory, java_home) | settings
    except OSError as error:
        raise EngineError(
            f"Spark needs a directory for temporary files: {error}. Set TMPDIR to one."
        ) from error
    with _launching(location):
        builder = builder if remote else builder.master(master)
        session = builder.config(map=settings).getOrCreate()
    return session


def driver_settings(master: str, directory: Path, java_home: Path) -> dict[str, str]:
    """The default settings of a driver on this machine that has its own files in `directory`."""
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{_driver_megabytes()}m",
        # The options meant for defaults: a caller's spark.driver.extraJavaOptions come after them.
        "spark.driver.defaultJavaOptions": " ".join(_java_options(directory, java_home)),
    }
    if (cores := local_cores(master)) is not None:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, cores)),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
    return settings


def local_cores(master: str) -> int | None:
    """The threads of a master such as `local[4]`, `local[*]` or `local`; None for a cluster."""
    threads = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master)
    if threads is None:
        return None
    if threads[1] == "*":
        return os.cpu_count() or 1
    return int(threads[1] or 1)


def _driver_megabytes() -> int:
    """A quarter of the memory that this process may use, between 1 GB and 8 GB."""
    with suppress(OSError, ValueError):
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        with suppress(OSError, ValueError):  # a container's limit; "max" where there is none
            available = min(available, int(Path("/sys/fs/cgroup/memory.max").read_text()))
        return min(max(available // 4 >> 20, 1024), 8192)
    return 1024


def _java_options(directory: Path, java_home: Path) -> Iterator[str]:
    if "SPARK_CONF_DIR" not in os.environ:  # else there may be a log4j2.properties to respect
        properties = directory / "log4j2.properties"
        properties.write_text(LOGGING)
        yield f"-Dlog4j2.configurationFile={properties.as_uri()}"
    yield from startup_options(java_home)


@contextmanager
def _launching(master: str) -> Iterator[None]:
    """The environment in which to start a driver."""
    if local_cores(master) is not None:
        # Else the workers would be whatever python3 is first on the PATH,
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # and Spark would look for the name of this host, which a laptop off the net may not know.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Said at every start and at the first use of Arrow; what we use of PySpark works with both.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:  # what it logs, it also raises
        py4j.setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), _spark_home(), _no_orphan():
        # Connect gives the driver its settings, then cannot set them on the session too.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        yield


@contextmanager
def _spark_home() -> Iterator[None]:
    """SPARK_HOME for Spark's scripts, which else start a Python to find it, and break on a space.

    It is removed afterwards: a child process in another environment has another Spark.
    """
    if "SPARK_HOME" in os.environ:
        yield
        return
    import pyspark

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


@contextmanager
def _no_orphan() -> Iterator[None]:
    """If the start is interrupted, end the JVM that is starting.

    PySpark would leave it: it removes the directory in which the JVM is to report, whereupon the
    main thread of the JVM fails, and its other threads wait for ever.
    """
    from pyspark import SparkContext, java_gateway

    launcher: Any = java_gateway
    started: list[Remembered] = []

    class Remembered(subprocess.Popen[bytes]):
        is_starting = True

        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            started.append(self)

        def poll(self) -> int | None:
            if self.is_starting:  # PySpark asks again and again
                check()
            return super().poll()

    original, launcher.Popen = launcher.Popen, Remembered
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:  # else PySpark has hold of it, and will use it again
            for process in started:
                process.is_starting = False
                process.kill()
                process.wait()
        raise
    finally:
        launcher.Popen = original
        for process in started:
            process.is_starting = False


def _active(sessions: type[SparkSession]) -> SparkSession | None:
    """The session in use, unless its context has been stopped underneath it."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    check_gateway(SparkContext._gateway)
    try:
        session = sessions.active()
        check_gateway(session)
        session.range(0)  # asks the context, runs nothing
    except (PySparkRuntimeError, AttributeError):
        return None
    return session


def _stop_at_exit(session: SparkSession) -> None:
    """Stop `session` when this process ends, without a word if its JVM is gone already.

    A copy of this process that was made by a fork must not do it.
    """
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() != owner:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with suppress(Exception):  # tasks that are cut short are no news; Connect cannot say so
                session.sparkContext.setLogLevel("OFF")
            with suppress(Exception):
                session.stop()

    atexit.register(stop)
