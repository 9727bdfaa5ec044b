"""Spark as others run it: a master and workers, or a Connect server, each a process of its own.

What asks them is a process of its own too, as a process has one Spark session.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

import calitree as ct
from calitree.apps.verify.check import compare
from calitree.engines.spark.session.jvm import ensure_java
from calitree.wide_table import WideTable
from tests.support.sales import JOINS, database

ROOT = Path(__file__).parents[2]
PATIENCE = 300
"""Seconds until a process that should have started or ended is given up."""

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
BESIDES = ("llvmlite", "llvmlite.libs", "numpy.libs", "py4j", "pyspark")
"""What is needed by what the tasks need, and Spark's own."""


# -- processes -----------------------------------------------------------------------------------


def environment(**more: str) -> dict[str, str]:
    """For processes of Spark: all on loopback, and no trace of how this Python finds calitree."""
    import pyspark

    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "PYSPARK_", "SPARK_"))
    }
    return {
        **kept,
        "JAVA_HOME": str(ensure_java()),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        **more,
    }


@dataclass
class Daemon:
    """A process that runs until it is killed, with all below it."""

    process: psutil.Process
    log: Path

    def said(self, pattern: str) -> str:
        """What it writes into its log, once it does."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            match = re.search(pattern, self.log.read_text())
            if match:
                return match[match.lastindex or 0]
            assert self.lives, self.log.read_text()
            time.sleep(0.1)
        raise AssertionError(f"{pattern!r} is not in:\n{self.log.read_text()[-3000:]}")

    @property
    def lives(self) -> bool:
        return self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE

    def kill(self, below: bool = False) -> str:
        """Kill it and all below, or only these; what they were."""
        commands = ""
        with suppress(psutil.NoSuchProcess):
            whole = [self.process, *self.process.children(recursive=True)]
            for process in whole[1:] if below else whole:
                with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                    commands += shlex.join(process.cmdline()) + "\n"
                    process.kill()
        return commands


@contextmanager
def daemon(log: Path, env: Mapping[str, str], *command: str) -> Iterator[Daemon]:
    """Started by one of Spark's scripts, each of which becomes the process that it starts."""
    program = Path(env["SPARK_HOME"]) / "bin" / command[0]
    with log.open("w") as written:
        started = subprocess.Popen(
            [program, *command[1:]], env=env, cwd=log.parent, stdout=written, stderr=written
        )
    service = Daemon(psutil.Process(started.pid), log)
    try:
        yield service
    finally:
        service.kill()
        started.wait()


@dataclass
class Cluster:
    """A standalone master, and workers with one core each."""

    url: str
    directory: Path
    env: Mapping[str, str]
    stack: ExitStack
    workers: list[Daemon] = field(default_factory=list)

    def add_worker(self) -> Daemon:
        name = f"worker{len(self.workers)}"
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name)]
        command = _service("worker.Worker", *arguments, self.url)
        worker = self.stack.enter_context(
            daemon(self.directory / f"{name}.log", self.env, *command)
        )
        self.workers.append(worker)
        worker.said("Successfully registered with master")
        return worker


@contextmanager
def cluster(directory: Path, **env: str) -> Iterator[Cluster]:
    """A master and two workers."""
    whole = environment(SPARK_LOCAL_DIRS=str(directory), **env)
    with ExitStack() as stack:
        master = stack.enter_context(
            daemon(directory / "master.log", whole, *_service("master.Master"))
        )
        url = master.said(r"Starting Spark master at (spark://\S+)")
        cluster = Cluster(url, directory, whole, stack)
        for _ in range(2):
            cluster.add_worker()
        yield cluster


def _service(name: str, *arguments: str) -> list[str]:
    where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    return ["spark-class", f"org.apache.spark.deploy.{name}", *where, *arguments]


