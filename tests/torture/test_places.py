"""Where people run it: installed read-only, without a home, with damaged or contested caches."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import calitree
from calitree.process import compiled as compiling

SOURCE = Path(calitree.__file__).parent

AS_ANYBODY = """
import ctypes, os, sys
if os.geteuid() == 0:  # whom modes do not bind
    CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

ASK = """
import calitree as ct
graph = ct.JoinGraph("local")
graph.add_relation("sales", {"store": [1, 1, 2], "price": [10, 20, 5]})
graph.add_relation("stores", {"id": [1, 2], "city": ["Quito", "Cuenca"]})
graph.add_join("sales", "stores", on={"store": "id"})
print(graph.calibrate({"revenue": "sum(price)"}).query(["city"]).rows())
from calitree.process.compiled import directory_in_use
print(directory_in_use())
"""
ANSWER = "[{'city': 'Quito', 'revenue': 30}, {'city': 'Cuenca', 'revenue': 5}]\n"

NO_TEMPORARY = """
import tempfile
tempfile._candidate_tempdir_list = lambda: ["/nonexistent"]
"""


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """calitree in a directory that nobody can write to, compiled as far as it is here."""
    place = tmp_path / "installed"
    ignored = shutil.ignore_patterns("*.pyc", "*.nbi", ".*.tmp")
    shutil.copytree(SOURCE, place / "calitree", ignore=ignored)
    below = [place, *place.rglob("*")]
    for path in below:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield place
    for path in below:
        if path.is_dir():
            path.chmod(0o755)


