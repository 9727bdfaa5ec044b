"""The Spark session that calitree starts: from a bare machine, without a trace, without a word.

Sessions are global to a process, so most of this happens in processes of its own.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from calitree.engines.spark.session import spark_session
from calitree.engines.spark.session.launch import driver_settings, local_cores
from calitree.engines.spark.session.startup import startup_options
from calitree.errors import EngineError

PATIENCE = 120
"""Seconds until a process that should have started or ended is given up; the usual is five."""

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("local[*]", os.cpu_count())],
)
def test_a_local_master_names_its_threads(master: str, cores: int, tmp_path: Path) -> None:
    assert local_cores(master) == cores
    settings = driver_settings(master, tmp_path, tmp_path)
    assert settings["spark.sql.shuffle.partitions"] == str(max(2, cores))


def test_a_cluster_keeps_its_own_network_and_warehouse(tmp_path: Path) -> None:
    assert local_cores("spark://host:7077") is None
    assert set(driver_settings("spark://host:7077", tmp_path, tmp_path)) == {
        "spark.driver.defaultJavaOptions",
        "spark.driver.memory",
        "spark.ui.showConsoleProgress",
    }


def test_the_logging_of_a_spark_that_is_configured_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def options() -> str:
        return driver_settings("local", tmp_path, tmp_path)["spark.driver.defaultJavaOptions"]

    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    assert "-Dlog4j2.configurationFile=file:" in options()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert "log4j" not in options()


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(EngineError, match=r'pip install "calitree\[spark\]"'):
        spark_session()


def test_there_is_no_start_up_cache_until_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert startup_options(tmp_path) == []


@pytest.fixture(scope="module")
def bare_machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user who has neither a Java nor any other Python, nor a cache."""
    programs = tmp_path_factory.mktemp("programs")
    for directory in map(Path, os.get_exec_path()):
        for program in directory.iterdir() if directory.is_dir() else ():
            if not program.name.startswith(("java", "python")):
                with suppress(FileExistsError):
                    (programs / program.name).symlink_to(program)
    home = tmp_path_factory.mktemp("a home")
    return {"HOME": str(home), "PATH": str(programs), "PYTHONPATH": os.pathsep.join(sys.path)}


ONE_LIFE = """
import os, sys
from threading import Thread

import pyarrow as pa
from pyspark.sql import SparkSession

from calitree.engines.spark.session.launch import spark_session

# Ours, from nothing.
ours = spark_session("local[2]", config=QUICK)
assert ours.sql("select sum(id) from range(10)").collect() == [(45,)]
assert ours.conf.get("spark.sql.session.timeZone") == "UTC"

# Its workers are this Python.
def executable(batches):
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"path": [sys.executable]})

assert {row.path for row in ours.range(2).mapInArrow(executable, "path string").collect()} == {
    sys.executable
}

# It leaves nothing in the current directory, nor in the environment of child processes.
ours.range(3).write.saveAsTable("kept")
assert os.listdir() == [], os.listdir()
assert "SPARK_HOME" not in os.environ

# It is the active session from now on, in every thread.
seen = []
thread = Thread(target=lambda: seen.append(spark_session()))
thread.start()
thread.join()
assert seen == [spark_session()] == [ours]

# A session of the user's is taken as it is.
ours.stop()
theirs = SparkSession.builder.config("spark.sql.shuffle.partitions", "7").getOrCreate()
assert spark_session(config={"spark.sql.shuffle.partitions": "3"}) is theirs
assert theirs.conf.get("spark.sql.shuffle.partitions") == "7"

# Of one whose context has been stopped there is nothing left to take.
theirs.sparkContext.stop()
again = spark_session("local[2]", config={"spark.sql.shuffle.partitions": "3"})
assert again is not theirs
assert again.conf.get("spark.sql.shuffle.partitions") == "3"
assert again.range(4).count() == 4
print("done")
"""


