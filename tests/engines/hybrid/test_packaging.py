"""The archive that goes to executors: what is in it, and what an executor makes of it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zipfile import ZipFile

import pytest

from calitree.engines.hybrid import packaging as shipping
from calitree.engines.hybrid.packaging import archive, ship
from calitree.engines.hybrid.worker import MergeTask
from tests.support.cluster import bare_python

SOURCE = Path(shipping.__file__).parents[2]


@pytest.fixture
def executor(tmp_path: Path) -> Path:
    """A directory with the archive in it, as Spark would put it there."""
    directory = tmp_path / "executor"
    directory.mkdir()
    shutil.copy(archive(), directory)
    return directory


def origin(executor: Path, cache: Path, *path: Path) -> str:
    """From where a worker imports calitree, or why it cannot."""
    (sent,) = executor.glob("*.zip")
    given = [str(sent), *map(str, path)]
    program = f"import sys; sys.path[1:1] = {given}\n"
    program += "import calitree.engines.spark.jobs\nprint(calitree.engines.spark.jobs.__file__)"
    python = bare_python(executor) if not (executor / "python").exists() else executor / "python"
    done = subprocess.run(
        [python, "-c", program],
        env={**os.environ, "XDG_CACHE_HOME": str(cache), "TMPDIR": str(executor)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.splitlines()[-1]
    return str(Path(done.stdout.strip()).parents[2])


def test_the_same_files_make_the_same_archive() -> None:
    first = archive()
    content = first.read_bytes()
    archive.cache_clear()
    second = archive()
    assert (second.name, second.read_bytes()) == (first.name, content)
    inside = {name.removeprefix("shipped/calitree/") for name in ZipFile(second).namelist()}
    assert inside - {"calitree/__init__.py", "calitree/user_cache.py"} == {
        path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")
    }


def test_it_is_unpacked_once(executor: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    unpacked = origin(executor, cache)
    (version,) = (cache / "calitree" / "shipped").iterdir()
    assert unpacked == str(version / "calitree")
    there = Path(unpacked) / "__init__.py"
    before = there.stat()
    assert origin(executor, cache) == unpacked
    assert there.stat() == before
    assert list(version.parent.iterdir()) == [version]


def test_a_planted_directory_is_replaced(executor: Path, tmp_path: Path) -> None:
    """Its name says what is in it, and is not believed."""
    cache = tmp_path / "cache"
    unpacked = Path(origin(executor, cache))
    assert stat.S_IMODE(unpacked.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(unpacked.parents[1].stat().st_mode) == 0o700
    types = unpacked / "types.py"
    original, planted = types.read_text(), 'raise SystemExit("planted")\n'
    types.write_text(planted)
    (unpacked / "types.so").write_text("another file that Python might import")
    assert origin(executor, cache) == str(unpacked)
    assert types.read_text() == original
    assert not (unpacked / "types.so").exists()
    elsewhere = tmp_path / "elsewhere"
    unpacked.parent.rename(elsewhere)
    (elsewhere / "calitree" / "types.py").write_text(planted)
    unpacked.parent.symlink_to(elsewhere)
    assert origin(executor, cache) == str(unpacked)
    assert not unpacked.parent.is_symlink()
    assert list(unpacked.parents[1].iterdir()) == [unpacked.parent]


def test_an_archive_that_was_changed_is_refused(executor: Path, tmp_path: Path) -> None:
    (sent,) = executor.glob("*.zip")
    with ZipFile(sent) as file:
        contents = {name: file.read(name) for name in file.namelist()}
    contents["shipped/calitree/types.py"] += b"\n# changed\n"
    with ZipFile(sent, "w") as file:
        for name, content in contents.items():
            file.writestr(name, content)
    assert origin(executor, tmp_path / "cache").endswith("was changed")


RUN = """
import pickle, sys
sys.path.insert(1, sys.argv[1])
run = pickle.loads(open(sys.argv[2], "rb").read())
assert "calitree" not in sys.modules  # what comes first is the check
print(list(run(iter([]))), list(run(iter([]))))
import calitree
print(calitree.__file__)
"""


def test_a_task_says_which_archive_it_needs(executor: Path, tmp_path: Path) -> None:
    """By its content, before anything of it is imported."""
    from pyspark import cloudpickle

    here, elsewhere = (
        cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(master=master)))
        for master in ("local[2]", "spark://host:7077")
    )
    task = MergeTask((), 0)
    assert shipping.runnable(here, task) == task.run
    (tmp_path / "task").write_bytes(cloudpickle.dumps(shipping.runnable(elsewhere, task)))
    (tmp_path / "program.py").write_text(RUN)
    (sent,) = executor.glob("*.zip")
    python = bare_python(tmp_path / "bare")

    def ran() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, tmp_path / "program.py", sent, tmp_path / "task"],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
        )

    done = ran()
    assert done.returncode == 0, done.stderr
    answer, place = done.stdout.splitlines()
    assert answer == "[] []"
    assert place.startswith(str(tmp_path / "cache"))
    with sent.open("ab") as file:
        file.write(b"more")  # which Python would import all the same
    done = ran()
    assert f"ImportError: {sent} is not what was sent; it was changed" in done.stderr


def test_what_is_installed_serves_if_it_is_the_same(executor: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    installed = tmp_path / "installed" / "calitree"
    shutil.copytree(SOURCE, installed, ignore=shutil.ignore_patterns("__pycache__"))
    assert origin(executor, cache, installed.parent) == str(installed)
    with (installed / "types.py").open("a") as file:
        file.write("\n")
    assert origin(executor, cache, installed.parent).startswith(str(cache))


def test_without_a_cache_it_is_unpacked_to_a_temporary_directory(
    executor: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("not a directory")
    directory = executor / f"calitree-{os.getuid()}"
    assert origin(executor, tmp_path / "cache").startswith(str(directory / "shipped"))
    # Somebody else could write to this one, and it stays untouched.
    shutil.rmtree(directory)
    directory.mkdir()
    directory.chmod(0o777)
    assert origin(executor, tmp_path / "cache").startswith(str(executor / "calitree-"))
    assert list(directory.iterdir()) == []


def test_a_missing_module_is_named(executor: Path, tmp_path: Path) -> None:
    bare_python(executor, "numba", "numpy")
    assert origin(executor, tmp_path / "cache") == (
        f"ImportError: the Python of Spark's executors ({sys.executable}) has no numba, numpy. "
        "Install there: pip install numba numpy"
    )


def test_nothing_is_sent_to_a_local_spark(spark: Any) -> None:
    ship(spark)
    assert spark.sparkContext._python_includes == []
    assert spark.sparkContext.listFiles == []