def run(
    place: Path, program: str, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A program of a user to whom modes apply, in a directory that cannot be written to."""
    kept = {
        n: v for n, v in os.environ.items() if not n.startswith(("XDG", "NUMBA", "HOME", "TMP"))
    }
    return subprocess.run(
        [sys.executable, "-c", AS_ANYBODY, "-B", *(options or ("-c", program))],
        env={**kept, "PYTHONPATH": str(place), **environment},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
    )


def without_compiled_code(place: Path) -> None:
    for path in place.rglob("__pycache__"):
        path.parent.chmod(0o755)
        path.chmod(0o755)
        shutil.rmtree(path)
        path.parent.chmod(0o555)


@pytest.mark.parametrize("shipped", [True, False])
def test_a_read_only_install_without_a_home(installed: Path, tmp_path: Path, shipped: bool) -> None:
    """Machine code that came with the install serves; what is missing goes among temporary files."""
    if not shipped:
        without_compiled_code(installed)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run(installed, ASK, TMPDIR=str(temporary), HOME="/nonexistent")
    cache = temporary / f"calitree-{os.getuid()}"
    place = installed / "calitree" if shipped else cache / "compiled"
    assert (done.returncode, done.stdout.startswith(ANSWER)) == (0, True), done.stderr
    assert Path(done.stdout.splitlines()[-1]).is_relative_to(place) or shipped
    if not shipped:
        assert "compiling for this machine" in done.stderr
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
        assert list(cache.glob("compiled/*/*.nbc"))
        again = run(installed, ASK, TMPDIR=str(temporary), HOME="/nonexistent")
        assert (again.stdout, again.stderr) == (done.stdout, "")
    assert not Path("/nonexistent").exists()


def test_no_place_to_write_to_at_all(installed: Path) -> None:
    without_compiled_code(installed)
    done = run(installed, NO_TEMPORARY + ASK, HOME="/nonexistent")
    assert (done.returncode, done.stdout) == (0, f"{ANSWER}None\n"), done.stderr


def test_warm_up_says_where_it_has_put_things(monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from calitree.cli import warm
    from calitree.cli.main import app

    said = []
    for place in (Path("/cache/of/code"), None):
        monkeypatch.setattr(warm, "warm_up", lambda place=place: place)
        done = CliRunner().invoke(app, ["warm-up"])
        said.append((done.exit_code, done.output))
    assert said == [
        (0, "Compiled code is below /cache/of/code\n"),
        (
            1,
            "calitree: no directory for compiled code can be written to; set NUMBA_CACHE_DIR to one\n",
        ),
    ]


# -- the files of compiled code ------------------------------------------------------------------

HELPER = """
from calitree.process.compiled import helper
STEP = {step}

@helper
def scaled(x):
    return x * {factor}
"""
LOOP = """
import sys
sys.path.insert(0, {place!r})
from calitree.process.compiled import compiled
from helper_{name} import STEP, scaled

@compiled
def total(values):
    result = values[0] - values[0]
    for value in values:
        result += scaled(value) + STEP
    return result
"""


def loop(place: Path, name: str, factor: int = 2, step: int = 1) -> ModuleType:
    """A module with a compiled loop, as it is found there by a new process."""
    place.mkdir(exist_ok=True)
    (place / f"helper_{name}.py").write_text(HELPER.format(factor=factor, step=step))
    (place / f"loop_{name}.py").write_text(LOOP.format(place=str(place), name=name))
    for module in (f"helper_{name}", f"loop_{name}"):
        sys.modules.pop(module, None)
        shutil.rmtree(place / "__pycache__" / f"{module}.cpython.pyc", ignore_errors=True)
        for file in place.glob(f"__pycache__/{module}.*.pyc"):
            file.unlink()
    spec = importlib.util.spec_from_file_location(f"loop_{name}", place / f"loop_{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    importlib.invalidate_caches()
    spec.loader.exec_module(module)
    return module


def was_read(module: ModuleType) -> bool:
    """Whether the code came from a file."""
    dispatcher: Any = module.total
    return bool(dispatcher.stats.cache_hits)


NUMBERS = np.arange(5)


def test_what_is_compiled_in_belongs_to_the_file(tmp_path: Path) -> None:
    """A helper in another file, or a constant of it, that changed: the old code would give old numbers."""
    assert loop(tmp_path, "a").total(NUMBERS) == 25
    same = loop(tmp_path, "a")
    assert (same.total(NUMBERS), was_read(same)) == (25, True)
    assert loop(tmp_path, "a", factor=3).total(NUMBERS) == 35
    assert loop(tmp_path, "a", factor=3, step=0).total(NUMBERS) == 30


@pytest.mark.parametrize("flips", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, flips: int) -> None:
    assert loop(tmp_path, "b").total(NUMBERS) == 25
    (file,) = tmp_path.glob("__pycache__/loop_b.*.nbc")
    whole, chance = file.read_bytes(), random.Random(7)
    dispatcher: Any = loop(tmp_path, "b").total
    context, (signature,) = dispatcher.targetctx, [loop_signature()]
    assert dispatcher._cache.load_overload(signature, context) is not None
    for number in range(flips):
        damaged = bytearray(whole)
        if number % 4 == 0:
            damaged = damaged[: chance.randrange(len(whole))]
        elif number % 4 == 1:
            damaged += b"\0"
        else:
            damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        assert dispatcher._cache.load_overload(signature, context) is None
    again = loop(tmp_path, "b")
    assert (again.total(NUMBERS), was_read(again)) == (25, False)

    mended = loop(tmp_path, "b")
    assert (mended.total(NUMBERS), was_read(mended)) == (25, True)
    file.unlink()
    file.mkdir()  # which nobody can read, nor write over
    assert loop(tmp_path, "b").total(NUMBERS) == 25


def loop_signature() -> tuple[Any, ...]:
    import numba

    return (numba.typeof(NUMBERS),)


def test_processes_that_compile_at_the_same_time(tmp_path: Path) -> None:
    """Each writes a file of its own; with an index, one's code could be taken for that of another."""
    types = (np.int64, np.float64, np.int32, np.float32, np.uint8, np.int16)
    module = loop(tmp_path, "c")
    start = time.monotonic() + 0.3
    children = []
    for dtype in types:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                time.sleep(max(0.0, start - time.monotonic()))
                status = int(module.total(NUMBERS.astype(dtype)) != 25)
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(types)
    for dtype in types:
        other = loop(tmp_path, "c")
        assert (other.total(NUMBERS.astype(dtype)), was_read(other)) == (25, True)
    assert not list(tmp_path.rglob("*.tmp"))


def test_no_loop_is_compiled_from_what_differs_between_processes() -> None:
    """Else its code would never be found again."""
    import calitree.engines.local.join.trie_join as trie_join
    import calitree.engines.local.vm.machine as machine
    import calitree.sql.kernels.strings as strings

    for module in (trie_join, machine, strings):
        for value in vars(module).values():
            function = getattr(value, "py_func", None)
            if function is not None:
                assert " at 0x" not in "\n".join(compiling._parts(function, set()))


# -- directories that only the user can write to --------------------------------------------------

PLANTED = """
import os, sys, tempfile
from pathlib import Path
from calitree.user_cache import cache_directory, temporary_directory
tempfile.tempdir = sys.argv[1]
print(cache_directory())
"""


@pytest.mark.parametrize("plant", ["link", "open", "file"])
def test_a_planted_directory_is_not_used(tmp_path: Path, plant: str) -> None:
    ours = tmp_path / f"calitree-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if plant == "link":
        ours.symlink_to(elsewhere)
    elif plant == "open":
        ours.mkdir()
        ours.chmod(0o770)
    else:
        ours.write_text("")
    environment = {**os.environ, "HOME": "/nonexistent", "PYTHONPATH": str(SOURCE.parent)}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", PLANTED, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    used = Path(done.stdout.strip())
    assert used != ours and used.parent == tmp_path
    assert not used.exists(), "that of a process goes with it"
    assert not list(elsewhere.iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_a_directory_of_another_user_is_not_used(tmp_path: Path) -> None:
    from calitree.user_cache import private_directory

    (tmp_path / "planted").mkdir(mode=0o700)
    os.chown(tmp_path / "planted", 65534, 65534)
    with pytest.raises(PermissionError, match="another user"):
        private_directory(tmp_path / "planted")
    own = private_directory(tmp_path / "made" / "own")
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    own.chmod(0o755)
    assert stat.S_IMODE(private_directory(own).stat().st_mode) == 0o700


def test_a_forked_process_leaves_the_directories_of_its_parent(tmp_path: Path) -> None:
    program = """
    import os, sys, tempfile
    tempfile.tempdir = sys.argv[1]
    from calitree.user_cache import temporary_directory
    directory = temporary_directory("test")
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(directory.is_dir(), flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True\n"
    assert not list(tmp_path.iterdir())