@pytest.mark.xdist_group("cluster")
def test_a_session_starts_on_a_bare_machine_and_leaves_no_trace(
    bare_machine: dict[str, str], tmp_path: Path
) -> None:
    life = subprocess.run(
        [sys.executable, "-c", f"QUICK = {QUICK}{ONE_LIFE}"],
        cwd=tmp_path,
        env=bare_machine,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (life.returncode, life.stdout, life.stderr) == (0, "done\n", "")
    assert list(tmp_path.iterdir()) == []


BUSY = """
import time
from calitree.engines.spark.session.launch import spark_session

def asleep(batches):
    for batch in batches:
        time.sleep(600)
        yield batch

spark = spark_session("local[2]", config=QUICK)
print("started", flush=True)
spark.range(2).mapInArrow(asleep, "id long").collect()
"""


@contextmanager
def busy_with_spark(log: Path) -> Iterator[subprocess.Popen[str]]:
    """A process, head of its own group, that starts Spark and then waits for a job to end."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", f"QUICK = {QUICK}{BUSY}"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    with process:
        descendants = []
        try:
            yield process
        finally:
            if process.poll() is None:
                descendants = psutil.Process(process.pid).children(recursive=True)
                process.kill()
            for descendant in descendants:
                descendant.kill()


def descendants_of(process: subprocess.Popen[str], name: str, count: int) -> list[psutil.Process]:
    """All processes below `process`, once `count` of them have `name` in their command."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        children = psutil.Process(process.pid).children(recursive=True)
        if sum(name in shlex.join(_command(one)) for one in children) >= count:
            return children
        time.sleep(0.05)
    raise AssertionError(f"{name} did not start")


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return []


def survivors(processes: list[psutil.Process]) -> list[str]:
    """The commands of those processes that do not end in good time, and so have to be ended."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        processes = [one for one in processes if _command(one)]  # one that is a zombie has none
        if not processes:
            return []
        time.sleep(0.05)
    commands = [shlex.join(_command(one)) for one in processes]
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    return commands


@pytest.mark.xdist_group("cluster")
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal there")
def test_ctrl_c_in_a_job_ends_the_jvm_and_its_workers(tmp_path: Path) -> None:
    logs = tmp_path / "terminal", tmp_path / "alone"
    with busy_with_spark(logs[0]) as terminal, busy_with_spark(logs[1]) as alone:
        everything = []
        for process, log in zip((terminal, alone), logs, strict=True):
            assert process.stdout
            assert process.stdout.readline() == "started\n", log.read_text()
            # The JVM, the daemon that forks its workers, and at least one of those.
            everything += descendants_of(process, "pyspark.daemon", count=2)
        os.killpg(terminal.pid, signal.SIGINT)  # as a terminal does
        alone.send_signal(signal.SIGINT)  # as `kill -INT` and some notebooks do
        assert terminal.wait(PATIENCE) == alone.wait(PATIENCE) == -signal.SIGINT
        assert survivors(everything) == []


@pytest.mark.xdist_group("cluster")
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal there")
def test_ctrl_c_while_spark_starts_ends_the_jvm(tmp_path: Path) -> None:
    with busy_with_spark(tmp_path / "log") as process:
        starting = descendants_of(process, "org.apache.spark.deploy.SparkSubmit", count=1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT
        assert survivors(starting) == []


@pytest.mark.xdist_group("cluster")
@pytest.mark.slow
def test_spark_starts_from_its_start_up_cache(bare_machine: dict[str, str], tmp_path: Path) -> None:
    def python(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=bare_machine,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        ).stdout

    make = "from calitree.engines.spark.session.startup import warm_up; print(warm_up())"
    cache = Path(python("-c", make).strip())
    assert cache.is_file() and cache.is_relative_to(bare_machine["HOME"])
    assert list(cache.parent.iterdir()) == [cache]
    # With AOTMode=on, a JVM that cannot use its cache does not start at all.
    strict = {"spark.driver.extraJavaOptions": "-XX:AOTMode=on"}
    query = f"spark_session('local[2]', config={strict}).sql('select 6 * 7').collect()"
    assert python(
        "-c", f"from calitree.engines.spark.session.launch import spark_session; print({query})"
    ) == ("[Row((6 * 7)=42)]\n")
