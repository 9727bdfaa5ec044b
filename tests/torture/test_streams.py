"""The command line in any locale, and with standard streams that are closed, full or nobody's."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import calitree as ct
from calitree.progress import notice
from calitree.sql.kernels.text import like

SOURCE = Path(ct.__file__).parent
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LATIN = {**ASCII, "PYTHONIOENCODING": "latin-1"}
NAMES = ["Québec→", "日本"]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree whose names and values are not ASCII, in a directory whose name is."""
    directory = tmp_path_factory.mktemp("tree")
    graph = ct.JoinGraph("local")
    graph.add_relation("sales", {"store": [1, 1, 2], "größe": [10, 20, 5]})
    graph.add_relation("stores", {"id": [1, 2], "ville": NAMES})
    graph.add_join("sales", "stores", on={"store": "id"})
    graph.calibrate({"größte": "sum(größe)"}).save(directory / "tree")
    return directory / "tree"


def calitree(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command line; locale variables replace those of this process."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("LC_", "LANG", "PYTHON"))}
    more = options.pop("env", {})
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [sys.executable, "-m", "calitree.cli.main", *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(SOURCE.parent), **more},
        timeout=300,
        **options,
    )


@pytest.mark.parametrize(
    ("env", "table"),
    [
        (ASCII, rb"Qu\xe9bec\u2192"),
        (LATIN, "Québec".encode("latin-1") + rb"\u2192"),
    ],
)
def test_a_table_is_shown_in_any_locale(tree: Path, env: dict[str, str], table: bytes) -> None:
    asked = ("query", tree, "--by", "ville", "--engine", "local", "-w", "ville <> '日本'")
    done = calitree(*asked, env=env)
    assert (done.returncode, done.stderr) == (0, b"")
    assert table in done.stdout and rb"\udc" not in done.stdout


def test_data_for_programs_is_always_utf8(tree: Path) -> None:
    done = calitree("query", tree, "--by", "ville", "--engine", "local", "-f", "csv", env=ASCII)
    assert (done.returncode, done.stderr) == (0, b"")
    rows = pa.csv.read_csv(io.BytesIO(done.stdout)).to_pylist()
    assert rows == [{"ville": NAMES[0], "größte": 30}, {"ville": NAMES[1], "größte": 5}]


def test_other_commands_and_errors_in_any_locale(tree: Path) -> None:
    done = calitree("status", tree, env=ASCII)
    assert (done.returncode, done.stderr) == (0, b"") and rb"gr\xf6\xdfte" in done.stdout
    done = calitree("query", tree, "--by", "größ", "--engine", "local", env=LATIN)
    assert done.returncode == 2
    assert done.stderr == "calitree: No relation has a column 'größ'. ".encode("latin-1") + (
        "Did you mean größe?\n".encode("latin-1")
    )


PATHS = """
import sys, calitree as ct
directory = sys.argv[1]
for attempt in (
    lambda: ct.open(directory + "/\\u00e9", engine="local"),
    lambda: ct.JoinGraph("local").add_relation("r", directory + "/\\u00e9.parquet"),
    lambda: ct.JoinGraph("local").add_relation("r", directory),
    lambda: ct.JoinGraph("local").add_relation("r", "a\\0b.parquet"),
):
    try:
        print(attempt())
    except ct.CalitreeError as error:
        print("PYTHONUTF8=1" in str(error))
"""


def test_names_of_files_that_python_and_arrow_would_read_differently(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "é.parquet")
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("LC_", "LANG", "PYTHON"))}
    environment = {**kept, "PYTHONPATH": str(SOURCE.parent)}
    said = []
    for more in (ASCII, {"PYTHONUTF8": "1"}):
        done = subprocess.run(
            [sys.executable, "-c", PATHS, str(tmp_path)],
            env={**environment, **more},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said == [["True"] * 4, ["False", "None", "None", "True"]]


# -- standard streams ------------------------------------------------------------------------------


def shell(command: str, tree: Path) -> tuple[int, bytes]:
    """The exit status of a command in which `calitree` and `tree` stand for themselves."""
    program = f"{sys.executable} -m calitree.cli.main"
    done = subprocess.run(
        ["bash", "-c", command.replace("calitree", program).replace("TREE", str(tree))],
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=300,
    )
    return done.returncode, done.stderr


FULL = b"calitree: Cannot write to standard output: No space left on device.\n"
CLOSED = b"calitree: Cannot write to standard output: Bad file descriptor.\n"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("calitree query TREE --by ville --engine local -f csv > /dev/full", 2, FULL),
        ("calitree --help > /dev/full", 2, FULL),
        ("calitree status TREE >&-", 2, CLOSED),
        ("calitree status TREE <&- >&- 2>&-", 2, b""),
        ("calitree status absent 2> /dev/full", 2, b""),
        ("calitree status TREE | true; exit ${PIPESTATUS[0]}", 141, b""),
    ],
)
def test_streams_that_fail(tree: Path, command: str, status: int, said: bytes) -> None:
    if ">/dev/full" in command.replace(" ", "") and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    if "| true" in command:  # which has gone before anything is written
        command = command.replace("| true", "| (exec <&-; sleep 0.1)")
    assert shell(command, tree) == (status, said)


def test_files_are_not_taken_for_closed_streams(tmp_path: Path) -> None:
    """Without streams, the next files that are opened have their numbers."""
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "r.parquet")
    (tmp_path / "model.toml").write_text('[relations]\nr = "r.parquet"\n')
    command = f"calitree calibrate {tmp_path}/model.toml --out TREE --engine local <&- >&- 2>&-"
    assert shell(command, tmp_path / "tree") == (0, b"")
    assert ct.open(tmp_path / "tree", "local").query().rows() == [{"n": 2}]


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("progress", [None, True, False])
def test_work_needs_no_standard_error(
    monkeypatch: pytest.MonkeyPatch, progress: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed) + ((Broken(),) if progress is None else ()):
        graph = ct.JoinGraph("reference")
        graph.add_relation("r", {"x": [1, 2]})
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", stream)
            assert graph.calibrate(progress=progress).query().rows() == [{"n": 2}]
            notice("nobody hears this")
    assert capsys.readouterr().out == "", "nor does it go to standard output"


# -- LIKE ------------------------------------------------------------------------------------------


def test_patterns_of_any_length_and_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    """Arrow's regular expressions refuse some of these, and take half a minute for others."""
    texts = ["a" * 30_000, "ab" * 5000 + "z", "x", "é" * 20_000, None]
    patterns = {
        "_" * 30_000: [True, False, False, False],
        "_" * 100_000: [False] * 4,
        "%" + "_" * 10_000 + "%z": [False, True, False, False],
        "%a" * 20_000: [True, False, False, False],
        "%é_" * 5000 + "%": [False, False, False, True],
        "%a_" * 4000 + "z": [False, True, False, False],
        "%[" * 2000: [False] * 4,
    }
    for pattern, expected in patterns.items():
        assert like(pa.array(texts), pattern).to_pylist() == [*expected, None]
        assert like(pa.scalar(texts[0]), pattern).as_py() == expected[0]
    graph = ct.JoinGraph("reference")
    graph.add_relation("r", {"t": ["a" * 300, "ab" * 50 + "z", "(["]})
    wide = graph.calibrate()
    for pattern, rows in {"%a" * 200: 1, "%a%" * 60 + "b": 0, "%(_": 1, "_" * 101: 1}.items():
        assert wide.query(where=f"t LIKE '{pattern}'").rows() == [{"n": rows}]
    assert capfd.readouterr() == ("", "")