@contextmanager
def connect_server(directory: Path, **env: str) -> Iterator[str]:
    """A Spark Connect server with a Spark of its own; its address."""
    settings = {
        **SMALL,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", "local[2]", *options]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    whole = environment(SPARK_LOCAL_DIRS=str(directory), **env)
    whole["SPARK_DAEMON_MEMORY"] = SMALL["spark.driver.memory"]  # which a server takes instead
    with daemon(directory / "server.log", whole, *command, "spark-internal") as server:
        port = server.said(r"Spark Connect server started at: \S*?:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def bare_python(directory: Path, *without: str) -> Path:
    """This Python as one that has only what tasks need: no calitree, nor what is left out."""
    from calitree.engines.hybrid.bootstrap import NEEDED

    packages = directory / "packages"
    packages.mkdir(parents=True)
    for name in {*NEEDED, *BESIDES} - set(without):
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            if (Path(place) / name).exists():
                (packages / name).symlink_to(Path(place) / name)
    script = directory / "python"
    script.write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(packages))} exec "
        f'{shlex.quote(sys.executable)} -S "$@"\n'
    )
    script.chmod(0o755)
    return script


def start(function: Callable[..., Any], *arguments: Any, **env: str) -> subprocess.Popen[str]:
    """Call a function of a test module in a process of its own; its result is the last line."""
    call = f"from {function.__module__} import {function.__name__} as call\n"
    call += "import json, sys\nprint(json.dumps(call(*json.loads(sys.argv[1]))))"
    given = environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "src")]), **env)
    return subprocess.Popen(
        [sys.executable, "-c", call, json.dumps(arguments)],
        env=given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def heard(process: subprocess.Popen[str]) -> str:
    """The next line that the function prints; nothing if it has come to an end."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    """A line for the function to read."""
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def finish(process: subprocess.Popen[str]) -> Any:
    """What the function has returned."""
    try:
        out, errors = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
    assert process.returncode == 0, errors[-4000:]
    return json.loads(out.splitlines()[-1])


# -- what is asked -------------------------------------------------------------------------------

MEASURES = {
    "n": "count(*)",
    "units": "sum(units)",
    "price": "sum(price * oil)",
    "paid": "sum(paid)",
    "first": "min(label)",
    "spread": "stddev_samp(units)",
}
SOME_MEASURES = {name: MEASURES[name] for name in ("n", "units", "paid")}
AT_HOME: list[dict[str, Any]] = [
    {},
    {"group_by": ["city"]},
    {"group_by": ["family"], "where": "family <> 3"},
]
OF_THE_FACT: list[dict[str, Any]] = [
    {"group_by": ["family", "city"]},
    {"group_by": ["label"], "where": "city <> 'c1' and units > 3", "measures": ["n", "paid"]},
    {"group_by": ["oil.date"], "measures": {"busy": "sum(guests * units)"}},
]


def write_star(directory: Path, rows: int, files: int) -> Path:
    """The sales in so many files, all other tables in one each."""
    for name, table in database(rows, nulls=True).items():
        (directory / name).mkdir(parents=True)
        parts = files if name == "sales" else 1
        size = -(-table.num_rows // parts)
        for number in range(parts):
            part = table.slice(number * size, size)
            pq.write_table(part, directory / name / f"{number:03}.parquet", row_group_size=1000)
    return directory


def star(directory: str, engine: Any) -> ct.JoinGraph:
    graph = ct.JoinGraph(engine)
    for name in ("sales", "oil", "stores", "visits", "items", "offers"):
        graph.add_relation(name, f"{directory}/{name}/*.parquet")
    for left, right, on in JOINS:
        graph.add_join(left, right, on=on)
    return graph


def differences(
    directory: str,
    wide: WideTable,
    questions: list[dict[str, Any]],
    measures: Mapping[str, str] = MEASURES,
) -> list[str]:
    """Where the answers are not those of the local engine."""
    here = star(directory, "local").calibrate(measures)
    wrong_answers = []
    for question in questions:
        keys = len(question.get("group_by", ()))
        wrong = compare(wide.query(**question).arrow(), here.query(**question).arrow(), keys)
        if wrong:
            wrong_answers.append(f"{question}: {wrong}")
    return wrong_answers
