"""Writers, vacuums and readers that are killed at random times leave a tree that is whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kill(directory: Path, rounds: int, seed: int) -> dict[str, int]:
    """Kill four processes a round, from a process that has no threads."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture.killing", str(directory), str(rounds), str(seed)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcomes: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def test_kills(tmp_path: Path) -> None:
    outcomes = kill(tmp_path / "tree", 6, seed=1)
    assert outcomes["kills"] == 24 and outcomes["batches"] and outcomes["read"], outcomes


@pytest.mark.slow
def test_many_kills(tmp_path: Path) -> None:
    outcomes = kill(tmp_path / "tree", 150, seed=2)
    print(outcomes)
    assert outcomes["kills"] == 600 and outcomes["batches"] > 20 and outcomes["vacuumed"], outcomes
