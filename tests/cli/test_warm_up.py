"""`calitree warm-up` compiles all there is: after it no question compiles anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import calitree as ct

ROOT = Path(__file__).parents[2]
NOTICE = "calitree: compiling for this machine, once"


def run(command: Sequence[str], cache: Path) -> str:
    """What a process says on standard error, with numba's cache in a directory of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def compiled(cache: Path) -> dict[str, int]:
    """Machine code and its indexes, with their sizes."""
    return {str(file): file.stat().st_size for file in cache.rglob("*.nb?")}


def test_nothing_is_compiled_after_the_warm_up(tmp_path: Path) -> None:
    cache, files = tmp_path / "cache", tmp_path / "files"
    assert run([sys.executable, "-m", "calitree.cli.main", "warm-up"], cache).startswith(NOTICE)
    before = compiled(cache)
    assert before
    said = run(
        [sys.executable, "-c", f"from tests.cli.test_warm_up import ask; ask({str(files)!r})"],
        cache,
    )
    added = sorted(Path(file).name for file, _ in compiled(cache).items() - before.items())
    assert (added, said) == ([], "")


def ask(files: str) -> None:
    """A variety of questions: all kinds of keys and measures, files, cycles, one and two threads."""
    from calitree.engines.local import LocalEngine
    from calitree.engines.local.vm import parallel
    from tests.engines.local.test_codes import LAYOUTS, VALUES
    from tests.engines.local.test_scan import ASKED, MEASURES
    from tests.support.sales import database, graph

    for threads in (1, 2):
        for rows, nulls in (
            (2 * parallel.MIN_ROWS_PER_THREAD + 1, True),
            (2 * parallel.MIN_ROWS_PER_THREAD + 1, False),
            (300, True),
        ):
            engine = LocalEngine(threads, large=0) if rows == 300 else LocalEngine(threads)
            wide = graph(database(rows, nulls), engine).calibrate(MEASURES, memory_limit=0)
            for asked in ASKED * 2:
                wide.query(**asked)
            wide.check()
        for large in (0, 1000):
            cyclic(LocalEngine(threads, large)).query(group_by=["a.x"], where="b.y <> 3")
            large_numbers(LocalEngine(threads, large))
            by_conditions(LocalEngine(threads, large))
            for dtype, values in VALUES.values():
                if pa.types.is_decimal256(dtype):
                    continue  # which no relation has
                for layout in LAYOUTS.values():
                    keys = layout(pa.array(values, dtype))
                    keyed(LocalEngine(threads, large), pa.table({"k": keys}))
            Path(files).mkdir(exist_ok=True)
            table = pa.table({"k": np.arange(100), "x": [None, 1] * 50})
            pq.write_table(table, Path(files) / "a.parquet", row_group_size=30)
            keyed(LocalEngine(threads, large), Path(files))


def keyed(engine: object, source: object) -> None:
    graph = ct.JoinGraph(engine)
    graph.add_relation("f", source)
    graph.add_relation("d", source)
    graph.add_join("f", "d", on="k")
    graph.calibrate().query(group_by=["f.k"], measures={"n": "count(*)", "m": "max(f.k)"})


def large_numbers(engine: object) -> None:
    unsigned = pa.array([2**64 - 1, 5, None], pa.uint64())
    graph = ct.JoinGraph(engine)
    graph.add_relation("a", pa.table({"k": [1, 1, 2], "g": [1, 2, 2], "x": unsigned}))
    graph.add_relation("b", pa.table({"k": [1, 2, 2], "y": [2**62, 3, 2**62]}))
    graph.add_join("a", "b", on="k")
    wide = graph.calibrate({"p": "sum(x * y)", "m": "max(x)", "f": "sum(x * 0.5e0 * y)"})
    wide.update("a", insert=pa.table({"k": [2], "g": [2], "x": unsigned[:1]}), delete="k = 1")
    for group_by in ([], ["g"]):
        assert wide.query(group_by=group_by).exact


def cyclic(engine: object) -> ct.WideTable:
    rng = np.random.default_rng(0)
    graph = ct.JoinGraph(engine)
    for name, (left, right) in {"a": "xy", "b": "yz", "c": "zx"}.items():
        graph.add_relation(
            name, {left: rng.integers(0, 40, 900), right: rng.integers(0, 40, 900), "v": range(900)}
        )
    for left, right, on in (("a", "b", "y"), ("b", "c", "z"), ("c", "a", "x")):
        graph.add_join(left, right, on=on)
    return graph.calibrate({"n": "count(*)", "s": "sum(a.v * b.v)", "m": "max(c.v)"})


def by_conditions(engine: object) -> None:
    graph = ct.JoinGraph(engine)
    graph.add_relation("a", {"k": [1, 1, 2], "t": [1, 5, None], "f": [0.5, 1.5, 2.5]})
    graph.add_relation(
        "b", {"k": [1, 2, 2], "lo": [0, 1, 2], "hi": [4, 9, 9], "d": [1.0, 2.0, 9.0]}
    )
    graph.add_join("a", "b", on="k", condition="lo <= t and t < hi")
    graph.add_relation("c", {"g": [1.5, 2.5], "u": ["x", "y"]})
    graph.add_join("b", "c", condition="d <= g")
    wide = graph.calibrate({"n": "count(*)", "s": "sum(f)", "m": "max(t)", "x": "min(u)"})
    for group_by in ([], ["f"], ["f", "d"], ["u", "t"]):
        wide.query(group_by)
        wide.query(group_by, where="a.t <> c.g and a.t + b.lo > 1")
