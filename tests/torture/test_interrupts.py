"""Ctrl-C at random times in the long work of every engine: it is answered, and nothing is wrong afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from pyarrow import parquet

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 60
"""Nobody is timed in ordinary tests: an answer that takes so long is none."""
PROMISED_SECONDS, MARGIN = 1.0, 2.0
"""What is promised, and how much longer it may take where other processes want the processors too."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal there")


def answers(engine: str, rows: int, times: int) -> dict[str, list[float]]:
    """The seconds in which a process of this engine answered Ctrl-C, by its work."""
    command = [
        sys.executable,
        "-m",
        "tests.torture.interrupted",
        engine,
        str(rows),
        str(times),
        "1",
    ]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS * (10 + times),
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = [line for line in lines if line["wrong"]]
    assert not wrong, wrong
    assert (done.returncode, len(lines)) == (0, times + 1), done.stderr[-3000:]
    seconds = defaultdict(list)
    for line in lines:
        if line["seconds"] is not None:
            seconds[line["work"]].append(line["seconds"])
    return seconds


@pytest.mark.parametrize(
    ("engine", "rows", "times"), [("reference", 40, 14), ("local", 50_000, 22)]
)
def test_a_few_interrupts(engine: str, rows: int, times: int) -> None:
    for work, seconds in answers(engine, rows, times).items():
        assert max(seconds) < HANG_SECONDS, work


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "rows"),
    [
        ("reference", 60),
        ("local", 3_000_000),
        pytest.param("spark", 5000, marks=pytest.mark.spark),
        pytest.param("hybrid", 5000, marks=pytest.mark.spark),
    ],
)
def test_two_hundred_interrupts(engine: str, rows: int) -> None:
    seconds = answers(engine, rows, 200)
    for work, taken in sorted(seconds.items()):
        p99 = float(np.quantile(taken, 0.99))
        print(f"{engine:10} {work:12} {len(taken):4}  p99 {p99:.3f} s  max {max(taken):.3f} s")
    assert max(max(taken) for taken in seconds.values()) < PROMISED_SECONDS * MARGIN


COMMAND = ["calibrate", "model.toml", "--out", "tree", "--engine", "local"]
MODEL = """
[relations]
r = "r.parquet"
s = "s.parquet"
t = "t.parquet"
u = "u.parquet"

[[joins]]
left = "r"
right = "s"
on = "b"

[[joins]]
left = "s"
right = "t"
on = "c"

[[joins]]
left = "r"
right = "t"
on = "a"

[[joins]]
left = "r"
right = "u"
on = "a"

[measures]
n = "count(*)"
"""


def test_the_command_line_ends_with_one_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name, x, y in (("r", "a", "b"), ("s", "b", "c"), ("t", "a", "c"), ("u", "a", "d")):
        edges = pa.table({x: rng.integers(0, 3000, 2 * 10**6), y: rng.integers(0, 3000, 2 * 10**6)})
        parquet.write_table(edges, tmp_path / f"{name}.parquet")
    (tmp_path / "model.toml").write_text(MODEL)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(
            [sys.executable, "-m", "calitree.cli.main", *COMMAND],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    process, deadline = psutil.Process(running.pid), time.monotonic() + HANG_SECONDS
    while sum(process.cpu_times()[:2]) < 3 and running.poll() is None:  # in the midst of it
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    shown, errors = running.communicate(timeout=HANG_SECONDS)
    lines = [line for line in errors.splitlines() if "compiling" not in line]
    assert (running.returncode, lines) == (130, ["calitree: interrupted"]), (shown, errors)
    assert not list(tmp_path.glob("tree/**/*.parquet"))
