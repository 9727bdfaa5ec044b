"""`import calitree` is quick and brings no engine along."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("pyspark", "pandas", "polars", "duckdb", "numba")
NOT_NEEDED_YET = ("networkx", "rich", "scipy", "typer", "pyarrow", "numpy")
SECONDS = 0.3
ENGINES = tuple(
    f"calitree.engines.{name}" for name in ("hybrid", "local", "reference", "spark.engine")
)

IMPORT = """
import json, sys, time
started = time.process_time()
import calitree
seconds = time.process_time() - started
print(json.dumps({"seconds": seconds, "modules": sorted(sys.modules)}))
"""


def fresh_import() -> dict[str, object]:
    """What importing calitree costs in a process that has imported nothing else."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def modules() -> set[str]:
    return set(fresh_import()["modules"])  # type: ignore[call-overload]


@pytest.mark.parametrize("module", HEAVY + NOT_NEEDED_YET)
def test_imports_no_engine(modules: set[str], module: str) -> None:
    assert "calitree" in modules
    assert module not in modules


def test_every_engine_stays_unimported(modules: set[str]) -> None:
    assert not [module for module in modules if module.startswith(ENGINES)]


def test_is_quick() -> None:
    """The one time that is a promise: of the processor, best of five, as the machine may be busy."""
    assert min(fresh_import()["seconds"] for _ in range(5)) < SECONDS  # type: ignore[type-var]
